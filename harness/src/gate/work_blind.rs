// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects a case whose window ends after a fixed number of instructions and whose limits cannot see a slowdown.

use crate::analysis::metrics::Metric;
use crate::gate::expect::Ending;
use crate::gate::suite::Case;
use crate::profile::End;
use crate::text::number::plural;

/// Reason why a case whose window ended in this way would not notice a slowdown, and a remedy. None: the case would
/// notice, or it has no limits.
pub fn blind(case: &Case, end: &End, insns: u64) -> Option<String> {
    let fixed = match end {
        End::For => "for",
        End::MaxInsns if case.expect.ending == Some(Ending::Limit) => "max-insns",
        _ => return None,
    };
    let limits = |metrics: &[Metric]| case.thresholds.iter().any(|threshold| metrics.contains(&threshold.metric));
    let sees = !case.work.is_empty()
        || case.assertions.iter().any(|assertion| assertion.sees_slowdown())
        || case.expect.console.iter().any(|line| line.by_insns.is_some());
    // A limit on the share of the window that one function or task takes notices growth, unless that share is always
    // the whole.
    let sees_some = limits(&[Metric::SelfInsns, Metric::Inclusive, Metric::TaskInsns]);
    let has_total = limits(&[Metric::Total]);
    if case.thresholds.is_empty() || sees || (sees_some && !has_total) {
        return None;
    }
    let limited = if has_total { "`total` is the same however slow it is" } else { "no threshold sees a slowdown" };
    Some(format!(
        "`{fixed}` ends every run after {}: {limited}. These see it: `work` in thresholds (fewer calls or lines in the \
         window), `until = \"FUNCTION\"`, an assertion on `mean(\"f\")` or `calls(\"f\") >= N`, a console line with `by`",
        plural(insns, "instruction"),
    ))
}
