// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects firmware at a standstill: no instruction executed for the first time in the window's second half, and one
//! loop took more than half of the window's instructions. The loop waits for a register of a device that reads the same
//! each time; or it has no end, and its function's name says that something went wrong. Interrupts may continue: a tick
//! makes such firmware look busy.
//!
//! Firmware that idles or works is not at a standstill. In the second half, one of these tells it from one:
//!
//! - Tasks other than the idle one execute: several functions continue that were called before, one in each task.
//! - A loop that waits for work does some: its turns differ.
//! - A processor that has nothing to do waits for an interrupt (`wfi`, `wfe`).
//! - An idle loop without such a wait is in a function with another name.
//!
//! All of this uses exact counts, so that the result is the same in every run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use decode::{Flow, Insn, Isa, decode};

use crate::analysis::dead_loop;
use crate::profile::no_progress::{Device, DeviceStore, OnlyPoll, Standstill};
use crate::profile::{Arc, End, Function, Names, Profile, VcpuCounts};

/// Permitted difference between the counts of instructions in one loop: each end of the second half may cut a turn.
const CUT: u64 = 2;

/// Maximum number of instructions between two reads of a register by unnamed code that only waits for it.
const POLL_INSNS: u64 = 64;

/// Loop of a standstill.
pub enum Found {
    /// It waits for a register.
    Polls(Standstill),
    /// It has no end.
    Endless {
        /// First instruction of the loop.
        pc: u64,
        /// Address of the call that led there, if it is known.
        call: Option<u64>,
    },
}

/// Accesses of devices in the window.
pub struct Accesses<'a> {
    /// Registers that were read over and over up to the end.
    pub polls: &'a [OnlyPoll],
    /// Instructions that stored to devices.
    pub stores: &'a [DeviceStore],
}

/// Registers of a Cortex-M that only the firmware changes, so that it never waits for them: interrupts' enable bits and
/// priorities, CPUID, VTOR, AIRCR, SCR, CCR, SHPR (Armv7-M ARM, B3.2.2 and B3.4.3). ICSR and what is pending change.
const FIXED: [Range<u64>; 4] =
    [0xe000_e100..0xe000_e200, 0xe000_e400..0xe000_e800, 0xe000_ed00..0xe000_ed04, 0xe000_ed08..0xe000_ed24];

/// Size of the range of addresses that a peripheral has to itself, as far as it matters here.
const PERIPHERAL_BYTES: u64 = 0x1000;

impl Accesses<'_> {
    /// Whether a loop of these instructions made a device do something after instruction `after_insns`, though it polls a
    /// register: what it stores changes, or it prints.
    fn show_work(&self, executed: &BTreeMap<u64, u64>, poll: &OnlyPoll, after_insns: u64) -> bool {
        let is_printed = |store: &DeviceStore| {
            store.last_insns > after_insns
                && store.address / PERIPHERAL_BYTES == poll.address / PERIPHERAL_BYTES
                && poll.device.as_ref().is_some_and(Device::is_serial)
        };
        let mut own = self.stores.iter().filter(|store| executed.contains_key(&store.pc));
        own.any(|store| store.changed_insns > after_insns || is_printed(store))
    }
}

/// Finds the loop of a standstill. `half` has each vCPU's counts in the middle of the window.
pub fn find(profile: &Profile, half: &[VcpuCounts], accesses: &Accesses<'_>) -> Option<Found> {
    if !matches!(profile.facts.end, End::For | End::MaxInsns) || half.len() != profile.vcpus.len() {
        return None;
    }
    let mut busy = profile.vcpus.iter().zip(half).filter(|(whole, _)| whole.clock_insns > 0);
    let (Some((whole, half)), None) = (busy.next(), busy.next()) else { return None };
    let search = Search::new(profile, whole, half)?;
    let is_fixed =
        |poll: &OnlyPoll| profile.facts.is_arm() && FIXED.iter().any(|range| range.contains(&poll.address));
    let polls = accesses.polls.iter().filter(|poll| poll.since_insns <= half.clock_insns && !is_fixed(poll));
    let lasting: Vec<&OnlyPoll> = polls.collect();
    if search.is_unnamed {
        return search.unnamed(&lasting).map(Found::Polls);
    }
    let place = search.place()?;
    let first = *search.grown.range(function_range(place)).next()?.0;
    let callers = dead_loop::Search::new(profile)?;
    if callers.has_failed(place, first) {
        // Whatever it does there, it is never left: it blinks, or prints for ever.
        return Some(Found::Endless { pc: first, call: callers.call(place) });
    }
    let executed = search.cycle(place)?;
    let insns: u64 = executed.keys().map(|pc| search.whole(*pc)).sum();
    if insns.saturating_mul(2) <= whole.clock_insns || search.waits(&executed) {
        return None;
    }
    let read = lasting.into_iter().filter(|poll| executed.contains_key(&poll.pc)).max_by_key(|poll| poll.times);
    let pc = *executed.range(function_range(place)).next()?.0;
    match read {
        Some(register) if accesses.show_work(&executed, register, half.clock_insns) => None,
        Some(register) => Some(Found::Polls(Standstill { pc, insns, register: register.clone() })),
        None => search.endless(place, &executed).map(|call| Found::Endless { pc, call }),
    }
}

fn function_range(function: &Function) -> Range<u64> {
    function.start..function.start.saturating_add(function.size_bytes)
}

/// Entries of functions at their first instruction: by calls, by jumps from elsewhere and as handlers.
fn entries(names: &Names, counts: &VcpuCounts) -> BTreeMap<u64, u64> {
    let mut entries: BTreeMap<u64, u64> = BTreeMap::new();
    for insn in &counts.insns {
        if names.function_at(insn.pc).is_some_and(|function| function.start == insn.pc) {
            *entries.entry(insn.pc).or_default() += insn.count;
        }
    }
    let is_within = |arc: &&Arc| {
        let function = names.function_at(arc.target).filter(|function| function.start == arc.target);
        !arc.links && function.is_some_and(|function| function_range(function).contains(&arc.site))
    };
    for arc in counts.arcs.iter().filter(is_within) {
        if let Some(entries) = entries.get_mut(&arc.target) {
            *entries = entries.saturating_sub(arc.count);
        }
    }
    entries
}

/// The second half of a window without new instructions.
struct Search<'p> {
    profile: &'p Profile,
    isa: Isa,
    half: &'p VcpuCounts,
    whole: BTreeMap<u64, u64>,
    /// Executions in the second half, by address.
    grown: BTreeMap<u64, u64>,
    /// Targets of calls and jumps in the second half, by function.
    called: BTreeMap<u64, BTreeSet<u64>>,
    /// Entries of functions in the second half.
    entered: BTreeMap<u64, u64>,
    /// Whether some executed code has no name.
    is_unnamed: bool,
}

impl<'p> Search<'p> {
    /// None: some instruction executed for the first time.
    fn new(profile: &'p Profile, counts: &'p VcpuCounts, half: &'p VcpuCounts) -> Option<Search<'p>> {
        let sums = |counts: &VcpuCounts| {
            let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
            for insn in &counts.insns {
                *sums.entry(insn.pc).or_default() += insn.count;
            }
            sums
        };
        let (whole, before) = (sums(counts), sums(half));
        let mut grown = BTreeMap::new();
        for (&pc, &count) in &whole {
            let before = before.get(&pc).copied().filter(|&before| before > 0)?;
            if count > before {
                grown.insert(pc, count - before);
            }
        }
        let names = &profile.names;
        let start = |address: u64| names.function_at(address).map(|function| function.start);
        let arc_key = |arc: &Arc| (arc.site, arc.target, arc.return_addr, arc.links);
        let arcs_before: BTreeMap<_, u64> = half.arcs.iter().map(|arc| (arc_key(arc), arc.count)).collect();
        let mut called: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for arc in counts.arcs.iter().filter(|arc| arc.count > arcs_before.get(&arc_key(arc)).copied().unwrap_or(0)) {
            if let (Some(from), Some(to)) = (start(arc.site), start(arc.target)) {
                called.entry(from).or_default().insert(to);
            }
        }
        let entries_before = entries(names, half);
        let mut entered = entries(names, counts);
        entered.iter_mut().for_each(|(start, entries)| {
            *entries = entries.saturating_sub(entries_before.get(start).copied().unwrap_or(0));
        });
        let is_unnamed = grown.keys().any(|&pc| start(pc).is_none());
        Some(Search { profile, isa: profile.facts.isa()?, half, whole, grown, called, entered, is_unnamed })
    }

    fn whole(&self, pc: u64) -> u64 {
        self.whole.get(&pc).copied().unwrap_or(0)
    }

    fn insn(&self, pc: u64) -> Option<Insn> {
        Some(decode(self.isa, pc, self.profile.code_at(pc)?))
    }

    /// Standstill of code without names, where functions cannot be distinguished: only one register was read, with
    /// few instructions between two reads.
    fn unnamed(&self, polls: &[&OnlyPoll]) -> Option<Standstill> {
        let alone = self.profile.facts.only.poll.as_ref()?;
        let poll = polls.iter().find(|poll| (poll.pc, poll.address) == (alone.pc, alone.address))?;
        let insns = self.profile.total_insns().saturating_sub(alone.since_insns);
        let is_all = alone.since_insns <= self.half.clock_insns && insns / alone.times.max(1) <= POLL_INSNS;
        let is_most = insns.saturating_mul(2) > self.profile.total_insns();
        (is_all && is_most).then(|| Standstill { pc: poll.pc, insns, register: (*poll).clone() })
    }

    /// The only function that continued in the second half without being entered: only it, its callees and handlers
    /// executed.
    fn place(&self) -> Option<&'p Function> {
        let functions: BTreeSet<u64> =
            self.grown.keys().filter_map(|&pc| Some(self.profile.names.function_at(pc)?.start)).collect();
        let went_on = |start: &u64| self.entered.get(start).is_none_or(|&entries| entries == 0);
        let mut lasting = functions.into_iter().filter(went_on);
        let (start, None) = (lasting.next()?, lasting.next()) else { return None };
        self.profile.names.function_at(start)
    }

    /// Instructions of a function and its callees with their executions, if all turns of the loop are the same.
    fn cycle(&self, function: &Function) -> Option<BTreeMap<u64, u64>> {
        let own = self.grown.range(function_range(function));
        let turns = own.clone().map(|(_, &count)| count).max()?;
        if own.clone().any(|(_, &count)| count + CUT < turns) {
            return None;
        }
        let mut executed: BTreeMap<u64, u64> = own.map(|(&pc, &count)| (pc, count)).collect();
        let (mut inside, mut open) = (BTreeSet::from([function.start]), vec![function.start]);
        while let Some(from) = open.pop() {
            let called = self.called.get(&from).into_iter().flatten();
            for &callee in called {
                if inside.insert(callee) {
                    open.push(callee);
                    let callee = self.profile.names.function_at(callee)?;
                    let within = self.grown.range(function_range(callee));
                    // An instruction that is rarer than the turns is on a path that is not always taken.
                    if within.clone().any(|(_, &count)| count + CUT < turns) {
                        return None;
                    }
                    executed.extend(within.map(|(&pc, &count)| (pc, count)));
                }
            }
        }
        Some(executed)
    }

    /// Whether the processor waits for an interrupt or an event in the executed code.
    fn waits(&self, executed: &BTreeMap<u64, u64>) -> bool {
        let is_wait = |code: &[u8]| decode::is_wfi(self.isa, code) || decode::is_wfe(self.isa, code);
        executed.keys().any(|&pc| self.profile.code_at(pc).is_some_and(is_wait))
    }

    /// Call that led to an endless loop of a function whose name says that something went wrong; Some(None): the call is not
    /// known.
    fn endless(&self, function: &Function, executed: &BTreeMap<u64, u64>) -> Option<Option<u64>> {
        let stays = |(&pc, _): (&u64, &u64)| {
            let Some(insn) = self.insn(pc) else { return false };
            let next = pc.wrapping_add(insn.len_bytes.into());
            match insn.flow {
                Flow::Next | Flow::It { .. } => executed.contains_key(&next),
                Flow::Jump { target } => executed.contains_key(&target),
                Flow::Branch { target } => executed.contains_key(&target) && executed.contains_key(&next),
                _ => false,
            }
        };
        if !executed.iter().all(stays) {
            return None;
        }
        let pc = *executed.range(function_range(function)).next()?.0;
        let search = dead_loop::Search::new(self.profile)?;
        search.has_failed(function, pc).then(|| search.call(function))
    }
}
