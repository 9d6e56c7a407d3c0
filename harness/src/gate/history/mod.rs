// SPDX-License-Identifier: MIT OR Apache-2.0
//! The history of a suite's numbers over commits, from the reports that a pipeline keeps.
//!
//! Every number is exact: the same image gives the same number. So there is no noise, and any difference between two commits
//! that follow each other is a step. No metric of a report is sampled or taken from a clock; one that is would need a rule
//! of its own here. Only runs that ended as expected are compared: the others stopped at some place of their work.

mod causes;
pub mod document;
pub mod markdown;
pub mod page;
pub mod read;
pub mod selection;
mod steps;
pub mod table;

use std::collections::BTreeMap;

use crate::analysis::metrics::{Metric, Subject};
use crate::gate::history::read::{Case, Conditions, Record};
use crate::text::number::plural;

/// The numbers of one or several suites over commits.
#[derive(Debug)]
pub struct History {
    /// Order of the commits.
    pub order: Order,
    /// Commits, the oldest first.
    pub commits: Vec<Commit>,
    /// Images, by suite and name.
    pub images: Vec<Image>,
    /// Remarks on the reports, a sentence each.
    pub notes: Vec<String>,
}

/// Order of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By the commits' times, which all reports have.
    Time,
    /// Order in which the reports were given.
    Given,
}

/// One commit, or one report without a commit.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The commit; None: its report does not say.
    pub commit: Option<String>,
    /// Time of the commit in seconds since 1970.
    pub time_seconds: Option<i64>,
    /// Paths of its reports.
    pub places: Vec<String>,
}

/// One image of a suite.
#[derive(Debug)]
pub struct Image {
    /// The suite's name.
    pub suite: String,
    /// The image's name.
    pub name: String,
    /// Its tags in the last report.
    pub tags: Vec<String>,
    /// Its runs, by commit.
    pub runs: Vec<Run>,
    /// Its numbers: of the run, then of tasks, zones and functions.
    pub series: Vec<Series>,
}

/// One run of an image.
#[derive(Debug)]
pub struct Run {
    /// Index of the commit.
    pub commit: usize,
    /// Version of harness.
    pub harness_version: String,
    /// Conditions of the run; None: it could not be run.
    pub conditions: Option<Conditions>,
    /// Whether it ended as expected.
    pub ended_well: bool,
}

/// One number over the commits.
#[derive(Debug)]
pub struct Series {
    /// Word of its metric.
    pub metric: String,
    /// The function, task or zone; empty for the run.
    pub subject: String,
    /// Its values, by commit.
    pub points: Vec<Point>,
    /// Its steps, the oldest first.
    pub steps: Vec<Step>,
    /// The limit in the last report; None: it has none.
    pub limit: Option<Limit>,
}

/// A number at a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Index of the commit.
    pub commit: usize,
    /// The number.
    pub value: u64,
    /// Most, or least, that was allowed.
    pub bound: Option<u64>,
    /// Whether the run ended as expected.
    pub ended_well: bool,
}

/// A change of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the first commit with the new number.
    pub commit: usize,
    /// Index of the last commit with the old number. Commits between the two have no number.
    pub since: usize,
    /// The old number.
    pub before: u64,
    /// The new number.
    pub after: u64,
    /// Functions that account for the change, and conditions that changed, too.
    pub causes: Vec<String>,
}

/// The limit of a number in the last report.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The limit as people write it.
    pub text: String,
    /// The most, or the least, that was allowed.
    pub bound: u64,
    /// Whether the bound is the least that was allowed.
    pub is_floor: bool,
    /// Whether the limit was crossed.
    pub crossed: bool,
}

impl Commit {
    /// Short name: the first 12 digits of a hash, another commit's name, or the report's path.
    pub fn name(&self) -> &str {
        match &self.commit {
            Some(commit) if commit.len() >= 20 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                &commit[..12]
            }
            Some(commit) => commit,
            None => self.places.first().map_or("", String::as_str),
        }
    }
}

impl Series {
    /// The number as a suite names it: `total`, `self("crc32")`.
    pub fn name(&self) -> String {
        if self.subject.is_empty() { self.metric.clone() } else { format!("{}({:?})", self.metric, self.subject) }
    }

    /// Kind of subject; None: this harness does not know the metric.
    pub fn subject_kind(&self) -> Option<Subject> {
        metric(&self.metric).map(Metric::subject)
    }

    /// Values of runs that ended as expected.
    pub fn good(&self) -> impl DoubleEndedIterator<Item = &Point> {
        self.points.iter().filter(|point| point.ended_well)
    }
}

impl Step {
    /// Difference of the new number from the old one.
    pub fn difference(&self) -> i128 {
        i128::from(self.after) - i128::from(self.before)
    }

    /// Whether the step is at least this share of the old number.
    pub fn is_at_least(&self, millionths: u64) -> bool {
        let change = u128::from(self.after.abs_diff(self.before));
        change.saturating_mul(1_000_000) >= u128::from(self.before) * u128::from(millionths)
    }
}

/// The metric of this word.
fn metric(word: &str) -> Option<Metric> {
    Metric::ALL.iter().copied().find(|metric| metric.word() == word)
}

impl History {
    /// History of these reports, which are in the order given.
    pub fn new(records: Vec<Record>) -> History {
        let (order, commits, commit_of) = commits(&records);
        let mut notes = Vec::new();
        let mut runs: BTreeMap<(String, String), BTreeMap<usize, (String, Case)>> = BTreeMap::new();
        for (record, commit) in records.into_iter().zip(commit_of) {
            for case in record.cases {
                let key = (record.suite.clone(), case.name.clone());
                let by_commit = runs.entry(key).or_default();
                let name = case.name.clone();
                let (numbers, insns) = (case.numbers.clone(), case.run.as_ref().map(|run| run.insns));
                let earlier = by_commit.insert(commit, (record.harness_version.clone(), case));
                let differs = earlier.is_some_and(|(_, earlier)| {
                    (earlier.numbers, earlier.run.map(|run| run.insns)) != (numbers, insns)
                });
                if differs {
                    let at = commits[commit].name();
                    notes.push(format!("two reports of {at} differ in {name}: the later one counts"));
                }
            }
        }
        let without: usize = commits.iter().filter(|commit| commit.commit.is_none()).count();
        if without > 0 {
            let how = "`harness test --revision COMMIT` records it, a pipeline's variables do, too";
            notes.push(format!("{} without a commit: {how}", plural(without as u64, "report")));
        }
        let images = runs.into_iter().map(|((suite, name), runs)| Image::new(suite, name, runs)).collect();
        History { order, commits, images, notes }
    }

    /// Whether there are several suites, so that an image's name alone may be ambiguous.
    pub fn has_several_suites(&self) -> bool {
        self.images.windows(2).any(|pair| pair[0].suite != pair[1].suite)
    }
}

/// Commits of the reports in their order, and the index of each report's commit. Reports of one commit belong together.
fn commits(records: &[Record]) -> (Order, Vec<Commit>, Vec<usize>) {
    let mut commits: Vec<Commit> = Vec::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut of = Vec::new();
    for record in records {
        let revision = record.revision.as_ref();
        let index = revision.and_then(|revision| known.get(&*revision.commit)).copied().unwrap_or(commits.len());
        if index == commits.len() {
            let (commit, time_seconds) = (
                revision.map(|revision| revision.commit.clone()),
                revision.and_then(|revision| revision.time_seconds),
            );
            commits.push(Commit { commit, time_seconds, places: Vec::new() });
            known.extend(revision.map(|revision| (&*revision.commit, index)));
        }
        commits[index].time_seconds =
            commits[index].time_seconds.or(revision.and_then(|revision| revision.time_seconds));
        commits[index].places.push(record.place.clone());
        of.push(index);
    }
    if commits.iter().any(|commit| commit.time_seconds.is_none()) {
        return (Order::Given, commits, of);
    }
    // A stable sort: commits of the same second keep the order given.
    let mut order: Vec<usize> = (0..commits.len()).collect();
    order.sort_by_key(|&index| commits[index].time_seconds);
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(new, &old)| place[old] = new);
    let sorted = order.iter().map(|&index| commits[index].clone()).collect();
    (Order::Time, sorted, of.into_iter().map(|index| place[index]).collect())
}

impl Image {
    fn new(suite: String, name: String, by_commit: BTreeMap<usize, (String, Case)>) -> Image {
        let (mut runs, mut tags) = (Vec::new(), Vec::new());
        let mut points: BTreeMap<(usize, String, String), Vec<Point>> = BTreeMap::new();
        let mut limits: BTreeMap<(String, String), (usize, Limit)> = BTreeMap::new();
        // Commits whose run has numbers of the metric, by its word.
        let mut measured: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (commit, (harness_version, case)) in by_commit {
            let ended_well = case.ended_well();
            let Case { run, mut numbers, limits: held, tags: its, .. } = case;
            if numbers.is_empty() {
                // A report of an earlier harness has the total only.
                let total = run.iter().map(|run| (String::new(), run.insns)).collect();
                numbers.insert(Metric::Total.word().to_owned(), total);
            }
            for limit in &held {
                // The sum of a generic's instances is among no function's numbers.
                let numbers = numbers.entry(limit.metric.clone()).or_default();
                numbers.entry(limit.subject.clone()).or_insert(limit.number);
            }
            let mut bounds: BTreeMap<(&str, &str), u64> = BTreeMap::new();
            for limit in &held {
                bounds.insert((&limit.metric, &limit.subject), limit.bound);
                let crossed = limit.crossed;
                let (text, bound, is_floor) = (limit.limit.clone(), limit.bound, limit.is_floor);
                let limit_key = (limit.metric.clone(), limit.subject.clone());
                limits.insert(limit_key, (commit, Limit { text, bound, is_floor, crossed }));
            }
            for (word, by_subject) in &numbers {
                if ended_well && !by_subject.is_empty() {
                    measured.entry(word.clone()).or_default().push(commit);
                }
                for (subject, &value) in by_subject {
                    let bound = bounds.get(&(&**word, &**subject)).copied();
                    let key = (rank(word), word.clone(), subject.clone());
                    points.entry(key).or_default().push(Point { commit, value, bound, ended_well });
                }
            }
            tags = its;
            runs.push(Run { commit, harness_version, conditions: run, ended_well });
        }
        let last = runs.last().map(|run| run.commit);
        let of_last = |found: (usize, Limit)| (Some(found.0) == last).then_some(found.1);
        let series = points.into_iter().map(|((_, word, subject), points)| {
            let limit = limits.remove(&(word.clone(), subject.clone())).and_then(of_last);
            let measured = measured.get(&word).map_or(&[][..], Vec::as_slice);
            let is_counted = metric(&word).is_some_and(|metric| metric.descriptor().where_uncounted == Some(0));
            let points = if is_counted && !subject.is_empty() { steps::filled(points, measured) } else { points };
            let steps = steps::of(&points);
            Series { metric: word, subject, points, steps, limit }
        });
        let mut image = Image { suite, name, tags, series: series.collect(), runs };
        causes::add(&mut image);
        image
    }
}

/// Place of a metric: those of the run first, then of tasks, zones and functions.
fn rank(word: &str) -> usize {
    let Some(metric) = metric(word) else { return usize::MAX };
    let kind = match metric.subject() {
        Subject::Run => 0,
        Subject::Task => 1,
        Subject::Zone => 2,
        Subject::Function => 3,
    };
    kind * Metric::ALL.len() + metric as usize
}
