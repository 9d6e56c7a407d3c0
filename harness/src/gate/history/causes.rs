// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes of a step: the functions that account for it, and conditions of the run that changed at the same commit.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::analysis::metrics::Metric;
use crate::gate::history::{Image, Run, Step};
use crate::text::number::signed;

/// Most functions that are named for a step.
const MOST_FUNCTIONS: usize = 3;

/// Adds the causes to the steps of an image's total, and the conditions that changed to all of its steps.
pub(super) fn add(image: &mut Image) {
    // Changes of functions, by the commits of the step.
    let mut changes: BTreeMap<(usize, usize), Vec<(i128, &str)>> = BTreeMap::new();
    for series in image.series.iter().filter(|series| series.metric == Metric::SelfInsns.word()) {
        for step in &series.steps {
            changes.entry((step.since, step.commit)).or_default().push((step.difference(), &series.subject));
        }
    }
    let mut functions: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    for (commits, mut changed) in changes {
        changed.sort_by_key(|&(difference, name)| (Reverse(difference.unsigned_abs()), name));
        let named = changed.iter().take(MOST_FUNCTIONS);
        let mut named: Vec<String> = named.map(|(change, name)| format!("{name} {}", signed(*change))).collect();
        if let more @ 1.. = changed.len().saturating_sub(MOST_FUNCTIONS) {
            named.push(format!("{more} more"));
        }
        functions.insert(commits, named);
    }
    let runs = &image.runs;
    let run_at = |commit: usize| runs.binary_search_by_key(&commit, |run| run.commit).ok().map(|at| &runs[at]);
    for series in &mut image.series {
        let is_total = series.metric == Metric::Total.word();
        for step in &mut series.steps {
            let Step { since, commit, causes, .. } = step;
            if is_total {
                causes.extend(functions.get(&(*since, *commit)).into_iter().flatten().cloned());
            }
            if let (Some(before), Some(after)) = (run_at(*since), run_at(*commit)) {
                causes.extend(conditions(before, after));
            }
        }
    }
}

/// Differences between the conditions of two runs, besides the image itself.
fn conditions(before: &Run, after: &Run) -> Vec<String> {
    let (Some(old), Some(new)) = (&before.conditions, &after.conditions) else { return Vec::new() };
    let pairs = [
        ("QEMU", &old.qemu, &new.qemu),
        ("machine", &old.machine, &new.machine),
        ("harness", &before.harness_version, &after.harness_version),
    ];
    let mut found: Vec<String> = pairs
        .into_iter()
        .filter(|(_, old, new)| old != new)
        .map(|(what, old, new)| format!("{what} {old} \u{2192} {new}"))
        .collect();
    if old.image_sha256 == new.image_sha256 {
        found.push("the image is the same".to_owned());
    }
    found
}
