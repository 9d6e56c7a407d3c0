//! The promise of call stacks: what is unwound at a sample is what every call and return, followed one by
//! one, left there at that instruction.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use common::{all_images, in_parallel, run};
use harness::analysis::calltree::CallTree;
use harness::analysis::functions::{Kind, Row};
use harness::analysis::place::Place;
use harness::analysis::stacks::View;
use harness::profile::{Profile, StackFrame};
use wire::definition::{FrameKind, NodeKind, Unknown};
use wire::sample::Sample;

/// One level of a stack, so that both kinds can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Function(u64),
    Exception(u64),
    Unknown(Unknown),
}

fn place(profile: &Profile, address: u64) -> Level {
    Level::Function(Place::of(profile, address).start().unwrap_or(1))
}

fn unwound(profile: &Profile, sample: &Sample) -> Vec<Level> {
    let mut levels = Vec::new();
    for &&StackFrame { kind, .. } in &profile.stack(sample.stack) {
        match kind {
            FrameKind::Caller { return_addr } => levels.push(place(profile, return_addr - 1)),
            FrameKind::Exception { number, pc, .. } => {
                levels.extend((pc != 0).then(|| place(profile, pc)));
                levels.push(Level::Exception(number));
            }
            FrameKind::Unknown(why) => levels.push(Level::Unknown(why)),
        }
    }
    levels.push(place(profile, sample.pc));
    levels
}

fn followed(profile: &Profile, sample: &Sample) -> Vec<Level> {
    let nodes = profile.path(sample.node);
    let levels = nodes.iter().filter_map(|node| match node.kind {
        NodeKind::Root { .. } => None,
        NodeKind::Function { entry } => Some(place(profile, entry)),
        NodeKind::Exception { number } => Some(Level::Exception(number)),
    });
    levels.collect()
}

fn shown(profile: &Profile, levels: &[Level]) -> String {
    let names = levels.iter().map(|level| match *level {
        Level::Function(start) => Place::of(profile, start).to_string(),
        other => format!("{other:x?}"),
    });
    names.collect::<Vec<_>>().join(";")
}

/// Samples whose two stacks differ, and how often each pair of stacks came.
fn differences(profile: &Profile) -> BTreeMap<(String, String, String), u64> {
    let mut differences = BTreeMap::new();
    for sample in &profile.samples {
        let (unwound, followed) = (unwound(profile, sample), followed(profile, sample));
        if unwound != followed {
            let key = (shown(profile, &unwound), shown(profile, &followed), format!("{:#x}", sample.pc));
            *differences.entry(key).or_default() += 1;
        }
    }
    differences
}

/// Images whose stacks are not all known, the largest share of samples that may differ, and why:
/// testdata/stacks.md.
const EXCEPTIONS: [(&str, f64); 8] = [
    ("cortex-m0-abi-pg", 0.01),
    ("cortex-m0-abi-pg-O0", 0.01),
    ("cortex-m3-stacks-exidx", 0.003),
    ("riscv64-stacks-fp", 0.003),
    ("cortex-m3-badsp", 1.0),
    ("riscv64-badsp", 1.0),
    ("riscv64-badframe-fp", 1.0),
    ("cortex-m3-bare-stripped", 1.0),
];

/// The largest share elsewhere.
const TOLERATED: f64 = 0.001;

/// What in the tree does not add up to the exact counts: instructions and calls of each function.
fn tree_errors(name: &str, profile: &Profile) -> Vec<String> {
    let mut errors = Vec::new();
    let insns: u64 = profile.tree.iter().map(|node| node.insns).sum();
    if insns != profile.total_insns() {
        errors.push(format!("{name}: {insns} instructions in the tree, {} in all", profile.total_insns()));
    }
    let mut sums: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for node in &profile.tree {
        if let NodeKind::Function { entry } = node.kind {
            let (insns, calls) = sums.entry(entry).or_default();
            (*insns, *calls) = (*insns + node.insns, *calls + node.calls);
        }
    }
    for row in harness::analysis::functions::table(profile).rows.iter().filter(|row| row.kind == Kind::Function) {
        let (insns, calls) = row.start.and_then(|start| sums.get(&start)).copied().unwrap_or_default();
        // Its handler's first instruction traps: each trap is an execution of it, and none a call.
        let calls = if name == "riscv64-traploop" { row.calls } else { calls };
        if (insns, calls) != (row.self_insns, row.calls) {
            let Row { name: function, self_insns, calls: exact, .. } = row;
            errors.push(format!("{name}: {function}: tree {insns} in {calls} calls, exact {self_insns} in {exact}"));
        }
    }
    errors
}

/// All that is wrong with an image's stacks.
fn errors(name: &str) -> Vec<String> {
    let profile = run(name, &["--exact", "--period", "997"]).profile();
    let differences = differences(&profile);
    let differing: u64 = differences.values().sum();
    let unknown: u64 = harness::analysis::stacks::unknown(&profile).values().sum();
    let samples = profile.samples.len().max(1) as f64;
    let exception = EXCEPTIONS.iter().find(|(image, _)| *image == name);
    let tolerated = exception.map_or(TOLERATED, |&(_, share)| share);
    let mut errors = Vec::new();
    let differ = format!("{name}: {differing} of {samples} stacks differ, {unknown} are not known");
    if differing > 0 {
        println!("{differ}");
    }
    if differing.max(unknown) as f64 / samples > tolerated {
        errors.push(format!(
            "{differ}; unwound, followed, pc of the most frequent: {:#?}",
            differences.iter().max_by_key(|(_, count)| **count)
        ));
    }
    if name != "cortex-m3-bare-stripped" {
        errors.extend(tree_errors(name, &profile));
    }
    if profile.tasks.iter().map(|task| task.insns).sum::<u64>() > profile.total_insns() {
        errors.push(format!("{name}: the tasks have more instructions than there are"));
    }
    if profile.facts.unseen_switches > 0 {
        errors.push(format!("{name}: {} switches between tasks that nobody saw", profile.facts.unseen_switches));
    }
    errors
}

#[test]
fn stacks_are_what_every_call_and_return_left_on_every_image() {
    // The exact tree follows one vCPU.
    let images: Vec<String> = all_images().into_iter().filter(|name| name != "riscv64-smp").collect();
    let found = Mutex::new(Vec::new());
    in_parallel(&images, |name| {
        let errors = errors(name);
        found.lock().expect("no thread panicked").extend(errors);
    });
    let mut found = found.into_inner().expect("no thread panicked");
    found.sort();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

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

        // Each of the two does its own work, and nobody else's.
        let names = harness::analysis::stacks::task_names(&profile);
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

        // Time is divided among the tasks and what ran before the scheduler, and samples are as they are.
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
            // What was ever used is at or below where the paint ends.
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
    for name in ["cortex-m3-badsp", "riscv64-badsp"] {
        for options in [&["--period", "97"][..], &["--period", "97", "--exact"], &["--period", "1", "--oracle"]] {
            let run = run(name, options).expect_code(0);
            assert_eq!(run.console(), "badsp: ok\n", "{name}");
        }
        let profile = run(name, &["--period", "97"]).profile();
        let plain = run(name, &["--no-stacks"]).profile();
        assert_eq!(profile.insns(), plain.insns(), "{name}: looking has changed the run");
        for function in [
            "sp_in_clint",
            "sp_in_uart",
            "sp_in_hole",
            "sp_at_ram_end",
            "sp_is_zero",
            "sp_is_odd",
            "sp_is_all_ones",
            "with_return_address",
        ] {
            let found = profile
                .samples
                .iter()
                .filter(|sample| shown(&profile, &unwound(&profile, sample)).contains(function));
            let unknown =
                found.clone().filter(|sample| matches!(unwound(&profile, sample)[0], Level::Unknown(_))).count();
            assert!(unknown > 0 && unknown >= found.count() / 2, "{name}: {function} seems to have a stack");
        }
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
    assert!(cut > 1000 && cut < profile.samples.len(), "{cut}");
}

#[test]
fn stacks_are_no_deeper_than_asked_for() {
    let profile = run("cortex-m3-stacks", &["--period", "97", "--max-depth", "3"]).profile();
    let deepest = profile.samples.iter().map(|sample| profile.stack(sample.stack).len()).max();
    assert_eq!(deepest, Some(4), "three frames, and that there are more");
    assert!(harness::analysis::stacks::unknown(&profile)[&Unknown::TooDeep] > 100);
}

#[test]
fn interrupts_are_named_and_stand_on_what_they_interrupted() {
    let names = |name: &str| {
        let profile = run(name, &["--period", "97"]).profile();
        harness::analysis::stacks::interrupts(&profile).into_keys().collect::<Vec<_>>()
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
        let first = stack.iter().position(|frame| frame.kind == harness::analysis::stacks::Kind::Irq);
        assert!(first.is_none_or(|index| index == 0), "{stack:?}");
    }
    assert!(
        folded.keys().any(|stack| stack
            .iter()
            .filter(|frame| frame.kind == harness::analysis::stacks::Kind::Irq)
            .count()
            == 3)
    );
}

#[test]
fn the_exact_tree_of_several_vcpus_is_refused() {
    let run = run("riscv64-smp", &["--exact"]).expect_code(2);
    assert!(run.stderr.contains("--exact") && run.stderr.contains("one vCPU"), "{}", run.stderr);
    assert!(!run.has_profile());
    let stacks = common::run("riscv64-smp", &["--period", "997"]).expect_code(0).profile();
    let unknown: u64 = harness::analysis::stacks::unknown(&stacks).values().sum();
    assert!(unknown * 1000 <= stacks.samples.len() as u64, "{unknown} of {}", stacks.samples.len());
}

#[test]
fn an_exact_profile_is_the_same_bytes_again() {
    for name in ["cortex-m3-tasks-ends", "riscv64-nested"] {
        let files = || run(name, &["--exact", "--flamechart"]).expect_code(0).files();
        assert_eq!(files(), files(), "{name}");
    }
}
