// SPDX-License-Identifier: MIT OR Apache-2.0
//! Strips of time: when each task, interrupt and hot function ran. Where the run recorded its events, the strips of
//! tasks and interrupts are exact; everything else is by samples, each of which stands for the instructions since the
//! one before it.

use std::collections::BTreeMap;

use crate::analysis::event_tracks::{self, Cursor, Recorded};
use crate::analysis::functions::RowKind;
use crate::analysis::owner::Owner;
use crate::analysis::scope::Scope;
use crate::analysis::zone::ContextNames;
use crate::profile::zone::Context;
use crate::text::number::group;
use crate::text::tone::Tone;
use crate::ui::book::{Book, Run};
use crate::ui::grid::{Cell, Column, Fit, Grid, Place, Row, STRIP_PARTS, Target};

const COLUMNS: [Column; 3] = [
    Column::name("When what ran").in_order(),
    Column::number("Share").in_order(),
    Column::name("").in_order().fitted(Fit::Strip),
];

/// Most tasks and interrupts with a strip.
const MOST_CONTEXTS: usize = 100;

/// Most functions with a strip.
const MOST_FUNCTIONS: usize = 30;

/// Instructions of one subject in each part of the run.
#[derive(Clone, Debug)]
struct Strip {
    insns: u64,
    parts: Vec<u64>,
}

impl Default for Strip {
    fn default() -> Strip {
        Strip { insns: 0, parts: vec![0; STRIP_PARTS] }
    }
}

/// The run's time, as a vCPU's instructions.
#[derive(Clone, Copy)]
struct Clock {
    end_insns: u64,
}

impl Clock {
    fn new(run: &Run<'_>) -> Clock {
        Clock { end_insns: run.end_insns }
    }

    /// First instruction of a part.
    fn begin(self, part: usize) -> u64 {
        (u128::from(self.end_insns) * part as u128 / STRIP_PARTS as u128) as u64
    }

    /// Adds a stretch of time to a strip.
    fn add(self, strip: &mut Strip, from: u64, to: u64) {
        let to = to.min(self.end_insns);
        if from >= to {
            return;
        }
        strip.insns += to - from;
        let first = (u128::from(from) * STRIP_PARTS as u128 / u128::from(self.end_insns)) as usize;
        for part in first..STRIP_PARTS {
            let (begin, end) = (self.begin(part), self.begin(part + 1));
            if begin >= to {
                break;
            }
            strip.parts[part] += to.min(end).saturating_sub(from.max(begin));
        }
    }

    fn shares(self, strip: &Strip, vcpus: usize) -> Vec<f32> {
        let share = |(part, &insns): (usize, &u64)| {
            let whole = (self.begin(part + 1) - self.begin(part)).max(1) as f32 * vcpus.max(1) as f32;
            (insns as f32 / whole).min(1.0)
        };
        strip.parts.iter().enumerate().map(share).collect()
    }
}

/// Fills the table: the scopes, then the hottest functions of the scope.
pub(in crate::ui) fn grid(book: &Book<'_>, scope: &Scope) -> Grid {
    let run = &book.run;
    let clock = Clock::new(run);
    let (contexts, is_exact) = match events(run, clock) {
        Some(contexts) => (contexts, true),
        None => (sampled(run, clock), false),
    };
    let total = (clock.end_insns as u128 * run.profile.vcpus.len().max(1) as u128).min(u64::MAX.into()) as u64;
    let row = |name: &str, strip: &Strip, target: Target| Row {
        cells: vec![Cell::text(name), Cell::share(strip.insns, total), Cell::default()],
        tone: Tone::of(strip.insns, total),
        target,
        strip: clock.shares(strip, run.profile.vcpus.len()),
        copied: None,
    };
    let mut rows = Vec::new();
    if !contexts.is_empty() {
        let how = if is_exact { "exact" } else { "by samples; exact with --timeline" };
        rows.push(Row::heading(&format!("tasks and interrupts ({how})")));
    }
    let mut contexts: Vec<(Scope, Strip)> = contexts.into_iter().collect();
    // Stable: equal ones stay in the order of names.
    contexts.sort_by_key(|(_, strip)| std::cmp::Reverse(strip.insns));
    rows.extend(contexts.iter().map(|(scope, strip)| row(&scope.to_string(), strip, Target::Scope(scope.clone()))));
    rows.push(Row::heading(&format!("functions of the {scope} (by samples)")));
    for (start, strip) in functions(run, clock, scope) {
        let place = Place { is_before: false, start };
        rows.push(row(&book.name(place), &strip, Target::Function(place)));
    }
    let mut grid = Grid::new(COLUMNS.into(), rows, None);
    grid.select(1);
    grid
}

/// End of the run's time as text, for the axis.
pub(in crate::ui) fn end(book: &Book<'_>) -> String {
    group(book.run.end_insns)
}

/// Strips of what is passed with stretches of time, for those with the most instructions: the stretches are passed twice,
/// so that there are never more strips than are shown.
fn strips<K: Ord + Copy>(clock: Clock, pass: impl Fn(&mut dyn FnMut(K, u64, u64))) -> BTreeMap<K, Strip> {
    let mut sums: BTreeMap<K, u64> = BTreeMap::new();
    pass(&mut |key, from, to| *sums.entry(key).or_default() += to.saturating_sub(from));
    let mut hottest: Vec<(K, u64)> = sums.into_iter().filter(|(_, insns)| *insns > 0).collect();
    // Stable: equal ones stay in their order.
    hottest.sort_by_key(|(_, insns)| std::cmp::Reverse(*insns));
    hottest.truncate(MOST_CONTEXTS);
    let mut strips: BTreeMap<K, Strip> = hottest.into_iter().map(|(key, _)| (key, Strip::default())).collect();
    pass(&mut |key, from, to| {
        if let Some(strip) = strips.get_mut(&key) {
            clock.add(strip, from, to);
        }
    });
    strips
}

/// Strips by name: several contexts may share one.
fn named<K>(strips: BTreeMap<K, Strip>, name: impl Fn(K) -> Scope) -> BTreeMap<Scope, Strip> {
    let mut named: BTreeMap<Scope, Strip> = BTreeMap::new();
    for (key, strip) in strips {
        let into = named.entry(name(key)).or_default();
        into.insns += strip.insns;
        into.parts.iter_mut().zip(strip.parts).for_each(|(sum, part)| *sum += part);
    }
    named
}

/// Strips of tasks and interrupts by the recorded events: of a task without interrupts, of an interrupt without those
/// during it. None: there is no timeline.
fn events(run: &Run<'_>, clock: Clock) -> Option<BTreeMap<Scope, Strip>> {
    run.profile.timeline.as_ref()?;
    let pass = |take: &mut dyn FnMut(Context, u64, u64)| {
        let mut cursor = Cursor::default();
        let mut since = vec![0; run.profile.vcpus.len()];
        for event in event_tracks::recorded(run.profile).into_iter().flatten() {
            let Recorded::Event(event) = event else { continue };
            let Some(since) = since.get_mut(event.vcpu as usize) else { continue };
            take(cursor.context(event.vcpu), *since, event.at_insns);
            *since = event.at_insns.max(*since);
            cursor.pass(&event);
        }
        for ((vcpu, since), counts) in (0..).zip(since).zip(&run.profile.vcpus) {
            take(cursor.context(vcpu), since, counts.clock_insns);
        }
    };
    let names = ContextNames::new(run.profile);
    let name = |context: Context| match context {
        Context::Task(_) => Scope::Task(names.name(context)),
        Context::Exception(_) => Scope::Interrupt(names.name(context)),
    };
    Some(named(strips(clock, pass), name))
}

/// Passes each sample's index, and the instructions that it stands for.
fn samples(run: &Run<'_>, mut take: impl FnMut(usize, u64, u64)) {
    let mut since = vec![0; run.profile.vcpus.len()];
    for (index, sample) in run.profile.samples.iter().enumerate() {
        if let Some(since) = since.get_mut(sample.vcpu as usize) {
            take(index, *since, sample.at_insns);
            *since = sample.at_insns;
        }
    }
}

/// Strips of tasks and interrupts by samples.
fn sampled(run: &Run<'_>, clock: Clock) -> BTreeMap<Scope, Strip> {
    let pass = |take: &mut dyn FnMut(u32, u64, u64)| {
        samples(run, |index, from, to| {
            let path = run.tree.samples.get(index).copied().unwrap_or(0);
            if let Some(member) = run.scopes.innermost(path) {
                take(member, from, to);
            }
        });
    };
    named(strips(clock, pass), |member| run.scopes.of_member(&run.tree, member))
}

/// Strips of the functions with the most samples in the scope.
fn functions(run: &Run<'_>, clock: Clock, scope: &Scope) -> Vec<(Option<u64>, Strip)> {
    let mut hottest: Vec<(u64, Option<u64>)> = match scope {
        Scope::Run => run
            .table
            .rows
            .iter()
            .filter(|row| row.kind == RowKind::Function)
            .map(|row| (row.samples, row.start))
            .collect(),
        scope => {
            let functions = run.scopes.by_function(&run.tree, scope);
            functions.into_iter().map(|(member, sums)| (sums.samples, member.start)).collect()
        }
    };
    hottest.retain(|&(samples, start)| samples > 0 && start.is_some());
    hottest.sort_by_key(|&(samples, start)| (std::cmp::Reverse(samples), start));
    hottest.truncate(MOST_FUNCTIONS);
    let mut strips: BTreeMap<Option<u64>, Strip> =
        hottest.iter().map(|&(_, start)| (start, Strip::default())).collect();
    samples(run, |index, from, to| {
        let path = run.tree.samples.get(index).copied().unwrap_or(0);
        if *scope == Scope::Run || run.scopes.is_in(&run.tree, scope, path) {
            let start = Owner::of(run.profile, run.profile.samples[index].pc).start();
            if let Some(strip) = strips.get_mut(&start) {
                clock.add(strip, from, to);
            }
        }
    });
    hottest.into_iter().filter_map(|(_, start)| Some((start, strips.remove(&start)?))).collect()
}
