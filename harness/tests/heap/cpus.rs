// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise with several CPUs: a heap that both allocate from agrees with the firmware's own table. Either CPU may
//! free blocks of the other, and turns end in the middle of calls.

use std::collections::BTreeMap;

use harness::analysis::event_tracks::{self, Recorded};
use harness::analysis::heap::{self, HeapUse};
use wire::heap::What;

use super::truth::{counted, followed};
use crate::common::measured;

/// Two harts that share translations, and two CPUs that do not.
const IMAGES: [&str; 2] = ["riscv64-smp-heap", "cortex-m33-an521-amp-heap"];

/// Functions that take the lock; both CPUs may be in them at once.
const WRAPPERS: [&str; 8] = [
    "--heap-alloc",
    "__wrap_malloc(size=arg0)",
    "--heap-alloc",
    "__wrap_calloc(count=arg0, size=arg1)",
    "--heap-alloc",
    "__wrap_realloc(old=arg0, size=arg1)",
    "--heap-free",
    "__wrap_free",
];

fn found(image: &str, args: &[&str]) -> (HeapUse, BTreeMap<String, u64>) {
    let measured = measured(image, args);
    measured.expect_code(0);
    (heap::replay(measured.profile()).unwrap(), counted(measured.console()))
}

#[test]
fn one_heap_of_two_cpus_is_what_its_table_says() {
    for image in IMAGES {
        let (found, truth) = found(image, &["--heap"]);
        let expected: BTreeMap<String, u64> = truth
            .iter()
            .filter(|(name, _)| followed(&found).contains_key(*name))
            .map(|(k, v)| (k.clone(), *v))
            .collect();
        assert_eq!(followed(&found), expected, "{image}");
        assert_eq!((found.double_frees, found.bad_frees, found.reissued), (0, 0, 0), "{image}");
        assert!(truth["strangers"] == 0 && truth["met"] > 10, "{image}: {truth:?}");
        // The path tells which CPU has leaked a block.
        let profile = measured(image, &["--heap"]).profile();
        let tree = heap::paths(profile, Default::default());
        for (cpu, entry) in [(0, "main"), (1, "secondary_main")] {
            let is_of = |path: u32| tree.frames(path).iter().any(|member| member.frame.name == entry);
            let lost = found.sites.iter().zip(&tree.samples).filter(|(_, path)| is_of(**path));
            let lost: u64 = lost.map(|(site, _)| site.leaked.blocks).sum();
            assert_eq!(lost, truth[&format!("leaked by {cpu}")], "{image}: CPU {cpu}");
        }
    }
}

#[test]
fn calls_that_both_are_in_at_a_time_are_told_apart() {
    for image in IMAGES {
        let (found, truth) = found(image, &WRAPPERS);
        let mut all = followed(&found);
        // The table is written before the wrapper returns, so the peak may differ by a few blocks.
        let peak = all.remove("peak").unwrap();
        assert!(peak.abs_diff(truth["peak"]) < 400, "{image}: {peak}, {truth:?}");
        for (name, number) in all {
            assert_eq!(number, truth[&name], "{image}: {name}");
        }
        assert_eq!((found.double_frees, found.bad_frees), (0, 0), "{image}");
    }
}

#[test]
fn one_callback_per_instruction_sees_the_same_events_and_so_does_another_run() {
    for image in IMAGES {
        let events = |args: &[&str]| {
            let events = measured(image, args).profile().heap.as_ref().unwrap().events();
            events.map(|event| (event.at_insns, event.what)).collect::<Vec<_>>()
        };
        let plain = events(&["--heap"]);
        assert_eq!(plain, events(&["--heap", "--oracle"]), "{image}");
        assert_eq!(plain, events(&["--heap", "--timeline"]), "{image}");
        let bytes = || crate::common::run_again(image, &["--heap"]).profile().to_bytes().unwrap();
        assert_eq!(bytes(), bytes(), "{image}");
    }
}

#[test]
fn the_timeline_has_each_event_at_its_cpus_time_and_in_the_order_of_all() {
    for image in IMAGES {
        let profile = measured(image, &["--heap", "--timeline"]).profile();
        let mut clocks = vec![0; profile.vcpus.len()];
        let mut seen = Vec::new();
        let mut by_cpu = vec![0; clocks.len()];
        for recorded in event_tracks::recorded(profile).unwrap() {
            let (vcpu, at_insns) = recorded.at();
            assert!(at_insns >= clocks[vcpu as usize], "{image}: time goes back");
            clocks[vcpu as usize] = at_insns;
            if let Recorded::Heap { event, .. } = recorded {
                // The timeline's clocks of all CPUs add up to the event's time.
                assert_eq!(event.at_insns, clocks.iter().sum::<u64>(), "{image}: {event:?}");
                by_cpu[vcpu as usize] += 1;
                seen.push(event);
            }
        }
        let events: Vec<_> =
            profile.heap.as_ref().unwrap().events().filter(|event| event.what != What::Opened).collect();
        assert_eq!(seen, events, "{image}");
        assert!(by_cpu.iter().all(|&events| events > 1000), "{image}: {by_cpu:?}");
    }
}
