// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lives of async tasks, without a hook in the firmware: polls, wakes, spawns and ends are what the firmware counts
//! itself, on Embassy's executors for threads (Arm, RISC-V) and interrupts, and on RTIC's.

use std::collections::BTreeMap;

use harness::analysis::stacks::task_names;
use harness::profile::Profile;
use wire::timeline::{Life, What};

use crate::common::{all_images, measured};

/// Numbers in what an image prints, in their order.
fn numbers(text: &str) -> Vec<u64> {
    text.split(|character: char| !character.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// Whether an image could be built on this machine.
fn is_built(image: &str) -> bool {
    all_images().iter().any(|name| name == image)
}

/// Polls of each task.
fn polls(profile: &Profile) -> BTreeMap<String, u64> {
    task_names(profile).into_iter().zip(&profile.tasks).map(|(name, task)| (name, task.switches)).collect()
}

/// Number of changes of a kind, by task.
fn changes(profile: &Profile, wanted: Life) -> BTreeMap<String, u64> {
    let names = task_names(profile);
    let mut found = BTreeMap::new();
    for event in profile.timeline.as_ref().unwrap().events() {
        if let What::Lives { task, change } = event.what
            && change == wanted
        {
            *found.entry(names[task as usize - 1].clone()).or_default() += 1;
        }
    }
    found
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn polls_wakes_and_lives_of_embassys_tasks_are_what_the_firmware_counts() {
    for image in ["cortex-m3-lm3s-rust-modes-O3", "cortex-m3-lm3s-rust-modes-Oz", "riscv32-rust-modes-Oz"] {
        if !is_built(image) {
            continue;
        }
        let run = measured(image, &["--timeline"]).expect_code(0);
        let (profile, counted) = (run.profile(), numbers(run.console()));
        let names = ["main", "steady", "steady (2)", "job", "urgent"].map(str::to_owned);
        let by_name = |counts: &[u64]| names.iter().cloned().zip(counts.iter().copied()).collect();
        assert_eq!(polls(profile), by_name(&counted[..5]), "{image}");
        assert_eq!(changes(profile, Life::Woken).values().sum::<u64>(), counted[5], "{image}");
        assert_eq!(changes(profile, Life::Spawned), by_name(&[1, 1, 1, 5, 1]), "{image}");
        let mut ends: BTreeMap<String, u64> = by_name(&[0, 1, 1, 5, 1]);
        ends.remove("main");
        assert_eq!(changes(profile, Life::Finished), ends, "{image}");
        // A callback per instruction, and no stacks, find the same.
        for how in [&["--timeline", "--oracle"][..], &["--timeline", "--no-stacks"]] {
            let other = measured(image, how).expect_code(0);
            for life in [Life::Woken, Life::Spawned, Life::Finished] {
                assert_eq!(changes(other.profile(), life), changes(profile, life), "{image} {how:?} {life:?}");
            }
        }
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn polls_of_rtics_tasks_are_what_the_firmware_counts() {
    let image = "cortex-m3-lm3s-rust-polls-O0";
    if is_built(image) {
        let run = measured(image, &["--timeline"]).expect_code(0);
        let counted = numbers(run.console());
        let expected = ["low", "other", "high"].map(str::to_owned).into_iter().zip(counted).collect();
        assert_eq!(polls(run.profile()), expected);
    }
}
