// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the heap's counters equal the sums of its blocks at each event, and the stacks' counters equal the
//! kernel's saved stack pointers.

use std::collections::BTreeMap;

use harness::analysis::event_tracks::{self, Happens, Kind};
use harness::analysis::heap;
use harness::profile::Profile;
use wire::heap::What;

use crate::common::{measured, run, tools};

/// Values of a kind's counters, with the instruction at which each begins.
fn values(profile: &Profile, kind: Kind) -> Vec<(u64, i64)> {
    let mut values = Vec::new();
    let walked: Result<bool, ()> = event_tracks::walk(profile, |tables, moment| {
        if let Happens::Counts(value) = moment.what
            && tables.tracks[moment.track as usize].kind == kind
        {
            values.push((moment.at_insns, value));
        }
        Ok(())
    });
    assert_eq!(walked, Ok(true));
    values
}

/// Values of a counter after each instruction in `times`; the counter is recorded only when it changes.
fn after(values: &[(u64, i64)], times: &[u64]) -> Vec<i64> {
    let last = |at: &u64| values[..values.partition_point(|(time, _)| time <= at)].last().map_or(0, |last| last.1);
    times.iter().map(last).collect()
}

#[test]
fn the_heap_has_the_blocks_and_the_largest_gap_that_its_blocks_leave() {
    for image in ["riscv64-heap4", "cortex-m3-heap4", "cortex-m3-heap2", "riscv64-heap5"] {
        let profile = measured(image, &["--timeline", "--heap"]).profile();
        let found = heap::replay(profile).unwrap();
        let extent = found.extent.as_ref().unwrap();
        let mut blocks: BTreeMap<u64, u64> = BTreeMap::new();
        // State after the last event at an instruction: blocks, bytes, largest gap.
        let mut expected: BTreeMap<u64, [i64; 3]> = BTreeMap::new();
        let mut is_window = false;
        for event in profile.heap.as_ref().unwrap().events() {
            match event.what {
                What::Opened => is_window = true,
                What::Allocated { address, size_bytes, .. } => drop(blocks.insert(address, size_bytes)),
                What::Freed { address } => drop(blocks.remove(&address)),
                What::Moved { old, address, size_bytes } => {
                    blocks.remove(&old);
                    blocks.insert(address, size_bytes);
                }
                What::Failed { .. } | What::Left { .. } => {}
            }
            // Gaps lie between a block's end and the next block, and at the arena's ends.
            let (mut end, mut largest) = (extent.start, 0);
            for (&address, &bytes) in blocks.range(extent.start..extent.end) {
                largest = largest.max(address.saturating_sub(end));
                end = end.max(address + bytes);
            }
            largest = largest.max(extent.end - end);
            if is_window && event.what != What::Opened {
                let bytes = blocks.values().sum::<u64>();
                expected.insert(event.at_insns, [blocks.len() as i64, bytes as i64, largest as i64]);
            }
        }
        let times: Vec<u64> = expected.keys().copied().collect();
        assert!(times.len() > 200, "{image}: {}", times.len());
        for (number, kind) in [Kind::HeapBlocks, Kind::Heap, Kind::HeapFree].into_iter().enumerate() {
            let expected: Vec<i64> = expected.values().map(|numbers| numbers[number]).collect();
            assert_eq!(after(&values(profile, kind), &times), expected, "{image}: {kind:?}");
        }
        // The page's and JSON's series is exact at its points.
        assert!(found.history.len() as u64 <= heap::POINTS + 1, "{image}: {}", found.history.len());
        for point in &found.history {
            let numbers = [point.held_blocks, point.held_bytes, point.largest_free_bytes].map(|number| number as i64);
            assert_eq!(numbers, expected[&point.at_insns], "{image}: at {}", point.at_insns);
        }
    }
}

#[test]
fn stacks_are_as_deep_as_the_kernel_has_saved_them() {
    for image in ["riscv64-crew", "cortex-m3-crew", "cortex-m3-zones-tasks"] {
        let profile = measured(image, &["--timeline", "--exact"]).profile();
        let mut saved: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let (mut task, mut switches) = (0, 0);
        for event in profile.timeline.as_ref().unwrap().events() {
            match event.what {
                wire::timeline::What::Stack { sp } => saved.entry(task).or_default().push(sp),
                wire::timeline::What::Switched { task: next, .. } => {
                    switches += usize::from(task != 0);
                    task = next;
                }
                _ => {}
            }
        }
        // One value for each time that a task is switched out.
        assert_eq!(saved.values().map(Vec::len).sum::<usize>(), switches, "{image}");
        assert!(saved.len() > 2, "{image}");
        for (&task, sps) in &saved {
            let task = profile.task(task).unwrap();
            let (start, end) = (task.stack_start.unwrap(), task.stack_end.unwrap_or(u64::MAX));
            assert!(sps.iter().all(|sp| (start..end).contains(sp)), "{image}: {}", task.name);
            // With every instruction looked at, no saved stack pointer is below the deepest one.
            let [lowest, deepest] = [sps.iter().min().copied(), task.deepest_sp].map(Option::unwrap);
            assert!(lowest >= deepest, "{image}: {}: {lowest:#x} {deepest:#x}", task.name);
        }
        let mut free: Vec<i64> = values(profile, Kind::Stack).into_iter().map(|(_, bytes)| bytes).collect();
        let expected = saved.iter().flat_map(|(&task, sps)| {
            let start = profile.task(task).unwrap().stack_start.unwrap();
            sps.iter().map(move |sp| (sp - start) as i64)
        });
        let mut expected: Vec<i64> = expected.collect();
        free.sort_unstable();
        expected.sort_unstable();
        assert!(free == expected && free.first() < free.last(), "{image}");
    }
}

#[test]
fn chromes_counters_have_names_of_their_own() {
    let run = run("cortex-m3-crew", &["--timeline"]).expect_code(0);
    let trace: serde_json::Value = serde_json::from_slice(&tools::export(&run.dir, "chrome", &[])).unwrap();
    let mut counters: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for event in trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "C") {
        let track = event["tid"].as_u64().unwrap();
        counters.entry(event["name"].as_str().unwrap().to_owned()).or_default().push(track);
    }
    // A reader joins counters of one name in a process.
    assert!(counters.keys().filter(|name| name.ends_with(": free stack")).count() > 2, "{:?}", counters.keys());
    for (name, mut tracks) in counters {
        tracks.dedup();
        assert_eq!(tracks.len(), 1, "{name}");
    }
}
