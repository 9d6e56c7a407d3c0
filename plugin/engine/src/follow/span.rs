// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exact spans: number of occurrences, and instructions taken, with their cycles where those are counted: least, most and sum.
//!
//! Calls and exceptions are followed by the exact tree ([`crate::follow::tree`]); each context (a task, an exception)
//! has a clock of its own for them, which stands still while others execute. Masked interrupts, a pending PendSV and
//! `--span` go by the vCPU's clock. A span that began before the window, or is open at the end of the run, does not
//! count. Memory is bounded by the firmware's code: each kind of span has six counters.

use rustc_hash::FxHashMap;
use wire::definition::{Definition, SPAN_COUNTERS, SpanCounter, SpanKind};
use wire::timeline::What;

use super::context::{Call, Core};
use crate::guest::{Guest, PENDSV, Vcpu};
use crate::ledger::{Counters, Ledger};
use crate::time::Time;

/// Most kinds of spans, far more than a firmware has functions and exceptions.
const MAX_SPANS: usize = 1 << 20;

/// Most functions that were left by tail calls and wait for the end of the chain. A state machine of tail calls may
/// never return; then its calls end here.
const MAX_CHAINED: usize = 1 << 14;

/// Spans that need the exact tree.
pub struct Spans {
    /// First counter of each kind.
    slots: FxHashMap<SpanKind, u32>,
    /// State of each vCPU.
    moments: Vec<Moment>,
    /// Whether spans are only shown on the timeline, without counters.
    is_uncounted: bool,
}

/// Open spans of a vCPU.
#[derive(Default)]
struct Moment {
    /// Whether interrupts are masked; in a RISC-V handler also by the hardware alone.
    is_masked: bool,
    /// Whether interrupts have been seen enabled. On RISC-V they are masked at reset, which is not a span.
    was_clear: bool,
    /// The vCPU's clock when they were masked, and the instruction that masked them.
    masked: Option<(Time, u64)>,
    /// Instruction that may just have changed the mask.
    changing: Option<u64>,
    /// The vCPU's clock when PendSV became pending, and the store that caused it.
    pended: Option<(Time, u64)>,
}

/// Spans that `--span` asked for.
pub struct Betweens(Vec<Between>);

/// A span of `--span`.
struct Between {
    /// Addresses, each of which begins a span.
    from: Vec<u64>,
    /// Addresses, each of which ends all open spans.
    until: Vec<u64>,
    slot: u32,
    /// Open spans by vCPU.
    open: Vec<Open>,
}

/// Open spans, which will all end at once.
#[derive(Clone, Copy, Default)]
struct Open {
    count: u64,
    /// Sums of the vCPU's clock at each beginning: instructions, cycles.
    sums: [u128; 2],
    first: Time,
    last: Time,
}

/// Counts spans of one kind: number; sum, shortest and longest; the longest one's beginning: its address and the vCPU's clock
/// there.
fn count(
    slot: u32,
    vcpu: u32,
    count: u64,
    [sum, min, max]: [Time; 3],
    (at, since): (u64, u64),
    ledger: &Ledger<impl Counters>,
) {
    let raise = |of: SpanCounter, value: u64| {
        let slot = slot + of as u32;
        let higher = value > ledger.get(slot, vcpu);
        if higher {
            ledger.set(slot, vcpu, value);
        }
        higher
    };
    let is_first = ledger.add(slot + SpanCounter::Count as u32, vcpu, count) == count;
    ledger.add(slot + SpanCounter::Sum as u32, vcpu, sum.insns);
    raise(SpanCounter::MinComplement, !min.insns);
    if raise(SpanCounter::Max, max.insns) || is_first {
        ledger.set(slot + SpanCounter::LongestAt as u32, vcpu, at);
        ledger.set(slot + SpanCounter::LongestSince as u32, vcpu, since);
    }
    if ledger.cycle_slot().is_some() {
        ledger.add(slot + SpanCounter::SumCycles as u32, vcpu, sum.cycles);
        raise(SpanCounter::MinCyclesComplement, !min.cycles);
        raise(SpanCounter::MaxCycles, max.cycles);
    }
}

fn define(kind: SpanKind, ledger: &mut Ledger<impl Counters>) -> u32 {
    let slot = ledger.new_slots(SPAN_COUNTERS);
    ledger.note(&Definition::Span { slot, kind });
    slot
}

impl Spans {
    /// No spans yet, for `vcpus` vCPUs.
    pub fn new(vcpus: u32) -> Spans {
        let moments = (0..vcpus).map(|_| Moment::default()).collect();
        Spans { slots: FxHashMap::default(), moments, is_uncounted: false }
    }

    /// Tracker for the timeline only, without counters.
    pub fn uncounted(vcpus: u32) -> Spans {
        Spans { is_uncounted: true, ..Spans::new(vcpus) }
    }

    /// First counter of a kind of span; None: there are too many kinds.
    fn slot(&mut self, kind: SpanKind, ledger: &mut Ledger<impl Counters>) -> Option<u32> {
        if let Some(&slot) = self.slots.get(&kind) {
            return Some(slot);
        }
        if self.slots.len() >= MAX_SPANS {
            return None;
        }
        let slot = define(kind, ledger);
        self.slots.insert(kind, slot);
        Some(slot)
    }

    /// Counts one span of this length, with the address and the vCPU's clock of its beginning.
    pub fn count(
        &mut self,
        kind: SpanKind,
        vcpu: u32,
        time: Time,
        began: (u64, u64),
        ledger: &mut Ledger<impl Counters>,
    ) {
        if self.is_uncounted {
            return;
        }
        if let Some(slot) = self.slot(kind, ledger) {
            count(slot, vcpu, 1, [time; 3], began, ledger);
        }
    }

    /// First counter of the calls of a function; None: there are too many functions.
    pub fn call_slot(&mut self, entry: u64, ledger: &mut Ledger<impl Counters>) -> Option<u32> {
        self.slot(SpanKind::Call { entry }, ledger)
    }

    /// Begins a call of a function, given with the first counter of its calls; the shadow stack with it has this
    /// length. `began_at`: the vCPU's clock.
    pub fn begin_call(
        &mut self,
        core: &mut Core,
        (entry, slot): (u64, u32),
        depth: usize,
        began_at: u64,
        ledger: &Ledger<impl Counters>,
    ) {
        if core.calls().open.len() >= depth + MAX_CHAINED {
            self.end_calls(core, depth - 1, ledger);
        }
        let calls = core.calls();
        let since = calls.time;
        calls.open.push(Call { entry, slot, depth, since, began_at });
    }

    /// Ends the calls of functions beyond this length of the shadow stack.
    pub fn end_calls(&mut self, core: &mut Core, depth: usize, ledger: &Ledger<impl Counters>) {
        let vcpu = core.vcpu;
        let calls = core.calls();
        while let Some(call) = calls.open.pop_if(|call| call.depth > depth) {
            let time = calls.time - call.since;
            count(call.slot, vcpu, 1, [time; 3], (call.entry, call.began_at), ledger);
        }
    }

    /// Notes that PendSV has become pending, or is cleared, by a store at `pc`.
    pub fn pend(&mut self, vcpu: u32, is_pending: bool, pc: u64, ledger: &Ledger<impl Counters>) {
        let pended = &mut self.moments[vcpu as usize].pended;
        if is_pending {
            pended.get_or_insert((ledger.time(vcpu), pc));
        } else {
            *pended = None;
        }
    }

    /// Handles the first instruction of a handler.
    pub fn handler_starts(
        &mut self,
        vcpu: u32,
        number: u64,
        guest: &mut Guest<impl Vcpu>,
        ledger: &mut Ledger<impl Counters>,
    ) {
        if let Some(was_masked) = guest.masked_before_trap() {
            // The trap has masked interrupts: that belongs to the exception's span, and begins no other.
            if let Some(at) = self.moments[vcpu as usize].changing.take() {
                // The exception came right after the instruction.
                self.note_mask(vcpu, was_masked, at, guest, ledger);
            }
            self.moments[vcpu as usize].is_masked = true;
        }
        if number == PENDSV
            && let Some((since, at)) = self.moments[vcpu as usize].pended.take()
        {
            let time = ledger.time(vcpu) - since;
            self.count(SpanKind::PendSv, vcpu, time, (at, since.insns), ledger);
        }
    }

    /// Notes an instruction that may change the mask, before it executes.
    pub fn mask_may_change(&mut self, vcpu: u32, pc: u64) {
        self.moments[vcpu as usize].changing = Some(pc);
    }

    /// Checks the mask after an instruction that may have changed it.
    pub fn check_mask(&mut self, vcpu: u32, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        let moment = &mut self.moments[vcpu as usize];
        let at = match (moment.changing.take(), moment.masked) {
            (Some(at), _) => at,
            (None, Some((_, at))) if guest.facts.return_unmasks => at,
            _ => return,
        };
        let is_masked = guest.is_masked();
        self.note_mask(vcpu, is_masked, at, guest, ledger);
    }

    fn note_mask(
        &mut self,
        vcpu: u32,
        is_masked: bool,
        at: u64,
        guest: &Guest<impl Vcpu>,
        ledger: &mut Ledger<impl Counters>,
    ) {
        let time = ledger.time(vcpu);
        let moment = &mut self.moments[vcpu as usize];
        let was_masked = std::mem::replace(&mut moment.is_masked, is_masked);
        moment.was_clear |= !is_masked;
        if !is_masked {
            if let Some((since, at)) = moment.masked.take() {
                ledger.happened(vcpu, What::Unmasked);
                self.count(SpanKind::Masked, vcpu, time - since, (at, since.insns), ledger);
            }
        } else if !was_masked && (moment.was_clear || !guest.facts.is_masked_at_reset) {
            moment.masked = Some((time, at));
            ledger.happened(vcpu, What::Masked);
        }
    }

    /// Handles the return of the outermost trap: if it leaves interrupts masked that the hardware had masked, a span
    /// begins.
    pub fn outermost_returned(&mut self, vcpu: u32) {
        let moment = &mut self.moments[vcpu as usize];
        if moment.masked.is_none() {
            moment.is_masked = false;
        }
    }

    /// Opens the window: spans under way began before it.
    pub fn restart(&mut self) {
        for moment in &mut self.moments {
            (moment.masked, moment.pended) = (None, None);
        }
    }
}

impl Betweens {
    /// Defines what was asked for, so that it is in the profile if it never comes.
    pub fn new(spans: &[(Vec<u64>, Vec<u64>)], vcpus: u32, ledger: &mut Ledger<impl Counters>) -> Betweens {
        let mut list: Vec<Between> = Vec::new();
        for (from, until) in spans {
            let same = list.iter().find(|between| (&between.from, &between.until) == (from, until));
            let slot = same.map(|between| between.slot);
            // The first addresses identify it.
            let kind = SpanKind::Between { from: from[0], until: until[0] };
            let slot = slot.unwrap_or_else(|| define(kind, ledger));
            let open = vec![Open::default(); vcpus as usize];
            list.push(Between { from: from.clone(), until: until.clone(), slot, open });
        }
        Betweens(list)
    }

    /// Whether a span begins at an address, and whether one ends there.
    pub fn bounds(&self, pc: u64) -> (bool, bool) {
        let any = |is: fn(&Between, &u64) -> bool| self.0.iter().any(|between| is(between, &pc));
        (any(|between, pc| between.from.contains(pc)), any(|between, pc| between.until.contains(pc)))
    }

    /// Begins the spans of this address.
    pub fn begin(&mut self, vcpu: u32, pc: u64, ledger: &Ledger<impl Counters>) {
        let now = ledger.time(vcpu);
        for between in self.0.iter_mut().filter(|between| between.from.contains(&pc)) {
            let Open { count, sums: [insns, cycles], first, last } = &mut between.open[vcpu as usize];
            if *count == 0 {
                *first = now;
            }
            (*count, *last) = (*count + 1, now);
            (*insns, *cycles) = (*insns + u128::from(now.insns), *cycles + u128::from(now.cycles));
        }
    }

    /// Ends the spans of this address.
    pub fn end(&mut self, vcpu: u32, pc: u64, ledger: &Ledger<impl Counters>) {
        let now = ledger.time(vcpu);
        for between in self.0.iter_mut().filter(|between| between.until.contains(&pc)) {
            let Open { count: spans, sums: [insns, cycles], first, last } =
                std::mem::take(&mut between.open[vcpu as usize]);
            if spans > 0 {
                let sum = |now: u64, begun: u128| (u128::from(now) * u128::from(spans) - begun) as u64;
                let sum = Time { insns: sum(now.insns, insns), cycles: sum(now.cycles, cycles) };
                let began = (between.from[0], first.insns);
                count(between.slot, vcpu, spans, [sum, now - last, now - first], began, ledger);
            }
        }
    }

    /// Opens the window: spans under way began before it.
    pub fn restart(&mut self) {
        for between in &mut self.0 {
            between.open.fill(Open::default());
        }
    }
}
