// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise of spans: each is as long as computed by hand, by the exact tree or by one callback per instruction.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use decode::Flow;
use harness::analysis::owner::Owner;
use harness::image::{Image, LoadOptions};
use harness::profile::{Node, Profile, Span, SpanKind};
use wire::definition::NodeKind;

use crate::common::{self, image, measured, run, run_again};

fn span(profile: &Profile, wanted: SpanKind) -> Option<Span> {
    profile.spans.iter().find(|span| span.kind == wanted).copied()
}

fn entry(profile: &Profile, name: &str) -> u64 {
    let function = profile.names.functions.iter().find(|function| function.name == name);
    function.unwrap_or_else(|| panic!("{name} did not run")).start
}

fn call(profile: &Profile, name: &str) -> Span {
    let entry = entry(profile, name);
    span(profile, SpanKind::Call { entry }).unwrap_or_else(|| panic!("no call of {name} has ended"))
}

/// Count, shortest, longest, sum of a span.
fn numbers(span: Span) -> [u64; 4] {
    [span.count, span.min_insns, span.max_insns, span.sum_insns]
}

/// Calls and instructions of a function in the exact tree.
#[derive(Clone, Copy, Debug, Default)]
struct Followed {
    calls: u64,
    /// Instructions of the function and its callees, without exceptions. A recursive call's instructions count for
    /// both calls.
    insns: u64,
}

fn followed(profile: &Profile) -> BTreeMap<u64, Followed> {
    let tree = &profile.tree;
    let mut functions: BTreeMap<u64, Followed> = BTreeMap::new();
    for node in tree {
        if let NodeKind::Function { entry } = node.kind {
            functions.entry(entry).or_default().calls += node.calls;
        }
        let mut at = Some(node);
        while let Some(&Node { parent, kind, .. }) = at {
            match kind {
                NodeKind::Function { entry } => functions.entry(entry).or_default().insns += node.insns,
                // The interrupted function did not execute the exception's instructions.
                NodeKind::Exception { .. } => break,
                NodeKind::Root { .. } => {}
            }
            at = parent.checked_sub(1).map(|index| &tree[index as usize]);
        }
    }
    functions
}

/// Functions that continue in another one: by a jump to its start or into its middle, or by falling through. A call
/// of them ends there.
fn tail_callers(name: &str, profile: &Profile) -> BTreeSet<u64> {
    let options = LoadOptions::default();
    let file = Image::open(&image(name), &options).unwrap();
    let isa = profile.facts.isa.parse().unwrap();
    let function = |address: u64| profile.names.function_at(address).map(|function| function.start);
    let insns = &profile.vcpus[0].insns;
    let direct = insns.iter().filter_map(|insn| match decode::decode(isa, insn.pc, file.code_at(insn.pc)?).flow {
        Flow::Jump { target } | Flow::Branch { target } => Some((insn.pc, target)),
        Flow::Next => Some((insn.pc, insn.pc + u64::from(insn.size_bytes))),
        _ => None,
    });
    let arcs = profile.vcpus[0].arcs.iter().filter(|arc| !arc.links).map(|arc| (arc.site, arc.target));
    direct
        .chain(arcs)
        .filter(|&(site, to)| function(site) != function(to))
        .filter_map(|(at, _)| function(at))
        .collect()
}

const IMAGES: [&str; 16] = [
    "cortex-m0-pended",
    "cortex-m3-bare",
    "cortex-m3-crew",
    "cortex-m3-irqcall",
    "cortex-m3-masked",
    "cortex-m3-nested",
    "cortex-m3-stacks",
    "cortex-m3-tasks-ends",
    "cortex-m33-pended",
    "cortex-m4-crew",
    "riscv32-pended",
    "riscv64-bare",
    "riscv64-crew",
    "riscv64-irqcall",
    "riscv64-nested",
    "riscv64-tasks-ends",
];

#[test]
fn calls_take_what_the_tree_says_of_the_function_and_all_that_it_called() {
    for name in IMAGES {
        let profile = measured(name, &["--exact"]).profile();
        let tail_callers = tail_callers(name, profile);
        let (mut calls, mut open) = (0, BTreeSet::new());
        for (entry, Followed { calls: followed_calls, insns }) in followed(profile) {
            let place = Owner::of(profile, entry).to_string();
            let what = format!("{name}: {place}");
            let span = span(profile, SpanKind::Call { entry });
            let count = span.map_or(0, |span| span.count);
            assert!(count <= followed_calls, "{what}: {span:?}, {followed_calls} calls");
            if count < followed_calls {
                open.insert(place);
            }
            let Some(span) = span else { continue };
            assert_eq!(span.longest_at, entry, "{what}");
            assert!(span.min_insns <= span.mean_insns() && span.mean_insns() <= span.max_insns, "{what}: {span:?}");
            if count < followed_calls || tail_callers.contains(&entry) {
                continue;
            }
            assert_eq!(span.sum_insns, insns, "{what}: {span:?}");
            calls += count;
        }
        assert!(calls > 500, "{name}: only {calls} calls compared");
        // Without tasks only the functions that lead to the firmware's exit are still open.
        let is_bare = profile.tasks.is_empty();
        let ends =
            ["Reset_Handler", "_start", "board_exit", "finish", "main", "on_process_stack", "port_main", "process"];
        let ends = [&ends[..], &["semihost", "start_process", "start_thread"]].concat();
        assert!(!is_bare || open.iter().all(|place| ends.contains(&&**place)), "{name}: {open:?}");
    }
}

#[test]
fn functions_without_a_branch_always_take_their_instructions_whatever_interrupts_them() {
    for name in IMAGES {
        let profile = measured(name, &["--exact"]).profile();
        let arcs = &profile.vcpus[0].arcs;
        let mut calls = 0;
        for function in &profile.names.functions {
            let code = function.start..function.start + function.size_bytes;
            let insns: Vec<u64> =
                profile.vcpus[0].insns.iter().filter(|insn| code.contains(&insn.pc)).map(|insn| insn.count).collect();
            let Some(span) = span(profile, SpanKind::Call { entry: function.start }) else { continue };
            let calls_others = arcs.iter().any(|arc| code.contains(&arc.site));
            let straight = insns.iter().all(|&count| count == span.count);
            if straight && !calls_others && !tail_callers(name, profile).contains(&function.start) {
                let length = insns.len() as u64;
                assert_eq!(
                    numbers(span),
                    [span.count, length, length, span.count * length],
                    "{name}: {}",
                    function.name
                );
                calls += span.count;
            }
        }
        assert!(calls > 0, "{name} has no such function");
    }
    // The disassembler gives the expected length; 69 interrupts come in between.
    let name = "cortex-m3-masked";
    let profile = measured(name, &["--exact"]).profile();
    let output = Command::new("arm-none-eabi-objdump").args(["-d", "--no-show-raw-insn"]).arg(image(name)).output();
    let listing =
        String::from_utf8(output.expect("run ci/setup --tests: arm-none-eabi-objdump is missing").stdout).unwrap();
    let body = listing.split("<simply>:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
    let length = 1 + body.lines().position(|line| line.ends_with("bx\tlr")).unwrap() as u64;
    assert_eq!(numbers(call(profile, "simply")), [600, 43, 43, 600 * 43], "{body}");
    assert_eq!(length, 43, "{body}");
    assert!(span(profile, SpanKind::Exception { number: 15 }).unwrap().count > 50);
}

#[test]
fn a_call_that_ends_in_another_function_lasts_until_that_one_is_left() {
    for name in ["cortex-m3-irqcall", "riscv64-irqcall"] {
        let profile = measured(name, &["--exact"]).profile();
        let table = harness::analysis::functions::table(profile);
        let own = |function: &str| table.rows.iter().find(|row| row.name == function).unwrap().self_insns;
        for (caller, last) in [("tail_direct", "leaf_tail"), ("tail_pointer", "leaf_tail_pointer")] {
            let (caller_span, last_span) = (call(profile, caller), call(profile, last));
            assert_eq!([caller_span.count, last_span.count], [100_000; 2], "{name}");
            assert_eq!(caller_span.sum_insns, own(caller) + own(last), "{name}: {caller}");
            assert_eq!(last_span.sum_insns, own(last), "{name}: {last}");
        }
        // Each of 100,000 outer calls makes two recursive ones.
        assert_eq!(call(profile, "recurse").count, 300_000, "{name}");
    }
}

#[test]
fn exceptions_take_what_their_handlers_execute_without_those_that_interrupt_them() {
    for name in IMAGES {
        let profile = measured(name, &["--exact"]).profile();
        let (mut insns, mut calls) = (BTreeMap::<u64, u64>::new(), BTreeMap::<(u64, u64), u64>::new());
        for node in &profile.tree {
            let node_of = |node: &Node| node.parent.checked_sub(1).map(|index| &profile.tree[index as usize]);
            let outwards = std::iter::successors(Some(node), |node| node_of(node));
            let exceptions = outwards.enumerate().filter_map(|(distance, node)| match node.kind {
                NodeKind::Exception { number } => Some((distance, number)),
                _ => None,
            });
            let Some((distance, number)) = exceptions.take(1).next() else { continue };
            *insns.entry(number).or_default() += node.insns;
            if let (1, NodeKind::Function { entry }) = (distance, node.kind) {
                *calls.entry((number, entry)).or_default() += node.calls;
            }
        }
        assert!(!insns.is_empty() || !name.ends_with("nested"), "{name}");
        for (number, sum) in insns {
            let span = span(profile, SpanKind::Exception { number }).unwrap_or_else(|| panic!("{name}: {number}"));
            assert_eq!(span.sum_insns, sum, "{name}: {number}: {span:?}");
            assert!(span.min_insns <= span.mean_insns() && span.mean_insns() <= span.max_insns, "{name}: {span:?}");
            // On RISC-V, handlers in a vector table are not entered at a function's start.
            if name.starts_with("cortex") {
                assert_eq!(span.count, calls[&(number, span.longest_at)], "{name}: {number}: {span:?}");
            }
        }
    }
}

#[test]
fn the_longest_begins_at_the_instruction_that_it_names() {
    for name in
        ["cortex-m3-crew", "cortex-m3-masked", "cortex-m3-nested", "riscv64-crew", "riscv64-masked", "riscv64-nested"]
    {
        for window in [&["--for", "300k"][..], &["--for", "300k", "--from", "main"]] {
            let exact = run(name, &[window, &["--exact"]].concat()).profile();
            let every = run(name, &[window, &["--period", "1"]].concat()).profile();
            let mut compared = 0;
            for span in &exact.spans {
                let first = &every.samples[span.longest_since_insns as usize];
                assert_eq!(first.at_insns, span.longest_since_insns + 1);
                match span.kind {
                    SpanKind::Call { .. } | SpanKind::Exception { .. } => {
                        assert_eq!(first.pc, span.longest_at, "{name}: {span:?}");
                        compared += 1;
                    }
                    // The span's longest begins after the instruction that masks or pends or, where that takes effect
                    // at once, at it.
                    SpanKind::Masked | SpanKind::PendSv => {
                        let around = [span.longest_since_insns as usize, span.longest_since_insns as usize - 1];
                        let is_there = around.iter().any(|&index| every.samples[index].pc == span.longest_at);
                        assert!(is_there, "{name}: {span:?}");
                    }
                    SpanKind::Between { .. } => panic!("{name}: not asked for"),
                }
            }
            assert!(compared > 3, "{name}: {compared}");
        }
    }
}

#[test]
fn pendsv_waits_from_the_store_that_pends_it_to_its_first_instruction() {
    for name in ["cortex-m3-crew", "cortex-m3-tasks-ends", "cortex-m4-crew"] {
        let profile = measured(name, &["--exact"]).profile();
        let pended = span(profile, SpanKind::PendSv).unwrap();
        let handler = span(profile, SpanKind::Exception { number: 14 }).unwrap().longest_at;
        assert_eq!(pended.count, profile.insns()[&handler], "{name}: {pended:?}");
        // A task that yields lets PendSV in at once; a critical section or a handler delays it.
        let longest = |spans: &mut dyn Iterator<Item = &Span>| spans.map(|span| span.max_insns).sum::<u64>();
        let masked = longest(&mut profile.spans.iter().filter(|span| span.kind == SpanKind::Masked));
        let handlers =
            longest(&mut profile.spans.iter().filter(|span| matches!(span.kind, SpanKind::Exception { .. })));
        assert!(pended.min_insns < 5 && pended.max_insns <= masked + handlers, "{name}: {pended:?}");
        println!("{name}: {pended:?}, masked {masked}, handlers {handlers}");
    }
}

#[test]
fn masked_stretches_are_exact_to_the_instruction() {
    // See targets/apps/masked.c.
    let arm = (1809, 600 * (41 + 102 + 24) + 3 * (501 + 31 + 22), 22);
    let riscv = (1212, 600 * (41 + 101) + 3 * (501 + 26 + 51 + 61), 26);
    for (name, (count, sum, min)) in
        [("cortex-m3-masked", arm), ("cortex-m33-masked", arm), ("riscv32-masked", riscv), ("riscv64-masked", riscv)]
    {
        let profile = measured(name, &["--exact"]).profile();
        let masked = span(profile, SpanKind::Masked).unwrap();
        assert_eq!(numbers(masked), [count, min, 501, sum], "{name}");
        assert_eq!(masked.longest_at, entry(profile, "longest"), "{name}");
        let pended = span(profile, SpanKind::PendSv).map(numbers);
        // SysTick's handler comes in between.
        let tick = span(profile, SpanKind::Exception { number: 15 }).map_or(0, |span| 21 + span.max_insns);
        assert_eq!(pended, name.starts_with("cortex").then_some([3, tick, tick, 3 * tick]), "{name}");

        // A span that began before the window does not count.
        let profile = run(name, &["--exact", "--from", "longest"]).profile();
        let masked = span(&profile, SpanKind::Masked).unwrap();
        let rare = if name.starts_with("cortex") { [9, 22, 501, 1662] } else { [12, 26, 501, 1917] };
        assert_eq!(numbers(masked), rare, "{name}");
        assert_eq!(call(&profile, "longest").count, 2, "{name}: the window opens in the first one");
        assert!(!profile.spans.iter().any(|span| span.kind == SpanKind::Call { entry: entry(&profile, "main") }));
    }
}

#[test]
fn the_instructions_between_two_functions_are_those_of_one_callback_per_instruction() {
    for name in ["cortex-m3-irqcall", "riscv64-irqcall", "cortex-m3-masked", "riscv64-nested"] {
        let spans = match name {
            "cortex-m3-masked" => ["simply..by_register", "by_register..simply", "simply..simply", "longest..main"],
            "riscv64-nested" => ["helper..spend", "spend..on_timer", "call_environment..on_trap", "main..helper"],
            _ => ["irq_direct..irq_tail", "leaf_even..leaf_odd", "irq_tail..irq_tail", "tail_if..leaf_even"],
        };
        let options: Vec<&str> = spans.iter().flat_map(|span| ["--span", span]).collect();
        let counted = run(name, &[&options[..], &["--max-insns", "2M"]].concat()).profile();
        let stepped = run(name, &[&options[..], &["--max-insns", "2M", "--oracle"]].concat()).profile();
        let exact = run(name, &[&options[..], &["--max-insns", "2M", "--exact"]].concat()).profile();
        assert_eq!(counted.spans.len(), 4, "{name}");
        assert_eq!(counted.spans, stepped.spans, "{name}");
        let between = |span: &&Span| matches!(span.kind, SpanKind::Between { .. });
        assert!(exact.spans.iter().filter(between).eq(&counted.spans), "{name}");
        assert!(counted.spans.is_sorted_by_key(|span| span.kind) && exact.spans.is_sorted_by_key(|span| span.kind));
        let insns = counted.insns();
        for span in counted.spans {
            let SpanKind::Between { from, until } = span.kind else { panic!("{name}: {span:?}") };
            let first = insns.get(&from).copied().unwrap_or(0);
            // A span that has not ended does not count.
            assert!(span.count <= first, "{name}: {span:?}, {first} beginnings");
            if from == until {
                assert_eq!(span.count, first - 1, "{name}");
            }
            assert!(span.min_insns * span.count <= span.sum_insns, "{name}: {span:?}");
        }
    }
    // See targets/apps/masked.c: `simply`, and a call of the other; interrupts come in between.
    let profile = run("cortex-m3-masked", &["--span", "simply..by_register", "--span", "longest..main"]).profile();
    let [simply, never] = profile.spans[..] else { panic!("{:?}", profile.spans) };
    assert_eq!([simply.count, simply.min_insns], [600, 44]);
    assert!(simply.max_insns > 44, "{simply:?}");
    assert_eq!(numbers(never), [0; 4]);
    // 600 spans of no length: from the first to the last they follow one another. No branch leads from `falls` to
    // `longest`.
    for name in ["cortex-m3-masked", "riscv64-masked"] {
        let options = ["simply..simply", "simply..longest", "falls..longest"].map(|span| ["--span", span]).concat();
        let spans = run(name, &options).profile().spans;
        let of = |wanted: &dyn Fn(&&Span) -> bool| *spans.iter().find(wanted).unwrap();
        let is_period = |span: &&Span| matches!(span.kind, SpanKind::Between { from, until } if from == until);
        let (period, all) = (of(&is_period), of(&|span| span.count == 600));
        assert_eq!(period.count, 599, "{name}");
        assert_eq!(all.max_insns - all.min_insns, period.sum_insns, "{name}");
        assert!(all.sum_insns > 600 * all.min_insns && all.sum_insns < 600 * all.max_insns, "{name}: {all:?}");
        assert_eq!(numbers(of(&|span| span.count == 3)), [3, 2, 2, 6], "{name}");
    }
    let until = run("cortex-m3-masked", &["--span", "simply..by_register", "--until", "by_register"]).profile();
    assert_eq!(numbers(until.spans[0]), [1, 44, 44, 44]);
    let from = run("cortex-m3-masked", &["--span", "main..longest", "--from", "main"]).profile();
    assert_eq!(from.spans[0].count, 1);
    assert!(run("cortex-m3-masked", &[]).profile().spans.is_empty());
}

#[test]
fn spans_of_several_vcpus_are_those_of_each() {
    let profile = run("riscv64-smp", &["--span", "crc32_table..crc32_table"]).expect_code(0).profile();
    let span = profile.spans[0];
    let SpanKind::Between { from, .. } = span.kind else { panic!("{span:?}") };
    let executions: Vec<u64> = profile
        .vcpus
        .iter()
        .map(|vcpu| vcpu.insns.iter().find(|insn| insn.pc == from).map_or(0, |insn| insn.count))
        .collect();
    let expected: u64 = executions.iter().map(|count| count.saturating_sub(1)).sum();
    assert!(span.count == expected && expected > 0, "{span:?}, {executions:?}");
    let most: u64 = profile.vcpus.iter().map(|vcpu| vcpu.clock_insns).sum();
    assert!(span.sum_insns < most && span.min_insns > 0, "{span:?}");
}

#[test]
fn spans_are_the_same_bytes_again() {
    for (name, between) in
        [("cortex-m3-crew", "vTaskSwitchContext..xTaskIncrementTick"), ("riscv64-masked", "main..longest")]
    {
        let files = || run_again(name, &["--exact", "--span", between]).expect_code(0).files();
        assert_eq!(files(), files(), "{name}");
    }
}

#[test]
fn functions_that_do_not_exist_are_refused() {
    for (span, said) in [
        ("main..nobody", "nobody"),
        ("nobody..main", "nobody"),
        ("main", "FROM..UNTIL"),
        ("main..", "FROM..UNTIL"),
        ("..main", "FROM..UNTIL"),
    ] {
        let run = run("cortex-m3-masked", &["--span", span]).expect_code(2);
        assert!(run.stderr.contains("--span") && run.stderr.contains(said), "{}", run.stderr);
        assert!(!run.has_profile());
    }
}

#[test]
fn the_summary_shows_handlers_and_what_kept_interrupts_waiting() {
    let run = run("cortex-m3-masked", &["--exact", "--span", "main..longest"]).expect_code(0);
    let shown = |line: &str| assert!(run.stdout.contains(line), "{line}\n{}", run.stdout);
    shown("[irq SVCall]                3        32    32       32");
    shown("interrupts masked: 1,809 times, 22 to 501 instructions, mean 56; the longest from longest");
    shown("PendSV pending: 3 times, ");
    shown("; the longest from pends");
    shown("main..longest: 1 time, ");
    let plain = common::run("cortex-m3-masked", &[]).expect_code(0);
    assert!(
        !plain.stdout.contains("Handler (instructions)") && !plain.stdout.contains("interrupts masked"),
        "{}",
        plain.stdout
    );
}
