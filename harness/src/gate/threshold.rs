//! Thresholds: how much worse a number may get, or how large it may be at all, and which ones were crossed.
//!
//! A limit is a share of the baseline's number (`5%`), an amount more than it (`+500`), or a ceiling that
//! needs no baseline (`10k`).

use std::collections::{BTreeMap, BTreeSet};

use globset::{Glob, GlobMatcher};

use crate::analysis::compare::{Comparison, Pair, Pairs};
use crate::analysis::metrics::{Metric, Subject};
use crate::error::InputError;
use crate::gate::limit::Limit;
use crate::text::number::group;

/// The pattern that matches everything.
pub const ALL: &str = "@all";

/// One limit on one number, or on those of all functions, tasks or zones that match.
#[derive(Clone, Debug)]
pub struct Threshold {
    /// The limited number.
    pub metric: Metric,
    /// The functions, tasks or zones that it is for.
    pub pattern: Pattern,
    /// The limit.
    pub limit: Limit,
}

/// The functions, tasks or zones that a limit is for: a glob of names, or [`ALL`].
#[derive(Clone, Debug)]
pub struct Pattern {
    /// As it was written.
    pub text: String,
    matcher: Option<GlobMatcher>,
}

/// One number held against its threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The limited number.
    pub metric: Metric,
    /// The function, task or zone; empty for the run.
    pub subject: String,
    /// The number in the baseline and now.
    pub numbers: Pair,
    /// The limit.
    pub limit: Limit,
    /// Whether the limit is crossed.
    pub crossed: bool,
}

impl Threshold {
    /// A limit on what the pattern matches.
    ///
    /// # Errors
    /// When the pattern is no glob.
    pub fn new(metric: Metric, pattern: &str, limit: Limit) -> Result<Threshold, InputError> {
        Ok(Threshold { metric, pattern: Pattern::new(pattern)?, limit })
    }
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When it is no glob.
    pub fn new(text: &str) -> Result<Pattern, InputError> {
        let matcher = (text != ALL)
            .then(|| Glob::new(text).map(|glob| glob.compile_matcher()))
            .transpose()
            .map_err(|error| InputError::new(format!("pattern {text:?}: {}", error.kind())))?;
        Ok(Pattern { text: text.to_owned(), matcher })
    }

    /// Whether it is for everything that no other is for.
    pub fn is_all(&self) -> bool {
        self.text == ALL
    }

    /// Whether the pattern is a name that may have to be looked for.
    pub fn is_name(&self) -> bool {
        !self.text.starts_with('@') && !self.text.contains(['*', '?', '[', '{'])
    }

    /// Whether a name matches the pattern as it is. The brackets of `<[u8]>::f` and `f::{closure}` are wildcards, too.
    pub fn matches(&self, name: &str) -> bool {
        self.text == name || self.matcher.as_ref().is_none_or(|matcher| matcher.is_match(name))
    }

    /// Whether a function or task is named by it, not only meant with all others.
    pub fn names(&self, plain_name: &str, subject: &str, meant: &Meant) -> bool {
        let is_meant = || meant.get(&self.text).is_some_and(|names| names.contains(plain_name));
        !self.is_all() && (self.matches(plain_name) || self.matches(subject) || is_meant())
    }

    /// Whether it stands for several instances of a generic, which are judged together.
    pub fn is_generic(&self, meant: &Meant) -> bool {
        meant.get(&self.text).is_some_and(|names| names.len() > 1)
    }
}

/// The functions that patterns which are names stand for, where they are not called just so: several are the instances
/// of a generic.
pub type Meant = BTreeMap<String, BTreeSet<String>>;

/// Judges all numbers that have a threshold. Of several that match a name the last one counts, and
/// [`ALL`] only where no other matches; a ceiling and a limit of growth may stand side by side. Instances of a generic
/// that a threshold names are judged together.
pub fn judge(thresholds: &[Threshold], meant: &Meant, comparison: &Comparison) -> Vec<Judgement> {
    let mut judgements = Vec::new();
    let mut sums: BTreeMap<(Metric, &str, bool), (Limit, Pair)> = BTreeMap::new();
    let mut judge_one = |metric: Metric, subject: &str, plain_name: &str, numbers: Pair| {
        for is_ceiling in [false, true] {
            let kind =
                |threshold: &&Threshold| threshold.metric == metric && threshold.limit.is_absolute() == is_ceiling;
            let named = |threshold: &&Threshold| threshold.pattern.names(plain_name, subject, meant);
            let candidates = || thresholds.iter().filter(kind);
            let threshold =
                candidates().rfind(named).or_else(|| candidates().rfind(|threshold| threshold.pattern.is_all()));
            if let Some(Threshold { limit, pattern, .. }) = threshold {
                let limit = *limit;
                if pattern.is_generic(meant) {
                    let (_, sum) =
                        sums.entry((metric, &pattern.text, is_ceiling)).or_insert((limit, Pair::default()));
                    sum.add(numbers);
                    continue;
                }
                let crossed = limit.is_crossed(numbers);
                judgements.push(Judgement { metric, subject: subject.to_owned(), numbers, limit, crossed });
            }
        }
    };
    let mut judge_all = |of: Subject, subject: &str, plain_name: &str, numbers: &Pairs| {
        for metric in Metric::compared(of) {
            judge_one(metric, subject, plain_name, numbers[metric]);
        }
    };
    judge_all(Subject::Run, "", "", &comparison.run);
    for change in &comparison.functions {
        judge_all(Subject::Function, &change.name, &change.plain_name, &change.numbers);
    }
    for task in &comparison.tasks {
        judge_all(Subject::Task, &task.name, &task.name, &task.numbers);
    }
    for zone in &comparison.zones {
        judge_all(Subject::Zone, &zone.name, &zone.name, &zone.numbers);
    }
    judgements.extend(sums.into_iter().map(|((metric, pattern, _), (limit, numbers))| Judgement {
        metric,
        subject: pattern.to_owned(),
        numbers,
        limit,
        crossed: limit.is_crossed(numbers),
    }));
    judgements
}

impl Judgement {
    /// One line: what, how much more than in the baseline, how much is allowed, from what to what.
    pub fn describe(&self) -> String {
        let (what, numbers, allowed) = (self.what(), self.numbers, self.limit.describe());
        let now = group(numbers.after.unwrap_or(0));
        match (self.limit.describe_change(numbers), numbers.before) {
            (Some(change), Some(before)) => {
                format!("{what} {change}, allowed {allowed} ({} \u{2192} {now})", group(before))
            }
            _ => format!("{what} {now}, allowed {allowed}"),
        }
    }

    /// What is limited: `self instructions of crc32`.
    pub fn what(&self) -> String {
        let phrase = self.metric.descriptor().phrase;
        if self.subject.is_empty() { phrase.to_owned() } else { format!("{phrase} {}", self.subject) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::compare::{Change, Fate, NamedChange};
    use crate::gate::limit::{Bound, Worse};

    #[test]
    fn the_most_specific_threshold_counts() {
        let change = |name: &str, before, after| {
            let mut numbers = Pairs::default();
            numbers[Metric::SelfInsns] = Pair { before: Some(before), after: Some(after) };
            Change { name: name.to_owned(), plain_name: name.to_owned(), numbers, fate: Fate::Stays }
        };
        let comparison = Comparison {
            functions: vec![change("crc_byte", 100, 103), change("crc_init", 100, 103), change("sort", 100, 103)],
            ..Comparison::default()
        };
        let threshold = |pattern, limit| {
            Threshold::new(Metric::SelfInsns, pattern, Limit::parse(Worse::More, limit).unwrap()).unwrap()
        };
        let thresholds = [threshold("crc*", "5%"), threshold("crc_byte", "0%"), threshold(ALL, "1%")];
        let judgements = judge(&thresholds, &Meant::new(), &comparison);
        let crossed: Vec<&str> = judgements
            .iter()
            .filter(|judgement| judgement.crossed)
            .map(|judgement| judgement.subject.as_str())
            .collect();
        assert_eq!(crossed, ["crc_byte", "sort"]);
        assert_eq!(judgements[0].describe(), "self instructions of crc_byte +3.00 %, allowed 0 % (100 \u{2192} 103)");
    }

    #[test]
    fn instances_of_a_generic_are_judged_together_and_by_nothing_else() {
        let change = |name: &str, before, after| {
            let mut numbers = Pairs::default();
            numbers[Metric::SelfInsns] = Pair { before, after: Some(after) };
            Change { name: name.to_owned(), plain_name: name.to_owned(), numbers, fate: Fate::Stays }
        };
        let functions =
            vec![change("sort::<u8>", Some(100), 90), change("sort::<u16>", None, 25), change("main", Some(5), 5)];
        let comparison = Comparison { functions, ..Comparison::default() };
        let threshold = |pattern, limit| {
            Threshold::new(Metric::SelfInsns, pattern, Limit::parse(Worse::More, limit).unwrap()).unwrap()
        };
        let meant = Meant::from([("sort".to_owned(), ["sort::<u8>", "sort::<u16>"].map(str::to_owned).into())]);
        let judged = |thresholds: &[Threshold]| -> Vec<String> {
            judge(thresholds, &meant, &comparison).iter().map(Judgement::describe).collect()
        };
        assert_eq!(
            judged(&[threshold("sort", "14%"), threshold(ALL, "0%"), threshold("sort", "100")]),
            [
                "self instructions of main \u{b1}0, allowed 0 % (5 \u{2192} 5)",
                "self instructions of sort +15.00 %, allowed 14 % (100 \u{2192} 115)",
                "self instructions of sort 115, allowed at most 100",
            ]
        );
        let later = [threshold("sort", "14%"), threshold("sort*", "10%")];
        assert_eq!(
            judged(&later)[0],
            "self instructions of sort::<u8> \u{2212}10.00 %, allowed 10 % (100 \u{2192} 90)"
        );
        assert!(threshold("<[u8]>::f::{closure}", "0%").pattern.matches("<[u8]>::f::{closure}"));
        let crossed = judge(&[threshold("sort", "14%"), threshold("sort", "115")], &meant, &comparison);
        assert_eq!(crossed.iter().map(|judgement| judgement.crossed).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn every_compared_metric_is_judged_once_for_each_that_has_it() {
        let mut numbers = Pairs::default();
        for &metric in Metric::ALL {
            numbers[metric] = Pair { before: None, after: Some(1) };
        }
        let name = String::from("f");
        let comparison = Comparison {
            run: numbers,
            functions: vec![Change { name: name.clone(), plain_name: name.clone(), numbers, fate: Fate::New }],
            tasks: vec![NamedChange { name: name.clone(), numbers }],
            zones: vec![NamedChange { name, numbers }],
        };
        let metrics: Vec<Metric> = Subject::ALL.into_iter().flat_map(Metric::compared).collect();
        let ceiling = Limit { worse: Worse::More, bound: Bound::Absolute(0) };
        let thresholds = metrics.iter().map(|&metric| Threshold::new(metric, ALL, ceiling).unwrap());
        let judgements = judge(&thresholds.collect::<Vec<_>>(), &Meant::new(), &comparison);
        assert!(judgements.iter().all(|judgement| judgement.crossed));
        assert_eq!(judgements.iter().map(|judgement| judgement.metric).collect::<Vec<_>>(), metrics);
    }
}
