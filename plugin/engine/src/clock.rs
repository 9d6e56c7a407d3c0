// SPDX-License-Identifier: MIT OR Apache-2.0
//! A vCPU's clock, and the events for which it is set.
//!
//! Clock arithmetic. `clock` counts up by the length of every segment that starts. It is set so that it equals
//! [`DUE`] after the instruction at which the next event is due. `origin` is the value that `clock` would have had at
//! the window's first instruction, so `clock - origin` is the number of instructions so far. A block of `n`
//! instructions calls back when `clock + n >= DUE` at its start. The event may then fall into this block, or, if the
//! block is left early, into a later one. So the block is *suspected* and the alarm set: the next block calls back
//! and decides.
//!
//! A block that is counted as a whole adds its length at its start, and [`OPEN`] until it cannot be left early any
//! more. So the clock is ahead while the block runs (nothing reads it then), and after the block was left early. Then
//! the next block calls back at any time, and takes back the instructions that did not start ([`left_early`]).
//!
//! The clock only says which events are due ([`Clock::due`]); the plugin's `state` handles them.

use wire::control::{End, Word};
use wire::counters::{ALARM, CLOCK, DUE, LAST, MAX_INSNS, OPEN, ORIGIN};
use wire::definition::FrameKind;
use wire::request::Request;

use crate::block::{Block, Blocks, from_progress};
use crate::ledger::{Counters, Ledger};

/// Bit that makes the next block call back, without an open transfer. [`ALARM`] is the bit that marks an open
/// transfer.
const RECHECK: u64 = OPEN << 1;

/// The clock without the alarms.
const TIME: u64 = ALARM - 1;

/// The vCPU whose instructions schedule console input.
pub const TIMEKEEPER: u32 = 0;

/// The events of a run, by vCPU.
pub struct Clock {
    period_insns: u64,
    jitter_seed: Option<u64>,
    for_insns: Option<u64>,
    max_insns: Option<u64>,
    /// Addresses that open the window, and addresses that close it.
    from: Vec<u64>,
    until: Vec<u64>,
    is_window_open: bool,
    /// Instruction of the run at which console input may be due.
    input_at: Option<u64>,
    /// Instructions between two checks of the output's size.
    look_insns: Option<u64>,
    /// Instruction of the run at which the debugger holds it.
    hold_at: Option<u64>,
    /// Distance from an event at which blocks begin to call back for it.
    early_insns: u64,
    /// Timekeeper's instruction at the middle of the window, until it is reached. None: the window has no known
    /// length.
    half_at: Option<u64>,
    /// Length of a slice, and the timekeeper's instruction of the window at which the next one ends.
    slice_insns: Option<u64>,
    slice_at: Option<u64>,
    vcpus: Vec<Vcpu>,
}

/// One vCPU's events.
struct Vcpu {
    /// Instruction of the window at which the next sample is due.
    next_sample: u64,
    suspect: Option<Suspect>,
    random: u64,
    /// Instructions before the window opened.
    before_insns: u64,
    /// Instruction of the run at the next check of the output's size.
    look_at: Option<u64>,
}

/// A block into which the next event may fall.
pub struct Suspect {
    /// Number of the block.
    pub block: usize,
    /// Index of the block's instruction that was the next when `insns` was read.
    pub index: u64,
    /// Instructions of the window before this instruction.
    pub insns: u64,
    /// Callers at that instruction.
    pub stack: Vec<FrameKind>,
}

/// An event to be handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Take a sample.
    Sample,
    /// Type console input at the start of the next block.
    Input,
    /// Check the output's size.
    Output,
    /// Hold the run for a debugger.
    Hold,
    /// End a slice of the run.
    Slice,
    /// The middle of the window.
    Half,
    /// End the run.
    End(End),
}

/// An event that fell into the suspected block.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// The event.
    pub event: Event,
    /// Instruction of the window.
    pub at_insns: u64,
    /// Number of the block.
    pub block: usize,
    /// Index of that instruction in the block.
    pub index: u64,
    /// Instructions that have started since that instruction.
    pub overrun_insns: u64,
}

/// Reasons of a block's callback.
#[derive(Clone, Copy, Debug)]
pub struct Called {
    /// Whether a transfer of control is open.
    pub by_transfer: bool,
    /// Whether the callback was requested by [`recheck`].
    pub by_recheck: bool,
    time: u64,
}

impl Called {
    /// Whether an event may fall into the block. Otherwise only the transfer is the reason.
    pub fn for_event(self, block_insns: u64) -> bool {
        self.by_recheck || self.time + block_insns >= DUE
    }

    /// Removes the alarm from the clock.
    pub fn go_on(self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        ledger.set(CLOCK, vcpu, self.time);
    }
}

/// Whether the previous block was left early; clears the flag.
fn left_early(vcpu: u32, ledger: &Ledger<impl Counters>) -> bool {
    let clock = ledger.get(CLOCK, vcpu);
    if clock & OPEN != 0 {
        ledger.set(CLOCK, vcpu, clock & !OPEN);
    }
    clock & OPEN != 0
}

/// Takes back instructions that were counted and did not start.
pub fn take_back(vcpu: u32, insns: u64, ledger: &Ledger<impl Counters>) {
    ledger.set(CLOCK, vcpu, ledger.get(CLOCK, vcpu) - insns);
}

/// If the previous block was counted as a whole and left early, takes back the part that did not start. Returns the block, and
/// the number of its instructions that did.
pub fn amend<'a>(vcpu: u32, blocks: &'a Blocks, ledger: &mut Ledger<impl Counters>) -> Option<(&'a Block, u64)> {
    if !left_early(vcpu, ledger) {
        return None;
    }
    let (block, exit) = from_progress(ledger.get(LAST, vcpu));
    let block = blocks.get(block);
    let started = u64::from(block.exits[exit]);
    take_back(vcpu, block.insns() - started, ledger);
    ledger.shorten(vcpu, block, started);
    Some((block, started))
}

/// Reasons of a callback at the start of a block, from the clock.
pub fn called(vcpu: u32, ledger: &Ledger<impl Counters>) -> Called {
    let clock = ledger.get(CLOCK, vcpu);
    Called { by_transfer: clock & ALARM != 0, by_recheck: clock & RECHECK != 0, time: clock & TIME }
}

/// Makes the next block call back.
pub fn recheck(vcpu: u32, ledger: &Ledger<impl Counters>) {
    ledger.set(CLOCK, vcpu, ledger.get(CLOCK, vcpu) | RECHECK);
}

/// Starts `length` instructions when generated code cannot count. Returns whether an event falls into them.
pub fn advance(vcpu: u32, length: u32, ledger: &Ledger<impl Counters>) -> bool {
    ledger.add(CLOCK, vcpu, length.into()) >= DUE
}

/// Sets the clock back to the instruction at which the run ends.
pub fn set_back(vcpu: u32, insns: u64, ledger: &Ledger<impl Counters>) {
    ledger.set(CLOCK, vcpu, ledger.get(ORIGIN, vcpu).wrapping_add(insns));
}

/// A saved clock.
pub struct TurnedBack(u64);

/// Sets the clock back to an instruction, until it is restored.
pub fn turn_back(vcpu: u32, insns: u64, ledger: &Ledger<impl Counters>) -> TurnedBack {
    let clock = ledger.get(CLOCK, vcpu);
    set_back(vcpu, insns, ledger);
    TurnedBack(clock)
}

impl TurnedBack {
    /// Restores the clock.
    pub fn restore(self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        ledger.set(CLOCK, vcpu, self.0);
    }
}

impl Clock {
    /// Events that the request asks for, on `vcpus` vCPUs.
    pub fn new(request: &Request, vcpus: u32) -> Clock {
        let measure = request.measure().cloned().unwrap_or_default();
        let seed = measure.jitter_seed.unwrap_or(0);
        let vcpu = |vcpu: u32| Vcpu {
            next_sample: 0,
            suspect: None,
            random: seed ^ (u64::from(vcpu) << 32),
            before_insns: 0,
            look_at: None,
        };
        let mut clock = Clock {
            // Without sampling: no run is that long.
            period_insns: measure.period_insns.unwrap_or(MAX_INSNS - 1),
            jitter_seed: measure.jitter_seed,
            for_insns: measure.for_insns,
            max_insns: measure.max_insns,
            from: measure.from,
            until: measure.until,
            is_window_open: false,
            input_at: None,
            look_insns: None,
            hold_at: None,
            early_insns: 0,
            slice_insns: measure.slice_insns,
            slice_at: measure.slice_insns,
            half_at: None,
            vcpus: (0..vcpus).map(vcpu).collect(),
        };
        for vcpu in 0..vcpus {
            clock.vcpus[vcpu as usize].next_sample = clock.step(vcpu);
        }
        clock
    }

    /// Instructions to the next sample: the period, or with jitter a number from 1 to 2·period-1. Each number is
    /// equally likely, so that the mean is the period and a loop cannot keep step.
    fn step(&mut self, vcpu: u32) -> u64 {
        if self.jitter_seed.is_none() {
            return self.period_insns;
        }
        // SplitMix64 (Steele, Lea, Flood 2014): reproducible everywhere, no dependency for five lines.
        let random = &mut self.vcpus[vcpu as usize].random;
        *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        1 + (z ^ (z >> 31)) % (2 * self.period_insns - 1)
    }

    /// Number of vCPUs.
    pub fn vcpus(&self) -> u32 {
        self.vcpus.len() as u32
    }

    /// Whether an instruction of the firmware opens the window.
    pub fn opens_late(&self) -> bool {
        !self.from.is_empty()
    }

    /// Whether the window opens or closes at this address.
    pub fn is_bound(&self, pc: u64) -> bool {
        self.from.contains(&pc) || self.until.contains(&pc)
    }

    /// Whether the window, still closed, opens at this address.
    pub fn opens_at(&self, pc: u64) -> bool {
        !self.is_window_open && self.from.contains(&pc)
    }

    /// Whether the open window closes at this address.
    pub fn closes_at(&self, pc: u64) -> bool {
        self.is_window_open && self.until.contains(&pc)
    }

    /// Sets the next instruction at which console input may be due.
    pub fn set_input(&mut self, at_insns_of_run: Option<u64>) {
        self.input_at = at_insns_of_run;
    }

    /// Sets the distance between checks of the output's size, in instructions of any vCPU.
    pub fn set_look(&mut self, insns: u64) {
        self.look_insns = Some(insns);
        self.vcpus.iter_mut().for_each(|vcpu| vcpu.look_at = Some(insns));
    }

    /// Sets the instruction at which the run is held.
    pub fn set_hold(&mut self, at_insns_of_run: Option<u64>) {
        self.hold_at = at_insns_of_run;
    }

    /// Whether the hold is the next event.
    pub fn holds_next(&self, vcpu: u32) -> bool {
        let before_insns = self.vcpus[vcpu as usize].before_insns;
        self.hold_at.is_some_and(|at| at.saturating_sub(before_insns).max(1) == self.next_event(vcpu))
    }

    /// Makes blocks call back this many instructions before an event, from the next setting of the clock on.
    pub fn set_early(&mut self, insns: u64) {
        self.early_insns = insns;
    }

    /// Instructions that a vCPU has started since reset.
    pub fn insns_of_run(&self, vcpu: u32, ledger: &Ledger<impl Counters>) -> u64 {
        self.vcpus[vcpu as usize].before_insns + ledger.insns(vcpu)
    }

    fn next_input(&self, vcpu: u32) -> Option<u64> {
        self.input_at.filter(|_| vcpu == TIMEKEEPER)
    }

    fn next_slice(&self, vcpu: u32) -> Option<u64> {
        self.slice_at.filter(|_| vcpu == TIMEKEEPER)
    }

    fn next_half(&self, vcpu: u32) -> Option<u64> {
        self.half_at.filter(|_| vcpu == TIMEKEEPER)
    }

    /// Next event of a vCPU, in instructions of the window.
    fn next_event(&self, vcpu: u32) -> u64 {
        let &Vcpu { next_sample, before_insns, look_at, .. } = &self.vcpus[vcpu as usize];
        let none = u64::MAX;
        let max = self.max_insns.map_or(none, |max| max.saturating_sub(before_insns).max(1));
        let input = self.next_input(vcpu).map_or(none, |at| at.saturating_sub(before_insns).max(1));
        let look = look_at.map_or(none, |at| at.saturating_sub(before_insns).max(1));
        let hold = self.hold_at.map_or(none, |at| at.saturating_sub(before_insns).max(1));
        let next = max.min(input).min(look).min(hold);
        if !self.is_window_open {
            return next;
        }
        let [slice, half] = [self.next_slice(vcpu), self.next_half(vcpu)].map(|at| at.unwrap_or(none));
        next.min(next_sample).min(slice).min(half).min(self.for_insns.unwrap_or(none))
    }

    /// Sets the clock to `insns` executed instructions, and to the distance of the next event, or of a step on the
    /// way to it.
    fn set_to(&self, vcpu: u32, insns: u64, is_suspected: bool, ledger: &Ledger<impl Counters>) {
        let next = self.next_event(vcpu).saturating_sub(self.early_insns);
        let clock = DUE - next.saturating_sub(insns).min(DUE);
        ledger.set(ORIGIN, vcpu, clock.wrapping_sub(insns));
        ledger.set(CLOCK, vcpu, if is_suspected { clock | RECHECK } else { clock });
    }

    /// Instructions until the next event; 0: the event is due, or overdue.
    pub fn insns_to_event(&self, vcpu: u32, ledger: &Ledger<impl Counters>) -> u64 {
        self.next_event(vcpu).saturating_sub(ledger.insns(vcpu))
    }

    /// Whether an event is due or may be.
    pub fn is_due(&self, vcpu: u32, ledger: &Ledger<impl Counters>) -> bool {
        ledger.get(CLOCK, vcpu) >= DUE
    }

    /// Sets the clock to the next event, which may have changed.
    pub fn set(&self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        self.set_to(vcpu, ledger.insns(vcpu), false, ledger);
    }

    /// Opens the window at this instruction: all vCPUs at zero.
    pub fn open_window(&mut self, ledger: &Ledger<impl Counters>) {
        self.is_window_open = true;
        let mut before_insns = 0;
        for vcpu in 0..self.vcpus() {
            let insns = if !self.from.is_empty() { ledger.insns(vcpu) } else { 0 };
            before_insns += insns;
            self.vcpus[vcpu as usize].before_insns = insns;
            self.vcpus[vcpu as usize].suspect = None;
        }
        let before_timekeeper = self.vcpus[TIMEKEEPER as usize].before_insns;
        let left = self.max_insns.map(|max| max.saturating_sub(before_timekeeper));
        let length = self.for_insns.into_iter().chain(left).min();
        self.half_at = length.map(|length| length / 2).filter(|&half| half > 0);
        (0..self.vcpus()).for_each(|vcpu| self.set_to(vcpu, 0, false, ledger));
        ledger.say(Word::BeforeWindowInsns, before_insns);
        ledger.say(Word::WindowOpen, 1);
    }

    /// Whether the next event is at most this many instructions away.
    pub fn is_in_reach(&self, vcpu: u32, insns: u64, ledger: &Ledger<impl Counters>) -> bool {
        self.next_event(vcpu) <= ledger.insns(vcpu) + insns
    }

    /// Suspects a block, or no block, and sets the clock: the block after a suspected one calls back.
    pub fn suspect(&mut self, vcpu: u32, suspect: Option<Suspect>, ledger: &Ledger<impl Counters>) {
        let is_suspected = suspect.is_some();
        self.vcpus[vcpu as usize].suspect = suspect;
        self.set_to(vcpu, ledger.insns(vcpu), is_suspected, ledger);
    }

    /// Suspects instructions that have already been counted.
    pub fn suspect_started(&mut self, vcpu: u32, suspect: Suspect) {
        self.vcpus[vcpu as usize].suspect = Some(suspect);
    }

    /// Callers in the suspected block.
    pub fn suspected_stack(&self, vcpu: u32) -> &[FrameKind] {
        self.vcpus[vcpu as usize].suspect.as_ref().map_or(&[], |suspect| &suspect.stack)
    }

    /// Next event that fell into the suspected block, now that the clock shows how far the block came. None: there
    /// was no event, or none yet, since the block may not be over.
    pub fn due(&mut self, vcpu: u32, ledger: &Ledger<impl Counters>) -> Option<Due> {
        // Nearly always no block is suspected, and no other check is needed.
        let &Suspect { block, index, insns: before, .. } = self.vcpus[vcpu as usize].suspect.as_ref()?;
        let insns = ledger.insns(vcpu);
        let at_insns = self.next_event(vcpu);
        if at_insns > insns {
            return None;
        }
        let event = self.due_at(vcpu, at_insns)?;
        let index = index + at_insns - before - 1;
        Some(Due { event, at_insns, block, index, overrun_insns: insns - at_insns })
    }

    /// Next event at exactly this instruction of the window, in order: a sample, a slice's end, the middle, input, a
    /// check of the output, a hold, and last the end. Each is returned once.
    pub fn due_at(&mut self, vcpu: u32, insns: u64) -> Option<Event> {
        let &Vcpu { next_sample, before_insns, look_at, .. } = &self.vcpus[vcpu as usize];
        if self.is_window_open && next_sample == insns {
            self.vcpus[vcpu as usize].next_sample = insns + self.step(vcpu);
            return Some(Event::Sample);
        }
        if self.is_window_open && self.next_slice(vcpu).is_some_and(|at| at <= insns) {
            self.slice_at = self.slice_insns.map(|length| insns + length);
            return Some(Event::Slice);
        }
        if self.is_window_open && self.next_half(vcpu).is_some_and(|at| at <= insns) {
            self.half_at = None;
            return Some(Event::Half);
        }
        if self.next_input(vcpu).is_some_and(|at| at <= insns + before_insns) {
            self.input_at = None;
            return Some(Event::Input);
        }
        if look_at.is_some_and(|at| at <= insns + before_insns) {
            self.vcpus[vcpu as usize].look_at = self.look_insns.map(|distance| insns + before_insns + distance);
            return Some(Event::Output);
        }
        if self.hold_at.is_some_and(|at| at <= insns + before_insns) {
            self.hold_at = None;
            return Some(Event::Hold);
        }
        let is_reached = |limit: Option<u64>, before: u64| limit.is_some_and(|limit| insns + before >= limit);
        if self.is_window_open && is_reached(self.for_insns, 0) {
            Some(Event::End(End::For))
        } else if is_reached(self.max_insns, before_insns) {
            Some(Event::End(End::MaxInsns))
        } else {
            None
        }
    }
}
