// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions of a run that deserve a look with a debugger, as arguments of `harness debug --at`.

use std::collections::BTreeMap;

use crate::analysis::cold_part::ColdParts;
use crate::analysis::owner::Owner;
use crate::analysis::{functions, lookup, stacks};
use crate::profile::{Profile, SpanKind};
use crate::text::shell::quoted;
use crate::text::symbol_name::key_name;

/// Placeholder for a profile's path in a command.
pub const PROFILE: &str = "PROFILE";

/// An instruction that deserves a visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Description of the place.
    pub what: &'static str,
    /// The place as an argument of `--at`.
    pub place: String,
}

/// Command that opens the debugger at a place.
pub fn command(profile: &str, place: &str) -> String {
    format!("harness debug {} --at {}", quoted(profile), quoted(place))
}

/// Places to visit, as far as they exist: the hottest sample, the call that most exceeded the mean of its function, the
/// deepest stack. Empty if several CPUs executed.
pub fn worth(profile: &Profile) -> Vec<Visit> {
    if profile.vcpus.len() > 1 {
        return Vec::new();
    }
    let hottest = hottest(profile, |_| true).map(|place| Visit { what: "the hottest sample", place });
    let peak = profile.tasks.iter().any(|task| task.deepest_sp.is_some());
    let peak = peak.then(|| Visit { what: "the deepest stack", place: "peak-stack".to_owned() });
    [hottest, longest(profile), peak].into_iter().flatten().collect()
}

/// These places in one sentence, with the command for the first; None: there are none.
pub fn sentence(profile: &Profile, path: &str) -> Option<String> {
    let visits = worth(profile);
    let (first, rest) = visits.split_first()?;
    let rest: Vec<String> = rest.iter().map(|visit| format!("{} for {}", visit.place, visit.what)).collect();
    let or = if rest.is_empty() { String::new() } else { format!("; {}", rest.join(", ")) };
    Some(format!("{} puts GDB at {}{or}", command(path, &first.place), first.what))
}

/// Place to visit for functions: their hottest sample, or else their first call.
pub fn of_functions(profile: &Profile, places: &[Owner<'_>]) -> Option<Visit> {
    if profile.vcpus.len() > 1 {
        return None;
    }
    let keys: Vec<_> = places.iter().map(|place| place.key()).collect();
    let sampled = hottest(profile, |pc| keys.contains(&Owner::of(profile, pc).key()));
    let what = "its hottest sample";
    sampled.map(|place| Visit { what, place }).or_else(|| {
        let rows = functions::table(profile).rows;
        let called =
            rows.iter().find(|row| row.calls > 0 && places.iter().any(|place| place.start() == row.start))?;
        Some(Visit { what: "its first call", place: format!("call:{}", named(profile, called.start?)) })
    })
}

/// The place to visit in one sentence, with the command.
pub fn sentence_of(profile: &Profile, places: &[Owner<'_>], path: &str) -> Option<String> {
    let visit = of_functions(profile, places)?;
    Some(format!("{} puts GDB at {}", command(path, &visit.place), visit.what))
}

/// First new sample of a function, given by its key ([`key_name`]): the earlier run executed `before_insns` of the
/// function's instructions, and so had fewer samples there. Without a new one, the function's last sample.
pub fn first_new_sample(profile: &Profile, key: &str, before_insns: u64) -> Option<String> {
    if profile.vcpus.len() > 1 {
        return None;
    }
    let parts = ColdParts::of(profile);
    let is_in = |pc: u64| stacks::at(profile, &parts, pc).last().is_some_and(|frame| key_name(&frame.name) == key);
    let mut known: BTreeMap<u64, bool> = BTreeMap::new();
    let samples = (1..).zip(&profile.samples);
    let mut of_it = samples.filter(|(_, sample)| *known.entry(sample.pc).or_insert_with(|| is_in(sample.pc)));
    let skip = before_insns / profile.facts.period_insns.max(1);
    let mut last = None;
    for _ in 0..=skip {
        match of_it.next() {
            Some((number, _)) => last = Some(number),
            None => break,
        }
    }
    last.map(|number: u64| format!("sample:{number}"))
}

/// First sample at the instruction with the most samples.
fn hottest(profile: &Profile, is_meant: impl Fn(u64) -> bool) -> Option<String> {
    let counts = profile.samples_by_pc();
    let meant = counts.into_iter().filter(|&(pc, _)| is_meant(pc));
    let (hottest, _) = meant.max_by_key(|&(pc, count)| (count, std::cmp::Reverse(pc)))?;
    let index = profile.samples.iter().position(|sample| sample.pc == hottest)?;
    Some(format!("sample:{}", index + 1))
}

/// The call that most exceeded the mean of its function's calls.
fn longest(profile: &Profile) -> Option<Visit> {
    let calls = profile.spans.iter().filter_map(|span| match span.kind {
        SpanKind::Call { entry } if span.count > 1 => Some((span.max_insns.saturating_sub(span.mean_insns()), entry)),
        _ => None,
    });
    let (beyond, entry) = calls.max_by_key(|&(beyond, entry)| (beyond, std::cmp::Reverse(entry)))?;
    (beyond > 0).then(|| Visit { what: "the longest call", place: format!("max:{}", named(profile, entry)) })
}

/// Text that names a function: its name, if that is unambiguous, or its address.
pub(crate) fn named(profile: &Profile, entry: u64) -> String {
    let name = Owner::of(profile, entry).to_string();
    let found = lookup::places(profile, &name).unwrap_or_default();
    let is_it = matches!(found[..], [place] if place.start() == Some(entry));
    if is_it && !name.contains(char::is_control) { name } else { format!("{entry:#x}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Span;
    use crate::profile::testing::{empty, freertos};

    fn call(entry: u64, count: u64, sum_insns: u64, max_insns: u64) -> Span {
        Span { count, max_insns, sum_insns, ..Span::none(SpanKind::Call { entry }) }
    }

    #[test]
    fn what_is_worth_a_visit_is_what_stands_out() {
        let mut profile = empty().function("main", 0x40, 0x10).function("f(int)", 0x50, 0x10);
        assert_eq!(sentence(&profile, "x.profile"), None);
        profile = profile.taken(1, 0x42, 0, 0).taken(2, 0x54, 0, 0).taken(1, 0x42, 0, 0).taken(1, 0x54, 0, 0);
        assert_eq!(
            sentence(&profile, "x.profile").unwrap(),
            "harness debug x.profile --at sample:2 puts GDB at the hottest sample"
        );
        // `main`'s call is the longest, but it is the only call of its function.
        profile.spans = vec![call(0x40, 1, 900, 900), call(0x50, 4, 100, 70)];
        let places: Vec<String> = worth(&profile).into_iter().map(|visit| visit.place).collect();
        assert_eq!(places, ["sample:2", "max:f(int)"]);
        assert_eq!(command("my profile", "max:f(int)"), "harness debug 'my profile' --at 'max:f(int)'");
        // A namesake is named by its address.
        profile = profile.function("f(int)", 0x60, 0x10);
        assert_eq!(worth(&profile)[1].place, "max:0x50");
        profile.vcpus.push(profile.vcpus[0].clone());
        assert_eq!(worth(&profile), []);
        assert!(sentence(&freertos(), PROFILE).unwrap().ends_with("; peak-stack for the deepest stack"));
    }

    #[test]
    fn a_function_is_visited_at_its_hottest_sample_or_its_first_call() {
        let profile = empty().function("main", 0x40, 0x10).function("f", 0x50, 0x10).function("g", 0x60, 0x10);
        let profile = profile.taken(2, 0x42, 0, 0).taken(1, 0x54, 0, 0).insn(0x60, 3);
        let place = |name: &str| {
            let places = lookup::places(&profile, name).unwrap();
            of_functions(&profile, &places).map(|visit| visit.place)
        };
        assert_eq!(place("f").unwrap(), "sample:3");
        assert_eq!(place("g").unwrap(), "call:g");
        let profile = empty().function("h", 0x70, 0x10);
        assert_eq!(of_functions(&profile, &lookup::places(&profile, "h").unwrap()), None);
    }

    #[test]
    fn the_first_new_sample_comes_after_as_many_as_there_were() {
        let profile = empty().function("main", 0x40, 0x10).function("f", 0x50, 0x10);
        let profile = profile.taken(2, 0x54, 0, 0).taken(1, 0x42, 0, 0).taken(2, 0x54, 0, 0);
        let first = |before_insns| first_new_sample(&profile, "f", before_insns);
        // One sample every 10 instructions.
        assert_eq!(
            [0, 9, 20, 30, 900].map(first).map(Option::unwrap),
            ["sample:1", "sample:1", "sample:4", "sample:5", "sample:5"]
        );
        assert_eq!(first_new_sample(&profile, "g", 0), None);
    }
}
