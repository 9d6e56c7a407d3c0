//! The promise of the cross-check: the firmware's own `_mcount` counts and the profiler's are the same, on
//! every instrumented image; and where they cannot be, the one cause is named.

use std::collections::BTreeSet;

use harness::analysis::crosscheck::in_target::Cause;

use crate::common::{comparison, in_parallel, is_all, run, selected_that};

/// Why an image's own counts are not the exact ones: the only cause in it.
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

#[test]
fn both_witnesses_agree_on_every_instrumented_image_or_the_one_cause_is_named() {
    let images = selected_that(|name| name.contains("-pg"));
    assert!(!is_all() || images.len() >= 90, "{} images", images.len());
    in_parallel(&images, |name| {
        let cause = expected_cause(name);
        let code = i32::from(cause.is_some_and(Cause::is_loss));
        // Stacks are another witness, and what --strict says of them another promise.
        let run = run(name, &["--strict", "--top", "0", "--no-stacks"]).expect_code(code);
        let comparison = comparison(&run.profile());
        let mut causes: BTreeSet<Cause> = comparison.differences.iter().map(|difference| difference.cause).collect();
        if cause != Some(Cause::InFlight) {
            // Tasks that are interrupted on their way into a function are so wherever there are tasks.
            causes.remove(&Cause::InFlight);
        }
        assert_eq!(causes.into_iter().collect::<Vec<_>>(), Vec::from_iter(cause), "{name}: {comparison:?}");
        assert!(comparison.calls > 2 && comparison.functions > 2, "{name}: {comparison:?}");
        for line in comparison.lines(None) {
            assert!(run.stdout.contains(&line), "{name}: {line}");
        }
    });
}
