//! Exact spans: how often something happens and how many instructions it takes, at least, at most and in sum.
//!
//! Calls and exceptions are followed by the exact tree ([`crate::follow::tree`]); each context (a task, an exception) has
//! a clock of its own for them, which stands still while others execute. Masked interrupts, a pending PendSV and
//! `--span` go by the vCPU's clock. What began before the window opened, or has not ended as the run does, is no
//! span. Memory is bounded by the firmware's code: a span has six counters, however often it comes.

use rustc_hash::FxHashMap;
use wire::definition::{Definition, SPAN_COUNTERS, SpanCounter, SpanKind};
use wire::timeline::What;

use super::context::{Call, Core};
use crate::guest::{Guest, PENDSV, Vcpu};
use crate::ledger::{Counters, Ledger};

/// Most kinds of spans: far more than a firmware has functions and exceptions.
const MAX_SPANS: usize = 1 << 20;

/// Most functions that are left by tail calls and wait for the end of the chain. A state machine of tail
/// calls may never return: its calls end here, then.
const MAX_CHAINED: usize = 1 << 14;

/// The spans that come with the exact tree.
pub struct Spans {
    /// First counter of each kind.
    slots: FxHashMap<SpanKind, u32>,
    /// By vCPU.
    moments: Vec<Moment>,
    /// None is counted: they are on the timeline alone.
    is_uncounted: bool,
}

/// What a vCPU is in the middle of.
#[derive(Default)]
struct Moment {
    /// Interrupts are masked; in a RISC-V handler also by the hardware alone.
    is_masked: bool,
    /// They have been seen not to be: on RISC-V they are masked at reset, and that is no span.
    was_clear: bool,
    /// The vCPU's instructions when they were masked, and the instruction that did it.
    masked: Option<(u64, u64)>,
    /// The instruction that may just have changed that.
    changing: Option<u64>,
    /// The vCPU's instructions when PendSV became pending, and the store that did it.
    pended: Option<(u64, u64)>,
}

/// The spans that were asked for with `--span`.
pub struct Betweens(Vec<Between>);

/// One of them.
struct Between {
    /// Any of these begins one.
    from: Vec<u64>,
    /// Any of these ends all that have begun.
    until: Vec<u64>,
    slot: u32,
    /// By vCPU.
    open: Vec<Open>,
}

/// Spans that have begun and will all end at once.
#[derive(Clone, Copy, Default)]
struct Open {
    count: u64,
    /// Of the vCPU's instructions when each began.
    sum: u128,
    first: u64,
    last: u64,
}

/// Counts spans of one kind: how many, their sum, the shortest, the longest, and where and after how many of the
/// vCPU's instructions that began.
fn count(
    slot: u32,
    vcpu: u32,
    [count, sum, min, max]: [u64; 4],
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
    ledger.add(slot + SpanCounter::Sum as u32, vcpu, sum);
    raise(SpanCounter::MinComplement, !min);
    if raise(SpanCounter::Max, max) || is_first {
        ledger.set(slot + SpanCounter::LongestAt as u32, vcpu, at);
        ledger.set(slot + SpanCounter::LongestSince as u32, vcpu, since);
    }
}

fn define(kind: SpanKind, ledger: &mut Ledger<impl Counters>) -> u32 {
    let slot = ledger.new_slots(SPAN_COUNTERS);
    ledger.note(&Definition::Span { slot, kind });
    slot
}

impl Spans {
    /// None yet, of so many vCPUs.
    pub fn new(vcpus: u32) -> Spans {
        let moments = (0..vcpus).map(|_| Moment::default()).collect();
        Spans { slots: FxHashMap::default(), moments, is_uncounted: false }
    }

    /// The same where only the timeline wants to know of masked interrupts.
    pub fn uncounted(vcpus: u32) -> Spans {
        Spans { is_uncounted: true, ..Spans::new(vcpus) }
    }

    /// The counters of a kind of span; None: there are too many.
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

    /// Counts one span of so many instructions, which began at that address, after so many of the vCPU's.
    pub fn count(
        &mut self,
        kind: SpanKind,
        vcpu: u32,
        insns: u64,
        began: (u64, u64),
        ledger: &mut Ledger<impl Counters>,
    ) {
        if self.is_uncounted {
            return;
        }
        if let Some(slot) = self.slot(kind, ledger) {
            count(slot, vcpu, [1, insns, insns, insns], began, ledger);
        }
    }

    /// A function was entered; the shadow stack with it has this length.
    pub fn begin_call(&mut self, core: &mut Core, entry: u64, depth: usize, ledger: &mut Ledger<impl Counters>) {
        if core.calls().open.len() >= depth + MAX_CHAINED {
            self.end_calls(core, depth - 1, ledger);
        }
        let Some(slot) = self.slot(SpanKind::Call { entry }, ledger) else { return };
        let began_at = ledger.insns(core.vcpu);
        let calls = core.calls();
        let since = calls.insns;
        calls.open.push(Call { entry, slot, depth, since, began_at });
    }

    /// Functions beyond this length of the shadow stack were left.
    pub fn end_calls(&mut self, core: &mut Core, depth: usize, ledger: &Ledger<impl Counters>) {
        let vcpu = core.vcpu;
        let calls = core.calls();
        while let Some(call) = calls.open.pop_if(|call| call.depth > depth) {
            let insns = calls.insns - call.since;
            count(call.slot, vcpu, [1, insns, insns, insns], (call.entry, call.began_at), ledger);
        }
    }

    /// PendSV has become pending, or is pending no more, by a store at `pc`.
    pub fn pend(&mut self, vcpu: u32, is_pending: bool, pc: u64, ledger: &Ledger<impl Counters>) {
        let pended = &mut self.moments[vcpu as usize].pended;
        if is_pending {
            pended.get_or_insert((ledger.insns(vcpu), pc));
        } else {
            *pended = None;
        }
    }

    /// At the first instruction of a handler.
    pub fn handler_starts(
        &mut self,
        vcpu: u32,
        number: u64,
        guest: &mut Guest<impl Vcpu>,
        ledger: &mut Ledger<impl Counters>,
    ) {
        if let Some(was_masked) = guest.masked_before_trap() {
            // The trap has masked interrupts: that is the exception's span, and no span of its own.
            if let Some(at) = self.moments[vcpu as usize].changing.take() {
                // It came right after the instruction.
                self.note_mask(vcpu, was_masked, at, guest, ledger);
            }
            self.moments[vcpu as usize].is_masked = true;
        }
        if number == PENDSV
            && let Some((since, at)) = self.moments[vcpu as usize].pended.take()
        {
            let insns = ledger.insns(vcpu) - since;
            self.count(SpanKind::PendSv, vcpu, insns, (at, since), ledger);
        }
    }

    /// The instruction at `pc`, which is about to execute, may change whether interrupts are masked.
    pub fn mask_may_change(&mut self, vcpu: u32, pc: u64) {
        self.moments[vcpu as usize].changing = Some(pc);
    }

    /// After such an instruction.
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
        let insns = ledger.insns(vcpu);
        let moment = &mut self.moments[vcpu as usize];
        let was_masked = std::mem::replace(&mut moment.is_masked, is_masked);
        moment.was_clear |= !is_masked;
        if !is_masked {
            if let Some((since, at)) = moment.masked.take() {
                ledger.happened(vcpu, What::Unmasked);
                self.count(SpanKind::Masked, vcpu, insns - since, (at, since), ledger);
            }
        } else if !was_masked && (moment.was_clear || !guest.facts.is_masked_at_reset) {
            moment.masked = Some((insns, at));
            ledger.happened(vcpu, What::Masked);
        }
    }

    /// The outermost trap has returned: where that masks interrupts again that the hardware has masked meanwhile, it
    /// begins a span.
    pub fn outermost_returned(&mut self, vcpu: u32) {
        let moment = &mut self.moments[vcpu as usize];
        if moment.masked.is_none() {
            moment.is_masked = false;
        }
    }

    /// The window opens: what is under way began before it.
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
            // The first addresses name it.
            let kind = SpanKind::Between { from: from[0], until: until[0] };
            let slot = slot.unwrap_or_else(|| define(kind, ledger));
            let open = vec![Open::default(); vcpus as usize];
            list.push(Between { from: from.clone(), until: until.clone(), slot, open });
        }
        Betweens(list)
    }

    /// Whether one begins at an address, and whether one ends there.
    pub fn bounds(&self, pc: u64) -> (bool, bool) {
        let any = |is: fn(&Between, &u64) -> bool| self.0.iter().any(|between| is(between, &pc));
        (any(|between, pc| between.from.contains(pc)), any(|between, pc| between.until.contains(pc)))
    }

    /// Those that begin at this address begin.
    pub fn begin(&mut self, vcpu: u32, pc: u64, ledger: &Ledger<impl Counters>) {
        let insns = ledger.insns(vcpu);
        for between in self.0.iter_mut().filter(|between| between.from.contains(&pc)) {
            let Open { count, sum, first, last } = &mut between.open[vcpu as usize];
            if *count == 0 {
                *first = insns;
            }
            (*count, *sum, *last) = (*count + 1, *sum + u128::from(insns), insns);
        }
    }

    /// Those that end at this address end.
    pub fn end(&mut self, vcpu: u32, pc: u64, ledger: &Ledger<impl Counters>) {
        let insns = ledger.insns(vcpu);
        for between in self.0.iter_mut().filter(|between| between.until.contains(&pc)) {
            let Open { count: spans, sum, first, last } = std::mem::take(&mut between.open[vcpu as usize]);
            if spans > 0 {
                let sum = (u128::from(insns) * u128::from(spans) - sum) as u64;
                let began = (between.from[0], first);
                count(between.slot, vcpu, [spans, sum, insns - last, insns - first], began, ledger);
            }
        }
    }

    /// The window opens: what is under way began before it.
    pub fn restart(&mut self) {
        for between in &mut self.0 {
            between.open.fill(Open::default());
        }
    }
}
