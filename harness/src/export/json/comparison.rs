// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparison of two runs as JSON: a part of a suite's `report.json`, and all of `harness diff --json`. Unlike the tables
//! on the terminal, it leaves nothing out that changed.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::compare::{Change, Comparison, Fate, NamedChange, Pair, Pairs};
use crate::analysis::metrics::{Metric, Subject};
use crate::export::json::{VERSION, document};
use crate::profile::Profile;

/// Two profiles and what changed between them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Diff")]
struct Document<'a> {
    /// Always "harness-diff".
    format: &'static str,
    /// Version of the format. Profiles as JSON have the same version.
    version: u32,
    /// Profile before the change.
    before: Side<'a>,
    /// Profile after the change.
    after: Side<'a>,
    #[serde(flatten)]
    comparison: ComparisonResult,
}

/// One of two profiles.
#[derive(Serialize, JsonSchema)]
struct Side<'a> {
    /// File name of the image.
    image: &'a str,
    /// SHA-256 of the image.
    image_sha256: &'a str,
}

impl<'a> Side<'a> {
    fn of(profile: &'a Profile) -> Self {
        Side { image: &profile.facts.image_name, image_sha256: &profile.facts.image_sha256 }
    }
}

/// Writes the comparison of two profiles; `mismatches` are the differences between their conditions.
///
/// # Errors
/// Errors of `out`.
pub fn write(
    [before, after]: [&Profile; 2],
    comparison: Comparison,
    mismatches: Vec<String>,
    out: &mut dyn Write,
) -> Result<()> {
    let document = Document {
        format: "harness-diff",
        version: VERSION,
        before: Side::of(before),
        after: Side::of(after),
        comparison: ComparisonResult::new(comparison, mismatches),
    };
    document::write(&document, out)
}

/// JSON Schema of the output.
///
/// # Errors
/// No known errors.
pub fn schema() -> Result<String> {
    document::schema::<Document<'_>>()
}

/// Changes from one run, such as the baseline's, to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ComparisonReport")]
pub struct ComparisonResult {
    /// Total instructions.
    pub total_insns: Pair,
    /// Other numbers of the run, by the word of their metric.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: BTreeMap<String, Pair>,
    /// Main cause of the change, in a sentence.
    pub explanation: String,
    /// Differences between the conditions of the two runs.
    pub mismatches: Vec<String>,
    /// Functions that changed, the largest change first.
    pub functions: Vec<FunctionResult>,
    /// Tasks that changed.
    pub tasks: Vec<TaskResult>,
    /// Zones that changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ZoneResult>,
}

/// One function's change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Change")]
pub struct FunctionResult {
    /// Its name, with its file if there are namesakes.
    pub name: String,
    /// Its name alone, which patterns are compared with.
    pub plain_name: String,
    /// Self instructions.
    pub self_insns: Pair,
    /// Instructions from entry to return.
    pub inclusive_insns: Pair,
    /// Number of entries.
    pub calls: Pair,
    /// Its other numbers, by the word of their metric.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: BTreeMap<String, Pair>,
    /// Fate of the function as a whole.
    pub fate: Fate,
}

/// One zone's change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ZoneChange")]
pub struct ZoneResult {
    /// Its name.
    pub name: String,
    /// Its numbers, by the word of their metric.
    #[serde(flatten)]
    pub numbers: BTreeMap<String, Pair>,
}

/// One task's change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TaskChange")]
pub struct TaskResult {
    /// Its name.
    pub name: String,
    /// Instructions while it was running.
    pub insns: Pair,
    /// Bytes of stack.
    pub stack_bytes: Pair,
    /// Its other numbers, by the word of their metric.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: BTreeMap<String, Pair>,
}

/// Compared numbers without a field of their own in the JSON format: the metrics added since.
fn others(subject: Subject, pairs: &Pairs, fields: &[Metric]) -> BTreeMap<String, Pair> {
    let others = Metric::compared(subject).filter(|metric| !fields.contains(metric));
    let known = others.filter(|&metric| pairs[metric] != Pair::default());
    known.map(|metric| (metric.word().to_owned(), pairs[metric])).collect()
}

impl ComparisonResult {
    /// Result for a comparison; `mismatches` are the differences between the conditions of the two runs.
    pub fn new(comparison: Comparison, mismatches: Vec<String>) -> ComparisonResult {
        ComparisonResult {
            total_insns: comparison.total_insns(),
            others: others(Subject::Run, &comparison.run, &[Metric::Total]),
            explanation: comparison.explain(),
            mismatches,
            functions: comparison.functions.into_iter().filter(Change::is_one).map(FunctionResult::from).collect(),
            tasks: comparison.tasks.into_iter().filter(NamedChange::is_one).map(TaskResult::from).collect(),
            zones: comparison.zones.into_iter().filter(NamedChange::is_one).map(ZoneResult::from).collect(),
        }
    }
}

impl From<Change> for FunctionResult {
    fn from(Change { name, plain_name, numbers, fate }: Change) -> FunctionResult {
        FunctionResult {
            name,
            plain_name,
            self_insns: numbers[Metric::SelfInsns],
            inclusive_insns: numbers[Metric::Inclusive],
            calls: numbers[Metric::Calls],
            others: others(Subject::Function, &numbers, &[Metric::SelfInsns, Metric::Inclusive, Metric::Calls]),
            fate,
        }
    }
}

impl From<NamedChange> for ZoneResult {
    fn from(NamedChange { name, numbers }: NamedChange) -> ZoneResult {
        ZoneResult { name, numbers: others(Subject::Zone, &numbers, &[]) }
    }
}

impl From<NamedChange> for TaskResult {
    fn from(NamedChange { name, numbers }: NamedChange) -> TaskResult {
        TaskResult {
            name,
            insns: numbers[Metric::TaskInsns],
            stack_bytes: numbers[Metric::Stack],
            others: others(Subject::Task, &numbers, &[Metric::TaskInsns, Metric::Stack]),
        }
    }
}
