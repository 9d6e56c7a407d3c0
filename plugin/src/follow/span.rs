//! Exact spans: how often something happens and how many instructions it takes, at least, at most and in sum.
//!
//! Calls and exceptions are followed by the exact tree ([`crate::follow::tree`]); each context (a task, an exception) has
//! a clock of its own for them, which stands still while others execute. Masked interrupts, a pending PendSV and
//! `--span` go by the vCPU's clock. What began before the window opened, or has not ended as the run does, is no
//! span. Memory is bounded by the firmware's code: a span has five counters, however often it comes.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use wire::definition::{Definition, SPAN_COUNTERS, SpanCounter, SpanKind};

use crate::follow::exception::Active;
use crate::qemu::{ExecCallback, Hook};
use crate::state::{self, State};

/// Most kinds of spans: far more than a firmware has functions and exceptions.
const MAX_SPANS: usize = 1 << 20;

/// Most functions that are left by tail calls and wait for the end of the chain. A state machine of tail
/// calls may never return: its calls end here, then.
const MAX_CHAINED: usize = 1 << 14;

/// Interrupt Control and State Register (Armv7-M ARM B3.2.4), and its bits.
pub(crate) const ICSR: u64 = 0xe000_ed04;
const PENDSVSET: u64 = 1 << 28;
const PENDSVCLR: u64 = 1 << 27;

/// PendSV's exception number.
const PENDSV: u64 = 14;

/// mstatus ("Machine Status Registers"): MIE, MPIE, and where MPP starts.
const MIE: u64 = 1 << 3;
const MPIE: u64 = 1 << 7;
const MPP_SHIFT: u32 = 11;
const MACHINE: u64 = 3;

/// The counters of spans.
#[derive(Default)]
pub(crate) struct Spans {
    slots: HashMap<SpanKind, u32>,
    between: Vec<Between>,
}

/// What was asked for with `--span`.
struct Between {
    from: u64,
    until: u64,
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

/// One context's clock and open calls.
#[derive(Default)]
pub(crate) struct Calls {
    /// Instructions of this context alone.
    insns: u64,
    /// The outermost first.
    open: Vec<Call>,
    began_before_window: bool,
}

struct Call {
    entry: u64,
    slot: u32,
    /// Length of the shadow stack that it lives with: functions that follow each other by tail calls have one.
    depth: usize,
    /// The context's clock at its entry.
    since: u64,
}

/// What a vCPU is in the middle of.
#[derive(Default)]
pub(crate) struct Moment {
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

/// At an instruction that may mask interrupts or end that, before it executes.
pub(crate) struct OnMask;

impl Hook for OnMask {
    const CALL: ExecCallback = |vcpu, pc| {
        let mut state = state::lock();
        state.cores[vcpu as usize].moment.changing = Some(pc as u64);
        state.recheck(vcpu);
    };
}

/// At the instruction after it, where the block goes on.
pub(crate) struct OnMasked;

impl Hook for OnMasked {
    const CALL: ExecCallback = |vcpu, _| {
        let mut state = state::lock();
        state.settle(vcpu);
        state.check_mask(vcpu);
    };
}

/// At an instruction where a `--span` ends.
pub(crate) struct OnUntil;

impl Hook for OnUntil {
    const CALL: ExecCallback = |vcpu, id| {
        let mut state = state::lock();
        let (vcpu, pc) = state.at_insn(vcpu, id);
        state.end_between(vcpu, pc);
    };
}

/// At an instruction where a `--span` begins.
pub(crate) struct OnFrom;

impl Hook for OnFrom {
    const CALL: ExecCallback = |vcpu, id| {
        let mut state = state::lock();
        let (vcpu, pc) = state.at_insn(vcpu, id);
        state.begin_between(vcpu, pc);
    };
}

impl State {
    /// The counters of a kind of span; None: there are too many.
    fn span(&mut self, kind: SpanKind) -> Option<u32> {
        if let Some(&slot) = self.spans.slots.get(&kind) {
            return Some(slot);
        }
        if self.spans.slots.len() >= MAX_SPANS {
            return None;
        }
        let slot = self.new_slots(SPAN_COUNTERS);
        self.note(&Definition::Span { slot, kind });
        self.spans.slots.insert(kind, slot);
        Some(slot)
    }

    fn count_span(&self, slot: u32, vcpu: u32, insns: u64, at: u64) {
        self.count_spans(slot, vcpu, [1, insns, insns, insns], at);
    }

    /// Counts spans of one kind: how many, their sum, the shortest, the longest, and where that began.
    fn count_spans(&self, slot: u32, vcpu: u32, [count, sum, min, max]: [u64; 4], at: u64) {
        let counter = |counter: SpanCounter| self.records.counter(slot + counter as u32, vcpu);
        let raise = |of: SpanCounter, value: u64| {
            let higher = value > counter(of).load(Ordering::Relaxed);
            if higher {
                counter(of).store(value, Ordering::Relaxed);
            }
            higher
        };
        let is_first = self.records.add(slot + SpanCounter::Count as u32, vcpu, count) == count;
        self.records.add(slot + SpanCounter::Sum as u32, vcpu, sum);
        raise(SpanCounter::MinComplement, !min);
        if raise(SpanCounter::Max, max) || is_first {
            counter(SpanCounter::LongestAt).store(at, Ordering::Relaxed);
        }
    }

    fn count_span_of(&mut self, kind: SpanKind, vcpu: u32, insns: u64, at: u64) {
        if let Some(slot) = self.span(kind) {
            self.count_span(slot, vcpu, insns, at);
        }
    }

    /// Of what a vCPU executes.
    pub(crate) fn calls(&mut self, vcpu: u32) -> &mut Calls {
        let core = &mut self.cores[vcpu as usize];
        core.exceptions.last_mut().map_or(&mut core.thread_calls, |active| &mut active.calls)
    }

    /// The running context has executed so much more.
    pub(crate) fn tick(&mut self, vcpu: u32, insns: u64) {
        self.calls(vcpu).insns += insns;
    }

    /// A function was entered; the shadow stack with it has this length.
    pub(crate) fn begin_call(&mut self, vcpu: u32, entry: u64, depth: usize) {
        if self.calls(vcpu).open.len() >= depth + MAX_CHAINED {
            self.end_calls(vcpu, depth - 1);
        }
        let Some(slot) = self.span(SpanKind::Call { entry }) else { return };
        let calls = self.calls(vcpu);
        let since = calls.insns;
        calls.open.push(Call { entry, slot, depth, since });
    }

    /// Functions beyond this length of the shadow stack were left.
    pub(crate) fn end_calls(&mut self, vcpu: u32, depth: usize) {
        while let Some(call) = self.calls(vcpu).open.pop_if(|call| call.depth > depth) {
            let insns = self.calls(vcpu).insns - call.since;
            self.count_span(call.slot, vcpu, insns, call.entry);
        }
    }

    /// Nobody will return to the functions of this context.
    pub(crate) fn forget_calls(&mut self, vcpu: u32) {
        self.calls(vcpu).open.clear();
    }

    /// Only the outermost `keep` exceptions are still active. What their handlers called has ended with them.
    pub(crate) fn end_exceptions(&mut self, vcpu: u32, keep: usize) {
        while self.cores[vcpu as usize].exceptions.len() > keep {
            if self.tree.is_some() {
                self.end_calls(vcpu, 0);
            }
            let Some(Active { number, handler, calls, is_preempted, .. }) =
                self.cores[vcpu as usize].exceptions.pop()
            else {
                return;
            };
            if self.tree.is_some() && !is_preempted && !calls.began_before_window {
                self.count_span_of(SpanKind::Exception { number }, vcpu, calls.insns, handler);
            }
        }
    }

    /// After a store to ICSR.
    pub(crate) fn pend(&mut self, vcpu: u32, value: u64, pc: u64) {
        if self.tree.is_none() {
            return;
        }
        let insns = self.insns(vcpu);
        let pended = &mut self.cores[vcpu as usize].moment.pended;
        if value & PENDSVSET != 0 {
            pended.get_or_insert((insns, pc));
        } else if value & PENDSVCLR != 0 {
            *pended = None;
        }
    }

    /// At the first instruction of a handler.
    pub(crate) fn handler_starts(&mut self, vcpu: u32, number: u64) {
        if self.tree.is_none() {
            return;
        }
        if self.args.isa.is_riscv() {
            self.mask_at_trap(vcpu);
        } else if number == PENDSV
            && let Some((since, at)) = self.cores[vcpu as usize].moment.pended.take()
        {
            let insns = self.insns(vcpu) - since;
            self.count_span_of(SpanKind::PendSv, vcpu, insns, at);
        }
    }

    /// After an instruction that may have changed whether interrupts are masked.
    pub(crate) fn check_mask(&mut self, vcpu: u32) {
        let moment = &mut self.cores[vcpu as usize].moment;
        let at = match (moment.changing.take(), moment.masked) {
            (Some(at), _) => at,
            // A Cortex-M clears FAULTMASK as an exception returns.
            (None, Some((_, at))) if !self.args.isa.is_riscv() => at,
            _ => return,
        };
        let is_masked = if self.args.isa.is_riscv() {
            self.register("priv") == MACHINE && self.register("mstatus") & MIE == 0
        } else {
            ["primask", "faultmask"].iter().any(|name| self.register(name) & 1 != 0) || self.register("basepri") != 0
        };
        self.note_mask(vcpu, is_masked, at);
    }

    fn note_mask(&mut self, vcpu: u32, is_masked: bool, at: u64) {
        let insns = self.insns(vcpu);
        let is_riscv = self.args.isa.is_riscv();
        let moment = &mut self.cores[vcpu as usize].moment;
        let was_masked = std::mem::replace(&mut moment.is_masked, is_masked);
        moment.was_clear |= !is_masked;
        if !is_masked {
            if let Some((since, at)) = moment.masked.take() {
                self.count_span_of(SpanKind::Masked, vcpu, insns - since, at);
            }
        } else if !was_masked && (moment.was_clear || !is_riscv) {
            moment.masked = Some((insns, at));
        }
    }

    /// A RISC-V trap has masked interrupts: that is the exception's span, and no span of its own.
    fn mask_at_trap(&mut self, vcpu: u32) {
        if self.register("priv") != MACHINE {
            return;
        }
        if let Some(at) = self.cores[vcpu as usize].moment.changing.take() {
            // The trap came right after the instruction.
            let status = self.register("mstatus");
            self.note_mask(vcpu, status >> MPP_SHIFT & MACHINE == MACHINE && status & MPIE == 0, at);
        }
        self.cores[vcpu as usize].moment.is_masked = true;
    }

    /// A RISC-V trap returns: where that masks interrupts again that the hardware has masked meanwhile, it
    /// begins a span.
    pub(crate) fn mask_at_return(&mut self, vcpu: u32) {
        let core = &mut self.cores[vcpu as usize];
        if core.exceptions.is_empty() && core.moment.masked.is_none() {
            core.moment.is_masked = false;
        }
    }

    /// Whether a `--span` begins there, and whether one ends there.
    pub(crate) fn between_bounds(&self, pc: u64) -> (bool, bool) {
        let spans = &self.args.spans;
        (spans.iter().any(|&(from, _)| from == pc), spans.iter().any(|&(_, until)| until == pc))
    }

    /// Defines what was asked for with `--span`, so that it is in the profile if it never comes.
    pub(crate) fn define_between(&mut self) {
        for (from, until) in self.args.spans.clone() {
            let Some(slot) = self.span(SpanKind::Between { from, until }) else { return };
            let open = vec![Open::default(); self.cores.len()];
            self.spans.between.push(Between { from, until, slot, open });
        }
    }

    fn begin_between(&mut self, vcpu: u32, pc: u64) {
        let insns = self.insns(vcpu);
        for between in self.spans.between.iter_mut().filter(|between| between.from == pc) {
            let Open { count, sum, first, last } = &mut between.open[vcpu as usize];
            if *count == 0 {
                *first = insns;
            }
            (*count, *sum, *last) = (*count + 1, *sum + u128::from(insns), insns);
        }
    }

    fn end_between(&mut self, vcpu: u32, pc: u64) {
        let insns = self.insns(vcpu);
        let mut ended = Vec::new();
        for between in self.spans.between.iter_mut().filter(|between| between.until == pc) {
            let open = std::mem::take(&mut between.open[vcpu as usize]);
            ended.extend((open.count > 0).then_some((between.slot, between.from, open)));
        }
        for (slot, from, Open { count, sum, first, last }) in ended {
            let sum = (u128::from(insns) * u128::from(count) - sum) as u64;
            self.count_spans(slot, vcpu, [count, sum, insns - last, insns - first], from);
        }
    }

    /// The window opens: what is under way began before it.
    pub(crate) fn restart_spans(&mut self) {
        for core in &mut self.cores {
            core.thread_calls.open.clear();
            for active in &mut core.exceptions {
                active.calls.open.clear();
                active.calls.began_before_window = true;
            }
            (core.moment.masked, core.moment.pended) = (None, None);
        }
        self.tasks.forget_calls();
        for between in &mut self.spans.between {
            between.open.fill(Open::default());
        }
    }
}

impl Calls {
    /// See [`State::forget_calls`].
    pub(crate) fn forget(&mut self) {
        self.open.clear();
    }
}
