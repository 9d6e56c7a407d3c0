// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparison of two runs: the functions that account for the change, adding up to the whole.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::metrics::{ByMetric, Key, Metric, Metrics, Numbers, Role, Subject, ambiguous};
use crate::text::number::signed_percent;
use crate::text::printable::printable;
use crate::text::tone::Tone;

/// Changes from one run to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Numbers of the runs as a whole.
    pub run: Pairs,
    /// All functions of both sides, the largest change of self instructions first.
    pub functions: Vec<Change>,
    /// All tasks of both sides, by name.
    pub tasks: Vec<NamedChange>,
    /// All zones of both sides, by name.
    pub zones: Vec<NamedChange>,
}

/// A number before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// Number before; None: there was none.
    pub before: Option<u64>,
    /// Number after; None: there is none.
    pub after: Option<u64>,
}

/// Numbers before and after.
pub type Pairs = ByMetric<Pair>;

/// One function's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its name, with its file if there are namesakes.
    pub name: String,
    /// Its name alone, which patterns are compared with.
    pub plain_name: String,
    /// Its numbers.
    pub numbers: Pairs,
    /// Fate of the function as a whole.
    pub fate: Fate,
}

/// Fate of a function, task or zone between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Fate {
    /// It is in both runs.
    Stays,
    /// It did not run before.
    New,
    /// It does not run any more.
    Vanished,
    /// It was a function of its own and is inlined now, wholly or in part.
    NowInlined,
    /// It was inlined and is not any more.
    NoLongerInlined,
}

impl Fate {
    /// The fate in words; empty if it stays.
    pub fn describe(self) -> &'static str {
        match self {
            Fate::Stays => "",
            Fate::New => "new",
            Fate::Vanished => "vanished",
            Fate::NowInlined => "now inlined",
            Fate::NoLongerInlined => "no longer inlined",
        }
    }
}

/// One task's or zone's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedChange {
    /// Its name.
    pub name: String,
    /// Its numbers.
    pub numbers: Pairs,
}

impl Pairs {
    fn of(before: Option<&Numbers>, after: Option<&Numbers>) -> Pairs {
        let mut pairs = Pairs::default();
        for &metric in Metric::ALL {
            let number = |numbers: Option<&Numbers>| numbers.and_then(|numbers| numbers[metric]);
            pairs[metric] = Pair { before: number(before), after: number(after) };
        }
        pairs
    }
}

impl Pair {
    /// Adds another pair, each side by itself; a missing number adds nothing.
    pub fn add(&mut self, other: Pair) {
        let sum = |one: Option<u64>, other: Option<u64>| other.map_or(one, |number| Some(one.unwrap_or(0) + number));
        (self.before, self.after) = (sum(self.before, other.before), sum(self.after, other.after));
    }

    /// After minus before, where a missing number is 0.
    pub fn difference(self) -> i128 {
        i128::from(self.after.unwrap_or(0)) - i128::from(self.before.unwrap_or(0))
    }

    /// Heat of the change, up or down, relative to a whole. An unchanged number is plain.
    pub fn tone(self, whole: u64) -> Tone {
        match u64::try_from(self.difference().unsigned_abs()).unwrap_or(u64::MAX) {
            0 => Tone::Plain,
            change => Tone::of(change, whole),
        }
    }
}

/// Compares two runs. The result does not depend on the order in which functions were found. Without an earlier run,
/// all functions, tasks and zones are new.
pub fn compare(before: Option<&Metrics>, after: &Metrics) -> Comparison {
    let nothing = Metrics::default();
    let run = Pairs::of(before.map(|before| &before.run), Some(&after.run));
    let before = before.unwrap_or(&nothing);
    let pairs = pairs(before, after);
    let namesakes = ambiguous(before.functions.keys()).union(&ambiguous(after.functions.keys())).copied().collect();
    let mut functions: Vec<Change> =
        pairs.into_iter().map(|(old, new)| change(before, after, old, new, &namesakes)).collect();
    functions.sort_by(|one, other| {
        let key = |change: &Change| (Reverse(change.self_insns().difference().unsigned_abs()), change.name.clone());
        key(one).cmp(&key(other))
    });
    let tasks = by_name(&before.tasks, &after.tasks);
    let zones = by_name(&before.zones, &after.zones);
    Comparison { run, functions, tasks, zones }
}

fn by_name(before: &BTreeMap<String, Numbers>, after: &BTreeMap<String, Numbers>) -> Vec<NamedChange> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let change =
        |name: &String| NamedChange { name: name.clone(), numbers: Pairs::of(before.get(name), after.get(name)) };
    names.into_iter().map(change).collect()
}

/// Pairs the functions of both sides: by name and file, or else by a name that is left once on each side (its file
/// was renamed).
fn pairs<'a>(before: &'a Metrics, after: &'a Metrics) -> Vec<(Option<&'a Key>, Option<&'a Key>)> {
    let mut pairs: Vec<_> = after
        .functions
        .keys()
        .filter(|key| before.functions.contains_key(key))
        .map(|key| (Some(key), Some(key)))
        .collect();
    let left = |these: &'a Metrics, those: &'a Metrics| {
        let mut by_name: BTreeMap<&str, Vec<&Key>> = BTreeMap::new();
        for key in these.functions.keys().filter(|key| !those.functions.contains_key(key)) {
            by_name.entry(&key.name).or_default().push(key);
        }
        by_name
    };
    let (old, mut new) = (left(before, after), left(after, before));
    for (name, keys) in old {
        match (&keys[..], new.get(name).map(Vec::as_slice)) {
            (&[one], Some(&[other])) => {
                pairs.push((Some(one), Some(other)));
                new.remove(name);
            }
            _ => pairs.extend(keys.into_iter().map(|key| (Some(key), None))),
        }
    }
    pairs.extend(new.into_values().flatten().map(|key| (None, Some(key))));
    pairs
}

fn change(
    before: &Metrics,
    after: &Metrics,
    old: Option<&Key>,
    new: Option<&Key>,
    namesakes: &BTreeSet<&str>,
) -> Change {
    // A pair has at least one key.
    let key = new.or(old).cloned().unwrap_or(Key { name: String::new(), file: String::new() });
    let (old, new) = (old.and_then(|key| before.functions.get(key)), new.and_then(|key| after.functions.get(key)));
    let inlined = |numbers: &Numbers| numbers[Metric::Inlined].unwrap_or(0);
    let fate = match (old, new) {
        (None, _) => Fate::New,
        (_, None) => Fate::Vanished,
        (Some(old), Some(new)) if inlined(old) == 0 && inlined(new) > 0 => Fate::NowInlined,
        (Some(old), Some(new)) if inlined(old) > 0 && inlined(new) == 0 => Fate::NoLongerInlined,
        _ => Fate::Stays,
    };
    let name = if namesakes.contains(key.name.as_str()) && !key.file.is_empty() {
        format!("{} ({})", key.name, key.file)
    } else {
        key.name.clone()
    };
    Change { name, plain_name: key.name, numbers: Pairs::of(old, new), fate }
}

/// Maximum number of functions that an explanation names.
const NAMED: usize = 5;

impl Change {
    /// Whether any number or the fate differs.
    pub fn is_one(&self) -> bool {
        self.fate != Fate::Stays
            || Metric::compared(Subject::Function).any(|metric| self.numbers[metric].difference() != 0)
    }

    /// Instructions of its own source.
    pub fn self_insns(&self) -> Pair {
        self.numbers[Metric::SelfInsns]
    }

    /// Instructions of its code with inlined functions, if known and different from its own on either side.
    pub fn code_insns(&self) -> Option<Pair> {
        let (code, own) = (self.numbers[Metric::Code], self.self_insns());
        let is_other = |code: Option<u64>, own: Option<u64>| code.is_some() && code != own;
        (is_other(code.before, own.before) || is_other(code.after, own.after)).then_some(code)
    }
}

impl NamedChange {
    /// Fate of the task or zone: it exists on a side if any of its numbers is known there.
    pub fn fate(&self) -> Fate {
        let is_known =
            |side: fn(&Pair) -> Option<u64>| Metric::ALL.iter().any(|&metric| side(&self.numbers[metric]).is_some());
        match (is_known(|pair| pair.before), is_known(|pair| pair.after)) {
            (false, true) => Fate::New,
            (true, false) => Fate::Vanished,
            _ => Fate::Stays,
        }
    }

    /// Whether any number differs.
    pub fn is_one(&self) -> bool {
        let is_compared = |metric: &&Metric| metric.descriptor().role == Role::Compared;
        let is_other = |metric: &Metric| self.numbers[*metric].before != self.numbers[*metric].after;
        Metric::ALL.iter().filter(is_compared).any(is_other)
    }
}

impl Comparison {
    /// Instructions of the whole run.
    pub fn total_insns(&self) -> Pair {
        self.run[Metric::Total]
    }

    /// Explains the change of the run's instructions by the functions whose own lines changed, the largest change
    /// first. The parts are in percent of the run before, and add up to the whole change.
    pub fn explain(&self) -> String {
        let whole = self.total_insns().before.unwrap_or(0);
        if self.total_insns().difference() == 0
            && self.functions.iter().all(|change| change.self_insns().difference() == 0)
        {
            return "total unchanged".to_owned();
        }
        let changed: Vec<&Change> =
            self.functions.iter().filter(|change| change.self_insns().difference() != 0).collect();
        let named = changed.iter().take(NAMED).map(|change| {
            let fate = match change.fate {
                Fate::Stays => String::new(),
                fate => format!(" ({})", fate.describe()),
            };
            format!("{} {}{fate}", printable(&change.name), signed_percent(change.self_insns().difference(), whole))
        });
        let mut parts: Vec<String> = named.collect();
        if changed.len() > NAMED {
            let rest: i128 = changed[NAMED..].iter().map(|change| change.self_insns().difference()).sum();
            parts.push(format!("{} others {}", changed.len() - NAMED, signed_percent(rest, whole)));
        }
        format!(
            "total {}, by own lines: {}",
            signed_percent(self.total_insns().difference(), whole),
            parts.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(functions: &[(&str, &str, u64, u64)]) -> Metrics {
        let functions = functions.iter().map(|&(name, file, self_insns, inlined_insns)| {
            let key = Key { name: name.to_owned(), file: file.to_owned() };
            let mut numbers = Numbers::default();
            numbers[Metric::SelfInsns] = Some(self_insns);
            numbers[Metric::Inlined] = Some(inlined_insns);
            numbers[Metric::Calls] = Some(1);
            (key, numbers)
        });
        let mut metrics = Metrics { functions: functions.collect(), ..Metrics::default() };
        metrics.run[Metric::Total] = metrics.functions.values().map(|numbers| numbers[Metric::SelfInsns]).sum();
        metrics
    }

    #[test]
    fn the_explanation_adds_up_to_the_whole() {
        let before = metrics(&[("crc", "a.c", 500, 0), ("sort", "a.c", 400, 0), ("main", "a.c", 100, 0)]);
        let after = metrics(&[("crc", "a.c", 519, 0), ("sort", "a.c", 399, 0), ("main", "a.c", 100, 0)]);
        let comparison = compare(Some(&before), &after);
        assert_eq!(comparison.explain(), "total +1.80 %, by own lines: crc +1.90 %, sort \u{2212}0.10 %");
        let sum: i128 = comparison.functions.iter().map(|change| change.self_insns().difference()).sum();
        assert_eq!(sum, comparison.total_insns().difference());
        assert_eq!(compare(Some(&before), &before).explain(), "total unchanged");
    }

    #[test]
    fn namesakes_renamed_files_and_inlining_are_matched() {
        let before =
            metrics(&[("init", "a.c", 5, 0), ("init", "b.c", 7, 0), ("old", "x.c", 3, 0), ("f", "f.c", 9, 0)]);
        let after = metrics(&[("init", "a.c", 5, 0), ("init", "c.c", 8, 0), ("f", "f.c", 9, 9), ("g", "f.c", 2, 0)]);
        let fates: BTreeMap<String, (Fate, i128)> = compare(Some(&before), &after)
            .functions
            .into_iter()
            .map(|change| (change.name.clone(), (change.fate, change.self_insns().difference())))
            .collect();
        assert_eq!(
            fates,
            BTreeMap::from([
                ("init (a.c)".to_owned(), (Fate::Stays, 0)),
                ("init (c.c)".to_owned(), (Fate::Stays, 1)),
                ("old".to_owned(), (Fate::Vanished, -3)),
                ("f".to_owned(), (Fate::NowInlined, 0)),
                ("g".to_owned(), (Fate::New, 2)),
            ])
        );
    }

    #[test]
    fn a_change_of_one_instruction_is_not_rounded_away() {
        assert_eq!(signed_percent(1, 2_000_000_000), "+0.000000050 %");
        assert_eq!(signed_percent(-1, 1000), "\u{2212}0.10 %");
        assert_eq!(signed_percent(0, 1000), "\u{b1}0");
        assert_eq!(signed_percent(5, 0), "+5");
    }

    #[test]
    fn the_fate_of_a_function_is_told_by_both_sides() {
        let one = |own: u64, inlined: u64| metrics(&[("f", "f.c", own, inlined)]);
        let fate = |before: &Metrics, after: &Metrics| {
            compare(Some(before), after).functions.into_iter().find(|change| change.plain_name == "f").unwrap().fate
        };
        for (before, after, expected) in [
            (one(9, 0), one(9, 9), Fate::NowInlined),
            (one(9, 9), one(9, 0), Fate::NoLongerInlined),
            (one(9, 9), one(8, 8), Fate::Stays),
            (one(9, 0), one(8, 0), Fate::Stays),
            (metrics(&[]), one(9, 9), Fate::New),
            (one(9, 9), metrics(&[]), Fate::Vanished),
        ] {
            assert_eq!(fate(&before, &after), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn code_with_inlined_functions_is_shown_where_either_side_differs_from_its_own() {
        let pair = |before: u64, after: u64| Pair { before: Some(before), after: Some(after) };
        let code = |own: Pair, code: Pair| {
            let mut numbers = Pairs::default();
            (numbers[Metric::SelfInsns], numbers[Metric::Code]) = (own, code);
            let name = "f".to_owned();
            Change { plain_name: name.clone(), name, numbers, fate: Fate::Stays }.code_insns()
        };
        assert_eq!(code(pair(5, 6), pair(5, 6)), None);
        assert_eq!(code(pair(5, 6), pair(7, 6)), Some(pair(7, 6)));
        assert_eq!(code(pair(5, 6), pair(5, 8)), Some(pair(5, 8)));
        assert_eq!(code(pair(5, 6), Pair::default()), None, "unknown");
    }

    #[test]
    fn a_named_subject_is_new_vanished_or_changed_by_its_known_numbers() {
        let change = |before, after| {
            let mut numbers = Pairs::default();
            numbers[Metric::Total] = Pair { before, after };
            NamedChange { name: "net".to_owned(), numbers }
        };
        for (before, after, fate, is_one) in [
            (None, Some(0), Fate::New, true),
            (Some(0), None, Fate::Vanished, true),
            (Some(4), Some(4), Fate::Stays, false),
            (Some(4), Some(5), Fate::Stays, true),
            (None, None, Fate::Stays, false),
        ] {
            let change = change(before, after);
            assert_eq!((change.fate(), change.is_one()), (fate, is_one), "{before:?} {after:?}");
        }
    }
}
