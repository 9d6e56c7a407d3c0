// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of a run as reports keep them, and the limits that applied to them: `harness history` draws both.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::compare::{Comparison, Pair, Pairs};
use crate::analysis::metrics::{Metric, Role, Subject};
use crate::gate::limit::{Limit, Worse};

/// Numbers by the word of their metric, and by function, task or zone; the run as a whole has the empty name.
pub type NumbersByMetric = BTreeMap<String, BTreeMap<String, u64>>;

/// A limit that applied to a number of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Limit")]
pub struct LimitResult {
    /// Word of the number's metric.
    pub metric: String,
    /// The function, task or zone; empty for the run as a whole. Instances of a generic have its name.
    pub subject: String,
    /// The number.
    pub number: u64,
    /// The limit as people write it.
    pub limit: String,
    /// The limit as a number: the most, or the least, that was allowed.
    pub bound: u64,
    /// Whether the bound is the least that was allowed.
    pub is_floor: bool,
    /// Whether the limit was crossed.
    pub crossed: bool,
}

/// Numbers of the later run of a comparison that history shows: those that are compared, and the lines on the console.
pub fn of(comparison: &Comparison) -> NumbersByMetric {
    let mut numbers = NumbersByMetric::new();
    let mut add = |of: Subject, subject: &str, pairs: &Pairs| {
        let metrics = Metric::of(of).filter(|metric| is_shown(*metric));
        for (metric, number) in metrics.filter_map(|metric| Some((metric, pairs[metric].after?))) {
            numbers.entry(metric.word().to_owned()).or_default().insert(subject.to_owned(), number);
        }
    };
    add(Subject::Run, "", &comparison.run);
    for change in &comparison.functions {
        add(Subject::Function, &change.name, &change.numbers);
    }
    for (of, changes) in [(Subject::Task, &comparison.tasks), (Subject::Zone, &comparison.zones)] {
        changes.iter().for_each(|change| add(of, &change.name, &change.numbers));
    }
    numbers
}

/// Whether a metric is among the numbers of reports.
fn is_shown(metric: Metric) -> bool {
    metric == Metric::Lines || metric.descriptor().role >= Role::Compared
}

impl LimitResult {
    /// Result of a limit on a number; None: the run does not have the number any more.
    pub fn new(metric: Metric, subject: &str, numbers: Pair, limit: Limit, crossed: bool) -> Option<LimitResult> {
        Some(LimitResult {
            metric: metric.word().to_owned(),
            subject: subject.to_owned(),
            number: numbers.after?,
            limit: limit.describe(),
            bound: limit.bound_for(numbers.before.unwrap_or(0)),
            is_floor: limit.worse == Worse::Less,
            crossed,
        })
    }
}
