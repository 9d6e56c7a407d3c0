// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: allocations, bytes, frees, failures, the peak and the memory held at the end agree with the
//! firmware's own table, which all its calls go through.

use std::collections::BTreeMap;

use harness::analysis::allocator_clones;
use harness::analysis::heap::{self, HeapUse, Unfollowed, Use};
use harness::analysis::lost::Lost;

use crate::common::{is_listed, measured, run, run_again};

/// Options for the pool that interrupts use in the FreeRTOS images.
const POOL: [&str; 5] = ["--heap", "--heap-alloc", "pool_get(size=arg0)", "--heap-free", "pool_put"];

/// Options of an image.
fn options(image: &str) -> Vec<&'static str> {
    let has_pool = (1..=5).any(|number| image.ends_with(&format!("-heap{number}")));
    if has_pool { POOL.to_vec() } else { vec!["--heap"] }
}

/// Numbers that the firmware has printed from its own table.
pub(crate) fn counted(console: &str) -> BTreeMap<String, u64> {
    let pairs = console.lines().filter_map(|line| line.split_once(": "));
    pairs.filter_map(|(name, number)| Some((name.to_owned(), number.trim().parse().ok()?))).collect()
}

/// Numbers of the followed heap, with the same names.
pub(crate) fn followed(found: &HeapUse) -> BTreeMap<String, u64> {
    let total = found.total;
    let numbers = [
        ("allocations", total.allocated.blocks),
        ("bytes", total.allocated.bytes),
        ("frees", total.freed.blocks),
        // A call that throws returns no memory either.
        ("failures", total.failed.blocks + total.left.blocks),
        ("peak", found.peak.bytes),
        ("held", found.at_end.bytes),
        ("held blocks", found.at_end.blocks),
    ];
    numbers.into_iter().map(|(name, number)| (name.to_owned(), number)).collect()
}

#[track_caller]
fn assert_equal(image: &str) -> HeapUse {
    let measured = measured(image, &options(image));
    measured.expect_code(0);
    let found = heap::replay(measured.profile()).unwrap();
    let mut counted = counted(measured.console());
    counted.retain(|name, _| followed(&found).contains_key(name));
    assert_eq!(followed(&found), counted, "{image}");
    assert_eq!((found.double_frees, found.bad_frees, found.reissued), (0, 0, 0), "{image}");
    // Memory allocated in the window has been freed or has leaked, and not all of it at once.
    let Use { allocated, freed, leaked, temporary, .. } = found.total;
    assert_eq!(allocated, freed.plus(leaked), "{image}");
    assert!(temporary < freed.blocks || freed.blocks == 0, "{image}: {temporary}");
    assert!(allocator_clones::unfollowed(measured.profile()).is_empty(), "{image}");
    // All requested memory belongs to a site.
    assert_eq!(found.sites.iter().map(|site| site.at_peak.bytes).sum::<u64>(), found.peak.bytes, "{image}");
    assert_eq!(found.sites.iter().map(|site| site.leaked.bytes).sum::<u64>(), found.at_end.bytes, "{image}");
    found
}

#[test]
fn all_five_heaps_of_freertos_under_preemption_and_a_pool_of_interrupts() {
    for number in 1..=5 {
        for core in ["riscv64", "cortex-m3"] {
            let image = format!("{core}-heap{number}");
            let found = assert_equal(&image);
            assert_eq!(found.total.failed.blocks, 5, "{image}: one of each task, and one of the pool's");
            let profile = measured(&image, &options(&image)).profile();
            let tree = heap::paths(profile, Default::default());
            let in_interrupts =
                found.sites.iter().zip(&tree.samples).filter(|(_, path)| {
                    tree.frames(**path).iter().any(|member| member.frame.name.starts_with("[irq "))
                });
            // Block sizes are 1 to 24 bytes.
            let (blocks, bytes) = in_interrupts.fold((0, 0), |(blocks, bytes), (site, _)| {
                (blocks + site.allocated.blocks, bytes + site.allocated.bytes)
            });
            assert_eq!((blocks, bytes), (24, 300), "{image}");
            // Each of the four workers requests the same amount, in any order.
            let sites = &profile.heap.as_ref().unwrap().sites;
            let by_task = heap::by(&found, |site| sites[site as usize - 1].task);
            let workers = (1..).zip(&profile.tasks).filter(|(_, task)| task.name == "worker");
            let calls: Vec<u64> = workers.map(|(number, _)| by_task[&number].allocated.blocks).collect();
            assert_eq!(calls.len(), 4, "{image}");
            let in_irqs: u64 = calls.iter().sum::<u64>() - 4 * if number == 1 { 20 } else { 620 };
            assert!(in_irqs <= 24, "{image}: {calls:?}");
        }
    }
}

#[test]
fn mallocs_that_call_each_other_are_one_allocation() {
    for image in ["riscv64-heap", "cortex-m3-heap", "riscv64-heap-picolibc", "cortex-m3-heap-picolibc"] {
        let found = assert_equal(image);
        assert!(
            found.total.failed.blocks > 0 && found.total.leaked.blocks > 0 && found.total.temporary > 60,
            "{image}"
        );
    }
}

#[test]
fn operators_that_throw_leave_what_was_allocated_within() {
    let found = assert_equal("cortex-m3-heap-newlib");
    assert_eq!((found.total.failed.blocks, found.total.left.blocks), (0, 5));
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn a_global_allocator_of_rust() {
    for image in ["cortex-m3-rust-heap-O0", "riscv64-rust-heap-O0"] {
        let found = assert_equal(image);
        assert_eq!((found.total.failed.blocks, found.total.leaked.blocks), (4, 4), "{image}");
        assert_eq!(heap::unfollowed(measured(image, &["--heap"]).profile()), Unfollowed::default(), "{image}");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn calls_around_a_function_that_the_compiler_has_inlined_are_told() {
    // The compiler calls the allocator's methods from the callers of __rust_alloc.
    let image = "cortex-m3-rust-heap-O3";
    let missed = measured(image, &["--heap"]);
    let Unfollowed { calls, lost } = heap::unfollowed(missed.profile());
    let methods = calls.keys().filter(|name| name.starts_with("<heap::Heap as core::alloc::global::GlobalAlloc>::"));
    assert!(methods.count() == calls.len() && calls.values().sum::<u64>() > 700, "{calls:?}");
    assert_eq!(lost, Lost { allocations: true, frees: true });
    assert!(missed.stderr().contains("; what they free counts as held: the peak and what leaked are too high; "));
    let method = |rest: &str| format!("<heap::Heap as core::alloc::global::GlobalAlloc>::{rest}");
    let rules = [method("alloc(align=r0, size=r1)"), method("realloc(old=r0, size=r3)"), method("dealloc(r0)")];
    let args = ["--heap-alloc", &rules[0], "--heap-alloc", &rules[1], "--heap-free", &rules[2]];
    let measured = measured(image, &args);
    let found = heap::replay(measured.profile()).unwrap();
    assert_eq!(followed(&found), counted(measured.console()));
    assert_eq!(heap::unfollowed(measured.profile()), Unfollowed::default());
    assert!(allocator_clones::unfollowed(measured.profile()).is_empty());
}

#[test]
fn the_same_bytes_every_time_and_the_same_counts_as_without() {
    for image in ["riscv64-heap4", "cortex-m3-heap-newlib"] {
        let once = || run_again(image, &options(image)).profile();
        let (one, other) = (once(), once());
        assert_eq!(one.to_bytes().unwrap(), other.to_bytes().unwrap(), "{image}");
        let without = run(image, &[]).profile();
        assert_eq!((one.total_insns(), one.insns()), (without.total_insns(), without.insns()), "{image}");
        assert_eq!(one.vcpus[0].arcs, without.vcpus[0].arcs, "{image}");
        let samples = |profile: &harness::profile::Profile| {
            profile.samples.iter().map(|sample| (sample.at_insns, sample.pc, sample.task)).collect::<Vec<_>>()
        };
        assert_eq!(samples(&one), samples(&without), "{image}");
    }
}

// The oracle reads registers one by one and walks every stack. It takes no samples, whose stacks would be taken at
// other places.
#[test]
fn one_callback_per_instruction_sees_the_same_events_on_the_same_paths() {
    let images =
        ["riscv64-heap3", "cortex-m3-heap3", "cortex-m3-heap4", "riscv64-heap-picolibc", "cortex-m3-heap-newlib"];
    let images = images.into_iter().chain(["cortex-m3-heap-wrong", "cortex-m3-rust-heap-O3"]);
    for image in images.filter(|name| is_listed(name)) {
        let mut fast = options(image);
        fast.extend(["--period", "1000000000"]);
        let oracle = [&fast[..], &["--oracle"]].concat();
        let (fast, oracle) = (measured(image, &fast), measured(image, &oracle));
        let heaps = [&fast, &oracle].map(|run| run.profile().heap.clone().unwrap());
        assert!(heaps[0].events().count() > 30 && heaps[0].sites.iter().any(|site| site.stack != 0), "{image}");
        assert_eq!(heaps[0], heaps[1], "{image}");
        assert_eq!(fast.profile().stacks, oracle.profile().stacks, "{image}");
    }
}

#[test]
fn a_window_knows_what_was_allocated_before_it() {
    let whole = heap::replay(measured("cortex-m3-heap", &["--heap"]).profile()).unwrap();
    let args = ["--heap", "--from", "too_much"];
    let late = heap::replay(measured("cortex-m3-heap", &args).profile()).unwrap();
    assert!(late.before.blocks > 0 && late.total.freed.blocks > 0);
    assert_eq!((late.double_frees, late.bad_frees), (0, 0));
    assert_eq!((late.peak, late.at_end), (whole.peak, whole.at_end));
    assert_eq!(late.total.leaked.plus(late.still_before), whole.total.leaked);
    assert_eq!(late.total.allocated, late.total.freed.plus(late.total.leaked));
    assert!(late.total.allocated.blocks < whole.total.allocated.blocks);
    assert_eq!(late.total.failed.blocks, 12);
}
