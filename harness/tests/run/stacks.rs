// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks in the hard cases: tasks, interrupts, no stack at all. `tests/sweep/stacks.rs` tests the stacks of every
//! image.

use std::collections::{BTreeMap, BTreeSet};

use harness::analysis::calltree::CallTree;
use harness::analysis::stack_proof::has_exact_tree;
use harness::analysis::stack_vs_tree::{Level, followed, shown, unwound};
use harness::analysis::stacks::{NO_TASK, View, interrupts, task_names};
use harness::profile::Profile;
use wire::definition::{NodeKind, SpanKind, Unknown};
use wire::sample::Sample;

use crate::common::{self, all_images, run, run_again};

#[test]
fn following_calls_changes_neither_counts_nor_samples_nor_stacks() {
    for name in
        ["cortex-m3-tasks-ends", "riscv64-tasks-ends", "cortex-m4-nested", "riscv64-nested", "cortex-m3-stacks"]
    {
        let (plain, exact) =
            (run(name, &["--period", "97"]).profile(), run(name, &["--exact", "--period", "97"]).profile());
        assert_eq!(plain.insns(), exact.insns(), "{name}");
        assert_eq!(plain.stacks, exact.stacks, "{name}");
        let without_node = |sample: &Sample| Sample { node: 0, ..*sample };
        for (one, other) in plain.samples.iter().zip(&exact.samples) {
            assert_eq!(without_node(one), without_node(other), "{name}");
        }
        let tasks = |profile: &Profile| -> Vec<_> {
            profile.tasks.iter().map(|task| (task.name.clone(), task.insns, task.switches)).collect()
        };
        assert_eq!(tasks(&plain), tasks(&exact), "{name}");
        assert!(run(name, &["--period", "97", "--no-stacks"]).profile().stacks.is_empty(), "{name}");
    }
}

/// Real Rust images of a kind that could be built on this machine.
fn rust_images(kind: &str) -> Vec<String> {
    all_images().into_iter().filter(|name| name.contains(&format!("-rust-{kind}-"))).collect()
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn embassys_tasks_have_exact_polls_and_instructions() {
    for name in rust_images("embassy") {
        let how = [&["--period", "97"][..], &["--period", "97", "--exact"], &["--oracle"], &["--no-stacks"]];
        let profiles = how.map(|how| run(&name, how).profile());
        let tasks = |profile: &Profile| -> Vec<(String, u64, u64)> {
            let names = task_names(profile);
            names.into_iter().zip(&profile.tasks).map(|(name, task)| (name, task.switches, task.insns)).collect()
        };
        let expected = tasks(&profiles[0]);
        for profile in &profiles {
            assert_eq!(tasks(profile), expected, "{name}");
        }
        let mut names: Vec<&str> = expected.iter().map(|(name, ..)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["consumer_task", "main", "producer_task", "ticker_task", "ticker_task (2)"], "{name}");

        // Each call of a poll function is a switch to one of its tasks.
        let [plain, exact, ..] = &profiles;
        let mut polls: BTreeMap<u64, u64> = BTreeMap::new();
        for task in &exact.tasks {
            *polls.entry(task.poll.unwrap()).or_default() += task.switches;
        }
        for (&entry, &switches) in &polls {
            let arcs = exact.vcpus.iter().flat_map(|vcpu| &vcpu.arcs).filter(|arc| arc.target == entry);
            assert_eq!(arcs.map(|arc| arc.count).sum::<u64>(), switches, "{name} {entry:#x}");
        }
        // The roots of the pictures are the tasks, with their instructions; the rest is the executor's.
        let roots = |profile: &Profile| {
            let mut roots: BTreeMap<String, u64> = BTreeMap::new();
            for (frames, insns) in CallTree::new(profile, View::default()).stacks() {
                *roots.entry(frames[0].name.clone()).or_default() += insns;
            }
            roots
        };
        let found = roots(exact);
        let mut others = exact.total_insns();
        for (task, _, insns) in &expected {
            assert_eq!(found.get(&format!("task {task}")), Some(insns), "{name} {task}");
            others -= insns;
        }
        assert_eq!((found.len(), found[NO_TASK]), (expected.len() + 1, others), "{name}");
        for frames in CallTree::new(plain, View::default()).stacks().keys() {
            let is_poll =
                |name: &str| name.starts_with("<embassy_executor::raw::TaskStorage<") && name.ends_with(">>::poll");
            let of_poll = frames.iter().position(|frame| is_poll(&frame.name));
            assert!(of_poll.is_none_or(|at| at == 1), "{name}: {frames:?}");
        }
        assert!(has_exact_tree(exact), "{name}");
        // Each sample has the same task as in the tree.
        for sample in &exact.samples {
            let root = exact.path(sample.node).iter().rev().find_map(|node| match node.kind {
                NodeKind::Root { task } => Some(task),
                _ => None,
            });
            assert_eq!(root, Some(sample.task), "{name} {:#x}", sample.pc);
        }
        // Each tick wakes the processor once, and the turns in between are idle.
        let ticks = exact.spans.iter().find(|span| span.kind == SpanKind::Exception { number: 15 }).unwrap();
        assert_eq!(exact.facts.waits, ticks.count, "{name}");
        assert!(exact.facts.slept_insns * 2 > exact.total_insns(), "{name}");
        assert!(exact.facts.slept_insns < others, "{name}");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn a_window_that_opens_in_a_task_counts_on() {
    for name in rust_images("embassy") {
        let whole = run(&name, &["--exact", "--period", "97"]).profile();
        let late = run(&name, &["--exact", "--period", "97", "--from", "embassy_demo::compute"]).profile();
        let insns = |profile: &Profile| profile.tasks.iter().map(|task| task.insns).sum::<u64>();
        assert!(insns(&late) < insns(&whole) && late.samples[0].task != 0, "{name}");
        let roots: u64 = late.tasks.iter().map(|task| task.switches).sum();
        assert!(roots < whole.tasks.iter().map(|task| task.switches).sum(), "{name}");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn rtics_interrupts_name_the_tasks_that_they_run() {
    for name in rust_images("rtic") {
        let result = run(&name, &["--exact", "--period", "97"]);
        let found: Vec<String> = interrupts(&result.profile()).into_keys().collect();
        assert_eq!(found, ["[irq GPIOA: report]", "[irq GPIOB: crunch]", "[irq SysTick: tick]"], "{name}");
        assert!(result.stdout.contains("\n[irq SysTick: tick]"), "{}", result.stdout);
    }
}

#[test]
fn the_idle_task_is_known_with_and_without_a_handle() {
    for name in ["cortex-m3-freertos", "cortex-m3-freertos-lto", "riscv64-freertos-lto"] {
        // The last window opens after the idle task has begun, which then lasts to the end of the run.
        for options in [&["--exact"][..], &["--period", "10007"], &["--from", "semihost"]] {
            let profile = run(name, options).profile();
            let idle: Vec<&str> =
                profile.tasks.iter().filter(|task| task.is_idle).map(|task| task.name.as_str()).collect();
            assert_eq!(idle, ["IDLE"], "{name} {options:?}");
            assert_eq!(profile.facts.unseen_switches, 0, "{name} {options:?}");
        }
    }
}

#[test]
fn tasks_of_one_name_and_in_the_same_memory_are_told_apart() {
    for name in ["cortex-m3-tasks-ends", "riscv64-tasks-ends"] {
        let profile = run(name, &["--exact", "--period", "97"]).profile();
        let count = |wanted: &str| profile.tasks.iter().filter(|task| task.name == wanted).count();
        assert_eq!(["parent", "first", "second", "worker", "IDLE"].map(count), [1, 8, 4, 2, 1], "{name}");
        let memory: BTreeSet<u64> = profile
            .tasks
            .iter()
            .filter(|task| ["first", "second"].contains(&&*task.name))
            .map(|task| task.tcb)
            .collect();
        assert!(memory.len() < 12, "{name}: the deleted tasks' memory is used again: {memory:x?}");
        assert!(profile.tasks.iter().filter(|task| task.is_idle).all(|task| task.name == "IDLE"), "{name}");

        // Each of the two tasks has the functions of its own work only.
        let names = task_names(&profile);
        for (task, mine, other) in [("worker", "adds", "mixes"), ("worker (2)", "mixes", "adds")] {
            let number = names.iter().position(|name| name == task).unwrap() as u32 + 1;
            let functions: BTreeSet<String> = profile
                .samples
                .iter()
                .filter(|sample| sample.task == number)
                .flat_map(|sample| unwound(&profile, sample).into_iter().map(|level| shown(&profile, &[level])))
                .collect();
            assert!(functions.contains(mine) && !functions.contains(other), "{name}: {task} in {functions:?}");
        }

        // The instructions of tasks and of the time before the scheduler add up; so do the samples.
        let before = profile.samples.iter().filter(|sample| sample.task == 0).count() as u64;
        let in_tasks: u64 = profile.tasks.iter().map(|task| task.insns).sum();
        assert!(
            before * 97 <= profile.total_insns() - in_tasks + 97,
            "{name}: {before} samples before the scheduler"
        );
        for (number, task) in (1..).zip(&profile.tasks) {
            let samples = profile.samples.iter().filter(|sample| sample.task == number).count() as u64;
            assert!(
                samples * 97 <= task.insns + 97 * (task.switches + 1),
                "{name}: {} has {samples} samples",
                task.name
            );
            assert!(task.switches > 0, "{name}: {}", task.name);
            // The paint ends at the lowest stack pointer or less than 700 bytes below it.
            let (start, end) = (task.stack_start.unwrap(), task.stack_end.unwrap());
            let deepest = task.deepest_sp.unwrap();
            assert!((start..end).contains(&deepest), "{name}: {} at {deepest:#x}", task.name);
            let painted = start + task.painted_bytes.unwrap();
            assert!(
                painted <= deepest + 8,
                "{name}: {}'s paint ends at {painted:#x}, sp was {deepest:#x}",
                task.name
            );
            assert!(deepest < painted + 700, "{name}: {} used {painted:#x}, sp was only {deepest:#x}", task.name);
        }
    }
}

#[test]
fn a_stack_pointer_in_a_device_is_never_followed() {
    const FUNCTIONS: [&str; 8] = [
        "sp_in_clint",
        "sp_in_uart",
        "sp_in_hole",
        "sp_at_ram_end",
        "sp_is_zero",
        "sp_is_odd",
        "sp_is_all_ones",
        "with_return_address",
    ];
    // The last function has five return addresses without a caller; on Arm one sample is taken after sp is restored.
    let arm = [412, 413, 412, 413, 412, 412].map(|count| (count, count));
    let riscv = [412, 413, 412, 413, 412, 413].map(|count| (count, count));
    for (name, in_devices, others) in
        [("cortex-m3-badsp", arm, [(413, 412), (6200, 6195)]), ("riscv64-badsp", riscv, [(412, 412), (5168, 5166)])]
    {
        let expected: Vec<(usize, usize)> = in_devices.into_iter().chain(others).collect();
        for options in [&["--period", "97"][..], &["--period", "97", "--exact"], &["--period", "1", "--oracle"]] {
            let run = run(name, options).expect_code(0);
            assert_eq!(run.console(), "badsp: ok\n", "{name}");
        }
        let profile = run(name, &["--period", "97"]).profile();
        let plain = run(name, &["--no-stacks"]).profile();
        assert_eq!(profile.insns(), plain.insns(), "{name}: looking has changed the run");
        let counts = FUNCTIONS.map(|function| {
            let stacks = profile.samples.iter().map(|sample| unwound(&profile, sample));
            let found: Vec<_> = stacks.filter(|stack| shown(&profile, stack).contains(function)).collect();
            (found.len(), found.iter().filter(|stack| matches!(stack[0], Level::Unknown(_))).count())
        });
        assert_eq!(counts[..], expected, "{name}: samples in {FUNCTIONS:?}, and those without a stack");
    }
}

#[test]
fn where_a_bent_frame_pointer_leads_nobody_follows() {
    let name = "riscv64-badframe-fp";
    let profile = run(name, &["--exact", "--period", "97"]).profile();
    let plain = run(name, &["--no-stacks"]).profile();
    assert_eq!(profile.insns(), plain.insns(), "looking has changed the run");
    let mut cut = 0;
    for sample in &profile.samples {
        let (unwound, followed) = (unwound(&profile, sample), followed(&profile, sample));
        let known = match unwound[0] {
            Level::Unknown(_) => &unwound[1..],
            _ => &unwound[..],
        };
        assert!(followed.ends_with(known), "{} is not the end of it", shown(&profile, &unwound));
        cut += usize::from(known.len() < followed.len());
    }
    assert_eq!((cut, profile.samples.len()), (6114, 10_674));
}

#[test]
fn stacks_are_no_deeper_than_asked_for() {
    let profile = run("cortex-m3-stacks", &["--period", "97", "--max-depth", "3"]).profile();
    let deepest = profile.samples.iter().map(|sample| profile.stack(sample.stack).len()).max();
    assert_eq!(deepest, Some(4), "three frames, and that there are more");
    assert_eq!(harness::analysis::stacks::unknown(&profile), BTreeMap::from([(Unknown::TooDeep, 19_959)]));
}

#[test]
fn interrupts_are_named_and_stand_on_what_they_interrupted() {
    let names = |name: &str| {
        let profile = run(name, &["--period", "97"]).profile();
        interrupts(&profile).into_keys().collect::<Vec<_>>()
    };
    let arm =
        ["[irq PendSV]", "[irq SVCall]", "[irq SysTick]", "[irq high]", "[irq low]", "[irq middle]", "[irq next]"];
    assert_eq!(names("cortex-m3-nested"), arm);
    assert_eq!(names("cortex-m4-nested"), arm);
    assert_eq!(names("riscv64-nested"), ["[irq timer]", "[trap ecall]", "[trap illegal instruction]"]);

    let run = run("cortex-m3-nested", &["--period", "97", "--fold-irqs", "--flamechart"]).expect_code(0);
    assert!(run.dir.join("flamechart.svg").is_file());
    let folded = CallTree::new(&run.profile(), View { fold_irqs: true }).stacks();
    for stack in folded.keys() {
        let first = stack.iter().position(|frame| frame.role == harness::analysis::stacks::FrameRole::Irq);
        assert!(first.is_none_or(|index| index == 0), "{stack:?}");
    }
    assert!(folded.keys().any(|stack| {
        stack.iter().filter(|frame| frame.role == harness::analysis::stacks::FrameRole::Irq).count() == 3
    }));
}

#[test]
fn the_exact_tree_of_several_vcpus_is_refused() {
    let run = run("riscv64-smp", &["--exact"]).expect_code(2);
    assert!(run.stderr.contains("--exact") && run.stderr.contains("one vCPU"), "{}", run.stderr);
    assert!(!run.has_profile());
    let stacks = common::run("riscv64-smp", &["--period", "997"]).expect_code(0).profile();
    assert_eq!((stacks.samples.len(), harness::analysis::stacks::unknown(&stacks)), (8718, BTreeMap::new()));
}

#[test]
fn an_exact_profile_is_the_same_bytes_again() {
    for name in ["cortex-m3-tasks-ends", "riscv64-nested"] {
        let files = || run_again(name, &["--exact", "--flamechart"]).expect_code(0).files();
        assert_eq!(files(), files(), "{name}");
    }
}
