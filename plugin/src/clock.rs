//! The callback: what happens when a vCPU's clock reaches the next event, and only then.
//!
//! Clock arithmetic. `clock` counts up by the length of every segment that starts. It is set so that
//! it equals [`DUE`] after the instruction at which the next event is due; `origin` is the value it
//! would have had at the window's first instruction, so `clock - origin` is the number of
//! instructions so far. A block of `n` instructions calls back when `clock + n >= DUE` at its start.
//! The event may then fall into this block, or, if the block is left early, into a later one: the
//! block is *suspected* and the alarm set, so that the next block calls back and can tell.

use std::sync::atomic::Ordering;

use wire::control::{End, Word};
use wire::counters::{self, ALARM, CLOCK, DUE, INPUT, ORIGIN, TRANSFER};
use wire::sample::{Encoder, Sample};

use crate::args::Args;
use crate::qemu::{ExecCallback, Hook};
use crate::stack::Stack;
use crate::state::{self, Block, Segment, State};

/// Makes the next block call back; apart from [`ALARM`], which says that a transfer is open.
const RECHECK: u64 = ALARM << 1;

/// The clock without the alarms.
const TIME: u64 = ALARM - 1;

/// One vCPU's events.
pub(crate) struct Vcpu {
    /// Instruction of the window at which the next sample is due.
    next_sample: u64,
    suspect: Option<Suspect>,
    random: u64,
    /// Instructions before the window opened.
    before_insns: u64,
}

/// A block in which the next event may lie.
struct Suspect {
    block: usize,
    /// Index of the block's instruction that followed when `insns` was read.
    index: u64,
    insns: u64,
    /// The callers at that instruction.
    stack: Stack,
}

impl Vcpu {
    pub(crate) fn new(args: &Args, vcpu: u32) -> Vcpu {
        let random = args.jitter_seed.unwrap_or(0) ^ (u64::from(vcpu) << 32);
        let mut new = Vcpu { next_sample: 0, suspect: None, random, before_insns: 0 };
        new.next_sample = new.step(args);
        new
    }

    /// Instructions to the next sample: the period, or with jitter 1 to 2·period-1, each equally
    /// likely, so that the mean is the period and no loop can keep step.
    fn step(&mut self, args: &Args) -> u64 {
        if args.jitter_seed.is_none() {
            return args.period_insns;
        }
        // SplitMix64 (Steele, Lea, Flood 2014): reproducible everywhere, no dependency for five lines.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        1 + (z ^ (z >> 31)) % (2 * args.period_insns - 1)
    }
}

/// Writes the samples.
#[derive(Default)]
pub(crate) struct Sampler {
    encoder: Encoder,
    count: u64,
    buffer: Vec<u8>,
}

/// At the start of a block in which an event may fall, or after an alarm.
pub(crate) struct OnBlock;

impl Hook for OnBlock {
    const CALL: ExecCallback = |vcpu, block| {
        let mut state = state::lock();
        let clock = state.clock(vcpu);
        state.settle(vcpu);
        if clock & RECHECK != 0 && state.tree.is_some() {
            state.leave_exceptions(vcpu);
            let pc = state.blocks.get(block).pc;
            state.jump_out(vcpu, pc);
            state.cross_over(vcpu, pc);
            state.call_unknown(vcpu, pc);
            state.check_mask(vcpu);
        }
        let Block { pc, ref sizes, .. } = *state.blocks.get(block);
        let length = sizes.len() as u64;
        if clock & ALARM != 0 {
            state.resolve_transfer(vcpu, pc);
        }
        if clock & RECHECK == 0 && (clock & TIME) + length < DUE {
            // Only the transfer called: the time goes on.
            state.records.counter(CLOCK, vcpu).store(clock & TIME, Ordering::Relaxed);
        } else {
            state.suspect(vcpu, block, 0);
        }
    };
}

/// At an instruction that bounds the window, before its counters.
pub(crate) struct OnBound;

/// A block's number and the index of one of its instructions, in the one number a callback is given.
pub(crate) fn insn_id(block: usize, index: usize) -> usize {
    const { assert!(usize::BITS == 64, "the plugin packs two numbers into a pointer") };
    block << 16 | index
}

/// The reverse of [`insn_id`].
pub(crate) fn from_insn_id(id: usize) -> (usize, u64) {
    (id >> 16, (id & 0xffff) as u64)
}

impl Hook for OnBound {
    const CALL: ExecCallback = |vcpu, id| {
        let (block, index) = from_insn_id(id);
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        let pc = state.blocks.get(block).pc_of(index);
        // What was due before this instruction comes first.
        state.settle(vcpu);
        if !state.window_open {
            if state.args.from == Some(pc) {
                state.open_window();
                state.suspect(vcpu, block, index);
            }
        } else if state.args.until == Some(pc) {
            state.end(End::Until, 0, pc);
        }
    };
}

/// At the start of a segment, where inline operations cannot be used: counts it, and settles at once
/// what fell into it, for a segment starts as a whole.
pub(crate) struct OnSegment;

impl Hook for OnSegment {
    const CALL: ExecCallback = |vcpu, id| {
        let (block, index) = from_insn_id(id);
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        if index == 0 {
            let pc = state.blocks.get(block).pc;
            state.resolve_transfer(vcpu, pc);
            state.records.counter(TRANSFER, vcpu).store(0, Ordering::Relaxed);
        }
        let (slot, length) = state.blocks.get(block).segment_at(index);
        let insns = state.insns(vcpu);
        state.records.add(slot, vcpu, 1);
        if state.records.add(CLOCK, vcpu, length.into()) >= DUE {
            let pc = state.blocks.get(block).pc_of(index);
            let stack = state.take_stack(vcpu, pc);
            state.vcpus[vcpu as usize].suspect = Some(Suspect { block, index, insns, stack });
            state.settle(vcpu);
            let insns = state.insns(vcpu);
            state.set_clock(vcpu, insns, false);
        }
    };
}

/// The oracle: at every instruction that starts. Counts it by itself, without any inline counter.
pub(crate) struct OracleCount;

impl Hook for OracleCount {
    const CALL: ExecCallback = |vcpu, slot| {
        state::lock().records.add(slot as u32, vcpu, 1);
    };
}

/// The oracle: at the instruction at which the clock, counted one by one, reaches the event.
pub(crate) struct OracleSample;

impl Hook for OracleSample {
    const CALL: ExecCallback = |vcpu, id| {
        let (block, index) = from_insn_id(id);
        let mut state = state::lock();
        let insns = state.insns(vcpu);
        let pc = state.blocks.get(block).pc_of(index);
        let stack = state.take_stack(vcpu, pc);
        state.event(vcpu, insns, pc, &stack, None);
        state.set_clock(vcpu, insns, false);
    };
}

impl State {
    /// At an instruction that may be in the middle of a block, by its [`insn_id`]: the vCPU that runs it and its
    /// address, after what was due before it.
    pub(crate) fn at_insn(&mut self, vcpu: u32, id: usize) -> (u32, u64) {
        let (block, index) = from_insn_id(id);
        let vcpu = self.running_vcpu(vcpu);
        // At a block's start that has been done.
        if index > 0 {
            self.settle(vcpu);
        }
        (vcpu, self.blocks.get(block).pc_of(index))
    }

    fn clock(&self, vcpu: u32) -> u64 {
        self.records.counter(CLOCK, vcpu).load(Ordering::Relaxed)
    }

    /// Instructions that a vCPU has started since the window opened (since reset until it has).
    pub(crate) fn insns(&self, vcpu: u32) -> u64 {
        counters::insns(self.clock(vcpu), self.records.counter(ORIGIN, vcpu).load(Ordering::Relaxed))
    }

    /// Instructions that a vCPU has started since reset.
    pub(crate) fn insns_of_run(&self, vcpu: u32) -> u64 {
        self.vcpus[vcpu as usize].before_insns + self.insns(vcpu)
    }

    /// The next event of a vCPU, in instructions of the window: a sample, input or a limit.
    fn next_event(&self, vcpu: u32) -> u64 {
        let &Vcpu { next_sample, before_insns, .. } = &self.vcpus[vcpu as usize];
        let none = u64::MAX;
        let max = self.args.max_insns.map_or(none, |max| max.saturating_sub(before_insns).max(1));
        let input = self.next_input(vcpu).map_or(none, |at| at.saturating_sub(before_insns).max(1));
        let next = max.min(input);
        if self.window_open { next.min(next_sample).min(self.args.for_insns.unwrap_or(none)) } else { next }
    }

    /// Sets the clock to `insns` executed instructions and the distance to the next event, or to a
    /// step on the way there.
    pub(crate) fn set_clock(&self, vcpu: u32, insns: u64, recheck: bool) {
        let clock = DUE - (self.next_event(vcpu) - insns).min(DUE);
        self.records.counter(ORIGIN, vcpu).store(clock.wrapping_sub(insns), Ordering::Relaxed);
        let clock = if recheck { clock | RECHECK } else { clock };
        self.records.counter(CLOCK, vcpu).store(clock, Ordering::Relaxed);
    }

    /// Starts measuring at this instruction: all vCPUs at zero.
    pub(crate) fn open_window(&mut self) {
        self.window_open = true;
        if self.args.from.is_some() && self.args.snapshot.is_some() {
            let taken = self.take_snapshot(wire::SNAPSHOT_OPEN).and_then(|()| self.keep_counters());
            taken.unwrap_or_else(|error| self.write_failed(&error));
        }
        self.records.clear_counters();
        self.restart_tasks();
        self.restart_spans();
        let mut before_insns = 0;
        for vcpu in 0..self.vcpus.len() as u32 {
            let insns = if self.args.from.is_some() { self.insns(vcpu) } else { 0 };
            before_insns += insns;
            self.vcpus[vcpu as usize].before_insns = insns;
            self.vcpus[vcpu as usize].suspect = None;
            self.set_clock(vcpu, 0, false);
        }
        (self.unresolved, self.interrupted_transfers) = (0, 0);
        self.records.control.set(Word::Unresolved, 0);
        self.records.control.set(Word::Interrupted, 0);
        self.records.control.set(Word::BeforeWindowInsns, before_insns);
        self.records.control.set(Word::WindowOpen, 1);
    }

    /// Handles the events that fell into the suspected block, now that the clock says how far it came.
    pub(crate) fn settle(&mut self, vcpu: u32) {
        let insns = self.insns(vcpu);
        if self.next_event(vcpu) > insns {
            // Still suspected, if at all: the block may not be over.
            return;
        }
        let Some(suspect) = self.vcpus[vcpu as usize].suspect.take() else { return };
        loop {
            let event = self.next_event(vcpu);
            if event > insns {
                self.vcpus[vcpu as usize].suspect = Some(suspect);
                return;
            }
            let index = suspect.index + event - suspect.insns - 1;
            let pc = self.blocks.get(suspect.block).pc_of(index);
            self.event(vcpu, event, pc, &suspect.stack, Some((suspect.block, index, insns)));
        }
    }

    /// Takes the sample that is due at instruction `event`, and ends the run at a limit. `overrun`
    /// says which block was executing, the event's index in it, and how far the clock went since.
    fn event(&mut self, vcpu: u32, event: u64, pc: u64, stack: &Stack, overrun: Option<(usize, u64, u64)>) {
        if self.window_open && self.vcpus[vcpu as usize].next_sample == event {
            let (stack, node) = (self.stack_id(stack), self.sampled_node(vcpu));
            let task = self.cores[vcpu as usize].task;
            self.sample(&Sample { at_insns: event, pc, vcpu, stack, task, node });
            self.mark_console(vcpu);
            let state = &mut self.vcpus[vcpu as usize];
            state.next_sample = event + state.step(&self.args);
        }
        let of_run = event + self.vcpus[vcpu as usize].before_insns;
        if self.next_input(vcpu).is_some_and(|at| at <= of_run) {
            // Where blocks begin, not here: the oracle, which is called at every instruction, must not be earlier.
            self.records.counter(INPUT, vcpu).store(1, Ordering::Relaxed);
            self.input_is_due();
        }
        let reached = |limit: Option<u64>, before: u64| limit.is_some_and(|limit| event + before >= limit);
        let end = if self.window_open && reached(self.args.for_insns, 0) {
            End::For
        } else if reached(self.args.max_insns, self.vcpus[vcpu as usize].before_insns) {
            End::MaxInsns
        } else {
            return;
        };
        if let Some((block, index, insns)) = overrun {
            self.uncount(vcpu, block, index, insns - event);
        }
        self.set_clock_back(vcpu, event);
        self.end(end, 0, pc);
    }

    fn set_clock_back(&self, vcpu: u32, insns: u64) {
        let origin = self.records.counter(ORIGIN, vcpu).load(Ordering::Relaxed);
        self.records.counter(CLOCK, vcpu).store(origin.wrapping_add(insns), Ordering::Relaxed);
    }

    /// Takes back the `extra` instructions that a block executed after its `index`-th: the run ends
    /// at that one, and blocks are only looked at when they are over.
    fn uncount(&mut self, vcpu: u32, block: usize, index: u64, extra: u64) {
        let (keep, executed) = (index + 1, index + 1 + extra);
        let block = self.blocks.get(block).clone();
        let mut start = 0;
        for &(slot, length) in &block.segments {
            let end = start + u64::from(length);
            if start >= executed {
                break;
            }
            // A jump has started, but what it leads to has not: it is no turn of its loop yet.
            let in_flight = end == keep && self.jumping.contains(&slot);
            if end > keep || in_flight {
                self.records.add(slot, vcpu, u64::MAX);
                if start < keep {
                    let sizes = block.sizes[start as usize..keep as usize].into();
                    let part = self.segment(Segment { pc: block.pc_of(start), sizes, transfer: None });
                    self.records.add(part, vcpu, 1);
                }
            }
            start = end;
        }
    }

    /// Looks at a block that is about to run its `index`-th instruction: is the next event in reach?
    pub(crate) fn suspect(&mut self, vcpu: u32, block: usize, index: u64) {
        let insns = self.insns(vcpu);
        let reach = self.blocks.get(block).sizes.len() as u64 - index;
        let suspected = self.next_event(vcpu) <= insns + reach;
        let suspect = suspected.then(|| {
            let pc = self.blocks.get(block).pc_of(index);
            Suspect { block, index, insns, stack: self.take_stack(vcpu, pc) }
        });
        self.vcpus[vcpu as usize].suspect = suspect;
        self.set_clock(vcpu, insns, suspected);
    }

    /// Has the next block call back.
    pub(crate) fn recheck(&self, vcpu: u32) {
        let clock = self.records.counter(CLOCK, vcpu);
        clock.store(clock.load(Ordering::Relaxed) | RECHECK, Ordering::Relaxed);
    }

    fn sample(&mut self, sample: &Sample) {
        let Sampler { encoder, count, buffer } = &mut self.sampler;
        buffer.clear();
        if let Err(error) = encoder.put(sample, buffer) {
            eprintln!("profiler plugin: {error}");
            crate::qemu::exit(1);
        }
        *count += 1;
        self.records.sample(buffer, *count).unwrap_or_else(|error| self.write_failed(&error));
    }
}
