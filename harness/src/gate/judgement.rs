// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparison of numbers with their thresholds: crossed limits, and limits without a number.
//!
//! A limit without a number would hold for ever, so each limit has a result. A number that only this run has counts
//! from 0. A number that only the baseline has gets a verdict of its own. A limit without either is returned as
//! [`Unheld`].

use std::collections::BTreeMap;

use crate::analysis::compare::{Comparison, Fate, Pair, Pairs};
use crate::analysis::metrics::{Metric, Subject};
use crate::gate::limit::Limit;
use crate::gate::threshold::{Meant, Threshold};
use crate::text::number::group;

/// Comparison of one number with its threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Index of its threshold.
    pub index: usize,
    /// The limited number.
    pub metric: Metric,
    /// The function, task or zone; empty for the run.
    pub subject: String,
    /// The number in the baseline and now.
    pub numbers: Pair,
    /// The limit.
    pub limit: Limit,
    /// Fate of the function, task or zone; judgements distinguish [`Fate::New`], [`Fate::Vanished`] and all others.
    pub fate: Fate,
    /// Whether the limit is crossed.
    pub crossed: bool,
}

/// Results of the thresholds of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// One result for each judged number.
    pub judgements: Vec<Judgement>,
    /// Thresholds without a number.
    pub unheld: Vec<Unheld>,
}

/// A threshold without a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unheld {
    /// Its index among the thresholds.
    pub index: usize,
    /// Reason why it has no number.
    pub why: Why,
}

/// Reason why a threshold has no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Neither this run nor the baseline has its subject.
    Missing,
    /// The subject exists, and this run lacks the number.
    UnknownNow,
    /// The subject exists, and the baseline lacks the number.
    UnknownBefore,
}

/// One function, task or zone, or the run.
struct Party<'a> {
    of: Subject,
    subject: &'a str,
    plain_name: &'a str,
    numbers: &'a Pairs,
    fate: Fate,
}

/// Progress of a threshold's judgement.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Whether a number was compared with the threshold, or with a more specific threshold in its place.
    is_held: bool,
    /// Reason why a number was not compared.
    why: Option<Why>,
}

/// Sum of the instances of a generic that one threshold refers to.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    numbers: Pair,
    /// Whether the baseline and whether this run have an instance.
    is_there: [bool; 2],
}

/// Judges all numbers that have a threshold. The last threshold that matches a name counts, and
/// [`ALL`](crate::gate::threshold::ALL) only if no other one matches. A ceiling and a limit of growth may both apply.
/// Instances of a generic that a threshold names are judged together. Without a baseline (`has_baseline`) only ceilings
/// apply.
pub fn judge(thresholds: &[Threshold], meant: &Meant, comparison: &Comparison, has_baseline: bool) -> Judged {
    let mut judgements = Vec::new();
    let mut sums: BTreeMap<(Metric, &str, bool), (usize, Sum)> = BTreeMap::new();
    let mut seen = vec![Seen::default(); thresholds.len()];
    for party in parties(comparison, has_baseline) {
        for metric in Metric::compared(party.of) {
            for is_ceiling in [false, true].into_iter().filter(|is_ceiling| *is_ceiling || has_baseline) {
                let named = |index: &usize| thresholds[*index].pattern.names(party.plain_name, party.subject, meant);
                let is_for_all = |index: &usize| thresholds[*index].pattern.is_all();
                let of_kind = |index: &usize| {
                    thresholds[*index].metric == metric && thresholds[*index].limit.is_absolute() == is_ceiling
                };
                let matching: Vec<usize> = (0..thresholds.len())
                    .filter(|index| of_kind(index) && (named(index) || is_for_all(index)))
                    .collect();
                let chosen = matching.iter().rfind(|index| named(index)).or_else(|| matching.last());
                let Some(&chosen) = chosen else { continue };
                let threshold = &thresholds[chosen];
                let numbers = party.numbers[metric];
                if threshold.pattern.is_generic(meant) {
                    let (_, sum) =
                        sums.entry((metric, &threshold.pattern.text, is_ceiling)).or_insert((chosen, Sum::default()));
                    sum.numbers.add(numbers);
                    sum.is_there[0] |= party.fate != Fate::New;
                    sum.is_there[1] |= party.fate != Fate::Vanished;
                }
                let held = verdict(threshold, numbers, party.fate);
                for &index in &matching {
                    match held {
                        Ok(_) => seen[index].is_held = true,
                        // This reason comes first: a new baseline would have every number that this run has.
                        Err(Why::UnknownBefore) => seen[index].why = Some(Why::UnknownBefore),
                        Err(why) => drop(seen[index].why.get_or_insert(why)),
                    }
                }
                if let (Ok(Some(crossed)), false) = (held, threshold.pattern.is_generic(meant)) {
                    let (subject, limit, fate) = (party.subject.to_owned(), threshold.limit, party.fate);
                    judgements.push(Judgement { index: chosen, metric, subject, numbers, limit, fate, crossed });
                }
            }
        }
    }
    for ((metric, pattern, _), (index, Sum { numbers, is_there })) in sums {
        let fate = match is_there {
            [false, _] => Fate::New,
            [_, false] => Fate::Vanished,
            _ => Fate::Stays,
        };
        if let Ok(Some(crossed)) = verdict(&thresholds[index], numbers, fate) {
            let (subject, limit) = (pattern.to_owned(), thresholds[index].limit);
            judgements.push(Judgement { index, metric, subject, numbers, limit, fate, crossed });
        }
    }
    let is_judged = |index: &usize| has_baseline || thresholds[*index].limit.is_absolute();
    let unheld = (0..thresholds.len()).filter(|index| is_judged(index) && !seen[*index].is_held);
    let unheld = unheld.map(|index| Unheld { index, why: seen[index].why.unwrap_or(Why::Missing) });
    Judged { judgements, unheld: unheld.collect() }
}

/// All subjects with numbers. Without a baseline, none of them is new.
fn parties(comparison: &Comparison, has_baseline: bool) -> Vec<Party<'_>> {
    let fate = |fate: Fate| if has_baseline { fate } else { Fate::Stays };
    let run = Party { of: Subject::Run, subject: "", plain_name: "", numbers: &comparison.run, fate: Fate::Stays };
    let functions = comparison.functions.iter().map(|change| Party {
        of: Subject::Function,
        subject: &change.name,
        plain_name: &change.plain_name,
        numbers: &change.numbers,
        fate: fate(change.fate),
    });
    let named = |of: Subject| {
        let changes = if of == Subject::Task { &comparison.tasks } else { &comparison.zones };
        changes.iter().map(move |change| Party {
            of,
            subject: &change.name,
            plain_name: &change.name,
            numbers: &change.numbers,
            fate: fate(change.fate()),
        })
    };
    [run].into_iter().chain(functions).chain(named(Subject::Task)).chain(named(Subject::Zone)).collect()
}

/// Whether a number crosses a threshold. None: there is nothing to compare, and that is right.
fn verdict(threshold: &Threshold, numbers: Pair, fate: Fate) -> Result<Option<bool>, Why> {
    let Threshold { limit, pattern, .. } = threshold;
    match fate {
        // A ceiling for all also applies to the function that replaced the vanished one.
        Fate::Vanished if limit.is_absolute() && pattern.is_all() => Ok(None),
        Fate::Vanished if pattern.is_name() => Ok(Some(true)),
        Fate::Vanished => numbers.before.map(|before| Some(before > 0)).ok_or(Why::UnknownBefore),
        _ if numbers.after.is_none() => Err(Why::UnknownNow),
        Fate::New => {
            let before = Some(numbers.before.unwrap_or(0));
            Ok(Some(limit.is_crossed(Pair { before, ..numbers })))
        }
        _ if numbers.before.is_none() && !limit.is_absolute() => Err(Why::UnknownBefore),
        _ => Ok(Some(limit.is_crossed(numbers))),
    }
}

impl Judgement {
    /// Judgement of a subject that exists and did not run: its numbers are 0 in both runs.
    pub fn of_nothing(index: usize, threshold: &Threshold) -> Judgement {
        let (numbers, limit) = (Pair { before: Some(0), after: Some(0) }, threshold.limit);
        let (metric, subject) = (threshold.metric, threshold.pattern.text.clone());
        Judgement { index, metric, subject, numbers, limit, fate: Fate::Stays, crossed: limit.is_crossed(numbers) }
    }

    /// Description in one line: subject, change from the baseline, limit, old and new number.
    pub fn describe(&self) -> String {
        let (what, numbers, allowed) = (self.what(), self.numbers, self.limit.describe());
        let now = group(numbers.after.unwrap_or(0));
        let before = group(numbers.before.unwrap_or(0));
        match (self.fate, self.limit.describe_change(numbers)) {
            (Fate::Vanished, _) => format!("{what}: vanished ({before} \u{2192} 0), allowed {allowed}"),
            (Fate::New, None) if !self.limit.is_absolute() => {
                format!("{what}: new (0 \u{2192} {now}), allowed {allowed}")
            }
            (_, Some(change)) => format!("{what} {change}, allowed {allowed} ({before} \u{2192} {now})"),
            (_, None) => format!("{what} {now}, allowed {allowed}"),
        }
    }

    /// The limited number: `own-line instructions of crc32`.
    pub fn what(&self) -> String {
        let phrase = self.metric.descriptor().phrase;
        if self.subject.is_empty() { phrase.to_owned() } else { format!("{phrase} {}", self.subject) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::compare::{Change, NamedChange};
    use crate::gate::limit::{Bound, Worse};
    use crate::gate::threshold::{ALL, Origin};

    fn change(name: &str, before: Option<u64>, after: Option<u64>) -> Change {
        let mut numbers = Pairs::default();
        numbers[Metric::SelfInsns] = Pair { before, after };
        let fate = match (before, after) {
            (None, _) => Fate::New,
            (_, None) => Fate::Vanished,
            _ => Fate::Stays,
        };
        Change { name: name.to_owned(), plain_name: name.to_owned(), numbers, fate }
    }

    fn threshold(pattern: &str, limit: &str) -> Threshold {
        let limit = Limit::parse(Worse::More, limit).unwrap();
        Threshold::new(Metric::SelfInsns, pattern, limit, Origin::default()).unwrap()
    }

    #[test]
    fn the_most_specific_threshold_counts() {
        let same = |name| change(name, Some(100), Some(103));
        let functions = ["crc_byte", "crc_init", "sort"].map(same).to_vec();
        let comparison = Comparison { functions, ..Comparison::default() };
        let thresholds = [threshold("crc*", "5%"), threshold("crc_byte", "0%"), threshold(ALL, "1%")];
        let Judged { judgements, unheld } = judge(&thresholds, &Meant::new(), &comparison, true);
        let crossed: Vec<&str> = judgements
            .iter()
            .filter(|judgement| judgement.crossed)
            .map(|judgement| judgement.subject.as_str())
            .collect();
        assert_eq!((crossed, unheld.len()), (vec!["crc_byte", "sort"], 0));
        assert_eq!(
            judgements[0].describe(),
            "own-line instructions of crc_byte +3.00 %, allowed 0 % (100 \u{2192} 103)"
        );
        // If all subjects of a pattern have limits of their own, the pattern still does not count as one without a
        // subject.
        let thresholds = [threshold("crc_b*", "5%"), threshold("crc_byte", "9%")];
        assert_eq!(judge(&thresholds, &Meant::new(), &comparison, true).unheld, []);
    }

    #[test]
    fn instances_of_a_generic_are_judged_together_and_by_nothing_else() {
        let functions = vec![
            change("sort::<u8>", Some(100), Some(90)),
            change("sort::<u16>", None, Some(25)),
            change("main", Some(5), Some(5)),
        ];
        let comparison = Comparison { functions, ..Comparison::default() };
        let meant = Meant::from([("sort".to_owned(), ["sort::<u8>", "sort::<u16>"].map(str::to_owned).into())]);
        let judged = |thresholds: &[Threshold]| -> Vec<String> {
            judge(thresholds, &meant, &comparison, true).judgements.iter().map(Judgement::describe).collect()
        };
        assert_eq!(
            judged(&[threshold("sort", "14%"), threshold(ALL, "0%"), threshold("sort", "100")]),
            [
                "own-line instructions of main \u{b1}0, allowed 0 % (5 \u{2192} 5)",
                "own-line instructions of sort +15.00 %, allowed 14 % (100 \u{2192} 115)",
                "own-line instructions of sort 115, allowed at most 100",
            ]
        );
        let later = [threshold("sort", "14%"), threshold("sort*", "10%")];
        assert_eq!(
            judged(&later)[..2],
            [
                "own-line instructions of sort::<u8> \u{2212}10.00 %, allowed 10 % (100 \u{2192} 90)",
                "own-line instructions of sort::<u16>: new (0 \u{2192} 25), allowed 10 %",
            ]
        );
        let crossed = judge(&[threshold("sort", "14%"), threshold("sort", "115")], &meant, &comparison, true);
        let crossed: Vec<bool> = crossed.judgements.iter().map(|judgement| judgement.crossed).collect();
        assert_eq!(crossed, [true, false]);
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
        let thresholds =
            metrics.iter().map(|&metric| Threshold::new(metric, ALL, ceiling, Origin::default()).unwrap());
        let judged = judge(&thresholds.collect::<Vec<_>>(), &Meant::new(), &comparison, true);
        assert!(judged.judgements.iter().all(|judgement| judgement.crossed) && judged.unheld.is_empty());
        assert_eq!(judged.judgements.iter().map(|judgement| judgement.metric).collect::<Vec<_>>(), metrics);
    }

    /// Expected result of one limit: whether it is crossed; None: the limit has nothing to compare. The error is the
    /// reason why the limit has no number.
    type Expected = Result<Option<bool>, Why>;

    /// All combinations: each kind of limit, by name, by pattern and for all; subjects on one side, on both or on none.
    #[test]
    fn no_limit_is_dead_of_any_kind_by_any_name_wherever_what_it_names_is() {
        let metrics = Subject::ALL.into_iter().skip(1).flat_map(Metric::compared);
        let name = "crc_update";
        for metric in metrics {
            for (pattern, is_name, is_all) in [(name, true, false), ("crc_*", false, false), (ALL, false, true)] {
                for (limit, is_ceiling) in [("5%", false), ("+500", false), ("10000", true)] {
                    // Before, after, and expected result.
                    let vanished: Expected = Ok(if is_all && is_ceiling { None } else { Some(true) });
                    let cases: [(&str, Option<u64>, Option<u64>, Expected); 7] = [
                        ("in both, the same", Some(1000), Some(1000), Ok(Some(false))),
                        ("in both, more", Some(1000), Some(20_000), Ok(Some(true))),
                        ("in both, less", Some(1000), Some(10), Ok(Some(false))),
                        ("only in the run, little", None, Some(400), Ok(Some(limit == "5%"))),
                        ("only in the run, much", None, Some(20_000), Ok(Some(true))),
                        ("only in the baseline", Some(1000), None, vanished),
                        ("in neither", None, None, Err(Why::Missing)),
                    ];
                    for (what, before, after, expected) in cases {
                        let mut comparison = Comparison::default();
                        if before.or(after).is_some() {
                            let mut numbers = Pairs::default();
                            numbers[metric] = Pair { before, after };
                            let named = NamedChange { name: name.to_owned(), numbers };
                            match metric.subject() {
                                Subject::Run => unreachable!("of the run there is one number, which has no name"),
                                Subject::Function => {
                                    let fate = change(name, before, after).fate;
                                    let (name, plain_name) = (name.to_owned(), name.to_owned());
                                    comparison.functions.push(Change { name, plain_name, numbers, fate });
                                }
                                Subject::Task => comparison.tasks.push(named),
                                Subject::Zone => comparison.zones.push(named),
                            }
                        }
                        let parsed = Limit::parse(Worse::More, limit).unwrap();
                        let threshold = Threshold::new(metric, pattern, parsed, Origin::default()).unwrap();
                        assert_eq!(threshold.pattern.is_name(), is_name);
                        let Judged { judgements, unheld } = judge(&[threshold], &Meant::new(), &comparison, true);
                        let found = match (&judgements[..], &unheld[..]) {
                            ([judgement], []) => Ok(Some(judgement.crossed)),
                            ([], []) => Ok(None),
                            ([], [unheld]) => Err(unheld.why),
                            other => panic!("{other:?}"),
                        };
                        let told = format!("{} {pattern:?} = {limit}: {what}", metric.word());
                        assert_eq!(found, expected, "{told}");
                        if found == Ok(Some(true)) && before.is_none() != after.is_none() && !is_ceiling {
                            let (sentence, fate) = (judgements[0].describe(), judgements[0].fate.describe());
                            assert!(sentence.contains(fate), "{told}: {sentence}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_number_that_is_not_known_is_no_number_that_holds() {
        let mut comparison = Comparison::default();
        let mut numbers = Pairs::default();
        numbers[Metric::SelfInsns] = Pair { before: Some(1), after: Some(1) };
        numbers[Metric::Calls] = Pair { before: Some(9), after: None };
        numbers[Metric::Inclusive] = Pair { before: None, after: Some(9) };
        let (name, plain_name) = ("f".to_owned(), "f".to_owned());
        comparison.functions.push(Change { name, plain_name, numbers, fate: Fate::NowInlined });
        let why = |metric: Metric, limit: &str, has_baseline: bool| {
            let limit = Limit::parse(Worse::More, limit).unwrap();
            let pattern = if metric.subject() == Subject::Run { ALL } else { "f" };
            let threshold = Threshold::new(metric, pattern, limit, Origin::default()).unwrap();
            judge(&[threshold], &Meant::new(), &comparison, has_baseline).unheld.first().map(|unheld| unheld.why)
        };
        assert_eq!(why(Metric::Calls, "5%", true), Some(Why::UnknownNow));
        assert_eq!(why(Metric::Calls, "5", true), Some(Why::UnknownNow));
        assert_eq!(why(Metric::Inclusive, "5%", true), Some(Why::UnknownBefore));
        assert_eq!(why(Metric::Inclusive, "5", true), None);
        assert_eq!(why(Metric::HeapPeak, "5", true), Some(Why::UnknownNow));
        // Without a baseline only ceilings apply.
        assert_eq!([why(Metric::Calls, "5%", false), why(Metric::HeapPeak, "5%", false)], [None, None]);
        assert_eq!(why(Metric::Calls, "5", false), Some(Why::UnknownNow));
    }

    #[test]
    fn a_verdict_depends_on_fate_limit_and_known_numbers() {
        let pair = |before, after| Pair { before, after };
        let (old, new) = (pair(Some(7), None), pair(None, Some(7)));
        for (pattern, limit, numbers, fate, expected) in [
            // Of a vanished subject, only a ceiling for all says nothing.
            (ALL, "10", old, Fate::Vanished, Ok(None)),
            (ALL, "5%", old, Fate::Vanished, Ok(Some(true))),
            ("crc*", "10", old, Fate::Vanished, Ok(Some(true))),
            ("crc*", "10", pair(Some(0), None), Fate::Vanished, Ok(Some(false))),
            ("crc*", "5%", pair(None, None), Fate::Vanished, Err(Why::UnknownBefore)),
            ("crc", "5%", pair(None, None), Fate::Vanished, Ok(Some(true))),
            // A new subject counts from 0.
            (ALL, "5%", new, Fate::New, Ok(Some(true))),
            (ALL, "5%", pair(None, Some(0)), Fate::New, Ok(Some(false))),
            (ALL, "+6", new, Fate::New, Ok(Some(true))),
            (ALL, "+7", new, Fate::New, Ok(Some(false))),
            (ALL, "5%", pair(None, None), Fate::New, Err(Why::UnknownNow)),
            // A subject on both sides.
            (ALL, "5%", old, Fate::Stays, Err(Why::UnknownNow)),
            (ALL, "5%", new, Fate::Stays, Err(Why::UnknownBefore)),
            (ALL, "7", new, Fate::Stays, Ok(Some(false))),
            (ALL, "6", new, Fate::Stays, Ok(Some(true))),
        ] {
            let held = verdict(&threshold(pattern, limit), numbers, fate);
            assert_eq!(held, expected, "{pattern} {limit} {numbers:?} {fate:?}");
        }
    }

    #[test]
    fn without_a_baseline_nothing_is_new() {
        let functions = vec![change("crc", None, Some(7))];
        let comparison = Comparison { functions, ..Comparison::default() };
        let crossed = |limit: &str, has_baseline| {
            let judged = judge(&[threshold(ALL, limit)], &Meant::new(), &comparison, has_baseline);
            (judged.judgements.iter().filter(|judgement| judgement.crossed).count(), judged.unheld.len())
        };
        assert_eq!((crossed("5%", false), crossed("5%", true)), ((0, 0), (1, 0)));
        assert_eq!((crossed("6", false), crossed("7", false)), ((1, 0), (0, 0)));
    }
}
