// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ledger of a run: its counters, their definitions, each written once, and the samples.
//!
//! All parts write to it. A failed write ends the run: a profile with missing parts would look like that of firmware
//! that did less.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;
use wire::Malformed;
use wire::control::{End, Word};
use wire::counters::{self, CLOCK, ORIGIN};
use wire::definition::{self, Definition, Doubt, Transfer, TransferKind};
use wire::heap;
use wire::sample::{self, Sample};
use wire::slice::{self, Slice};
use wire::stream::StreamFile;
use wire::timeline::{self, Event, What};

use crate::block::{Block, Segment};
use crate::time::Time;

/// Most notes of one run: firmware may make a million calls, with a new text each time.
const MAX_NOTES: usize = 1000;

/// Time by which the clock may have moved on before the timeline has it: a tenth of a usual tick.
const MAX_AHEAD_NS: u64 = 100_000;

/// Most priorities of exceptions that are noted: firmware may change them as often as it likes.
const MAX_LEVELS: usize = 10_000;

/// Storage of a ledger: counters that generated code shares, growing streams, and a page of words that other
/// processes read.
pub trait Counters {
    /// Number of vCPUs.
    fn vcpus(&self) -> u32;

    /// One vCPU's counter.
    fn counter(&self, slot: u32, vcpu: u32) -> &AtomicU64;

    /// Takes the next counter, with value zero.
    ///
    /// # Errors
    /// There is no room.
    fn new_slot(&mut self) -> io::Result<u32>;

    /// Sets every defined counter of every vCPU to zero.
    fn clear_counters(&self);

    /// Appends a record to a stream.
    ///
    /// # Errors
    /// When there is no room.
    fn append(&mut self, stream: StreamFile, record: &[u8]) -> io::Result<()>;

    /// Sets a word of the control page.
    fn say(&self, word: Word, value: u64);

    /// Ends the run and closes the records.
    fn exit(&self) -> !;

    /// Ends the run because of a defect of the plugin.
    fn fail(&self, what: &str) -> !;
}

/// The counters, definitions and samples of one run.
pub struct Ledger<C> {
    records: C,
    segments: HashMap<Segment, u32>,
    /// Slots of segments that end in a jump to their function's start.
    jumping: HashSet<u32>,
    /// Counters of calls, by the calls' target and return address. None: not needed.
    calls: Option<FxHashMap<(u64, u64), Vec<u32>>>,
    /// Counter of all cycles so far; None: they are not counted.
    cycles: Option<u32>,
    /// Counters that only grow, in the order of their slots.
    growing: Vec<u32>,
    /// Notes already written.
    notes: HashSet<Definition>,
    /// Exceptions' priorities already written.
    levels: HashSet<(u64, u64)>,
    definitions: definition::Encoder,
    samples: sample::Encoder,
    /// Samples so far.
    sample_count: u64,
    slices: slice::Encoder,
    heap: heap::Encoder,
    /// Encoder of the timeline; None: there is no timeline, or the window has not opened.
    timeline: Option<timeline::Encoder>,
    /// Clock of each vCPU at its last event of the timeline.
    timeline_insns: Vec<u64>,
    /// Nanoseconds by which the machine's clock has moved on beyond the instructions, and that the timeline does not have yet.
    ahead_ns: u64,
    buffer: Vec<u8>,
}

impl<C: Counters> Ledger<C> {
    /// An empty ledger with this storage.
    pub fn new(records: C) -> Ledger<C> {
        Ledger {
            records,
            segments: HashMap::new(),
            jumping: HashSet::new(),
            calls: None,
            cycles: None,
            growing: Vec::new(),
            notes: HashSet::new(),
            levels: HashSet::new(),
            definitions: definition::Encoder::default(),
            samples: sample::Encoder::default(),
            sample_count: 0,
            slices: slice::Encoder::default(),
            heap: heap::Encoder::default(),
            timeline: None,
            timeline_insns: Vec::new(),
            ahead_ns: 0,
            buffer: Vec::new(),
        }
    }

    /// One vCPU's counter.
    pub fn counter(&self, slot: u32, vcpu: u32) -> &AtomicU64 {
        self.records.counter(slot, vcpu)
    }

    /// The value of one vCPU's counter.
    pub fn get(&self, slot: u32, vcpu: u32) -> u64 {
        self.counter(slot, vcpu).load(Ordering::Relaxed)
    }

    /// Sets one vCPU's counter.
    pub fn set(&self, slot: u32, vcpu: u32, value: u64) {
        self.counter(slot, vcpu).store(value, Ordering::Relaxed);
    }

    /// Adds to one vCPU's counter and returns its new value.
    pub fn add(&self, slot: u32, vcpu: u32, amount: u64) -> u64 {
        let counter = self.counter(slot, vcpu);
        // Generated code does the same on this thread only, so no atomic read-modify-write is needed.
        let value = counter.load(Ordering::Relaxed).wrapping_add(amount);
        counter.store(value, Ordering::Relaxed);
        value
    }

    /// Counts one more call expected to return to a block; on all vCPUs, since any may execute the return.
    pub fn await_one(&self, slot: u32) {
        for vcpu in 0..self.vcpus() {
            self.add(slot, vcpu, 1);
        }
    }

    /// Counts one expected return less.
    pub fn await_one_less(&self, slot: u32) {
        (0..self.vcpus()).for_each(|vcpu| self.set(slot, vcpu, self.get(slot, vcpu).saturating_sub(1)));
    }

    /// Address of one vCPU's counter, for generated code.
    pub fn address(&self, slot: u32, vcpu: u32) -> usize {
        self.counter(slot, vcpu).as_ptr() as usize
    }

    /// Sets every defined counter of every vCPU to zero: the window opens.
    pub fn clear_counters(&self) {
        self.records.clear_counters();
    }

    /// The storage.
    pub fn records(&self) -> &C {
        &self.records
    }

    /// Sets a word of the control page.
    pub fn say(&self, word: Word, value: u64) {
        self.records.say(word, value);
    }

    /// Number of vCPUs.
    pub fn vcpus(&self) -> u32 {
        self.records.vcpus()
    }

    /// Instructions that a vCPU has started since the window opened (since reset until it has).
    pub fn insns(&self, vcpu: u32) -> u64 {
        counters::insns(self.get(CLOCK, vcpu), self.get(ORIGIN, vcpu))
    }

    /// Counts cycles from now on: generated code adds the usual ones of what starts to [`Ledger::cycle_slot`].
    pub fn keep_cycles(&mut self) {
        self.cycles = Some(self.define(|slot| Definition::CycleClock { slot }));
    }

    /// Counter of all cycles so far; None: they are not counted.
    pub fn cycle_slot(&self) -> Option<u32> {
        self.cycles
    }

    /// Adds cycles (fewer, if negative) of a vCPU's instructions, if they are counted.
    pub fn add_cycles(&self, vcpu: u32, cycles: i64) {
        if let Some(slot) = self.cycles {
            self.add(slot, vcpu, cycles as u64);
        }
    }

    /// Instructions as [`Ledger::insns`], with their cycles.
    pub fn time(&self, vcpu: u32) -> Time {
        Time { insns: self.insns(vcpu), cycles: self.cycles.map_or(0, |slot| self.get(slot, vcpu)) }
    }

    /// Instructions of all vCPUs together.
    pub fn insns_of_all(&self) -> u64 {
        (0..self.records.vcpus()).map(|vcpu| self.insns(vcpu)).sum()
    }

    /// Instructions of each vCPU.
    pub fn insns_of_each(&self) -> Vec<u64> {
        (0..self.records.vcpus()).map(|vcpu| self.insns(vcpu)).collect()
    }

    /// Counter of a segment, defined when it is first seen.
    pub fn segment(&mut self, segment: Segment) -> u32 {
        if let Some(&slot) = self.segments.get(&segment) {
            return slot;
        }
        let slot = self.define(|slot| Definition::Segment {
            slot,
            pc: segment.pc,
            sizes: segment.sizes.to_vec(),
            transfer: segment.transfer,
        });
        if segment.transfer.is_some_and(|transfer| transfer.kind != TransferKind::Call) {
            self.jumping.insert(slot);
        }
        self.segments.insert(segment, slot);
        slot
    }

    /// Takes back the `extra` instructions that a block executed after its `index`-th: the run ends at the
    /// `index`-th, but blocks are settled only when they are over.
    pub fn uncount(&mut self, vcpu: u32, block: &Block, index: u64, extra: u64) {
        self.count_extra(vcpu, block, (index, extra), u64::MAX);
    }

    /// Undoes [`Ledger::uncount`].
    pub fn recount(&mut self, vcpu: u32, block: &Block, index: u64, extra: u64) {
        self.count_extra(vcpu, block, (index, extra), 1);
    }

    /// Adds `times` to the counters of the `extra` instructions.
    fn count_extra(&mut self, vcpu: u32, block: &Block, (index, extra): (u64, u64), times: u64) {
        let (keep, executed) = (index + 1, index + 1 + extra);
        if executed < block.insns() && !block.exits.is_empty() {
            // The block was left early, and its started part is counted as one segment, see `shorten`.
            self.count_part(vcpu, block, 0, executed, times);
            return self.count_part(vcpu, block, 0, keep, times.wrapping_neg());
        }
        let mut start = 0;
        for &(slot, length) in &block.segments {
            let end = start + u64::from(length);
            if start >= executed {
                break;
            }
            // A jump has started, but its target has not: it does not count as a turn of its loop yet.
            let in_flight = end == keep && self.jumping.contains(&slot);
            if end > keep || in_flight {
                self.add(slot, vcpu, times);
                if start < keep {
                    self.count_part(vcpu, block, start, keep, times.wrapping_neg());
                }
            }
            start = end;
        }
    }

    /// Takes back a start of the instruction at `pc`, which ends straight lines and will start again. It does not matter in
    /// which of them it is taken back.
    pub fn unstart(&mut self, vcpu: u32, pc: u64) {
        let counted =
            self.segments.iter().filter(|&(segment, &slot)| segment.ends_with(pc) && self.get(slot, vcpu) > 0);
        let Some((slot, segment)) = counted.map(|(segment, &slot)| (slot, segment)).min_by_key(|&(slot, _)| slot)
        else {
            return;
        };
        let before = segment.sizes.split_last().map(|(_, before)| before).unwrap_or_default();
        let rest = Segment { pc: segment.pc, sizes: before.into(), transfer: None };
        self.add(slot, vcpu, u64::MAX);
        if !rest.sizes.is_empty() {
            let rest = self.segment(rest);
            self.add(rest, vcpu, 1);
        }
    }

    /// Counts only the first `started` instructions of a block that was counted as a whole.
    pub fn shorten(&mut self, vcpu: u32, block: &Block, started: u64) {
        let &[(slot, _)] = &block.segments[..] else { unreachable!("one counter counts the whole") };
        self.add(slot, vcpu, u64::MAX);
        self.count_part(vcpu, block, 0, started, 1);
    }

    /// Adds to the counter of a block's instructions from the `start`-th to before the `end`-th.
    fn count_part(&mut self, vcpu: u32, block: &Block, start: u64, end: u64, amount: u64) {
        let sizes = block.sizes[start as usize..end as usize].into();
        let part = self.segment(Segment { pc: block.pc_of(start), sizes, transfer: None });
        self.add(part, vcpu, amount);
    }

    /// Takes `count` counters in a row, still to be defined.
    pub fn new_slots(&mut self, count: u32) -> u32 {
        let first = self.new_slot();
        for _ in 1..count {
            self.new_slot();
        }
        first
    }

    fn new_slot(&mut self) -> u32 {
        let slot = self.records.new_slot();
        self.written(slot)
    }

    /// Defines a new counter that only grows.
    pub fn define(&mut self, definition: impl FnOnce(u32) -> Definition) -> u32 {
        let slot = self.new_slot();
        self.growing.push(slot);
        let definition = definition(slot);
        if let (Some(calls), Some(call)) = (&mut self.calls, call(&definition)) {
            calls.entry(call).or_default().push(slot);
        }
        self.note(&definition);
        slot
    }

    /// Defines a new counter of a way from a branch to a target.
    pub fn edge(&mut self, site: u64, target: u64) -> u32 {
        let slot = self.new_slot();
        self.note(&Definition::Edge { slot, site, target });
        slot
    }

    /// Defines a new counter of an instruction's executions that take more or fewer cycles than usual.
    pub fn slower(&mut self, pc: u64, cycles: i64) -> u32 {
        self.doubtful(pc, cycles, Doubt::default())
    }

    /// Defines a new counter of an instruction's executions that take so many cycles more, or fewer or more by a doubt.
    pub fn doubtful(&mut self, pc: u64, cycles: i64, doubt: Doubt) -> u32 {
        self.define(|slot| Definition::Slower { slot, pc, cycles, doubt })
    }

    /// Defines a new counter of passages through straight-line code in which each instruction took these cycles.
    pub fn passage(&mut self, pc: u64, sizes: Vec<u8>, cycles: Vec<u64>, doubts: Vec<Doubt>) -> u32 {
        self.define(|slot| Definition::Passage { slot, pc, sizes, cycles, doubts })
    }

    /// Keeps the data for [`Ledger::calls`] from now on.
    pub fn keep_calls(&mut self) {
        self.calls = Some(FxHashMap::default());
    }

    /// Number of a vCPU's calls and tail calls of a function with this return address; jumps within the function do
    /// not count.
    pub fn calls(&self, target: u64, return_addr: u64, vcpu: u32) -> u64 {
        let slots = self.calls.as_ref().and_then(|calls| calls.get(&(target, return_addr)));
        slots.into_iter().flatten().map(|&slot| self.get(slot, vcpu)).sum()
    }

    /// Appends the record that `encode` puts into the buffer to a stream. Ends the run if the record breaks the
    /// format's rules, which is a defect, or if it cannot be written.
    #[inline]
    fn append(&mut self, stream: StreamFile, encode: impl FnOnce(&mut Self, &mut Vec<u8>) -> Result<(), Malformed>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        if let Err(error) = encode(self, &mut buffer) {
            self.records.fail(&error.to_string());
        }
        let written = self.records.append(stream, &buffer);
        self.written(written);
        self.buffer = buffer;
    }

    /// Appends a definition.
    pub fn note(&mut self, definition: &Definition) {
        self.append(StreamFile::Definitions, |ledger, out| ledger.definitions.put(definition, out));
    }

    /// Appends a definition, if it has not been appended before.
    pub fn note_once(&mut self, definition: Definition) {
        if self.notes.len() < MAX_NOTES && self.notes.insert(definition.clone()) {
            self.note(&definition);
        }
    }

    /// Appends the priority of an exception, if it has not had that one before.
    pub fn note_level(&mut self, number: u64, level: u64) {
        if self.levels.len() < MAX_LEVELS && self.levels.insert((number, level)) {
            self.note(&Definition::Priority { number, level });
        }
    }

    /// Appends a sample.
    pub fn sample(&mut self, sample: &Sample) {
        self.append(StreamFile::Samples, |ledger, out| ledger.samples.put(sample, out));
        self.sample_count += 1;
        self.say(Word::Samples, self.sample_count);
    }

    /// Appends an event of the heap.
    pub fn heap(&mut self, event: &heap::Event) {
        self.append(StreamFile::Heap, |ledger, out| ledger.heap.put(event, out));
    }

    /// Begins the timeline at this instruction, the first one of the window.
    pub fn open_timeline(&mut self) {
        self.timeline = Some(timeline::Encoder::default());
        self.timeline_insns = vec![0; self.vcpus() as usize];
        self.ahead_ns = 0;
    }

    /// Appends an event to the timeline, if there is one. All instructions of all vCPUs have been settled.
    pub fn happened(&mut self, vcpu: u32, what: What) {
        if self.timeline.is_none() {
            return;
        }
        for other in (0..self.vcpus()).filter(|&other| other != vcpu) {
            if self.insns(other) != self.timeline_insns[other as usize] {
                self.happens(other, What::Stopped);
            }
        }
        self.note_ahead(vcpu);
        self.happens(vcpu, what);
    }

    /// Notes that the machine's clock has moved on beyond the instructions. The timeline has it with the next event, or when it has
    /// become much.
    pub fn move_ahead(&mut self, vcpu: u32, ns: u64) {
        self.ahead_ns += ns;
        if self.ahead_ns >= MAX_AHEAD_NS {
            self.note_ahead(vcpu);
        }
    }

    /// Appends to the timeline, if there is one, by how much the clock has moved on since the last such event.
    pub fn note_ahead(&mut self, vcpu: u32) {
        if let (ns @ 1.., true) = (std::mem::take(&mut self.ahead_ns), self.timeline.is_some()) {
            self.happens(vcpu, What::Ahead { ns });
        }
    }

    fn happens(&mut self, vcpu: u32, what: What) {
        let at_insns = self.insns(vcpu);
        self.timeline_insns[vcpu as usize] = at_insns;
        let event = Event { vcpu, at_insns, what };
        self.append(StreamFile::Timeline, |ledger, out| {
            ledger.timeline.as_mut().map_or(Ok(()), |timeline| timeline.put(&event, out))
        });
    }

    /// The counters that only grow.
    pub fn growing(&self) -> &[u32] {
        &self.growing
    }

    /// Appends a slice.
    pub fn slice(&mut self, slice: &Slice) {
        self.append(StreamFile::Slices, |ledger, out| ledger.slices.put(slice, out));
    }

    /// Unwraps the result of a write. A failure ends the run: the disk is full.
    pub fn written<T>(&self, result: io::Result<T>) -> T {
        result.unwrap_or_else(|error| {
            self.close(End::WriteFailed, error.raw_os_error().unwrap_or(0) as u64, 0);
        })
    }

    /// Closes the records and ends QEMU.
    pub fn close(&self, end: End, value: u64, pc: u64) -> ! {
        self.say(Word::EndValue, value);
        self.say(Word::EndPc, pc);
        self.say(Word::End, end as u64);
        self.records.exit()
    }
}

/// Target and return address of the call that a counter counts, if it counts one.
fn call(definition: &Definition) -> Option<(u64, u64)> {
    match definition {
        Definition::Segment { pc, sizes, transfer: Some(Transfer { kind: TransferKind::Call, target }), .. } => {
            Some((*target, pc + sizes.iter().map(|&size| u64::from(size)).sum::<u64>()))
        }
        &Definition::Arc { target, return_addr: Some(return_addr), .. } => Some((target, return_addr)),
        _ => None,
    }
}
