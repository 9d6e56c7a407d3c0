// SPDX-License-Identifier: MIT OR Apache-2.0
//! `work`: limits on a loss of work in a window of a fixed length. The window's total is always the same, so slower
//! firmware shows only by the work that it does not get done: calls, and printed lines.
//!
//! A limit is a share of the baseline's number (`2%`), an amount below that number (`-500`), or a floor that needs no
//! baseline (`100`).

use std::collections::BTreeMap;
use std::fmt;

use crate::analysis::compare::{Change, Comparison, Fate, Pair};
use crate::analysis::metrics::Metric;
use crate::error::InputError;
use crate::gate::limit::Limit;
use crate::gate::threshold::{ALL, Meant, Origin, Pattern};
use crate::text::number::group;

/// Word of these limits in suites.
pub const WORD: &str = "work";

/// Pattern for the lines on the console.
pub const CONSOLE: &str = "@console";

/// Number of functions that stand for the work if no function is named: those called most in the baseline.
const MOST_CALLED: usize = 5;

/// One limit on the work of a window.
#[derive(Clone, Debug)]
pub struct Work {
    /// Functions whose calls are the work, or [`CONSOLE`]; [`ALL`]: the functions called most, and the console.
    pub pattern: Pattern,
    /// The limit.
    pub limit: Limit,
    /// Place of the limit in the suite.
    pub origin: Origin,
}

/// Comparison of one number with its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The function; None: the lines on the console.
    pub function: Option<String>,
    /// The number in the baseline and now.
    pub numbers: Pair,
    /// The limit.
    pub limit: Limit,
    /// Fate of the function as a whole.
    pub fate: Fate,
    /// Whether less work was done than the limit allows.
    pub crossed: bool,
}

/// Results of all limits on work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Results for each number.
    pub judgements: Vec<Judgement>,
    /// Limits without a number: the index of each, and the reason in a sentence.
    pub blind: Vec<(usize, String)>,
}

impl Work {
    /// Limit on the work that the pattern refers to.
    ///
    /// # Errors
    /// When the pattern is not a glob.
    pub fn new(pattern: &str, limit: Limit, origin: Origin) -> Result<Work, InputError> {
        if pattern.starts_with('@') && ![ALL, CONSOLE].contains(&pattern) {
            return Err(InputError::new(format!("{pattern:?}: write {ALL:?}, {CONSOLE:?}, or a function's name")));
        }
        if pattern == ALL && limit.is_absolute() {
            let why = "what the least number is of has to be named, such as { frame_done = 100 }";
            return Err(InputError::new(format!("a floor for all is none: {why}")));
        }
        Ok(Work { pattern: Pattern::new(pattern)?, limit, origin })
    }

    /// Whether the limit is a floor, which needs no baseline.
    pub fn is_floor(&self) -> bool {
        self.limit.is_absolute()
    }

    fn is_of_console(&self) -> bool {
        self.pattern.text == CONSOLE
    }
}

/// Displays the suite's key, as in messages: `thresholds.work "frame_done"`.
impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pattern.key(WORD))
    }
}

/// Compares the work of a window with its limits. The last limit that names a function counts; a floor and a limit
/// relative to the baseline may both apply. Instances of a named generic are judged together. `has_baseline`: there is
/// a baseline, so that limits relative to it apply, too.
pub fn judge(limits: &[Work], meant: &Meant, comparison: &Comparison, has_baseline: bool) -> Judged {
    let mut judged = Judged::default();
    // Judgements by the limit's place in the file.
    let mut found: BTreeMap<usize, Vec<Judgement>> = BTreeMap::new();
    for is_floor in [false, true].into_iter().filter(|is_floor| *is_floor || has_baseline) {
        let mut of_kind = limits.iter().enumerate().filter(|(_, limit)| limit.is_floor() == is_floor);
        let named: Vec<(usize, &Work)> =
            of_kind.clone().filter(|(_, limit)| !limit.pattern.is_all() && !limit.is_of_console()).collect();
        let all = of_kind.clone().rfind(|(_, limit)| limit.pattern.is_all());
        let console = of_kind.rfind(|(_, limit)| limit.is_of_console());
        let mut others: Vec<&Change> = Vec::new();
        for change in &comparison.functions {
            let is_named =
                |(_, limit): &&(usize, &Work)| limit.pattern.names(&change.plain_name, &change.name, meant);
            match named.iter().rfind(is_named) {
                Some((index, limit)) => found.entry(*index).or_default().extend(of(change, limit.limit)),
                None => others.push(change),
            }
        }
        if let Some((index, limit)) = all {
            let mut most_called: Vec<Judgement> =
                others.into_iter().filter_map(|change| of(change, limit.limit)).collect();
            most_called.sort_by(|one, other| {
                other.numbers.before.cmp(&one.numbers.before).then_with(|| one.function.cmp(&other.function))
            });
            most_called.retain(|judgement| judgement.numbers.before.is_some_and(|calls| calls > 0));
            most_called.truncate(MOST_CALLED);
            found.insert(index, most_called);
        }
        if let Some((index, limit)) = console.or(all) {
            let numbers = comparison.run[Metric::Lines];
            // Firmware that printed nothing before cannot print less now.
            if limit.is_floor() || numbers.before.is_some_and(|lines| lines > 0) {
                let crossed = limit.limit.is_crossed(numbers);
                let lines = Judgement { function: None, numbers, limit: limit.limit, fate: Fate::Stays, crossed };
                found.entry(index).or_default().push(lines);
            }
        }
    }
    for (index, limit) in limits.iter().enumerate() {
        let mut judgements = found.remove(&index).unwrap_or_default();
        if judgements.is_empty() && (limit.is_floor() || has_baseline) {
            judged.blind.push((index, limit.blind(comparison)));
        }
        if limit.pattern.is_generic(meant) && !judgements.is_empty() {
            let mut numbers = Pair::default();
            judgements.iter().for_each(|judgement| numbers.add(judgement.numbers));
            let (function, limit) = (Some(limit.pattern.text.clone()), limit.limit);
            let crossed = limit.is_crossed(numbers);
            judgements = vec![Judgement { function, numbers, limit, fate: Fate::Stays, crossed }];
        }
        judged.judgements.extend(judgements);
    }
    judged
}

/// Calls of a function as work; None: the number of calls is not known, now or before.
fn of(change: &Change, limit: Limit) -> Option<Judgement> {
    let Pair { before, after } = change.numbers[Metric::Calls];
    let after = match change.fate {
        Fate::Vanished => Some(0),
        // The calls of a function that is inlined now are not counted.
        _ => Some(after?),
    };
    let numbers = Pair { before: if limit.is_absolute() { before } else { Some(before?) }, after };
    let function = Some(change.name.clone());
    Some(Judgement { function, numbers, limit, fate: change.fate, crossed: limit.is_crossed(numbers) })
}

impl Work {
    /// Reason why the limit has no number.
    fn blind(&self, comparison: &Comparison) -> String {
        let pattern = &self.pattern.text;
        if self.is_of_console() {
            return format!("{WORD} of {pattern}: nothing was printed in the baseline's window, or it is older");
        }
        if self.pattern.is_all() {
            return format!("{WORD}: no function was called and nothing was printed in the baseline's window");
        }
        let is_it = |change: &&Change| self.pattern.matches(&change.plain_name) || self.pattern.matches(&change.name);
        match comparison.functions.iter().find(is_it) {
            Some(change) if change.fate == Fate::New => {
                format!("{WORD} of {pattern}: {} is new; --save-baseline keeps how often it is called", change.name)
            }
            Some(change) => format!(
                "{WORD} of {pattern}: the calls of {} are not known, since it is inlined; name one that is called",
                change.name
            ),
            None if self.is_floor() => format!("{WORD} of {pattern}: no such function was called"),
            None => format!("{WORD} of {pattern}: no such function was called in the baseline's window"),
        }
    }
}

impl Judgement {
    /// Judgement of a function that exists and was never called in either run.
    pub fn of_nothing(work: &Work) -> Judgement {
        let numbers = Pair { before: Some(0), after: Some(0) };
        let (function, limit) = (Some(work.pattern.text.clone()), work.limit);
        Judgement { function, numbers, limit, fate: Fate::Stays, crossed: limit.is_crossed(numbers) }
    }

    /// Description in one line: number, loss from the baseline, limit, old and new number.
    pub fn describe(&self) -> String {
        let what = self.what();
        let Pair { before, after } = self.numbers;
        let (now, allowed) = (group(after.unwrap_or(0)), self.limit.describe());
        let (Some(change), Some(before)) = (self.limit.describe_change(self.numbers), before) else {
            return format!("{what} {now}, allowed {allowed}");
        };
        let fate = match self.fate {
            Fate::Stays => String::new(),
            fate => format!(", {}", fate.describe()),
        };
        format!("{what} in the window {change}, allowed {allowed} ({} \u{2192} {now}{fate})", group(before))
    }

    /// The limited number: `calls of frame_done`.
    pub fn what(&self) -> String {
        match &self.function {
            Some(function) => format!("calls of {function}"),
            None => "lines printed".to_owned(),
        }
    }

    /// Whether a new baseline would let the number pass.
    pub fn is_by_baseline(&self) -> bool {
        !self.limit.is_absolute()
    }

    /// The limit, with the limited number.
    pub fn allowed(&self) -> String {
        format!("{}, allowed {}", self.what(), self.limit.describe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::compare::Pairs;
    use crate::gate::limit::Worse;

    fn change(name: &str, before: Option<u64>, after: Option<u64>, fate: Fate) -> Change {
        let mut numbers = Pairs::default();
        numbers[Metric::Calls] = Pair { before, after };
        Change { name: name.to_owned(), plain_name: name.to_owned(), numbers, fate }
    }

    fn work(pattern: &str, limit: &str) -> Work {
        Work::new(pattern, Limit::parse(Worse::Less, limit).unwrap(), Origin::default()).unwrap()
    }

    fn comparison(functions: Vec<Change>, lines: (Option<u64>, Option<u64>)) -> Comparison {
        let mut comparison = Comparison { functions, ..Comparison::default() };
        comparison.run[Metric::Lines] = Pair { before: lines.0, after: lines.1 };
        comparison
    }

    fn described(limits: &[Work], comparison: &Comparison) -> Vec<String> {
        let judged = judge(limits, &Meant::new(), comparison, true);
        let crossed = judged.judgements.iter().filter(|judgement| judgement.crossed).map(Judgement::describe);
        crossed.chain(judged.blind.into_iter().map(|(_, why)| why)).collect()
    }

    #[test]
    fn a_floor_for_all_and_an_unknown_word_are_refused() {
        let is_refused = |pattern, limit| {
            Work::new(pattern, Limit::parse(Worse::Less, limit).unwrap(), Origin::default()).is_err()
        };
        assert!(is_refused(ALL, "1") && is_refused("@tasks", "0%"));
    }

    #[test]
    fn fewer_calls_of_those_called_most_and_fewer_lines_are_too_little_and_more_are_not() {
        let names = ["a", "b", "c", "d", "e", "rare"];
        let functions = (0..).zip(names).map(|(index, name)| {
            let before = 1000 - index * 100;
            change(name, Some(before), Some(if index % 2 == 0 { before - 100 } else { before + 100 }), Fate::Stays)
        });
        // The function called most now was not in the baseline.
        let mut functions: Vec<Change> = functions.collect();
        functions.push(change("new", None, Some(9_000), Fate::New));
        let slower = comparison(functions, (Some(10), Some(9)));
        assert_eq!(
            described(&[work(ALL, "11%")], &slower),
            [
                "calls of c in the window \u{2212}12.50 %, allowed \u{2212}11 % (800 \u{2192} 700)",
                "calls of e in the window \u{2212}16.67 %, allowed \u{2212}11 % (600 \u{2192} 500)",
            ]
        );
        assert_eq!(described(&[work(ALL, "9%")], &slower).len(), 4, "a, c, e and the lines");
        assert_eq!(described(&[work(ALL, "-100")], &slower), [""; 0]);
        assert_eq!(
            described(&[work(ALL, "-99"), work("[ace]", "50%")], &slower)[..],
            [""; 0],
            "what is named has its own limit"
        );
        assert_eq!(described(&[work(CONSOLE, "10")], &slower), ["lines printed 9, allowed at least 10"]);
        assert_eq!(
            described(&[work("rare", "500"), work("new", "9001")], &slower),
            ["calls of new 9,000, allowed at least 9,001"]
        );
    }

    #[test]
    fn what_cannot_be_judged_is_said_and_what_has_vanished_is_too_little() {
        let functions = vec![
            change("gone", Some(10), None, Fate::Vanished),
            change("inlined", Some(10), None, Fate::NowInlined),
            change("main", Some(1), Some(1), Fate::Stays),
        ];
        let now = comparison(functions, (None, Some(3)));
        assert_eq!(
            described(&[work("gone", "0%")], &now),
            ["calls of gone in the window \u{2212}100.00 %, allowed 0 % (10 \u{2192} 0, vanished)"]
        );
        assert!(described(&[work("inlined", "0%")], &now)[0].contains("since it is inlined"));
        assert!(described(&[work("typo", "0%")], &now)[0].contains("no such function was called"));
        assert!(described(&[work(CONSOLE, "0%")], &now)[0].contains("nothing was printed"));
        assert_eq!(described(&[work(ALL, "0%")], &now).len(), 1);
        let nothing = comparison(Vec::new(), (None, None));
        assert!(described(&[work(ALL, "0%")], &nothing)[0].contains("no function was called"));
        // Without a baseline only floors apply.
        let judged = judge(&[work(ALL, "0%"), work("main", "2")], &Meant::new(), &now, false);
        assert_eq!((judged.judgements.len(), judged.judgements[0].crossed, judged.blind.len()), (1, true, 0));
    }
}
