// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a case's limits with its run and the baseline. Makes a finding for each limit that is crossed, and one for
//! each that limits nothing: a limit that a typo or a rename turned off would hold for ever.

use std::collections::BTreeSet;

use crate::analysis::compare::{Change, Comparison, Fate, Pair};
use crate::analysis::cycles;
use crate::analysis::lookup;
use crate::analysis::metrics::{Metric, Subject};
use crate::gate::expect::{Finding, FindingKind};
use crate::gate::judgement::{Judgement, Why, judge};
use crate::gate::known::{Known, noun};
use crate::gate::numbers::LimitResult;
use crate::gate::result::IdleLimit;
use crate::gate::source_location::defined;
use crate::gate::suite::Case;
use crate::gate::threshold::{Meant, Origin, Threshold};
use crate::gate::undecided;
use crate::gate::work_floor;
use crate::image::symbols;
use crate::text::near::nearest;
use crate::text::number::group;
use crate::text::symbol_name::key_name;

/// Data that a case's limits are compared with.
#[derive(Clone, Copy, Debug)]
pub struct Against<'a> {
    /// Names in the run and in the baseline.
    pub known: Known<'a>,
    /// Changes from the baseline, or from nothing.
    pub compared: &'a Comparison,
    /// Name of the baseline; None: no baseline is named.
    pub baseline: Option<&'a str>,
    /// Whether the numbers of this run become a baseline.
    pub is_saved: bool,
    /// Whether the run ended as it should. After another end only limits that are exceeded count.
    pub ended_well: bool,
    /// Path of the suite's file, as failures show it.
    pub suite_file: &'a str,
}

/// Results of a case's limits.
#[derive(Debug, Default)]
pub struct Held {
    /// A finding for each crossed limit, or one finding that all limits hold.
    pub findings: Vec<Finding>,
    /// Limits that cannot be judged because of a mistake in the suite.
    pub mistakes: Vec<Finding>,
    /// Limits that limit nothing, perhaps intentionally; a sentence each.
    pub warnings: Vec<String>,
    /// Limits of `[defaults]` that limit nothing in this image.
    pub idle: Vec<IdleLimit>,
    /// Limits on numbers that the run has.
    pub limits: Vec<LimitResult>,
    /// Whether another baseline would let a crossed limit pass.
    pub is_by_baseline: bool,
    /// Function of the first crossed limit.
    pub crossed_function: Option<String>,
}

/// Compares a case's limits with its run.
pub fn hold(case: &Case, against: &Against<'_>) -> Held {
    let Against { known, compared, ended_well, .. } = *against;
    let (meant, unclear) = meant(case, &known, compared);
    let mut held = Held { mistakes: unclear, ..Held::default() };
    let mut judged = judge(&case.thresholds, &meant, compared, known.before.is_some());
    if ended_well {
        for unheld in judged.unheld {
            let threshold = &case.thresholds[unheld.index];
            match idle(threshold, unheld.why, against) {
                None => judged.judgements.push(Judgement::of_nothing(unheld.index, threshold)),
                Some(why) if unheld.why == Why::UnknownBefore => {
                    held.is_by_baseline = true;
                    held.findings.push(failed(&threshold.to_string(), threshold.origin, &why, against));
                }
                Some(why) => {
                    let is_mistake = threshold.pattern.is_name() || threshold.metric.subject() == Subject::Run;
                    held.is_idle(threshold.to_string(), threshold.origin, (why, is_mistake), case, against);
                }
            }
        }
    } else {
        judged.judgements.retain(|judgement| judgement.fate != Fate::Vanished);
    }
    judged.judgements.iter_mut().for_each(|judgement| decide(judgement, case, against, &mut held));
    held.limits.extend(judged.judgements.iter().filter_map(|judgement| {
        let Judgement { metric, subject, numbers, limit, crossed, .. } = judgement;
        LimitResult::new(*metric, subject, *numbers, *limit, *crossed)
    }));
    let crossed: Vec<&Judgement> = judged.judgements.iter().filter(|judgement| judgement.crossed).collect();
    held.is_by_baseline |=
        crossed.iter().any(|judgement| !judgement.limit.is_absolute() || judgement.fate == Fate::Vanished);
    let of_function = crossed.iter().find(|judgement| judgement.metric.subject() == Subject::Function);
    held.crossed_function = of_function.map(|judgement| judgement.subject.clone());
    held.findings.extend(crossed.iter().map(|judgement| crossed_finding(case, judgement, &meant, against)));
    if held.findings.is_empty() && !judged.judgements.is_empty() {
        let actual = format!("{} numbers are", judged.judgements.len());
        held.findings.push(Finding::met(FindingKind::Threshold, "within thresholds", actual));
    }
    if ended_well {
        hold_work(case, &meant, against, &mut held);
        lacks_baseline(case, against, &mut held);
    }
    held
}

impl Held {
    /// Notes a limit that limits nothing; `is_mistake`: this is certainly a mistake.
    fn is_idle(
        &mut self,
        limit: String,
        origin: Origin,
        (why, is_mistake): (String, bool),
        case: &Case,
        against: &Against<'_>,
    ) {
        let is_mistake = is_mistake || case.expect.strict;
        if origin.is_default {
            let place = (against.suite_file.to_owned(), line(origin));
            self.idle.push(IdleLimit { limit, why, place, is_mistake });
        } else if is_mistake {
            self.mistakes.push(failed(&limit, origin, &format!("{limit} limits nothing: {why}"), against));
        } else {
            self.warnings.push(format!("{limit} limits nothing: {why}"));
        }
    }
}

/// Judges a ceiling or floor on a number of which only an interval is known: it is crossed where the whole interval is beyond it.
fn decide(judgement: &mut Judgement, case: &Case, against: &Against<'_>, held: &mut Held) {
    let Judgement { metric, limit, numbers, index, .. } = *judgement;
    let Known { profile, now, .. } = against.known;
    let number = numbers.after.filter(|_| limit.is_absolute() && judgement.fate != Fate::Vanished);
    let interval = number.and_then(|number| undecided::interval(profile, now, metric, (&judgement.subject, number)));
    let Some((least, most)) = interval else { return };
    let [at_least, at_most] = [least, most].map(|after| limit.is_crossed(Pair { after: Some(after), ..numbers }));
    judgement.crossed = at_least && at_most;
    if at_least != at_most {
        let (what, between) = (judgement.what(), cycles::describe((least, most)));
        let why = format!("{what} {between}, allowed {}: undecided", limit.describe());
        match case.expect.strict {
            true => {
                let place = Some((against.suite_file.to_owned(), line(case.thresholds[index].origin)));
                let expected = format!("{what}, allowed {}", limit.describe());
                held.findings.push(Finding::failed(FindingKind::Threshold, expected, &between, &why).at(place));
            }
            false => held.warnings.push(why),
        }
    }
}

/// Finding at a limit's line.
fn failed(limit: &str, origin: Origin, why: &str, against: &Against<'_>) -> Finding {
    let place = Some((against.suite_file.to_owned(), line(origin)));
    Finding::failed(FindingKind::Threshold, format!("{limit} limits something"), why, why).at(place)
}

fn line(origin: Origin) -> u32 {
    u32::try_from(origin.line).unwrap_or(u32::MAX)
}

/// Reason why a threshold limits nothing; None: its subject exists and never ran, so all of its numbers are 0.
fn idle(threshold: &Threshold, why: Why, against: &Against<'_>) -> Option<String> {
    let Threshold { metric, pattern, .. } = threshold;
    let (of, known) = (metric.subject(), &against.known);
    let descriptor = metric.descriptor();
    let or_baseline = if known.before.is_some() { " or in the baseline" } else { "" };
    Some(match why {
        Why::Missing if pattern.is_all() => format!("there is no {} in this run{or_baseline}", noun(of)),
        Why::Missing if known.is_in_image(of, pattern) => {
            let is_counted = descriptor.where_uncounted.is_some()
                || known.now.functions.values().any(|numbers| numbers[*metric].is_some());
            return (!is_counted).then(|| descriptor.unknown.to_owned());
        }
        Why::Missing if pattern.is_name() => known.missing(of, &pattern.text),
        Why::Missing => format!("no {} in this run{or_baseline} matches", noun(of)),
        Why::UnknownNow if matches!(metric, Metric::Calls | Metric::Inclusive) => {
            "it is inlined, and entries of inlined code are not counted; limit `self`, or name a function that is \
             called"
                .to_owned()
        }
        Why::UnknownNow => descriptor.unknown.to_owned(),
        Why::UnknownBefore => {
            let name = against.baseline.unwrap_or_default();
            let remedy = match against.is_saved {
                true => "this run saves it".to_owned(),
                false => format!("--save-baseline {name} makes it anew"),
            };
            format!("{threshold}: the baseline {name} was made without this number; {remedy}")
        }
    })
}

/// Functions that patterns without wildcards refer to, including functions that only the baseline has; and a finding
/// for each ambiguous pattern.
fn meant(case: &Case, known: &Known<'_>, compared: &Comparison) -> (Meant, Vec<Finding>) {
    let (mut meant, mut unclear) = (Meant::new(), Vec::new());
    let of_functions = case.thresholds.iter().filter(|threshold| threshold.metric.subject() == Subject::Function);
    let of_functions = of_functions.map(|threshold| (threshold.metric.word(), &threshold.pattern));
    let of_work = case.work.iter().map(|work| (work_floor::WORD, &work.pattern));
    for (word, pattern) in of_functions.chain(of_work).filter(|(_, pattern)| pattern.is_name()) {
        if known.now.functions.keys().any(|key| pattern.matches(&key.name)) {
            continue;
        }
        match lookup::keys(known.profile, known.now, &pattern.text) {
            Ok(mut names) => {
                names.extend(vanished(&pattern.text, &names, compared));
                meant.insert(pattern.text.clone(), names);
            }
            Err(actual) => {
                let expected = format!("a function that thresholds.{word} means by {:?}", pattern.text);
                let message = format!("thresholds.{word}: {actual}");
                unclear.push(Finding::failed(FindingKind::Threshold, expected, actual, message));
            }
        }
    }
    (meant, unclear)
}

/// Functions that a name refers to and that only ran in the baseline. If the name refers to instances of a generic now,
/// these are further instances of it, whose work the present ones may do now. If the name refers to nothing now, these
/// are all functions of that name.
fn vanished(pattern: &str, names: &BTreeSet<String>, compared: &Comparison) -> Vec<String> {
    let gone = compared.functions.iter().filter(|change| change.fate == Fate::Vanished);
    let gone: Vec<&str> = gone.map(|change| &*change.plain_name).filter(|name| !names.contains(*name)).collect();
    let called = symbols::called(&key_name(pattern.trim()), gone.iter().copied()).into_iter();
    let is_instance = |name: &&str| match names.first() {
        Some(one) => symbols::are_instances([("", &**one), ("", *name)].into_iter()),
        None => true,
    };
    called.map(|index| gone[index]).filter(is_instance).map(str::to_owned).collect()
}

/// Finding for a crossed threshold, placed at its function.
fn crossed_finding(case: &Case, judgement: &Judgement, meant: &Meant, against: &Against<'_>) -> Finding {
    let Judgement { subject, metric, .. } = judgement;
    let Against { known, compared, .. } = against;
    let place = match metric.subject() {
        Subject::Function => {
            let names = meant.get(subject).into_iter().flatten().map(String::as_str);
            names.chain([subject.as_str()]).find_map(|name| defined(known.profile, name))
        }
        // The run's place is that of the function that accounts for most of the growth.
        Subject::Run => {
            let grown = compared.functions.iter().filter(|change| change.self_insns().difference() > 0);
            let is_by_baseline = judgement.numbers.before.is_some();
            grown.filter(|_| is_by_baseline).find_map(|change| defined(known.profile, &change.name))
        }
        Subject::Task | Subject::Zone => None,
    };
    let of_limit = || {
        let origin = case.thresholds.get(judgement.index)?.origin;
        Some((against.suite_file.to_owned(), line(origin)))
    };
    let place = place.or_else(|| of_limit().filter(|_| judgement.fate == Fate::Vanished));
    let message = judgement.describe() + &whereabouts(judgement, meant, against);
    let expected = format!("{}, allowed {}", judgement.what(), judgement.limit.describe());
    let actual = group(judgement.numbers.after.unwrap_or(0));
    Finding::failed(FindingKind::Threshold, expected, actual, message).at(place)
}

/// Hint on a vanished subject: it still exists without having run, or it may have been renamed.
fn whereabouts(judgement: &Judgement, meant: &Meant, against: &Against<'_>) -> String {
    let Judgement { subject, metric, fate, .. } = judgement;
    if *fate != Fate::Vanished {
        return String::new();
    }
    let Against { known, compared, .. } = against;
    let is_new = |change: &&Change| change.fate == Fate::New;
    let of_subject = metric.subject();
    let new: Vec<&str> = match of_subject {
        Subject::Function => compared.functions.iter().filter(is_new).map(|change| &*change.plain_name).collect(),
        Subject::Task => {
            compared.tasks.iter().filter(|task| task.fate() == Fate::New).map(|task| &*task.name).collect()
        }
        Subject::Zone => {
            compared.zones.iter().filter(|zone| zone.fate() == Fate::New).map(|zone| &*zone.name).collect()
        }
        Subject::Run => Vec::new(),
    };
    let mut names = meant.get(subject).into_iter().flatten().map(String::as_str).chain([subject.as_str()]);
    let is_function =
        |name: &str| known.profile.names.functions.iter().any(|function| key_name(&function.name) == name);
    if of_subject == Subject::Function && names.clone().any(is_function) {
        return "; the image still has it, and it did not run".to_owned();
    }
    let near = names.find_map(|name| nearest(name, new.iter().copied()));
    near.map(|near| format!("; is it `{near}` now, which is new?")).unwrap_or_default()
}

/// Adds a finding for each crossed limit on work, or one finding that all of them hold.
fn hold_work(case: &Case, meant: &Meant, against: &Against<'_>, held: &mut Held) {
    let Against { known, compared, .. } = against;
    let mut judged = work_floor::judge(&case.work, meant, compared, known.before.is_some());
    for (index, why) in judged.blind {
        let limit = &case.work[index];
        let is_there = limit.pattern.is_name() && known.is_in_image(Subject::Function, &limit.pattern);
        if limit.is_floor() && is_there {
            judged.judgements.push(work_floor::Judgement::of_nothing(limit));
        } else if limit.origin.is_default {
            held.is_idle(limit.to_string(), limit.origin, (why, true), case, against);
        } else {
            held.mistakes.push(failed(&limit.to_string(), limit.origin, &why, against));
        }
    }
    held.limits.extend(judged.judgements.iter().filter_map(|judgement| {
        let work_floor::Judgement { function, numbers, limit, crossed, .. } = judgement;
        let metric = if function.is_some() { Metric::Calls } else { Metric::Lines };
        LimitResult::new(metric, function.as_deref().unwrap_or_default(), *numbers, *limit, *crossed)
    }));
    let crossed = judged.judgements.iter().filter(|judgement| judgement.crossed);
    held.is_by_baseline |= crossed.clone().any(work_floor::Judgement::is_by_baseline);
    let crossed = crossed.map(|judgement| {
        let place = judgement.function.as_ref().and_then(|function| defined(known.profile, function));
        let actual = group(judgement.numbers.after.unwrap_or(0));
        Finding::failed(FindingKind::Threshold, judgement.allowed(), actual, judgement.describe()).at(place)
    });
    let crossed: Vec<Finding> = crossed.collect();
    if crossed.is_empty() && !judged.judgements.is_empty() {
        let actual = format!("{} numbers are", judged.judgements.len());
        held.findings.push(Finding::met(FindingKind::Threshold, "as much work as before", actual));
    }
    held.findings.extend(crossed);
}

/// Adds a mistake or a warning if limits need a baseline and none is named.
fn lacks_baseline(case: &Case, against: &Against<'_>, held: &mut Held) {
    if against.baseline.is_some() || against.is_saved {
        return;
    }
    let thresholds = case.thresholds.iter().filter(|threshold| !threshold.limit.is_absolute());
    let work = case.work.iter().filter(|work| !work.is_floor());
    let limits: Vec<(String, Origin)> = thresholds
        .map(|threshold| (threshold.to_string(), threshold.origin))
        .chain(work.map(|work| (work.to_string(), work.origin)))
        .collect();
    let Some((first, origin)) = limits.first() else { return };
    let more = match limits.len() - 1 {
        0 => String::new(),
        1 => " and 1 other limit".to_owned(),
        more => format!(" and {more} other limits"),
    };
    let verb = if limits.len() == 1 { "needs" } else { "need" };
    let why = format!(
        "{first}{more} {verb} a baseline, and none is named: --save-baseline main makes one, and `baseline = \"main\"` in \
         the suite compares with it"
    );
    if case.expect.strict {
        held.mistakes.push(failed(first, *origin, &why, against));
    } else {
        held.warnings.push(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::compare::compare;
    use crate::analysis::metrics::Metrics;
    use crate::profile::testing::empty;

    #[test]
    fn an_instance_that_took_the_place_of_another_is_no_growth() {
        let metrics = |names: &[&str]| {
            let profile = (0..).zip(names).fold(empty(), |profile, (index, name)| {
                profile.function(name, 0x40 + index * 0x10, 4).insn(0x40 + index * 0x10, 100)
            });
            Metrics::of(&profile)
        };
        let before = metrics(&["sort::<u8>", "sort::<i8>", "app::sort::<u8>", "resort::<u8>", "main"]);
        let after = metrics(&["sort::<u16>", "sort::<i8>", "main"]);
        let compared = compare(Some(&before), &after);
        let names = ["sort::<u16>", "sort::<i8>"].map(str::to_owned).into();
        assert_eq!(vanished("sort", &names, &compared), ["sort::<u8>"]);
        assert_eq!(vanished("main", &["main".to_owned()].into(), &compared), [""; 0]);
        // A name that no longer has a function keeps its former meaning.
        assert_eq!(vanished("resort", &BTreeSet::new(), &compared), ["resort::<u8>"]);
        assert_eq!(vanished("typo", &BTreeSet::new(), &compared), [""; 0]);
    }
}
