// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places for a debugger that show why a case failed: the crash, the missed deadline, the first sample of a function
//! that grew.

use crate::analysis::compare::Comparison;
use crate::analysis::debug_hints;
use crate::analysis::lookup;
use crate::analysis::metrics::Metric;
use crate::gate::expect::{Finding, FindingKind};
use crate::gate::suite::Case;
use crate::profile::{End, Profile};

/// Place of the most important failure, as an argument of `harness debug --at`. None: no failure has a place.
pub fn of_failure(case: &Case, profile: &Profile, findings: &[Finding]) -> Option<String> {
    if profile.vcpus.len() > 1 {
        return None;
    }
    let failed = |kind: FindingKind| findings.iter().any(|finding| finding.kind == kind && !finding.passed);
    if failed(FindingKind::Ending) {
        return Some(ending(profile).to_owned());
    }
    // There is one finding for each expected line, in order; findings on forbidden texts come after them.
    let of_console = findings.iter().filter(|finding| finding.kind == FindingKind::Console);
    for (finding, line) in of_console.zip(&case.expect.console) {
        if let (false, Some(by)) = (finding.passed, line.by_insns) {
            return Some(if by < profile.total_insns() { format!("insn:{by}") } else { "end".to_owned() });
        }
    }
    let of_assertions = findings.iter().filter(|finding| finding.kind == FindingKind::Assertion);
    let (finding, assertion) = of_assertions.zip(&case.assertions).find(|(finding, _)| !finding.passed)?;
    if finding.at.is_some() {
        return finding.at.clone();
    }
    let places = lookup::places(profile, assertion.function()?).ok()?;
    debug_hints::of_functions(profile, &places).map(|visit| visit.place)
}

/// Place that shows why a run ended badly.
fn ending(profile: &Profile) -> &'static str {
    let faulted = profile.facts.only.handler.as_ref().is_some_and(|handler| handler.is_fault);
    match &profile.facts.end {
        End::For | End::Until | End::MaxInsns | End::Exit { status: 0, .. } if !faulted => "end",
        end if end.is_by_host() && !faulted => "end",
        _ => "crash",
    }
}

/// First new sample of a function that grew: of the given function, or else of the function that grew most.
pub fn of_growth(profile: &Profile, compared: &Comparison, function: Option<&str>) -> Option<String> {
    let grown = |change: &&crate::analysis::compare::Change| change.self_insns().difference() > 0;
    let named = compared.functions.iter().find(|change| function.is_some_and(|name| change.plain_name == name));
    let most = compared.functions.iter().filter(grown).max_by_key(|change| change.self_insns().difference());
    let change = named.or(most)?;
    let before = change.numbers[Metric::SelfInsns].before.unwrap_or(0);
    debug_hints::first_new_sample(profile, &change.plain_name, before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::compare::compare;
    use crate::analysis::metrics::Metrics;
    use crate::profile::testing::empty;

    #[test]
    fn what_grew_is_visited_at_the_first_sample_that_is_new() {
        let profile = || empty().function("main", 0x40, 0x10).function("f", 0x50, 0x10);
        let before = Metrics::of(&profile().executed(0x42, 40, 0, 0).executed(0x54, 20, 0, 0));
        let after = profile().executed(0x42, 60, 0, 0).executed(0x54, 70, 0, 0);
        let compared = compare(Some(&before), &Metrics::of(&after));
        // One sample every 10 instructions.
        assert_eq!(of_growth(&after, &compared, None).unwrap(), "sample:9");
        assert_eq!(of_growth(&after, &compared, Some("main")).unwrap(), "sample:5");
        assert_eq!(of_growth(&after, &compared, Some("nobody")).unwrap(), "sample:9");
        let same = compare(Some(&Metrics::of(&after)), &Metrics::of(&after));
        assert_eq!(of_growth(&after, &same, None), None);
    }

    #[test]
    fn a_run_that_went_on_is_visited_at_its_end_and_one_that_failed_where_it_did() {
        let at = |end: End| {
            let mut profile = empty();
            profile.facts.end = end;
            ending(&profile)
        };
        assert_eq!(at(End::For), "end");
        assert_eq!(at(End::Timeout), "end");
        assert_eq!(at(End::Exit { status: 0, pc: 0 }), "end");
        assert_eq!(at(End::Exit { status: 1, pc: 0 }), "crash");
        assert_eq!(at(End::LockUp { pc: 0, fault: String::new() }), "crash");
    }
}
