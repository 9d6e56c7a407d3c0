// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise of the cross-check: the firmware's own `_mcount` counts equal the profiler's on every instrumented
//! image. Where they cannot, the single cause is named.

use std::collections::BTreeSet;

use harness::analysis::crosscheck::in_target::Cause;

use super::{Promise, findings};
use crate::common::{comparison, is_all, run_again};

/// Reason why an image's own counts differ from the exact ones; each image has only one.
fn expected_cause(name: &str) -> Option<Cause> {
    let causes = [
        ("calls-pg-tablefull", Cause::TableFull),
        ("calls-pg-ignored", Cause::Ignored),
        ("calls-pg-hottest", Cause::Decayed),
        ("calls-pg-early", Cause::Erased),
        ("recount-pg", Cause::Reset),
        ("inflight-pg", Cause::InFlight),
        ("wrongcaller-pg", Cause::WrongCaller),
        ("storm-pg-lossy", Cause::LostUpdate),
    ];
    causes.into_iter().find(|(image, _)| name.ends_with(image)).map(|(_, cause)| cause)
}

/// Runs an instrumented image and compares its counts with ours.
pub(super) fn check(name: &str) -> Vec<String> {
    let cause = expected_cause(name);
    let code = i32::from(cause.is_some_and(Cause::is_loss));
    // Stacks are another witness; --strict for them is tested elsewhere.
    let run = run_again(name, &["--strict", "--top", "0", "--no-stacks"]).expect_code(code);
    let comparison = comparison(&run.profile());
    let mut causes: BTreeSet<Cause> = comparison.differences.iter().map(|difference| difference.cause).collect();
    if cause != Some(Cause::InFlight) {
        // Wherever there are tasks, some are interrupted on their way into a function.
        causes.remove(&Cause::InFlight);
    }
    assert_eq!(causes.into_iter().collect::<Vec<_>>(), Vec::from_iter(cause), "{name}: {comparison:?}");
    assert!(comparison.calls > 2 && comparison.functions > 2, "{name}: {comparison:?}");
    for line in comparison.lines(None) {
        assert!(run.stdout.contains(&line), "{name}: {line}");
    }
    Vec::new()
}

#[test]
fn both_witnesses_agree_on_every_instrumented_image_or_the_one_cause_is_named() {
    let judged = findings().expect(Promise::InTarget);
    assert!(!is_all() || judged.len() >= 90, "{} images", judged.len());
}
