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

#[test]
fn without_the_kernels_debug_information_no_reason_is_guessed() {
    let reasons = reasons("cortex-m3-crew-nodwarf", &["--timeline"]);
    assert!(reasons.keys().all(|(_, why)| why == "unknown" || why == "the first"), "{reasons:?}");
}

#[test]
fn tasks_of_an_executor_are_polled() {
    let reasons = reasons("cortex-m3-rust-embassy-O3", &["--timeline"]);
    assert!(reasons.keys().all(|(_, why)| why == "polled") && reasons.len() > 2, "{reasons:?}");
}
