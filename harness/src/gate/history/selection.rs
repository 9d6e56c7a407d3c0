// SPDX-License-Identifier: MIT OR Apache-2.0
//! Choice of the numbers of a history that are shown.

use std::cmp::Reverse;

use globset::{Glob, GlobMatcher};

use crate::analysis::metrics::{Metric, Subject};
use crate::error::InputError;
use crate::gate::filter::Filter;
use crate::gate::history::{History, Image, Series, Step};
use crate::text::near::nearest;

/// Choice of numbers.
#[derive(Debug, Default)]
pub struct Selection {
    /// Images; empty: all.
    pub images: Vec<Filter>,
    /// Numbers; empty: all of the run, tasks and zones, and functions that have a limit or changed most.
    pub numbers: Vec<Wanted>,
    /// Most functions of each image, unless numbers are named; None: all.
    pub top_functions: Option<usize>,
    /// Least step that counts as one, in millionths of the number before.
    pub least_step_millionths: u64,
}

/// Numbers as typed: `total`, `self`, `self("crc*")`.
#[derive(Clone, Debug)]
pub struct Wanted {
    metric: Metric,
    subject: Option<GlobMatcher>,
}

impl Wanted {
    /// Reads the word of a metric, or a metric with a pattern.
    ///
    /// # Errors
    /// If there is no such metric, or the pattern is not a glob.
    pub fn parse(text: &str) -> Result<Wanted, InputError> {
        let (word, pattern) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            Some((word, pattern)) => (word, Some(pattern.trim().trim_matches('"'))),
            None => (text, None),
        };
        let word = word.trim();
        let Some(metric) = super::metric(word) else {
            let near = nearest(word, Metric::ALL.iter().map(|metric| metric.word()));
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            let why =
                format!("{word:?} is not a metric{near} docs/suites.md lists them: total, self(\"crc*\"), stack");
            return Err(InputError::new(format!("--metric {text}: {why}")));
        };
        if pattern.is_some() && metric.subject() == Subject::Run {
            return Err(InputError::new(format!("--metric {text}: {word} is of the run; write --metric {word}")));
        }
        let subject = pattern.map(|pattern| Glob::new(pattern).map(|glob| glob.compile_matcher())).transpose();
        let subject =
            subject.map_err(|error| InputError::new(format!("--metric {text}: its pattern: {}", error.kind())))?;
        Ok(Wanted { metric, subject })
    }

    fn is_met_by(&self, series: &Series) -> bool {
        let is_subject =
            |matcher: &GlobMatcher| matcher.is_match(&series.subject) || matcher.glob().glob() == series.subject;
        series.metric == self.metric.word() && self.subject.as_ref().is_none_or(is_subject)
    }
}

impl Selection {
    /// Chosen images.
    ///
    /// # Errors
    /// When there is none.
    pub fn images<'a>(&self, history: &'a History) -> Result<Vec<&'a Image>, InputError> {
        let is_meant = |image: &&Image| self.images.iter().any(|filter| filter.matches(&image.name, &image.tags));
        let all = history.images.iter();
        let images: Vec<&Image> = all.filter(|image| self.images.is_empty() || is_meant(image)).collect();
        if images.is_empty() {
            let names: Vec<&str> = history.images.iter().take(8).map(|image| image.name.as_str()).collect();
            let why = if names.is_empty() { "the reports have no image".to_owned() } else { names.join(", ") };
            return Err(InputError::new(format!("no image to show matches; the reports have: {why}")));
        }
        Ok(images)
    }

    /// Steps of a number that count.
    pub fn steps<'a>(&self, series: &'a Series) -> impl DoubleEndedIterator<Item = &'a Step> {
        let least = self.least_step_millionths;
        series.steps.iter().filter(move |step| step.is_at_least(least))
    }

    /// Chosen numbers of an image, and the number of functions' numbers that changed and are not among them.
    pub fn series<'a>(&self, image: &'a Image) -> (Vec<&'a Series>, usize) {
        let all = image.series.iter();
        if !self.numbers.is_empty() {
            return (all.filter(|series| self.numbers.iter().any(|wanted| wanted.is_met_by(series))).collect(), 0);
        }
        let is_of_function = |series: &&Series| {
            series.subject_kind().is_none_or(|kind| kind == Subject::Function) && series.limit.is_none()
        };
        let (functions, mut chosen): (Vec<&Series>, Vec<&Series>) = all.partition(is_of_function);
        // Numbers that never changed and have no limit say nothing, except the total.
        chosen.retain(|series| series.subject.is_empty() || series.limit.is_some() || self.has_step(series));
        let mut changed: Vec<&Series> = functions.into_iter().filter(|series| self.has_step(series)).collect();
        // The same number in another unit: calls cannot be held against instructions.
        let largest = |series: &Series| self.steps(series).map(|step| step.difference().unsigned_abs()).max();
        let is_self = |series: &Series| series.metric == Metric::SelfInsns.word();
        changed.sort_by_key(|series| (Reverse(is_self(series)), Reverse(largest(series)), series.name()));
        let shown = self.top_functions.unwrap_or(changed.len()).min(changed.len());
        let left_out = changed.len() - shown;
        chosen.extend(&changed[..shown]);
        (chosen, left_out)
    }

    fn has_step(&self, series: &Series) -> bool {
        self.steps(series).next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_named_as_in_suites() {
        let series = |metric: &str, subject: &str| Series {
            metric: metric.to_owned(),
            subject: subject.to_owned(),
            points: Vec::new(),
            steps: Vec::new(),
            limit: None,
        };
        for (text, metric, subject, is_met) in [
            ("total", "total", "", true),
            ("self", "self", "crc32", true),
            ("self(\"crc*\")", "self", "crc32", true),
            ("self(crc*)", "self", "sort", false),
            ("self(<[u8]>::f)", "self", "<[u8]>::f", true),
            ("calls", "self", "crc32", false),
        ] {
            assert_eq!(Wanted::parse(text).unwrap().is_met_by(&series(metric, subject)), is_met, "{text}");
        }
        for (text, what) in [
            ("totl", "did you mean total?"),
            ("total(\"x\")", "is of the run"),
            ("self([)", "its pattern"),
            ("", "not a metric"),
        ] {
            let error = Wanted::parse(text).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
