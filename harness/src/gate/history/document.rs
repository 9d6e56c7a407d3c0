// SPDX-License-Identifier: MIT OR Apache-2.0
//! The history as JSON (`harness history --json`), which is also the data of the page.

use std::io::Write;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::metrics::Subject;
use crate::export::json::document;
use crate::gate::history::selection::Selection;
use crate::gate::history::{History, Image, Order, Series, Step};

/// Version of the format; it grows when a field is removed or changes its meaning.
pub const VERSION: u32 = 1;

/// Numbers of suites over commits.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "History")]
pub struct Document<'a> {
    /// Always "harness-history".
    format: &'static str,
    /// Version of the format.
    version: u32,
    /// Order of the commits: `time`, by the times that all of them have, or `given`, as the reports were given.
    order: &'static str,
    /// Commits, the oldest first. Other fields name them by their index.
    commits: Vec<CommitDocument<'a>>,
    /// Chosen images, by suite and name.
    images: Vec<ImageDocument<'a>>,
    /// Remarks on the reports, a sentence each.
    notes: Vec<&'a str>,
}

/// A commit, or a report without one.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Commit")]
struct CommitDocument<'a> {
    /// Short name.
    name: &'a str,
    /// The commit; null: its report does not say.
    commit: Option<&'a str>,
    /// Time of the commit in seconds since 1970.
    time_seconds: Option<i64>,
    /// Paths of its reports, as they were given.
    reports: Vec<&'a str>,
}

/// An image.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Image")]
struct ImageDocument<'a> {
    /// Name of the suite.
    suite: &'a str,
    /// Name of the image.
    name: &'a str,
    /// Runs of the image.
    runs: Vec<RunDocument<'a>>,
    /// Numbers of the image.
    series: Vec<SeriesDocument<'a>>,
    /// Numbers that the page leaves out; with `--json` 0.
    left_out: usize,
}

/// A run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Run")]
struct RunDocument<'a> {
    /// Index of the commit.
    at: usize,
    /// Whether it ended as expected; only such runs are compared.
    ended_well: bool,
    /// Version of harness.
    harness: &'a str,
    /// SHA-256 of the image; null: it could not be run.
    image_sha256: Option<&'a str>,
    /// Version of QEMU.
    qemu: Option<&'a str>,
    /// Machine of QEMU.
    machine: Option<&'a str>,
}

/// A number over commits.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Series")]
struct SeriesDocument<'a> {
    /// Word of the metric, as in suites.
    metric: &'a str,
    /// The function, task or zone; empty: the run.
    subject: &'a str,
    /// Kind of the subject: `run`, `task`, `zone` or `function`; null: a metric that this harness does not know.
    of: Option<&'static str>,
    /// Values, each with its index of the commit before it.
    points: Vec<(usize, u64)>,
    /// Most, or least, that was allowed, each with its index of the commit before it.
    bounds: Vec<(usize, u64)>,
    /// Limit in the last report.
    limit: Option<LimitDocument<'a>>,
    /// Steps, the oldest first.
    steps: Vec<StepDocument<'a>>,
}

/// A limit.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "HistoryLimit")]
struct LimitDocument<'a> {
    /// The limit as people write it.
    text: &'a str,
    /// The limit as a number.
    bound: u64,
    /// Whether the bound is the least that was allowed.
    is_floor: bool,
    /// Whether the limit was crossed.
    crossed: bool,
}

/// A change of a number.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Step")]
struct StepDocument<'a> {
    /// Index of the first commit with the new number.
    at: usize,
    /// Index of the last commit with the old number. Commits between the two have no number.
    since: usize,
    /// The old number.
    before: u64,
    /// The new number.
    after: u64,
    /// Functions that account for it, and conditions that changed, too.
    causes: Vec<&'a str>,
}

impl<'a> Document<'a> {
    /// Document of the chosen images; `series` gives the numbers to show of an image, and how many are left out.
    pub fn new(
        history: &'a History,
        selection: &Selection,
        images: &[&'a Image],
        series: impl Fn(&'a Image) -> (Vec<&'a Series>, usize),
    ) -> Document<'a> {
        let commits = history.commits.iter().map(|commit| CommitDocument {
            name: commit.name(),
            commit: commit.commit.as_deref(),
            time_seconds: commit.time_seconds,
            reports: commit.places.iter().map(String::as_str).collect(),
        });
        let image = |image: &&'a Image| {
            let (series, left_out) = series(image);
            let series = series.into_iter().map(|series| of_series(series, selection)).collect();
            ImageDocument { suite: &image.suite, name: &image.name, runs: runs(image), series, left_out }
        };
        Document {
            format: "harness-history",
            version: VERSION,
            order: history.order.word(),
            commits: commits.collect(),
            images: images.iter().map(image).collect(),
            notes: history.notes.iter().map(String::as_str).collect(),
        }
    }

    /// Writes the document for programs.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write(&self, out: &mut dyn Write) -> Result<()> {
        document::write(self, out)
    }
}

/// JSON Schema of the document.
///
/// # Errors
/// No known errors.
pub fn schema() -> Result<String> {
    document::schema::<Document<'_>>()
}

impl Order {
    /// Word of the order in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Order::Time => "time",
            Order::Given => "given",
        }
    }

    /// Description of the order.
    pub fn describe(self) -> &'static str {
        match self {
            Order::Time => "in the order of the commits' times",
            Order::Given => "in the order given, since not every report has the time of its commit",
        }
    }
}

fn runs(image: &Image) -> Vec<RunDocument<'_>> {
    image
        .runs
        .iter()
        .map(|run| {
            let conditions = run.conditions.as_ref();
            RunDocument {
                at: run.commit,
                ended_well: run.ended_well,
                harness: &run.harness_version,
                image_sha256: conditions.map(|conditions| conditions.image_sha256.as_str()),
                qemu: conditions.map(|conditions| conditions.qemu.as_str()),
                machine: conditions.map(|conditions| conditions.machine.as_str()),
            }
        })
        .collect()
}

fn of_series<'a>(series: &'a Series, selection: &Selection) -> SeriesDocument<'a> {
    let step = |step: &'a Step| StepDocument {
        at: step.commit,
        since: step.since,
        before: step.before,
        after: step.after,
        causes: step.causes.iter().map(String::as_str).collect(),
    };
    SeriesDocument {
        metric: &series.metric,
        subject: &series.subject,
        of: series.subject_kind().map(|kind| match kind {
            Subject::Run => "run",
            Subject::Task => "task",
            Subject::Zone => "zone",
            Subject::Function => "function",
        }),
        points: series.points.iter().map(|point| (point.commit, point.value)).collect(),
        bounds: series.points.iter().filter_map(|point| Some((point.commit, point.bound?))).collect(),
        limit: series.limit.as_ref().map(|limit| LimitDocument {
            text: &limit.text,
            bound: limit.bound,
            is_floor: limit.is_floor,
            crossed: limit.crossed,
        }),
        steps: selection.steps(series).map(step).collect(),
    }
}
