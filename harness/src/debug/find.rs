// SPDX-License-Identifier: MIT OR Apache-2.0
//! Search for places: turns a user's place into the number of an instruction of the run.
//!
//! The profile has most of them. Others need one more run, which is announced before it starts. That is the
//! debugger's own run, with breakpoints and watched memory, or a repeated measurement that records more.

use std::collections::BTreeSet;
use std::ops::Range;

use anyhow::Result;
use decode::Isa;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};
use wire::chip::AVR_DATA;
use wire::request::Kernel;

use crate::analysis::cold_part::ColdParts;
use crate::analysis::stacks::{Exceptions, is_interrupt, task_names};
use crate::analysis::{describe, functions, lookup, overflow, owner};
use crate::debug::crash;
use crate::debug::place::Place;
use crate::debug::travel::uninterrupted;
use crate::debug::travel::{Access, Hit, Refused, Stop, Travel, Vcpus, Watch, Why};
use crate::debug::travel::{can_watch_on, go, little_endian, register};
use crate::error::InputError;
use crate::image::symbols;
use crate::profile::{End, LeftStack, Overflow, Profile, Span, SpanKind, Task};
use crate::text::near::nearest;
use crate::text::number::{Hex, group, parse_number, plural};
use crate::text::printable::printable;

/// Most calls that are counted by a stop at each call; more calls are counted in a list of hits.
const MAX_STOPS: u64 = 1_000;

/// Most hits that are listed at once.
const MAX_HITS: u64 = 1 << 22;

/// Most names that a message lists.
const MAX_LISTED: usize = 10;

/// Most samples of the run that searches for printed text, which set its precision.
const MARKS: u64 = 1 << 20;

/// Longest line of the console, in bytes, that a message suggests as a similar text.
const MAX_LINE_BYTES: usize = 200;

/// Setting of a repeated measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// With the settings of `--exact`.
    Exact,
    /// With marks on the console, from sample to sample.
    Marks {
        /// Distance of the samples.
        period_insns: u64,
        /// Length of the window.
        for_insns: u64,
    },
}

/// Callback that measures the run once more.
pub type Again<'a> = dyn FnMut(More) -> Result<Profile> + 'a;

/// A place that has been found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Number of the instruction in the run, from 1 at reset.
    pub insn: u64,
    /// Remark besides the position.
    pub note: Option<String>,
}

/// Search for places in a profile's run.
pub struct Finder<'a> {
    /// The run's profile.
    pub profile: &'a Profile,
    /// Console output of the firmware, if it was kept.
    pub console: Option<Vec<u8>>,
    /// The file with the symbols.
    pub elf: Option<&'a [u8]>,
    /// The firmware's kernel; None: not known.
    pub kernel: Option<Kernel>,
    /// Measures the run once more.
    pub again: Box<Again<'a>>,
    /// Most hits that are listed at once.
    max_hits: u64,
    /// Profile of the run repeated with `--exact`; None until it is needed.
    exact: Option<Profile>,
    /// Instructions of each vCPU before the window; empty until they are needed.
    before: Vec<u64>,
}

/// Error for a place that the run never reaches.
fn never(message: impl Into<String>) -> anyhow::Error {
    InputError::new(message).into()
}

impl<'a> Finder<'a> {
    /// Finder for a profile's run.
    pub fn new(profile: &'a Profile, again: Box<Again<'a>>) -> Finder<'a> {
        Finder {
            profile,
            console: None,
            elf: None,
            kernel: None,
            again,
            max_hits: MAX_HITS,
            exact: None,
            before: Vec::new(),
        }
    }

    /// Finds a place. Moves the run, and puts it back if there is no such place. Clears all breakpoints and watches.
    ///
    /// # Errors
    /// [`InputError`] if the run never reaches the place, with the nearest place that it reaches. [`Refused`] if the
    /// place belongs to another run, or the search was interrupted. The run's own errors.
    pub fn find(&mut self, travel: &mut dyn Travel, place: &Place, say: &mut dyn FnMut(&str)) -> Result<Found> {
        if let (Some(written), false) = (travel.written_at(), matches!(place, Place::Insn(_))) {
            return Err(Refused(format!(
                "{place}: the debugger wrote to the run at instruction {}, so places of the profile are gone; use \
                 insn:N, or start the debugger again",
                group(written)
            ))
            .into());
        }
        let origin = travel.at().insn;
        let found = self.look(travel, place, say);
        travel.set_breakpoints(&[]);
        travel.set_watches(&[]);
        if found.is_err() && travel.at().insn != origin {
            travel.go(origin)?;
        }
        found
    }

    /// Number in the run of the window's first instruction.
    fn first(&self) -> u64 {
        self.profile.facts.before_window_insns + 1
    }

    /// Number in the run of the window's last instruction.
    fn last(&self) -> u64 {
        (self.profile.facts.before_window_insns + self.profile.total_insns()).max(1)
    }

    /// Number of each vCPU's last instruction before the window. With several vCPUs it is read at the window's
    /// opening.
    pub(crate) fn before(&mut self, travel: &mut dyn Travel) -> Result<Vec<u64>> {
        let (vcpus, before) = (self.profile.vcpus.len().max(1), self.profile.facts.before_window_insns);
        if self.before.is_empty() {
            self.before = if vcpus == 1 || before == 0 {
                vec![before; vcpus]
            } else {
                let origin = travel.at().insn;
                go(travel, self.first())?;
                let Vcpus { executing, mut insns } = travel.vcpus()?;
                insns[executing] -= 1;
                go(travel, origin)?;
                insns
            };
        }
        Ok(self.before.clone())
    }

    /// Number in the run of a vCPU's instruction of the window.
    fn of_vcpu(&mut self, travel: &mut dyn Travel, vcpu: usize, at_insns: u64) -> Result<u64> {
        let before = self.before(travel)?;
        if before.len() == 1 {
            return Ok(before[0] + at_insns);
        }
        let wanted = before[vcpu] + at_insns;
        // When this vCPU has started `at_insns` instructions, all vCPUs together have started at least as many.
        let (mut least, mut most) = (self.first() - 1 + at_insns, self.last());
        while least < most {
            let middle = least + (most - least) / 2;
            go(travel, middle)?;
            if travel.vcpus()?.insns[vcpu] >= wanted { most = middle } else { least = middle + 1 }
        }
        Ok(least)
    }

    /// Executes to the next stop in the window.
    fn forward(&self, travel: &mut dyn Travel) -> Result<Stop> {
        uninterrupted(travel.forward(Some(self.last() + 1))?)
    }

    fn look(&mut self, travel: &mut dyn Travel, place: &Place, say: &mut dyn FnMut(&str)) -> Result<Found> {
        let at = |insn| Ok(Found { insn, note: None });
        let profile = self.profile;
        let before = profile.facts.before_window_insns;
        match place {
            Place::Sample(number) => {
                let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
                let count = profile.samples.len() as u64;
                match profile.samples.get(index) {
                    Some(sample) => at(self.of_vcpu(travel, sample.vcpu as usize, sample.at_insns)?),
                    None if count == 0 => Err(never(format!("{place}: no sample was taken"))),
                    None => {
                        Err(never(format!("{place}: {} taken; the last is sample:{count}", were(count, "sample"))))
                    }
                }
            }
            Place::Insn(number) => {
                let total = profile.total_insns();
                if *number > total {
                    let all = were(total, "instruction");
                    return Err(never(format!("{place}: {all} executed in the window; the last is insn:{total}")));
                }
                at(before + number)
            }
            Place::End => at(self.last()),
            Place::Crash => match profile.facts.end {
                End::EndlessLoop { pc, call: Some(_) } => self.gave_up(travel, place, pc, say),
                End::StackOverflow { stack: LeftStack::Task { index }, .. } => {
                    self.overflow(travel, place, index as usize, say)
                }
                End::StackOverflow { stack: LeftStack::Main, .. } => self.main_overflow(say),
                _ => self.crash(travel, place, say),
            },
            Place::Call { function, nth } => self.call(travel, place, function, *nth, say),
            Place::Max { function } => self.longest_call(place, function, say),
            Place::MaxIrq { name } => self.longest_interrupt(place, name, say),
            Place::MaskedMax => self.longest_masked(place, say),
            Place::PeakStack { task } => self.peak_stack(travel, place, task.as_deref(), say),
            Place::Console { text } => self.printed(place, text, say),
            Place::Switch { task, nth } => self.switch(travel, place, task, *nth, say),
            Place::Write { what, before } => self.write(travel, place, what, before.as_deref(), say),
        }
    }

    fn crash(&self, travel: &mut dyn Travel, place: &Place, say: &mut dyn FnMut(&str)) -> Result<Found> {
        let facts = &self.profile.facts;
        let fault = facts.only.handler.as_ref().filter(|handler| handler.is_fault);
        if let Some(fault) =
            fault.filter(|_| !matches!(facts.end, End::Exit { .. } | End::Reset { .. } | End::LockUp { .. }))
        {
            let note = fault.fault.clone();
            return Ok(Found { insn: facts.before_window_insns + fault.since_insns, note });
        }
        let end = describe::describe_end_alone(self.profile);
        let is_cut = matches!(facts.end, End::For | End::Until | End::MaxInsns) || facts.end.is_by_host();
        let is_lock_up = matches!(facts.end, End::LockUp { .. });
        if !is_cut && !is_lock_up && self.profile.vcpus.len() == 1 {
            say("looking whether the run ends in a fault's handler: one more run");
            if let Some(fault) = crash::at_end(self.profile, travel, self.last())? {
                return Ok(Found { insn: fault.insn, note: Some(format!("{}\nin its handler {end}", fault.what)) });
            }
        }
        if is_cut || matches!(facts.end, End::Exit { status: 0, .. }) {
            return Err(never(format!("{place}: the run did not crash: {end}; its last instruction is `end`")));
        }
        Ok(Found { insn: self.last(), note: Some(end) })
    }

    /// The instruction that took a task's stack pointer out of its stack.
    fn overflow(
        &self,
        travel: &mut dyn Travel,
        place: &Place,
        index: usize,
        say: &mut dyn FnMut(&str),
    ) -> Result<Found> {
        let task = self.profile.tasks.iter().zip(task_names(self.profile)).nth(index);
        let (task, name) = task.ok_or_else(|| never(format!("{place}: the profile does not have this task")))?;
        match task.overflow {
            // Its number is that of an instruction of the window, unless it was seen before the window.
            Some(Overflow { at_insns, is_first: true, .. }) if self.profile.facts.before_window_insns == 0 => {
                Ok(Found { insn: at_insns, note: Some(describe::describe_end_alone(self.profile)) })
            }
            _ => self.peak_of(travel, place, (task, name), say),
        }
    }

    /// The instruction that took the main stack out of its memory.
    fn main_overflow(&mut self, say: &mut dyn FnMut(&str)) -> Result<Found> {
        let left = |profile: &Profile| {
            let left = profile.facts.stack_left.as_ref()?;
            let before = profile.facts.before_window_insns;
            (left.overflow.is_first && before == 0).then(|| Found {
                insn: left.overflow.at_insns,
                note: overflow::sentence(profile, LeftStack::Main, |pc| describe::place(&profile.names, pc)),
            })
        };
        if let Some(found) = left(self.profile) {
            return Ok(found);
        }
        if self.exact.is_none() && self.profile.tree.is_empty() {
            say("the profile was made without --exact: one more run looks for where the main stack left its memory");
            self.exact = Some((self.again)(More::Exact)?);
        }
        let noticed = self.profile.facts.stack_left.as_ref().map_or(0, |left| left.overflow.at_insns);
        let note = describe::describe_end_alone(self.profile);
        Ok(self
            .exact
            .as_ref()
            .and_then(left)
            .unwrap_or(Found { insn: (self.profile.facts.before_window_insns + noticed).max(1), note: Some(note) }))
    }

    /// Last call of the function in whose endless loop the run ended: its caller has the reason.
    fn gave_up(
        &mut self,
        travel: &mut dyn Travel,
        place: &Place,
        pc: u64,
        say: &mut dyn FnMut(&str),
    ) -> Result<Found> {
        let start = self.profile.names.function_at(pc).map(|function| function.start);
        let rows = functions::table(self.profile).rows;
        let row = rows.iter().find(|row| row.start.is_some() && row.start == start && row.calls > 0);
        let Some((start, calls)) = row.and_then(|row| Some((row.start?, row.calls))) else {
            return self.crash(travel, place, say);
        };
        let found = self.call(travel, place, &format!("{start:#x}"), calls, say)?;
        Ok(Found { note: Some(describe::describe_end(self.profile)), ..found })
    }

    /// First addresses of the functions that a name refers to.
    fn entries(&self, function: &str) -> Result<Vec<u64>> {
        let places = lookup::places(self.profile, function)?;
        Ok(places.iter().map(|place| owner::address_of(self.profile, place.start())).collect())
    }

    fn call(
        &mut self,
        travel: &mut dyn Travel,
        place: &Place,
        function: &str,
        nth: u64,
        say: &mut dyn FnMut(&str),
    ) -> Result<Found> {
        let entries = self.entries(function)?;
        let rows = functions::table(self.profile).rows;
        let of_these = rows.iter().filter(|row| row.start.is_some_and(|start| entries.contains(&start)));
        let calls: u64 = of_these.map(|row| row.calls).sum();
        if nth > calls {
            return Err(never(match calls {
                0 => format!("{place}: {function} was never called in the window"),
                _ => format!("{place}: {function} was called {}; the last is call:{function}:{calls}", times(calls)),
            }));
        }
        let turns = Turns::new(self.profile, &entries);
        let addresses = turns.addresses(&entries);
        say(&format!("looking for call {} of {function}: one more run", group(nth)));
        if turns.0.is_empty() && nth <= MAX_STOPS {
            go(travel, self.first())?;
            travel.set_breakpoints(&entries);
            let mut seen = u64::from(entries.contains(&travel.at().pc));
            while seen < nth {
                let stop = self.forward(travel)?;
                if stop.why != Why::Breakpoint {
                    return Err(never(format!("{place}: {function} was called {} in this run", times(seen))));
                }
                seen += 1;
            }
            return Ok(Found { insn: travel.at().insn, note: None });
        }
        let insns = self.profile.insns();
        let of_window: u64 = addresses.iter().map(|address| insns.get(address).copied().unwrap_or(0)).sum();
        let (last, mut from) = (self.last(), self.first() - 1);
        let mut length = (last - from).div_ceil(of_window.div_ceil(self.max_hits).max(1)).max(1);
        let mut counting =
            Counting { turns: &turns, entries: &entries, nth, open: Vec::new(), calls: 0, found: None };
        // Searches in parts, each short enough that its hits can all be kept.
        while from < last && counting.found.is_none() {
            let until = last.min(from + length);
            let (hits, count) = travel.hits(&addresses, Some(until + 1), self.max_hits as usize)?;
            let is_cut = count > hits.len() as u64 && hits.first().is_none_or(|hit| hit.insn > from);
            if is_cut && length > 1 {
                length = length.div_ceil(2);
                continue;
            }
            let of_these = hits.iter().filter(|hit| (from + 1..=until).contains(&hit.insn));
            of_these.for_each(|hit| counting.count(hit));
            from = until;
        }
        let Counting { calls: counted, found, .. } = counting;
        let differs = from == last && counted != calls;
        let note = differs
            .then(|| format!("the profile counts {} of {function}, this run {}", group(calls), group(counted)));
        match found {
            Some(hit) => Ok(Found { insn: hit.insn, note }),
            None => Err(never(format!("{place}: {function} was called {} in this run", times(counted)))),
        }
    }

    /// Profile with all spans: this profile if it has them, otherwise the profile of one more run.
    fn spans(&mut self, what: &str, say: &mut dyn FnMut(&str)) -> Result<&Profile> {
        let is_followed = |span: &Span| !matches!(span.kind, SpanKind::Between { .. });
        if !self.profile.tree.is_empty() || self.profile.spans.iter().any(is_followed) {
            return Ok(self.profile);
        }
        if self.exact.is_none() {
            say(&format!("the profile was made without --exact: one more run looks for {what}"));
            self.exact = Some((self.again)(More::Exact)?);
        }
        Ok(self.exact.as_ref().unwrap_or(self.profile))
    }

    fn longest_call(&mut self, place: &Place, function: &str, say: &mut dyn FnMut(&str)) -> Result<Found> {
        let entries = self.entries(function)?;
        let profile = self.spans("the longest call", say)?;
        let of_these = |span: &&Span| matches!(span.kind, SpanKind::Call { entry } if entries.contains(&entry));
        let longest = longest(profile.spans.iter().filter(of_these));
        longest.map(|span| found_span(profile, span)).ok_or_else(|| {
            let rows = functions::table(self.profile).rows;
            let of_these = rows.iter().filter(|row| row.start.is_some_and(|start| entries.contains(&start)));
            match of_these.map(|row| row.calls).sum() {
                0 => never(format!("{place}: {function} was never called in the window")),
                calls => never(format!(
                    "{place}: {function} was called {} and has not returned in the window; go to call:{function}",
                    times(calls)
                )),
            }
        })
    }

    fn longest_interrupt(&mut self, place: &Place, name: &str, say: &mut dyn FnMut(&str)) -> Result<Found> {
        let profile = self.spans("the longest handler", say)?;
        let exceptions = Exceptions::new(profile);
        let named = profile.spans.iter().filter_map(|span| match span.kind {
            SpanKind::Exception { number } => Some((exceptions.name(number, span.longest_at), span)),
            _ => None,
        });
        let named: Vec<(String, &Span)> = named.collect();
        let meant = named.iter().filter(|(shown, _)| is_interrupt(shown, name)).map(|(_, span)| *span);
        longest(meant).map(|span| found_span(profile, span)).ok_or_else(|| {
            let there: Vec<String> = named.iter().map(|(shown, _)| shown.clone()).collect();
            never(match there.is_empty() {
                true => format!("{place}: no interrupt came and returned in the window"),
                false => {
                    format!("{place}: no interrupt of that name came and returned; there are {}", listed(&there))
                }
            })
        })
    }

    fn longest_masked(&mut self, place: &Place, say: &mut dyn FnMut(&str)) -> Result<Found> {
        let profile = self.spans("where interrupts were masked", say)?;
        let longest = longest(profile.spans.iter().filter(|span| span.kind == SpanKind::Masked));
        let longest = longest.map(|span| found_span(profile, span));
        longest
            .ok_or_else(|| never(format!("{place}: interrupts were never masked and unmasked again in the window")))
    }

    /// Task that a name refers to, with namesakes numbered as in reports.
    fn task(&self, place: &Place, name: &str) -> Result<(&'a Task, String)> {
        let names = task_names(self.profile);
        // What is shown of a name can be typed.
        let is_it = |known: &String| known == name.trim() || printable(known) == name.trim();
        match names.iter().position(is_it) {
            Some(index) => Ok((&self.profile.tasks[index], names[index].clone())),
            None if names.is_empty() => {
                Err(never(format!("{place}: no task ran in the window, or the firmware has no known kernel")))
            }
            None => {
                let near = nearest(name.trim(), names.iter().map(String::as_str));
                let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
                Err(never(format!("{place}: no task is called `{name}`; {near}there are {}", listed(&names))))
            }
        }
    }

    fn switch(
        &mut self,
        travel: &mut dyn Travel,
        place: &Place,
        name: &str,
        nth: u64,
        say: &mut dyn FnMut(&str),
    ) -> Result<Found> {
        let (task, name) = self.task(place, name)?;
        let switches = task.switches;
        let noun = if task.poll.is_some() { "polled" } else { "switched in" };
        if nth > switches {
            return Err(never(match switches {
                0 => format!("{place}: {name} was running as the window opened and was not {noun} again"),
                _ => format!("{place}: {name} was {noun} {}; the last is switch:{name}:{switches}", times(switches)),
            }));
        }
        say(&format!("looking for switch {} to {name}: one more run", group(nth)));
        go(travel, self.first())?;
        let mut seen = 0;
        if let Some(poll) = task.poll {
            travel.set_breakpoints(&[poll]);
            while seen < nth {
                if travel.at().pc == poll && argument(travel, self.profile.facts.is_arm())? == Some(task.tcb) {
                    seen += 1;
                    if seen == nth {
                        break;
                    }
                }
                if self.forward(travel)?.why != Why::Breakpoint {
                    return Err(never(format!("{place}: {name} was polled {} in this run", times(seen))));
                }
            }
            return Ok(Found { insn: travel.at().insn, note: None });
        }
        let Some(kernel) = &self.kernel else {
            return Err(never(format!("{place}: the file with the symbols does not show the firmware's kernel")));
        };
        let watch = |range: &Range<u64>| Watch { range: range.clone(), access: Access::Write };
        let watches: Vec<Watch> =
            [Some(&kernel.current), kernel.running.as_ref()].into_iter().flatten().map(watch).collect();
        // The memory of a deleted task may be reused for another one.
        let earlier = self.profile.tasks.iter().take_while(|other| !std::ptr::eq(*other, task));
        let others: u64 = earlier.filter(|other| other.tcb == task.tcb).map(|other| other.switches).sum();
        let mut current = current_task(travel, kernel)?;
        travel.set_watches(&watches);
        while seen < others + nth {
            if !matches!(self.forward(travel)?.why, Why::Watch { .. }) {
                let seen = times(seen.saturating_sub(others));
                return Err(never(format!("{place}: {name} was switched in {seen} in this run")));
            }
            let now = current_task(travel, kernel)?;
            seen += u64::from(now != current && now == Some(task.tcb));
            current = now;
        }
        Ok(Found { insn: travel.at().insn, note: None })
    }

    fn peak_stack(
        &mut self,
        travel: &mut dyn Travel,
        place: &Place,
        name: Option<&str>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Found> {
        let (task, name) = match name {
            Some(name) => self.task(place, name)?,
            None => {
                let names = task_names(self.profile);
                let with_stack = self.profile.tasks.iter().zip(names).filter(|(task, _)| task.deepest_sp.is_some());
                let room = |task: &Task| Some(task.deepest_sp?.saturating_sub(task.stack_start?));
                match with_stack.min_by_key(|(task, _)| room(task).unwrap_or(u64::MAX)) {
                    Some(least) => least,
                    None if self.kernel.is_none() => return self.main_stack(travel, place, say),
                    None => return Err(never(format!("{place}: no task has run in the window"))),
                }
            }
        };
        self.peak_of(travel, place, (task, name), say)
    }

    /// Finds where a task's stack was deepest.
    fn peak_of(
        &self,
        travel: &mut dyn Travel,
        place: &Place,
        (task, name): (&Task, String),
        say: &mut dyn FnMut(&str),
    ) -> Result<Found> {
        let Some(deepest) = task.deepest_sp else {
            return Err(never(format!("{place}: the profile does not know the stack of {name}")));
        };
        let note = Some(depth(task, &name, deepest));
        say(&format!("looking for where the stack of {name} was at {}: one more run", Hex(deepest)));
        go(travel, self.first())?;
        let word = if self.profile.facts.isa.starts_with("riscv64") { 8 } else { 4 };
        travel.set_watches(&[Watch { range: deepest..deepest + word, access: Access::Write }]);
        while let Why::Watch { .. } = self.forward(travel)?.why {
            // Stores that clear or paint the stack come from another task. A kernel may save a task's registers below
            // the task's stack pointer before it moves the pointer.
            let near = |&sp: &u64| (deepest..=deepest + MAX_SAVED_BYTES).contains(&sp);
            if stack_pointers(travel)?.iter().any(near) && self.runs(travel, task)? {
                return Ok(Found { insn: travel.at().insn, note });
            }
        }
        let Found { insn, note: more } = self.peak_by_moves(travel, place, &name, deepest)?;
        let notes: Vec<String> = note.into_iter().chain(more).collect();
        Ok(Found { insn, note: Some(notes.join("\n")) })
    }

    /// Finds the instruction at which the firmware's first stack, which a Cortex-M's interrupts also use, was
    /// deepest. The profile has no measurement of this stack, so the search follows writes from the first call on,
    /// each deeper than those before.
    fn main_stack(&self, travel: &mut dyn Travel, place: &Place, say: &mut dyn FnMut(&str)) -> Result<Found> {
        let isa = self.profile.facts.isa();
        let arcs = self.profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs);
        let called: BTreeSet<u64> = arcs.filter(|arc| arc.links).map(|arc| arc.target).collect();
        say("the firmware has no known kernel: looking for where its main stack was deepest: one more run");
        go(travel, self.first())?;
        travel.set_breakpoints(&called.into_iter().collect::<Vec<u64>>());
        let is_called = self.forward(travel)?.why == Why::Breakpoint;
        travel.set_breakpoints(&[]);
        let Some(top) = main_stack_pointer(travel, isa)?.filter(|_| is_called) else {
            return Err(never(format!("{place}: no function was called in the window")));
        };
        let (mut deepest, mut insn) = (top, travel.at().insn);
        let mut lowest = self.end_of_data(top);
        while lowest < deepest {
            travel.set_watches(&[Watch { range: lowest..deepest, access: Access::Write }]);
            let Why::Watch { address, .. } = self.forward(travel)?.why else { break };
            match main_stack_pointer(travel, isa)? {
                Some(sp) if sp <= address.max(lowest) => {
                    (deepest, insn) = (sp.min(deepest - 1), travel.at().insn);
                }
                // The store was to other data, and the stack lies above that data.
                _ => lowest = address.max(lowest) + 1,
            }
        }
        let depth = plural(top - deepest, "byte");
        Ok(Found { insn, note: Some(format!("the main stack, {depth} deeper than at the first call")) })
    }

    /// End of the data below a stack, as far as the file shows it.
    fn end_of_data(&self, top: u64) -> u64 {
        let file = self.elf.and_then(|bytes| object::File::parse(bytes).ok());
        let segments = file.iter().flat_map(|file| file.segments());
        let bias = self.profile.facts.load_bias;
        let ends = segments.map(|segment| {
            let start = segment.address().wrapping_add(bias);
            let end = start.saturating_add(segment.size());
            if end < top { end } else { start }
        });
        ends.filter(|&end| end < top).max().unwrap_or(0).max(top.saturating_sub(MAX_STACK_BYTES))
    }

    /// Whether a task is running; true if the kernel is not known.
    fn runs(&self, travel: &mut dyn Travel, task: &Task) -> Result<bool> {
        let Some(kernel) = &self.kernel else { return Ok(true) };
        Ok(current_task(travel, kernel)? == Some(task.tcb))
    }

    /// Finds the deepest point of a stack if no instruction wrote there: it is after an instruction that makes room.
    /// The registers that an interrupt saves are not written by an instruction.
    fn peak_by_moves(&self, travel: &mut dyn Travel, place: &Place, name: &str, deepest: u64) -> Result<Found> {
        let isa = self.profile.facts.isa();
        let insns = self.profile.vcpus.iter().flat_map(|vcpu| &vcpu.insns);
        let moves = insns.filter(|insn| {
            let code = isa.zip(self.profile.code_at(insn.pc));
            code.is_some_and(|(isa, bytes)| decode::moves_sp(isa, bytes))
        });
        let after: Vec<u64> = moves.map(|insn| insn.pc + u64::from(insn.size_bytes)).collect();
        let (hits, _) = travel.hits(&after, Some(self.last() + 1), MAX_MOVES)?;
        let first = self.first();
        let at = |sp: u64| hits.iter().find(|hit| hit.insn >= first && hit.sp == sp);
        if let Some(hit) = at(deepest) {
            return Ok(Found { insn: hit.insn, note: None });
        }
        let frames = if self.profile.facts.is_arm() { &ARM_FRAMES_BYTES[..] } else { &[] };
        let hit = frames.iter().find_map(|bytes| at(deepest + bytes)).ok_or_else(|| {
            never(format!("{place}: no instruction has left the stack of {name} at {}", Hex(deepest)))
        })?;
        let note = "from here on; the deepest came as an interrupt saved registers on it".to_owned();
        Ok(Found { insn: hit.insn, note: Some(note) })
    }

    fn printed(&mut self, place: &Place, text: &str, say: &mut dyn FnMut(&str)) -> Result<Found> {
        let Some(console) = &self.console else {
            return Err(never(format!("{place}: what the firmware printed is not kept beside this profile")));
        };
        if self.profile.vcpus.len() > 1 {
            return Err(never(format!("{place}: this place needs a machine with one CPU; use sample:N or insn:N")));
        }
        let wanted = text.as_bytes();
        let Some(start) = console.windows(wanted.len()).position(|piece| piece == wanted) else {
            return Err(never(match nearest_line(console, text) {
                Some(line) => format!("{place}: that was never printed; the nearest is console:{line}"),
                None => format!("{place}: that was never printed"),
            }));
        };
        let end = (start + wanted.len()) as u64;
        let (before, total) = (self.profile.facts.before_window_insns, self.profile.total_insns());
        // The first mark by which all of the text had been printed.
        let marked = |profile: &Profile| profile.console_marks.iter().find(|mark| mark.1 >= end).map(|mark| mark.0);
        let bound = marked(self.profile).unwrap_or(total).max(1);
        let period_insns = bound.div_ceil(MARKS);
        say("looking for when that was printed: one more run");
        let marks = (self.again)(More::Marks { period_insns, for_insns: bound })?;
        let Some(insn) = marked(&marks) else {
            // Output at the very end comes after the last sample.
            return Ok(Found { insn: before + bound, note: None });
        };
        let note = (period_insns > 1)
            .then(|| format!("it was printed up to {} earlier", plural(period_insns, "instruction")));
        Ok(Found { insn: before + insn, note })
    }

    /// Addresses of a variable, or of the memory at an address.
    pub(crate) fn memory(&self, what: &str) -> Result<Range<u64>> {
        if what.starts_with("0x") {
            let address = parse_number("write", what)?;
            return Ok(address..address.saturating_add(1));
        }
        variable(self.elf, self.profile.facts.load_bias, what)
    }

    fn write(
        &mut self,
        travel: &mut dyn Travel,
        place: &Place,
        what: &str,
        before: Option<&Place>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Found> {
        let range = self.memory(what)?;
        can_watch_on(self.profile.facts.isa(), &range)?;
        let from = match before {
            Some(before) => self.look(travel, before, say)?.insn,
            None => self.last(),
        };
        say(&format!("looking for the last write of {what}: one more run"));
        go(travel, from)?;
        self.written_before(travel, &range)?.ok_or_else(|| {
            let until = before.map_or("in the run".to_owned(), |before| format!("before {before}"));
            never(format!("{place}: {what} was never written {until}"))
        })
    }

    /// Finds the last write of memory before the current instruction.
    pub(crate) fn written_before(&self, travel: &mut dyn Travel, range: &Range<u64>) -> Result<Option<Found>> {
        travel.set_watches(&[Watch { range: range.clone(), access: Access::Write }]);
        let stop = uninterrupted(travel.backward(1)?)?;
        Ok(match stop.why {
            Why::Watch { by, .. } => Some(Found { insn: by, note: None }),
            _ => None,
        })
    }
}

/// Most changes of the stack pointer that are examined.
const MAX_MOVES: usize = 1 << 22;

/// Largest main stack that is searched, in bytes.
const MAX_STACK_BYTES: u64 = 1 << 26;

/// Most bytes that a kernel saves below a task's stack pointer.
const MAX_SAVED_BYTES: u64 = 0x100;

/// Bytes that a Cortex-M saves for an interrupt: with and without the FPU's registers, with and without a word of
/// padding.
const ARM_FRAMES_BYTES: [u64; 4] = [32, 36, 104, 108];

/// Jumps back to a function's own start, which are not calls: address, address after it, target.
struct Turns(Vec<(u64, u64, u64)>);

impl Turns {
    fn new(profile: &Profile, entries: &[u64]) -> Turns {
        let insns = profile.vcpus.iter().flat_map(|vcpu| &vcpu.insns);
        let size = |pc: u64| insns.clone().find(|insn| insn.pc == pc).map_or(0, |insn| u64::from(insn.size_bytes));
        let arcs = profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs);
        let parts = ColdParts::of(profile);
        let turns = arcs.filter(|arc| entries.contains(&arc.target) && !functions::is_call(profile, &parts, arc));
        let mut turns: Vec<_> = turns.map(|arc| (arc.site, arc.site + size(arc.site), arc.target)).collect();
        turns.sort_unstable();
        turns.dedup();
        Turns(turns)
    }

    /// Addresses to follow: the entries, the jumps, and the instructions after them.
    fn addresses(&self, entries: &[u64]) -> Vec<u64> {
        let of_jumps = self.0.iter().flat_map(|&(site, after, _)| [site, after]);
        entries.iter().copied().chain(of_jumps).collect::<BTreeSet<u64>>().into_iter().collect()
    }
}

/// Counts entries from outside, from hits in their order.
struct Counting<'t> {
    turns: &'t Turns,
    entries: &'t [u64],
    nth: u64,
    /// Jumps whose targets have not executed yet, the innermost last: an interrupt may come in between.
    open: Vec<(u64, u64)>,
    calls: u64,
    /// The entry that is searched for.
    found: Option<Hit>,
}

impl Counting<'_> {
    fn count(&mut self, hit: &Hit) {
        let Turns(turns) = self.turns;
        if self.entries.contains(&hit.pc) {
            match self.open.iter().rposition(|&(target, sp)| (target, sp) == (hit.pc, hit.sp)) {
                Some(index) => self.open.truncate(index),
                None => {
                    self.calls += 1;
                    if self.calls == self.nth {
                        self.found = Some(*hit);
                    }
                }
            }
        } else if turns.iter().any(|&(_, after, _)| after == hit.pc) {
            let index = self.open.iter().rposition(|&(_, sp)| sp == hit.sp);
            index.into_iter().for_each(|index| self.open.truncate(index));
        }
        // An instruction may be both a jump and an entry: the function is one endless loop.
        if let Some(&(_, _, target)) = turns.iter().find(|&&(site, _, _)| site == hit.pc) {
            self.open.push((target, hit.sp));
        }
    }
}

/// Text for a stack's depth, as far as its bounds are known: `the stack of log at its deepest: 212 of 512 bytes used,
/// 300 left`.
fn depth(task: &Task, name: &str, deepest: u64) -> String {
    let used = task.stack_end.and_then(|end| end.checked_sub(deepest));
    let left = task.stack_start.map(|start| deepest.saturating_sub(start));
    let bytes = |bytes: u64| plural(bytes, "byte");
    let known = match (used, left) {
        (Some(used), Some(_)) if task.stack_bytes().is_some_and(|size| used > size) => {
            format!("{} used, {} more than it has", bytes(used), group(used - task.stack_bytes().unwrap_or(0)))
        }
        (Some(used), Some(left)) => format!("{} of {} used, {} left", group(used), bytes(used + left), group(left)),
        (Some(used), None) => format!("{} used", bytes(used)),
        (None, Some(left)) => format!("{} left", bytes(left)),
        (None, None) => format!("down to {}", Hex(deepest)),
    };
    format!("the stack of {name} at its deepest: {known}")
}

/// The longest span; the first of equal ones.
fn longest<'s>(spans: impl Iterator<Item = &'s Span>) -> Option<&'s Span> {
    let spans = spans.filter(|span| span.count > 0);
    spans.min_by_key(|span| (std::cmp::Reverse(span.max_insns), span.longest_since_insns))
}

/// First instruction of the longest span, with its length.
fn found_span(profile: &Profile, span: &Span) -> Found {
    let insn = profile.facts.before_window_insns + span.longest_since_insns + 1;
    let [longest, mean] = [span.max_insns, span.mean_insns()].map(group);
    Found { insn, note: Some(format!("{longest} instructions, the longest of {}; mean {mean}", group(span.count))) }
}

/// Control block of the running task, from the kernel's variables; 0 while the kernel idles outside of all tasks. None:
/// the scheduler does not run, or switches.
pub(crate) fn current_task(travel: &mut dyn Travel, kernel: &Kernel) -> Result<Option<u64>> {
    if let Some(running) = &kernel.running
        && travel.read(running.start, (running.end - running.start) as usize)?.iter().all(|&byte| byte == 0)
    {
        return Ok(None);
    }
    // The first core's pointer: the variable may be an array with one pointer per core.
    let bytes = (kernel.current.end - kernel.current.start).min(8) as usize;
    let read = travel.read(kernel.current.start, bytes)?;
    let Some(tcb) = (read.len() == bytes).then(|| little_endian(&read)) else { return Ok(None) };
    if tcb != 0 {
        return Ok(Some(tcb));
    }
    let next = kernel.next.as_ref().map(|next| travel.read(next.start, bytes)).transpose()?;
    Ok(next.is_some_and(|next| next.len() == bytes && little_endian(&next) == 0).then_some(0))
}

/// A function's first argument, at its first instruction.
fn argument(travel: &mut dyn Travel, is_arm: bool) -> Result<Option<u64>> {
    register(travel, if is_arm { &["r0"] } else { &["a0", "x10"] })
}

/// Address of the lowest byte of the stack that the firmware was started on.
fn main_stack_pointer(travel: &mut dyn Travel, isa: Option<Isa>) -> Result<Option<u64>> {
    for names in [&["msp"][..], &["sp"], &["x2", "r13"]] {
        if let Some(pointer) = register(travel, names)? {
            // An AVR's names the next free byte: the lowest in use lies behind it.
            return Ok(Some(if isa.is_some_and(Isa::is_avr) { AVR_DATA.start + pointer + 1 } else { pointer }));
        }
    }
    Ok(None)
}

/// All stack pointers of the processor.
fn stack_pointers(travel: &mut dyn Travel) -> Result<Vec<u64>> {
    let names = ["sp", "x2", "r13", "psp", "msp"];
    let registers = travel.registers()?;
    let are = registers.iter().filter(|register| names.contains(&&*register.name) && !register.bytes.is_empty());
    Ok(are.map(|register| little_endian(&register.bytes)).collect())
}

/// Addresses of a variable of the firmware.
fn variable(elf: Option<&[u8]>, load_bias: u64, name: &str) -> Result<Range<u64>> {
    let Some(file) = elf.and_then(|bytes| object::File::parse(bytes).ok()) else {
        return Err(never(format!("write:{name}: the image has no symbols; give an address (0x…)")));
    };
    let symbols = file.symbols().filter(|symbol| matches!(symbol.kind(), SymbolKind::Data | SymbolKind::Unknown));
    let mut named: Vec<(String, Range<u64>)> = Vec::new();
    for symbol in symbols.filter(|symbol| symbol.is_definition()) {
        let Ok(linkage) = symbol.name() else { continue };
        let start = symbol.address().wrapping_add(load_bias);
        let range = start..start.saturating_add(symbol.size().max(1));
        let shown = symbols::demangle(linkage).into_owned();
        if linkage == name || shown == name {
            return Ok(range);
        }
        named.push((shown, range));
    }
    let ends = |shown: &str| shown.strip_suffix(name).is_some_and(|outer| outer.ends_with("::"));
    let mut by_path: Vec<&(String, Range<u64>)> = named.iter().filter(|(shown, _)| ends(shown)).collect();
    by_path.dedup_by(|one, other| one.1 == other.1);
    match by_path[..] {
        [(_, range)] => Ok(range.clone()),
        [] => {
            let nearest = symbols::nearest(name, named.iter().map(|(shown, _)| &**shown));
            Err(never(match nearest.is_empty() {
                true => format!("write:{name}: no variable is called `{name}`; an address is written 0x…"),
                false => {
                    format!("write:{name}: no variable is called `{name}`; did you mean `{}`?", nearest.join("`, `"))
                }
            }))
        }
        _ => {
            let names: Vec<String> =
                by_path.iter().map(|(shown, range)| format!("{shown} ({:#x})", range.start)).collect();
            Err(never(format!("write:{name}: `{name}` names several variables: {}", listed(&names))))
        }
    }
}

/// Line of the console that is most similar to a text.
fn nearest_line(console: &[u8], text: &str) -> Option<String> {
    let console = String::from_utf8_lossy(console);
    let lines: BTreeSet<&str> = console.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let short = lines.into_iter().filter(|line| line.len() <= MAX_LINE_BYTES);
    let (wanted, short) = (text.trim().to_lowercase(), short.take(10_000));
    let scored = short.map(|line| {
        let lower = line.to_lowercase();
        let likeness =
            if lower.contains(&wanted) { 1.0 } else { strsim::normalized_damerau_levenshtein(&lower, &wanted) };
        (likeness, line)
    });
    let best = scored.max_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(one.1)))?;
    (best.0 > 0.0).then(|| best.1.to_owned())
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => plural(count, "time"),
    }
}

/// Count with its noun and verb: `7 samples were`, `1 sample was`.
fn were(count: u64, noun: &str) -> String {
    format!("{} {}", plural(count, noun), if count == 1 { "was" } else { "were" })
}

/// Names in their order, with the number of those left out.
fn listed(names: &[String]) -> String {
    let mut text = names.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>().join(", ");
    if let more @ 1.. = names.len().saturating_sub(MAX_LISTED) {
        text += &format!(" and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debug::fake::{Fake, kernel};
    use crate::profile::VcpuCounts;
    use crate::profile::testing::empty;

    /// Profile of executed addresses: `main` at 0x40, and `spin` at 0x50, whose loop begins at its first instruction.
    fn profile(pcs: &[u64]) -> Profile {
        let mut profile = empty().function("main", 0x40, 0x10).function("spin", 0x50, 0x10);
        for pc in pcs.iter().collect::<BTreeSet<_>>() {
            profile = profile.insn(*pc, pcs.iter().filter(|at| *at == pc).count() as u64);
        }
        let came = |from: u64, to: u64| pcs.windows(2).filter(|pair| *pair == [from, to]).count() as u64;
        profile.arc((0x42, 0x50), Some(0x44), true, came(0x42, 0x50)).arc((0x52, 0x50), None, false, came(0x52, 0x50))
    }

    fn no_run(_: More) -> Result<Profile> {
        panic!("it is in the profile")
    }

    struct Tried {
        found: Result<Found, String>,
        said: Vec<String>,
        travel: Fake,
    }

    fn try_with(finder: &mut Finder<'_>, travel: &Fake, place: &str) -> Tried {
        let (mut said, mut travel) = (Vec::new(), travel.clone());
        let place = Place::parse(place).unwrap();
        let found = finder.find(&mut travel, &place, &mut |line| said.push(line.to_owned()));
        assert!(travel.breakpoints.is_empty() && travel.watches.is_empty(), "{place}");
        let found = found.map_err(|error| {
            assert!(error.is::<InputError>(), "{error}");
            error.to_string()
        });
        Tried { found, said, travel }
    }

    /// Finds a place; the error is its message.
    fn find(profile: &Profile, travel: &Fake, place: &str) -> Result<u64, String> {
        let tried = try_with(&mut Finder::new(profile, Box::new(no_run)), travel, place);
        if tried.found.is_err() {
            assert_eq!(tried.travel.insn, travel.insn, "{place}");
        }
        tried.found.map(|found| found.insn)
    }

    /// Two calls of `spin`: one with two turns, and one with one turn.
    const PCS: [u64; 11] = [0x40, 0x42, 0x50, 0x52, 0x50, 0x52, 0x54, 0x44, 0x42, 0x50, 0x52];

    #[test]
    fn instructions_and_samples_are_counted_from_the_window() {
        let mut profile = profile(&PCS).taken(1, 0x52, 0, 0);
        profile.facts.before_window_insns = 100;
        let travel = Fake::of(&PCS);
        assert_eq!(find(&profile, &travel, "insn:3"), Ok(103));
        assert_eq!(find(&profile, &travel, "sample:1"), Ok(110));
        assert_eq!(find(&profile, &travel, "end"), Ok(111));
        assert_eq!(
            find(&profile, &travel, "insn:12").unwrap_err(),
            "insn:12: 11 instructions were executed in the window; the last is insn:11"
        );
        assert_eq!(
            find(&profile, &travel, "sample:2").unwrap_err(),
            "sample:2: 1 sample was taken; the last is sample:1"
        );
    }

    #[test]
    fn a_sample_of_one_of_several_cpus_is_where_that_one_has_come_so_far() {
        let mut profile = profile(&PCS).taken(1, PCS[8], 0, 0);
        profile.samples[0].at_insns = 3;
        profile.vcpus.push(VcpuCounts::default());
        let mut travel = Fake::of(&PCS);
        // The other vCPU executes the first four, and every second one after that.
        travel.turns = (0..PCS.len()).map(|index| usize::from(index < 4 || index % 2 == 1)).collect();
        // The third instruction of the first vCPU is the ninth of the run.
        assert_eq!(find(&profile, &travel, "sample:1"), Ok(9));
    }

    #[test]
    fn the_turns_of_a_loop_at_a_functions_start_are_no_calls_of_it() {
        let profile = profile(&PCS);
        let travel = Fake::of(&PCS);
        assert_eq!(find(&profile, &travel, "call:spin"), Ok(3));
        assert_eq!(find(&profile, &travel, "call:spin:2"), Ok(10));
        assert_eq!(
            find(&profile, &travel, "call:spin:9").unwrap_err(),
            "call:spin:9: spin was called 2 times; the last is call:spin:2"
        );
        assert_eq!(find(&profile, &travel, "call:main"), Ok(1));
        assert!(find(&profile, &travel, "call:spim").unwrap_err().contains("did you mean `spin`?"));
        let tried = try_with(&mut Finder::new(&profile, Box::new(no_run)), &travel, "call:spin:2");
        assert_eq!(tried.said, ["looking for call 2 of spin: one more run"]);
        assert_eq!((tried.travel.lists, tried.found.unwrap().note), (1, None));
        // With room for fewer hits, it takes more runs.
        for max_hits in 1..7 {
            let mut finder = Finder::new(&profile, Box::new(no_run));
            finder.max_hits = max_hits;
            let tried = try_with(&mut finder, &travel, "call:spin:2");
            assert!(tried.travel.lists > 1, "{max_hits}");
            assert_eq!(tried.found.unwrap().insn, 10, "{max_hits}");
        }
    }

    #[test]
    fn an_interrupt_between_a_jump_and_the_loops_start_may_call_the_function_itself() {
        // The handler calls `spin` deeper in the stack, with one turn of its loop.
        let pcs = [0x40, 0x42, 0x50, 0x52, 0x60, 0x50, 0x52, 0x50, 0x52, 0x54, 0x62, 0x50, 0x52, 0x54];
        let mut travel = Fake::of(&pcs);
        travel.insns[4..11].iter_mut().for_each(|insn| insn.sp -= 0x40);
        let mut profile = profile(&pcs).function("handler", 0x60, 0x10);
        profile.vcpus[0].arcs[1].count = 2;
        assert_eq!(find(&profile, &travel, "call:spin:2"), Ok(6));
        assert!(find(&profile, &travel, "call:spin:3").is_err());
    }

    #[test]
    fn calls_before_the_window_do_not_count() {
        let mut profile = profile(&PCS[7..]);
        profile.facts.before_window_insns = 7;
        assert_eq!(find(&profile, &Fake::of(&PCS), "call:spin"), Ok(10));
        // Without the loop's jump, the run is stopped at each entry.
        let pcs = [0x42, 0x50, 0x54, 0x42, 0x50, 0x54, 0x42, 0x50, 0x54];
        let mut profile = self::profile(&pcs[3..]);
        profile.vcpus[0].arcs.pop();
        profile.facts.before_window_insns = 3;
        let tried = try_with(&mut Finder::new(&profile, Box::new(no_run)), &Fake::of(&pcs), "call:spin:2");
        assert_eq!((tried.found.unwrap().insn, tried.travel.lists), (8, 0));
    }

    #[test]
    fn the_longest_are_those_of_the_spans_and_else_of_one_more_run() {
        let mut exact = profile(&PCS);
        let span = |kind, longest_since_insns| Span {
            count: 2,
            min_insns: 1,
            max_insns: 5,
            sum_insns: 6,
            longest_at: 0x60,
            longest_since_insns,
            ..Span::none(kind)
        };
        exact.spans.push(span(SpanKind::Call { entry: 0x50 }, 2));
        exact.spans.push(span(SpanKind::Exception { number: 15 }, 6));
        exact.spans.push(span(SpanKind::Masked, 8));
        exact.facts.before_window_insns = 10;
        let travel = Fake::of(&PCS);
        assert_eq!(find(&exact, &travel, "max:spin"), Ok(13));
        assert_eq!(find(&exact, &travel, "max-irq:SysTick"), Ok(17));
        assert_eq!(find(&exact, &travel, "max-irq:[irq SysTick]"), Ok(17));
        assert_eq!(find(&exact, &travel, "masked-max"), Ok(19));
        assert_eq!(
            find(&exact, &travel, "max-irq:UART0").unwrap_err(),
            "max-irq:UART0: no interrupt of that name came and returned; there are [irq SysTick]"
        );
        assert_eq!(
            find(&exact, &travel, "max:main").unwrap_err(),
            "max:main: main was called once and has not returned in the window; go to call:main"
        );

        let mut plain = profile(&PCS);
        plain.facts.before_window_insns = 10;
        let mut runs = 0;
        let again = |more: More| {
            assert_eq!(more, More::Exact);
            runs += 1;
            Ok(exact.clone())
        };
        let mut finder = Finder::new(&plain, Box::new(again));
        let tried = try_with(&mut finder, &travel, "max:spin");
        let note = Some("5 instructions, the longest of 2; mean 3".to_owned());
        assert_eq!(tried.found, Ok(Found { insn: 13, note }));
        assert_eq!(tried.said, ["the profile was made without --exact: one more run looks for the longest call"]);
        assert_eq!(try_with(&mut finder, &travel, "masked-max").said, [""; 0]);
        drop(finder);
        assert_eq!(runs, 1);
    }

    #[test]
    fn a_crash_is_the_faulting_instruction_or_what_ended_the_run() {
        let mut profile = profile(&PCS);
        let travel = Fake::of(&PCS);
        let error = find(&profile, &travel, "crash").unwrap_err();
        assert!(error.starts_with("crash: the run did not crash: the window of 0 instructions"), "{error}");
        profile.facts.end = End::Exit { status: 3, pc: 0x52 };
        assert_eq!(find(&profile, &travel, "crash"), Ok(11));
        // The last call of the function with the loop.
        profile.facts.end = End::EndlessLoop { pc: 0x52, call: Some(0x42) };
        assert_eq!(find(&profile, &travel, "crash"), Ok(10));
        profile.facts.end = End::Faulting { pc: 0x52 };
        profile.facts.only.handler = Some(crate::profile::no_progress::OnlyHandler {
            number: 3,
            handler: 0x52,
            pc: 0x54,
            return_addr: 0,
            left_sp: None,
            since_insns: 7,
            times: 1,
            fault: None,
            device: None,
            is_fault: true,
            yields: false,
        });
        assert_eq!(find(&profile, &travel, "crash"), Ok(7));
    }

    #[test]
    fn the_last_write_is_looked_for_backwards_from_a_place() {
        let profile = profile(&PCS);
        let travel = Fake::of(&PCS).storing(2, 0x2000_0000, 1).storing(5, 0x2000_0000, 2).storing(5, 0x2000_0010, 2);
        assert_eq!(find(&profile, &travel, "write:0x20000003"), Ok(5));
        assert_eq!(find(&profile, &travel, "write:0x20000000@insn:5"), Ok(2));
        assert_eq!(find(&profile, &travel, "write:0x20000000@write:0x20000010"), Ok(2));
        assert_eq!(
            find(&profile, &travel, "write:0x20000000@insn:2").unwrap_err(),
            "write:0x20000000@insn:2: 0x20000000 was never written before insn:2"
        );
        assert_eq!(
            find(&profile, &travel, "write:0x30000000").unwrap_err(),
            "write:0x30000000: 0x30000000 was never written in the run"
        );
        assert!(find(&profile, &travel, "write:counter").unwrap_err().contains("the image has no symbols"));
    }

    /// Tasks at 0x20000000 and 0x20000100; the second one runs twice, from instructions 6 and 10 on.
    fn switching() -> (Profile, Fake) {
        let mut profile = profile(&PCS).task_called("blink").task_called("log");
        profile.tasks[1].switches = 2;
        let travel = Fake::of(&PCS)
            .holding(0x2000_0000, 0)
            .holding(0x2000_0004, 0)
            // Before the scheduler runs, no task does.
            .storing(1, 0x2000_0000, 0x2000_0100)
            .storing(2, 0x2000_0000, 0x2000_0000)
            .storing(3, 0x2000_0004, 1)
            .storing(5, 0x2000_0000, 0x2000_0100)
            .storing(6, 0x2000_0000, 0x2000_0100)
            .storing(7, 0x2000_0000, 0x2000_0000)
            .storing(9, 0x2000_0000, 0x2000_0100);
        (profile, travel)
    }

    #[test]
    fn a_task_is_switched_in_where_the_kernel_names_it() {
        let (profile, travel) = switching();
        let mut finder = Finder::new(&profile, Box::new(no_run));
        finder.kernel = Some(kernel());
        let mut at = |place: &str| try_with(&mut finder, &travel, place).found.map(|found| found.insn);
        assert_eq!(at("switch:blink"), Ok(4));
        assert_eq!(at("switch:log"), Ok(6));
        assert_eq!(at("switch:log:2"), Ok(10));
        assert_eq!(
            at("switch:log:3"),
            Err("switch:log:3: log was switched in 2 times; the last is switch:log:2".to_owned())
        );
        // Another task at the address of a deleted one.
        let mut again = profile.clone();
        again.tasks[1].switches = 1;
        again = again.task_called("late");
        again.tasks[2].tcb = again.tasks[1].tcb;
        let mut finder = Finder::new(&again, Box::new(no_run));
        finder.kernel = Some(kernel());
        assert_eq!(try_with(&mut finder, &travel, "switch:late").found.unwrap().insn, 10);
        let mut finder = Finder::new(&profile, Box::new(no_run));
        finder.kernel = Some(kernel());
        let mut at = |place: &str| try_with(&mut finder, &travel, place).found.map(|found| found.insn);
        assert_eq!(
            at("switch:lgo"),
            Err("switch:lgo: no task is called `lgo`; did you mean `log`? there are blink, log".to_owned())
        );
        assert!(find(&self::profile(&PCS), &travel, "switch:log").unwrap_err().contains("no task ran"));
    }

    #[test]
    fn the_deepest_stack_is_where_the_task_itself_wrote_or_made_room() {
        let (mut profile, travel) = switching();
        // Another task clears the stack first.
        let mut travel = travel.storing(4, 0x2000_0f00, 0).storing(8, 0x2000_0f00, 0).storing(10, 0x2000_0f00, 7);
        travel.insns[10].sp = 0x2000_0f00;
        profile.tasks[1].deepest_sp = Some(0x2000_0f00);
        let mut finder = Finder::new(&profile, Box::new(no_run));
        finder.kernel = Some(kernel());
        assert_eq!(try_with(&mut finder, &travel, "peak-stack:log").found.unwrap().insn, 11);
        // The task with the least room.
        let found = try_with(&mut finder, &travel, "peak-stack").found.unwrap();
        let note = Some("the stack of log at its deepest: 1,280 bytes used, 256 more than it has".to_owned());
        assert_eq!(found, Found { insn: 11, note });

        drop(finder);
        // Without a store: after `sub sp, #256` at 0x50.
        profile.code.push(crate::profile::Code { start: 0x50, bytes: vec![0xc0, 0xb0, 0x00, 0xbf] });
        let mut finder = Finder::new(&profile, Box::new(no_run));
        finder.kernel = Some(kernel());
        travel.insns[9].stores.clear();
        travel.insns[10].sp = 0x2000_1000;
        travel.insns[5].sp = 0x2000_0f00;
        assert_eq!(try_with(&mut finder, &travel, "peak-stack:log").found.unwrap().insn, 6);
        travel.insns[5].sp = 0x2000_0f20;
        let found = try_with(&mut finder, &travel, "peak-stack:log").found.unwrap();
        assert!(found.insn == 6 && found.note.unwrap().contains("an interrupt saved"));
        drop(finder);
        profile.tasks.clear();
        let mut finder = Finder::new(&profile, Box::new(no_run));
        finder.kernel = Some(kernel());
        let none = try_with(&mut finder, &travel, "peak-stack").found.unwrap_err();
        assert_eq!(none, "peak-stack: no task has run in the window");
        drop(finder);
        let none = find(&profile, &travel, "peak-stack:log").unwrap_err();
        assert!(none.contains("no task ran in the window"), "{none}");
    }

    #[test]
    fn without_a_kernel_the_deepest_stack_is_the_main_one() {
        let profile = profile(&PCS);
        let sps = [0x1000, 0x1000, 0x1000, 0x1000, 0xff0, 0xff0, 0xff0, 0xfd8, 0x1000, 0x1000, 0x1000];
        let mut travel = Fake::of(&PCS)
            // In order: at the call, on a heap, deeper, less deep, other data.
            .storing(4, 0x2000_0ff0, 1)
            .storing(5, 0x2000_0100, 1)
            .storing(6, 0x2000_0104, 1)
            .storing(7, 0x2000_0fd8, 1)
            .storing(8, 0x2000_0fe0, 1)
            .storing(9, 0x2000_0fc0, 1);
        for (insn, sp) in travel.insns.iter_mut().zip(sps) {
            insn.sp = 0x2000_0000 + sp;
        }
        let tried = try_with(&mut Finder::new(&profile, Box::new(no_run)), &travel, "peak-stack");
        let note = Some("the main stack, 40 bytes deeper than at the first call".to_owned());
        assert_eq!(tried.found, Ok(Found { insn: 8, note }));
        // With a separate stack for tasks the processor has another pointer to the main one.
        travel.insns.iter_mut().for_each(|insn| insn.registers.push(("msp", 0x2000_2000)));
        travel.insns[9].registers[0].1 = 0x2000_1fc0;
        travel.insns[8].stores = vec![(0x2000_1fc0, 1)];
        assert_eq!(find(&profile, &travel, "peak-stack"), Ok(10));
        let mut idle = profile.clone();
        idle.vcpus[0].arcs.clear();
        assert_eq!(
            find(&idle, &travel, "peak-stack").unwrap_err(),
            "peak-stack: no function was called in the window"
        );
    }

    #[test]
    fn of_a_run_that_was_written_to_only_instructions_are_places() {
        let profile = profile(&PCS).taken(1, 0x52, 0, 0);
        let mut travel = Fake::of(&PCS);
        travel.written_at = Some(2);
        let mut finder = Finder::new(&profile, Box::new(no_run));
        for place in ["sample:1", "end", "call:spin", "write:0x20000000"] {
            let error = finder.find(&mut travel, &Place::parse(place).unwrap(), &mut |_| ()).unwrap_err();
            assert!(
                error.is::<Refused>() && error.to_string().contains("wrote to the run at instruction 2"),
                "{error}"
            );
        }
        assert_eq!(find(&profile, &travel, "insn:3"), Ok(3));
    }

    #[test]
    fn a_search_that_is_interrupted_says_so_and_finds_nothing() {
        let (mut profile, mut travel) = switching();
        profile.tasks[1].deepest_sp = Some(0x2000_0f00);
        travel.is_interrupted = true;
        let mut finder = Finder::new(&profile, Box::new(no_run));
        finder.kernel = Some(kernel());
        for place in ["switch:log", "peak-stack:log", "write:0x20000000", "peak-stack"] {
            let error = finder.find(&mut travel, &Place::parse(place).unwrap(), &mut |_| ()).unwrap_err();
            assert_eq!(error.to_string(), "interrupted during the search", "{place}");
        }
    }

    #[test]
    fn a_text_is_printed_by_the_first_mark_that_has_it() {
        let mut plain = profile(&PCS);
        plain.facts.before_window_insns = 2;
        let mut marked = plain.clone();
        marked.console_marks = vec![(3, 4), (7, 9), (9, 20)];
        let again = |more: More| {
            assert_eq!(more, More::Marks { period_insns: 1, for_insns: 11 });
            Ok(marked.clone())
        };
        let mut finder = Finder::new(&plain, Box::new(again));
        let travel = Fake::of(&PCS);
        let error = try_with(&mut finder, &travel, "console:ready").found.unwrap_err();
        assert_eq!(error, "console:ready: what the firmware printed is not kept beside this profile");
        finder.console = Some(b"boot\nready\nlisting ok".to_vec());
        let mut at = |place: &str| try_with(&mut finder, &travel, place).found.map(|found| found.insn);
        assert_eq!(at("console:boot"), Ok(5));
        assert_eq!(at("console:read"), Ok(9));
        assert_eq!(at("console:ready"), Ok(11));
        // Output after the last mark is found at the end.
        assert_eq!(at("console:ok"), Ok(13));
        let error = at("console:raedy").unwrap_err();
        assert_eq!(error, "console:raedy: that was never printed; the nearest is console:ready");
    }
}
