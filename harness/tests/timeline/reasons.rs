// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons why tasks stop: `waits.c` waits for every kind of kernel object a known number of times.

use std::collections::BTreeMap;

use harness::analysis::event_tracks::{Cursor, Words};
use wire::timeline::What;

use crate::common::measured;

/// Number of stops of each task, by reason.
fn reasons(image: &str, args: &[&str]) -> BTreeMap<(String, String), u64> {
    let profile = measured(image, args).expect_code(0).profile();
    let (mut words, mut cursor) = (Words::new(profile), Cursor::default());
    let mut reasons = BTreeMap::new();
    for event in profile.timeline.as_ref().unwrap().events() {
        words.learn(&event);
        if let What::Switched { why, .. } = event.what {
            let task = cursor.task(event.vcpu);
            let name = profile.task(task).map_or("", |task| &task.name);
            *reasons.entry((name.to_owned(), words.why(why))).or_default() += 1;
        }
        cursor.pass(&event);
    }
    reasons
}

#[test]
fn each_wait_has_the_kernels_own_reason_and_the_objects_name() {
    for (image, list) in [("riscv64-waits", 8), ("cortex-m3-waits", 4)] {
        for args in [&["--timeline"][..], &["--timeline", "--exact"], &["--timeline", "--no-stacks"]] {
            let expected = [
                ("", "the first".to_owned(), 1),
                ("Tmr Svc", "blocked on an item of the queue TmrQ".to_owned(), 1),
                // Five waits that another task ends, two that time out.
                ("waits", "blocked on an item of the queue inbox_queue".to_owned(), 7),
                ("waits", "blocked on room in the queue outbox_queue".to_owned(), 4),
                ("waits", "blocked on the semaphore ready".to_owned(), 5),
                ("waits", "blocked on the mutex bus".to_owned(), 2),
                ("waits", format!("blocked on the event group of the list flags_group+{list:#x}"), 6),
                ("waits", "waits for a notification".to_owned(), 7),
                ("waits", "suspended".to_owned(), 9),
                ("waits", "delayed".to_owned(), 8),
                ("waits", "deleted".to_owned(), 1),
                // A task that ends the wait of a higher-priority task yields to it; a timeout preempts by an
                // interrupt.
                ("ends", "yielded".to_owned(), 5 + 4 + 5 + 2 + 6 + 7 + 9),
                ("ends", "preempted".to_owned(), 8 + 2),
            ];
            let expected = expected.map(|(task, why, count)| ((task.to_owned(), why), count));
            assert_eq!(reasons(image, args), BTreeMap::from(expected), "{image} {args:?}");
        }
    }
}

/// Checks an image's reasons.
fn expect(image: &str, expected: &[(&str, &str, u64)]) {
    for args in [&["--timeline"][..], &["--timeline", "--exact"], &["--timeline", "--no-stacks"]] {
        let expected = expected.iter().map(|&(task, why, count)| ((task.to_owned(), why.to_owned()), count));
        assert_eq!(reasons(image, args), expected.collect(), "{image} {args:?}");
    }
}

#[test]
fn threadxs_threads_stop_for_the_reasons_of_their_states_with_the_objects_own_names() {
    expect(
        "cortex-m3-threadx-waits",
        &[
            // The kernel runs no thread while it switches.
            ("", "the first", 48 + 51 - 3),
            ("idle", "preempted", 3),
            ("waiting", "blocked on an item of the queue inbox", 7),
            ("waiting", "blocked on room in the queue outbox", 4),
            ("waiting", "blocked on the semaphore ready", 5),
            ("waiting", "blocked on the semaphore unnamed", 1),
            ("waiting", "blocked on the mutex bus", 2),
            ("waiting", "blocked on the event group flags", 6),
            ("waiting", "blocked on memory of blocks", 3),
            ("waiting", "blocked on memory of bytes", 2),
            ("waiting", "suspended", 9),
            ("waiting", "delayed", 8),
            ("waiting", "deleted", 1),
            ("ending", "yielded", 30 + 9),
            ("ending", "preempted", 8),
            ("ending", "delayed", 3),
        ],
    );
}

#[test]
fn zephyrs_threads_stop_for_the_reasons_of_their_states_with_the_names_of_the_objects_variables() {
    expect(
        "cortex-m3-zephyr-waits",
        &[
            ("", "the first", 1),
            ("z_idle_thread", "preempted", 3),
            ("philosophers", "blocked on the semaphore ready", 5),
            ("philosophers", "blocked on the semaphore forks+0x10", 1),
            ("philosophers", "blocked on the mutex bus", 2),
            ("philosophers", "blocked on an item of the queue inbox", 7),
            ("philosophers", "blocked on room in the queue outbox", 4),
            ("philosophers", "blocked on an item of the queue jobs", 3),
            ("philosophers", "blocked on the condition state+0x4", 6),
            ("philosophers", "blocked on the list raw", 2),
            ("philosophers", "blocked on the end of the thread philosophers+0x50", 1),
            ("philosophers", "suspended", 9),
            ("philosophers", "delayed", 8),
            ("philosophers", "deleted", 1),
            ("philosophers+0x50", "deleted", 1),
            ("z_main_thread", "yielded", 1 + 31 + 9),
            ("z_main_thread", "preempted", 8),
            ("z_main_thread", "delayed", 3),
        ],
    );
}

#[test]
fn riots_and_nuttxs_threads_stop_for_the_reasons_of_their_states() {
    expect(
        "cortex-m3-riot",
        &[
            // The kernel runs no thread from the end of one to the start of the next.
            ("", "the first", 4),
            ("main", "suspended", 11),
            // The scheduler waits with the last thread running, and by the end of the wait it is ready again.
            ("main", "unknown", 6),
            ("sleeper", "suspended", 4),
            ("sleeper", "unknown", 2),
            ("sleeper", "yielded", 21),
            ("sleeper", "deleted", 1),
            ("first", "yielded", 5),
            ("first", "deleted", 1),
            ("second", "yielded", 8),
            ("second", "deleted", 1),
        ],
    );
    expect(
        "riscv64-nuttx",
        &[
            ("", "the first", 1),
            ("Idle_Task", "yielded", 1),
            ("Idle_Task", "preempted", 11),
            ("init", "delayed", 11),
            ("sleeper", "delayed", 10),
            ("sleeper", "yielded", 4),
            ("sleeper", "deleted", 1),
            ("first", "yielded", 1),
            ("first", "deleted", 1),
            ("second", "yielded", 3),
            ("second", "deleted", 1),
        ],
    );
}

#[test]
fn without_the_kernels_debug_information_no_reason_is_guessed() {
    let reasons = reasons("cortex-m3-crew-nodwarf", &["--timeline"]);
    assert!(reasons.keys().all(|(_, why)| why == "unknown" || why == "the first"), "{reasons:?}");
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn tasks_of_an_executor_are_polled() {
    let reasons = reasons("cortex-m3-rust-embassy-O3", &["--timeline"]);
    assert!(reasons.keys().all(|(_, why)| why == "polled") && reasons.len() > 2, "{reasons:?}");
}
