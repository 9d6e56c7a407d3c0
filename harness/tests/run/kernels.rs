// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of kernels other than FreeRTOS, in images that lay out the kernels' structures and count their switches.

use std::collections::BTreeMap;
use std::fs;

use harness::analysis::calltree::CallTree;
use harness::analysis::heap;
use harness::analysis::metrics::{Metric, Metrics};
use harness::analysis::stack_proof::{faults, has_exact_tree};
use harness::analysis::stacks::{View, unknown};
use harness::image::{Arch, pages};
use harness::profile::zone::Context;
use harness::profile::{Node, Profile, StackFrame};
use object::{Object as _, ObjectSection as _};
use wire::definition::{FrameKind, NodeKind, Unknown};
use wire::sample::Sample;
use wire::timeline::What;

use crate::common::{image, run};

/// Numbers in what an image prints, in their order.
fn numbers(text: &str) -> Vec<u64> {
    text.split(|character: char| !character.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// Number of samples in code that moves the stack pointer by hand, which nothing describes: Zephyr's start of its first
/// thread on Cortex-M, and the ports for RISC-V, which are assembly.
fn moved_by_hand(profile: &Profile) -> u64 {
    let is_there = |sample: &&Sample| {
        let function = profile.names.function_at(sample.pc);
        let is_unknown = |frame: &&StackFrame| matches!(frame.kind, FrameKind::Unknown(_));
        let is_port =
            |file: &String| ["apps/threadx-riscv.S", "apps/zephyr-riscv.S"].iter().any(|port| file.ends_with(port));
        function.is_some_and(|function| {
            function.name == "arch_switch_to_main_thread" || function.file.as_ref().is_some_and(is_port)
        }) && profile.stack(sample.stack).first().is_some_and(is_unknown)
    };
    profile.samples.iter().filter(is_there).count() as u64
}

/// Runs an image of these threads, in the order in which it prints their switches; checks what every kernel promises.
fn profile(image: &str, threads: &[&str]) -> Profile {
    let run = run(image, &["--exact", "--period", "97"]);
    let profile = run.profile();
    let switches: BTreeMap<&str, u64> =
        profile.tasks.iter().map(|task| (task.name.as_str(), task.switches)).collect();
    let expected: BTreeMap<&str, u64> = threads.iter().copied().zip(numbers(&run.console())).collect();
    assert_eq!(switches, expected, "{image}");
    let by_hand = moved_by_hand(&profile);
    assert_eq!(unknown(&profile).into_values().sum::<u64>(), by_hand, "{image}: each other stack is complete");
    assert!(!run.stdout.contains("only noticed at a sample"), "{image}: {}", run.stdout);

    for task in profile.tasks.iter().filter(|task| task.tcb != 0) {
        let (start, end) = (task.stack_start.unwrap(), task.stack_end.unwrap());
        assert_eq!(end - start, 1024, "{image}: {}", task.name);
        let deepest = task.deepest_sp.unwrap();
        assert!((start..end).contains(&deepest), "{image}: {}", task.name);
        let painted = task.painted_bytes.unwrap();
        assert!(painted > 0 && start + painted <= deepest + 8, "{image}: {}", task.name);
    }
    // The threads are the roots, with their instructions; the rest is of no thread.
    let mut roots: BTreeMap<String, u64> = BTreeMap::new();
    for (frames, insns) in CallTree::new(&profile, View::default()).stacks() {
        *roots.entry(frames[0].name.clone()).or_default() += insns;
    }
    let mut others = profile.total_insns();
    for task in &profile.tasks {
        assert_eq!(roots.remove(&format!("task {}", task.name)), Some(task.insns), "{image}");
        others -= task.insns;
    }
    assert_eq!(roots.into_values().collect::<Vec<_>>(), [others], "{image}");
    profile
}

#[test]
fn threadx_has_its_threads_by_name_and_a_stack_ends_where_the_kernel_began_it() {
    // On RISC-V traps end by a plain return into the thread that they have switched to, or by a jump to the scheduler.
    for image in ["cortex-m3-threadx", "riscv32-threadx", "riscv64-threadx"] {
        let profile = profile(image, &["north", "south", "night sleeper", "idle"]);
        assert!(has_exact_tree(&profile), "{image}");
        // The kernel waits in its scheduler, as no thread: what it executes there is that of a task without a stack.
        for task in &profile.tasks {
            assert_eq!((task.is_idle, task.stack_start.is_none()), (task.name == "idle", task.name == "idle"));
        }
    }
}

#[test]
fn an_exception_is_over_when_its_kernel_goes_on_without_its_return() {
    for image in ["riscv32-threadx", "riscv64-threadx", "riscv32-zephyr", "riscv64-zephyr"] {
        for args in [&["--timeline"][..], &["--timeline", "--exact"]] {
            let run = run(image, args);
            let (mut depth, mut entered) = (0, 0);
            let profile = run.profile();
            for event in profile.timeline.as_ref().unwrap().events() {
                match event.what {
                    What::Entered { .. } => (depth, entered) = (depth + 1, entered + 1),
                    What::Left => depth -= 1,
                    _ => {}
                }
                // No interrupt comes in the handler of another one.
                assert!((0..=1).contains(&depth), "{image} {args:?}: {event:?}");
            }
            assert!(entered > 5, "{image} {args:?}");
        }
    }
}

#[test]
fn zephyr_has_its_threads_by_name_or_by_the_variable_that_holds_them() {
    for (image, threads) in [
        ("cortex-m3-zephyr-named", ["main", "Philosopher 0", "Philosopher 1", "idle"]),
        ("cortex-m3-zephyr", ["z_main_thread", "philosophers", "philosophers+0x50", "z_idle_thread"]),
        ("riscv32-zephyr", ["z_main_thread", "philosophers", "philosophers+0x64", "z_idle_thread"]),
        ("riscv64-zephyr", ["z_main_thread", "philosophers", "philosophers+0xc8", "z_idle_thread"]),
    ] {
        let profile = profile(image, &threads);
        assert!(image.starts_with("cortex") || has_exact_tree(&profile), "{image}");
        let idle: Vec<&str> =
            profile.tasks.iter().filter(|task| task.is_idle).map(|task| task.name.as_str()).collect();
        assert_eq!(idle, [threads[3]], "{image}");
    }
}

#[test]
fn a_system_call_of_zephyrs_is_a_call_of_the_thread_that_made_it() {
    let image = "cortex-m3-zephyr-user";
    let profile = profile(image, &["z_main_thread", "philosophers", "philosophers+0x58", "z_idle_thread"]);
    assert!(has_exact_tree(&profile), "{:?}", faults(&profile));
    let name = |entry: u64| profile.names.function_at(entry).map_or("", |function| function.name.as_str());
    let function = |node: &Node| match node.kind {
        NodeKind::Function { entry } => name(entry),
        NodeKind::Exception { .. } | NodeKind::Root { .. } => "",
    };
    let mut calls: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for node in &profile.tree {
        let caller = profile.calling_node(node.parent).map_or("", function);
        if caller == "z_arm_do_syscall" || function(node) == "z_arm_do_syscall" {
            *calls.entry((caller, function(node))).or_default() += node.calls;
        }
    }
    // As many as the firmware says.
    let expected = [
        (("eat", "z_arm_do_syscall"), 60),
        (("eat_all", "z_arm_do_syscall"), 180),
        (("user", "z_arm_do_syscall"), 62),
        (("z_arm_do_syscall", "z_mrsh_count_calls"), 60),
        (("z_arm_do_syscall", "z_mrsh_eat"), 60),
        (("z_arm_do_syscall", "z_mrsh_leave"), 2),
        (("z_arm_do_syscall", "z_mrsh_yield"), 180),
    ];
    assert_eq!(calls, BTreeMap::from(expected));

    // A sampled stack goes on through the exchange to the thread's start.
    let stacks = CallTree::new(&profile, View::default()).stacks();
    let through = stacks.iter().filter(|(frames, _)| frames.iter().any(|frame| frame.name == "z_mrsh_eat"));
    let mut outer: Vec<Vec<&str>> =
        through.map(|(frames, _)| frames.iter().map(|frame| frame.name.as_str()).take(6).collect()).collect();
    outer.sort_unstable();
    outer.dedup();
    let path = |task: &'static str| vec![task, "z_thread_entry", "user", "eat_all", "eat_all", "eat_all"];
    assert_eq!(outer, [path("task philosophers"), path("task philosophers+0x58")]);
}

/// Images whose threads wait, take memory and have zones, with the names of the thread that waits and the one that ends
/// its waits.
const WAITS: [(&str, &str, &str); 2] =
    [("cortex-m3-threadx-waits", "waiting", "ending"), ("cortex-m3-zephyr-waits", "philosophers", "z_main_thread")];

#[test]
fn a_zone_belongs_to_its_thread_however_often_that_is_preempted_or_waits() {
    for (image, waits, ends) in WAITS {
        let run = run(image, &["--exact"]);
        let (profile, console) = (run.profile(), run.console());
        let zone = |name: &str| {
            let name = profile.zones.names.iter().position(|known| known == name).unwrap() as u32 + 1;
            let all: Vec<_> = profile.zones.zones.iter().filter(|zone| zone.name == name).collect();
            assert_eq!(all.len(), 1, "{image}: {all:?}");
            *all[0]
        };
        let task = |name: &str| profile.tasks.iter().position(|task| task.name == name).unwrap();
        let (digs, waiting) = (zone("digs"), zone("waits"));
        assert_eq!(digs.context, Context::Task(task(ends) as u32 + 1), "{image}");
        assert_eq!(waiting.context, Context::Task(task(waits) as u32 + 1), "{image}");
        // Each time takes as long as every other, though ticks interrupt and threads preempt it.
        assert_eq!(digs.counts.calls, *numbers(&console).last().unwrap(), "{image}");
        assert_eq!(digs.counts.min_insns, digs.counts.max_insns, "{image}");
        // It contains 47 or 48 switches to other threads, and none of their instructions.
        assert_eq!((waiting.counts.calls, waiting.counts.left), (1, 0), "{image}");
        assert!(waiting.counts.sum_insns < profile.tasks[task(waits)].insns, "{image}: {waiting:?}");
    }
}

#[test]
fn memory_belongs_to_the_thread_that_took_it_from_the_kernels_own_pools() {
    // Of each thread: bytes taken and pieces, bytes kept. A block pool's blocks have 24 bytes.
    for ((image, waits, ends), expected) in WAITS.into_iter().zip([
        [(3 * 40 + 24, 4, 40), (2 * 100 + 24, 3, 100)],
        // The second philosopher takes what ThreadX's other thread does.
        [(3 * 40, 3, 40), (2 * 100, 2, 100)],
    ]) {
        let profile = run(image, &["--heap"]).profile();
        let other = if image.contains("zephyr") { "philosophers+0x50" } else { ends };
        assert_eq!([memory(&profile, waits), memory(&profile, other)], expected, "{image}");
    }
}

#[test]
fn suites_measure_each_thread() {
    for (image, waits, ends) in WAITS {
        let run = run(image, &["--exact"]);
        let profile = run.profile();
        let metrics = Metrics::of(&profile);
        let switched_in = numbers(&run.console());
        for (name, count) in
            [(waits, 48 + u64::from(image.contains("zephyr"))), (ends, 51 + 2 * u64::from(image.contains("zephyr")))]
        {
            let task = profile.tasks.iter().find(|task| task.name == name).unwrap();
            let numbers = &metrics.tasks[name];
            assert_eq!(numbers[Metric::TaskInsns], Some(task.insns), "{image}");
            assert_eq!(numbers[Metric::Switches], Some(count), "{image}");
            assert!(switched_in.contains(&count), "{image}");
            assert!(numbers[Metric::Stack].is_some_and(|bytes| (1..1024).contains(&bytes)), "{image}");
        }
    }
}

/// Images of RIOT and NuttX.
const OTHERS: [&str; 6] =
    ["cortex-m3-riot", "riscv32-riot", "riscv64-riot", "cortex-m3-nuttx", "riscv32-nuttx", "riscv64-nuttx"];

#[test]
fn a_zone_belongs_to_riots_and_nuttxs_threads_alone() {
    for image in OTHERS {
        let profile = run(image, &["--exact"]).profile();
        let zone = |name: &str, task: &str| {
            let name = profile.zones.names.iter().position(|known| known == name).unwrap() as u32 + 1;
            let task = profile.tasks.iter().position(|known| known.name == task).unwrap();
            let context = Context::Task(task as u32 + 1);
            let of_task = profile.zones.zones.iter().filter(|zone| zone.name == name && zone.context == context);
            let all: Vec<_> = of_task.collect();
            assert_eq!(all.len(), 1, "{image}: {all:?}");
            (all[0].counts, profile.tasks[task].insns)
        };
        for thread in ["first", "second"] {
            // Each time takes as long as every other, though ticks interrupt it and a thread that wakes preempts it.
            let (turns, insns) = zone("turn", thread);
            assert_eq!((turns.calls, turns.left), (25, 0), "{image}: {thread}");
            assert_eq!(turns.min_insns, turns.max_insns, "{image}: {thread}");
            assert!(turns.sum_insns < insns, "{image}: {thread}");
        }
        // It contains a switch to other threads and none of their instructions, which are thousands.
        let (sleeps, _) = zone("sleeps", "sleeper");
        assert_eq!((sleeps.calls, sleeps.left), (10, 0), "{image}");
        assert_eq!(profile.zones.zones.len(), 3, "{image}");
    }
}

/// Bytes and number of pieces that a thread took, and bytes that it kept.
fn memory(profile: &Profile, task: &str) -> (u64, u64, u64) {
    let found = heap::replay(profile).unwrap();
    assert!(found.misuses.is_empty(), "{:?}", found.misuses);
    let task = profile.tasks.iter().position(|known| known.name == task).unwrap() as u32 + 1;
    let sites = &profile.heap.as_ref().unwrap().sites;
    let uses = sites.iter().zip(&found.sites).filter(|(site, _)| site.task == task);
    uses.fold((0, 0, 0), |(bytes, blocks, kept), (_, site)| {
        (bytes + site.allocated.bytes, blocks + site.allocated.blocks, kept + site.leaked.bytes)
    })
}

#[test]
fn memory_belongs_to_riots_and_nuttxs_threads() {
    for image in OTHERS {
        let profile = run(image, &["--heap"]).profile();
        // RIOT's threads also take an element of 24 bytes, whose size is known on its processors of 32 bits; NuttX's
        // three items of 8 bytes.
        let (more, pieces) = if image == "riscv64-riot" { (8, 2) } else { (8 + 24, 3) };
        for (thread, pid) in [("first", 2), ("second", 3)] {
            assert_eq!(memory(&profile, thread), (40 * pid + more, pieces, 40 * pid), "{image}: {thread}");
        }
        // A piece of 100 bytes, another of 120 in its place.
        assert_eq!(memory(&profile, "sleeper"), (220, 2, 0), "{image}");
    }
}

#[test]
fn suites_measure_each_of_riots_and_nuttxs_threads() {
    for image in OTHERS {
        let run = run(image, &["--exact"]);
        let profile = run.profile();
        let (metrics, switched_in) = (Metrics::of(&profile), numbers(&run.console()));
        let first = if image.contains("riot") { 1 } else { 2 };
        for (name, count) in ["first", "second", "sleeper"].into_iter().zip(&switched_in[first..]) {
            let task = profile.tasks.iter().find(|task| task.name == name).unwrap();
            let numbers = &metrics.tasks[name];
            assert_eq!(numbers[Metric::TaskInsns], Some(task.insns), "{image}");
            assert_eq!(numbers[Metric::Switches], Some(*count), "{image}");
            assert!(numbers[Metric::Stack].is_some_and(|bytes| (1..1024).contains(&bytes)), "{image}");
        }
    }
}

#[test]
fn a_first_thread_that_the_kernel_calls_is_not_disproved_before_any_other_begins() {
    // The window ends between the call of main's z_thread_entry and the next thread.
    let profile = run("cortex-m3-zephyr", &["--for", "7400", "--period", "1"]).profile();
    let [main] = &profile.tasks[..] else { panic!("{:?}", profile.tasks) };
    assert!(main.insns > 20, "{main:?}");
    // Three instructions of the kernel's assembly are left, in which the stack pointer is moved before the call.
    assert_eq!(unknown(&profile).get(&Unknown::Disproved), Some(&3));
}

#[test]
fn riot_has_its_threads_by_name_and_one_that_ends_is_not_the_next_in_its_memory() {
    for (image, threads) in [
        ("cortex-m3-riot", &["main", "first", "second", "sleeper"][..]),
        ("riscv32-riot", &["main", "first", "second", "sleeper", "idle"]),
        ("riscv64-riot", &["main", "first", "second", "sleeper", "idle"]),
    ] {
        let profile = profile(image, threads);
        assert!(has_exact_tree(&profile), "{image}");
        // Without an idle thread the kernel waits in the handler that switches, for the thread that stopped.
        let idle: Vec<&str> =
            profile.tasks.iter().filter(|task| task.is_idle).map(|task| task.name.as_str()).collect();
        assert_eq!(idle, threads[4..], "{image}");
    }
}

#[test]
fn nuttx_has_its_tasks_by_name_and_its_start_is_the_idle_one() {
    for image in ["cortex-m3-nuttx", "riscv32-nuttx", "riscv64-nuttx"] {
        let profile = profile(image, &["Idle_Task", "init", "first", "second", "sleeper"]);
        assert!(has_exact_tree(&profile), "{image}");
        let idle: Vec<&str> =
            profile.tasks.iter().filter(|task| task.is_idle).map(|task| task.name.as_str()).collect();
        assert_eq!(idle, ["Idle_Task"], "{image}");
    }
}

/// Instructions of each task, by name.
fn insns_by_task(profile: &Profile) -> BTreeMap<&str, u64> {
    profile.tasks.iter().map(|task| (task.name.as_str(), task.insns)).collect()
}

#[test]
fn threads_have_names_without_debug_information_by_the_kernels_tables_for_debuggers() {
    for (image, threads, warning) in [
        ("cortex-m3-riot-nodwarf", &["main", "first", "second", "sleeper"][..], "RIOT's threads"),
        ("riscv64-riot-nodwarf", &["main", "first", "second", "sleeper", "idle"], "RIOT's threads"),
        ("cortex-m3-nuttx-nodwarf", &["Idle_Task", "init", "first", "second", "sleeper"], "NuttX's tasks"),
        ("riscv64-nuttx-nodwarf", &["Idle_Task", "init", "first", "second", "sleeper"], "NuttX's tasks"),
        ("cortex-m3-zephyr-named-nodwarf", &["main", "Philosopher 0", "Philosopher 1", "idle"], "Zephyr's threads"),
        ("riscv64-zephyr-named-nodwarf", &["main", "Philosopher 0", "Philosopher 1", "idle"], "Zephyr's threads"),
    ] {
        let whole = run(image.trim_end_matches("-nodwarf"), &["--exact"]).profile();
        let run = run(image, &["--exact"]);
        let profile = run.profile();
        let switches: BTreeMap<&str, u64> =
            profile.tasks.iter().map(|task| (task.name.as_str(), task.switches)).collect();
        let expected: BTreeMap<&str, u64> = threads.iter().copied().zip(numbers(&run.console())).collect();
        assert_eq!(switches, expected, "{image}");
        assert_eq!(insns_by_task(&profile), insns_by_task(&whole), "{image}");
        assert!(profile.tasks.iter().all(|task| task.stack_start.is_none()), "{image}");
        let expected = format!("there is no debug information of {warning}: where their stacks are is not known");
        assert!(run.stderr.contains(&expected) || run.stdout.contains(&expected), "{image}: {}", run.stderr);
    }
}

#[test]
fn data_that_stays_with_the_code_shares_no_page_where_firmware_copies_its_data() {
    for (name, arch, is_shared) in [
        ("cortex-m3-freertos", Arch::CortexM, false),
        // These have no data to copy.
        ("cortex-m3-bare", Arch::CortexM, true),
        ("riscv64-bare", Arch::Riscv64, true),
    ] {
        let mut bytes = fs::read(image(name)).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let section = file.section_by_name(".rodata").unwrap();
        let (index, start, is_64) = (section.index().0, section.address(), file.is_64());
        // Mark constants as writable, as Zephyr's tables in flash are: sh_flags of the section's header.
        let word = |at: usize, length: usize| {
            bytes[at..at + length].iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte))
        };
        let flags = if is_64 { word(0x28, 8) + index * 64 + 8 } else { word(0x20, 4) + index * 40 + 8 };
        bytes[flags] |= 1;
        let executed = [start - 2].into();
        let found = pages::describe_shared(&bytes, arch, 0, &executed);
        assert_eq!(found.is_some(), is_shared, "{name}: {found:?}");
    }
}
