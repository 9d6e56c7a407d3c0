//! Request of the harness to the plugin: one record, written before QEMU starts.
//!
//! QEMU's command line names only the directory in which it lies ([`FILE_NAME`]). The record is checked as a whole
//! when it is written and again when it is read, because the plugin uses its lists and offsets without further
//! checks. A request that the plugin cannot serve is answered by a [`crate::refusal`].
//!
//! All addresses are the running guest's, load bias included.

use std::ops::Range;

use crate::chip::Chip;
use crate::definition::MAX_TEXT_BYTES;
use crate::heap::Allocator;
use crate::input::{self, Step};
use crate::timeline::Wanted;
use crate::unwind::{self, Row};
use crate::varint::{self, Reader};
use crate::zone::Event;
use crate::{Malformed, counters};

/// Name of the file.
pub const FILE_NAME: &str = "request";

/// First eight bytes of the file.
const MAGIC: [u8; 8] = *b"fwreq\r\n\0";

/// Changes whenever any byte of the file changes its meaning.
const VERSION: u64 = 10;

/// Longest path, in bytes.
pub const MAX_PATH_BYTES: usize = 4096;

/// Bound of the offsets of a kernel control block's members.
pub const MAX_OFFSET_BYTES: u64 = 1 << 32;

/// Instruction set of the emulated processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// RV32.
    Riscv32,
    /// RV64.
    Riscv64,
    /// Armv6-M.
    ThumbV6m,
    /// Armv7-M and Armv7E-M.
    ThumbV7m,
    /// Armv8-M.
    ThumbV8m,
}

impl Isa {
    const ALL: [Isa; 5] = [Isa::Riscv32, Isa::Riscv64, Isa::ThumbV6m, Isa::ThumbV7m, Isa::ThumbV8m];
}

/// Policy for the firmware's semihosting calls. Exits are let through under every policy but `Off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semihosting {
    /// No semihosting: the call's instruction is like any other.
    Off,
    /// Only calls that need no file but the console, `:tt`.
    Console,
    /// Console calls, and files in the run's scratch directory.
    Scratch,
    /// All calls; for tests of the sandbox around QEMU.
    Unchecked,
}

impl Semihosting {
    const ALL: [Semihosting; 4] =
        [Semihosting::Off, Semihosting::Console, Semihosting::Scratch, Semihosting::Unchecked];
}

/// Complete set of orders for one run's plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Instruction set in which code is decoded.
    pub isa: Isa,
    /// QEMU's version, major, minor and micro: what of [`crate::trick`] may be used in it. None: nothing.
    pub qemu: Option<[u32; 3]>,
    /// Instructions from one sample to the next, below [`counters::MAX_INSNS`] like the next three limits.
    pub period_insns: u64,
    /// Seed of the dither around the period; None: no dither.
    pub jitter_seed: Option<u64>,
    /// Instructions of the window.
    pub for_insns: Option<u64>,
    /// Instructions since reset after which the run has failed.
    pub max_insns: Option<u64>,
    /// Bytes printed and written to files after which the run has failed.
    pub max_output_bytes: Option<u64>,
    /// Addresses whose execution opens the window; empty: reset opens it.
    pub from: Vec<u64>,
    /// Addresses whose execution closes the window.
    pub until: Vec<u64>,
    /// Spans to measure in instructions: from any address of the first list until any of the second.
    pub spans: Vec<(Vec<u64>, Vec<u64>)>,
    /// Address of the firmware's first instruction.
    pub entry: Option<u64>,
    /// Address of the test finisher, the device of RISC-V's `virt` machine that ends the run.
    pub finisher: Option<u64>,
    /// Number of vCPUs up to which each executes only what QEMU has translated for it alone.
    pub unshared_vcpus: u32,
    /// Ranges that can be read without a device noticing; [`crate::memory`] replaces them where it exists.
    pub memory: Vec<Range<u64>>,
    /// Memory to be copied as the window opens and as the run ends.
    pub snapshot: Option<Range<u64>>,
    /// Functions of the firmware, sorted by their start.
    pub functions: Vec<Range<u64>>,
    /// Branches to their function's start that need no watching (see [`crate::definition::TransferKind::Branch`]),
    /// sorted.
    pub loops: Vec<u64>,
    /// Entries of functions that no instruction names as its target, sorted. As far as the code shows, they are
    /// reached through pointers only.
    pub pointed: Vec<u64>,
    /// Entries of functions that never return and do not keep their return address, sorted.
    pub forgetful: Vec<u64>,
    /// Calls made by code that is inlined into the function that it is in, sorted by their return addresses; for the
    /// exact call tree.
    pub inlined_calls: Vec<InlinedCall>,
    /// Rows that say how stacks are walked, sorted by address.
    pub unwind: Vec<Row>,
    /// Most frames of a call stack; None: no call stacks are taken.
    pub max_depth: Option<u32>,
    /// Whether the exact call tree is kept.
    pub is_exact: bool,
    /// Whether the amount of console output is noted at samples.
    pub has_marks: bool,
    /// Whether one callback per instruction replaces the inline counters; for the tests.
    pub is_oracle: bool,
    /// Whether the run is debugged over a socket, see [`crate::debug`].
    pub is_debugged: bool,
    /// Whether accesses of memory can be watched, which makes the run slow.
    pub is_watched: bool,
    /// Whether the process may be forked: the walls around QEMU must not end a process that forks.
    pub is_copied: bool,
    /// Policy for the firmware's semihosting calls.
    pub semihosting: Semihosting,
    /// Console's path without its ending: `.log` is what the firmware printed, `.in` the pipe to it.
    pub console: String,
    /// Texts to be typed on the console.
    pub input: Vec<Step>,
    /// Kernel of the firmware, if it has one.
    pub kernel: Option<Kernel>,
    /// Tasks of an async executor, which have no stacks of their own; sorted by their functions.
    pub polls: Vec<Poll>,
    /// Functions that allocate and free memory, sorted by their first addresses; empty: the heap is not followed.
    pub heap: Vec<Allocator>,
    /// Events that the firmware names itself, sorted by address.
    pub events: Vec<Event>,
    /// Instructions of a slice; None: no slices.
    pub slice_insns: Option<u64>,
    /// Timeline that is written event by event, see [`crate::timeline`]; None: no timeline.
    pub timeline: Option<Wanted>,
    /// The chip that the machine is completed to; None: the machine is as QEMU has it.
    pub chip: Option<Chip>,
}

/// Async task: a function is called each time that the task resumes. Tasks that share the function differ in its
/// first argument, a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    /// First address of the function.
    pub entry: u64,
    /// The task's name.
    pub name: String,
}

/// Layout of a kernel's tasks in memory. No field is specific to one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Pointers to the running tasks' control blocks, one per core.
    pub current: Range<u64>,
    /// Variable that is not zero while the scheduler runs; None: the scheduler always runs.
    pub running: Option<Range<u64>>,
    /// Variables that hold the idle tasks' control blocks.
    pub idle: Vec<u64>,
    /// Functions in which the idle tasks, and no others, begin.
    pub idle_entries: Vec<u64>,
    /// Offsets of the bytes of a control block that are the task's name.
    pub name: Option<Range<u64>>,
    /// Offset of the stack pointer that is saved when a task is switched out.
    pub saved_sp: Option<u64>,
    /// Offset of the stack's lowest address.
    pub stack: Option<u64>,
    /// Member that says where the stack ends.
    pub stack_end: Option<StackEnd>,
    /// Byte that fills a stack before it is used.
    pub paint: Option<u8>,
    /// Code whose stores may switch tasks.
    pub switchers: Vec<Range<u64>>,
    /// Function that deletes the task whose control block is its first argument; argument 0 means the running task.
    pub delete: Option<u64>,
}

/// Member of a control block that says where the stack ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackEnd {
    /// Offset of the member.
    pub offset: u64,
    /// Added to the member's value to get the address above the stack: the size of a word where the member points to
    /// the last word.
    pub plus_bytes: u64,
}

impl Request {
    /// Appends the record to `out`.
    ///
    /// # Errors
    /// When a field makes no sense; nothing is appended.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        self.check().map_err(|what| Malformed { what, offset: out.len() })?;
        let mut steps = Vec::new();
        self.input.iter().try_for_each(|step| step.put(&mut steps))?;
        let mut rows = Vec::new();
        self.unwind.iter().for_each(|row| row.put(&mut rows));
        out.extend(MAGIC);
        varint::put(out, VERSION);
        out.push(self.isa as u8);
        put_list(out, self.qemu.as_slice(), |out, version| {
            version.iter().for_each(|&part| varint::put(out, part.into()));
        });
        varint::put(out, self.period_insns);
        varint::put(out, self.unshared_vcpus.into());
        for number in [
            self.jitter_seed,
            self.for_insns,
            self.max_insns,
            self.entry,
            self.finisher,
            self.max_depth.map(u64::from),
            self.max_output_bytes,
            self.slice_insns,
        ] {
            put_option(out, number);
        }
        for flag in [self.is_exact, self.has_marks, self.is_oracle, self.is_debugged, self.is_watched, self.is_copied]
        {
            out.push(flag.into());
        }
        out.push(self.semihosting as u8);
        put_addresses(out, &self.from);
        put_addresses(out, &self.until);
        put_list(out, &self.spans, |out, (from, until)| {
            put_addresses(out, from);
            put_addresses(out, until);
        });
        put_list(out, &self.memory, put_range);
        put_list(out, self.snapshot.as_slice(), put_range);
        put_list(out, &self.functions, put_range);
        put_addresses(out, &self.loops);
        put_addresses(out, &self.pointed);
        put_addresses(out, &self.forgetful);
        put_list(out, &self.inlined_calls, InlinedCall::put);
        put_bytes(out, &rows);
        put_bytes(out, self.console.as_bytes());
        put_bytes(out, &steps);
        put_list(out, self.kernel.as_slice(), Kernel::put);
        put_list(out, &self.polls, |out, poll| {
            varint::put(out, poll.entry);
            put_bytes(out, poll.name.as_bytes());
        });
        put_list(out, &self.heap, Allocator::put);
        put_list(out, &self.events, Event::put);
        put_list(out, self.timeline.as_slice(), Wanted::put);
        put_list(out, self.chip.as_slice(), Chip::put_in);
        Ok(())
    }

    /// Reads the record, which is all of `bytes`.
    ///
    /// # Errors
    /// When the record is damaged, of another version, or a field makes no sense.
    pub fn read(bytes: &[u8]) -> Result<Request, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.bytes(MAGIC.len() as u64, "request")? != MAGIC {
            return Err(Malformed { what: "request's magic", offset: 0 });
        }
        let request = Request::fields(&mut reader)?;
        if !reader.is_empty() {
            return Err(Malformed { what: "request's end", offset: reader.offset });
        }
        request.check().map_err(|what| Malformed { what, offset: 0 })?;
        Ok(request)
    }

    fn fields(reader: &mut Reader<'_>) -> Result<Request, Malformed> {
        let malformed = |what, reader: &Reader<'_>| Malformed { what, offset: reader.offset };
        if reader.varint("request's version")? != VERSION {
            return Err(malformed("request's version", reader));
        }
        let isa = usize::from(reader.byte("request's isa")?);
        let isa = *Isa::ALL.get(isa).ok_or(malformed("request's isa", reader))?;
        let qemu = read_at_most_one(reader, read_version)?;
        let period_insns = reader.varint("request's period")?;
        let unshared_vcpus = reader.varint("request's vCPUs")?;
        let unshared_vcpus = unshared_vcpus.try_into().map_err(|_| malformed("request's vCPUs", reader))?;
        let mut numbers = [None; 8];
        for number in &mut numbers {
            *number = read_option(reader)?;
        }
        let [jitter_seed, for_insns, max_insns, entry, finisher, max_depth, max_output_bytes, slice_insns] = numbers;
        let max_depth = max_depth.map(u32::try_from).transpose();
        let max_depth = max_depth.map_err(|_| malformed("request's depth", reader))?;
        let mut flags = [false; 6];
        for flag in &mut flags {
            *flag = read_flag(reader)?;
        }
        let [is_exact, has_marks, is_oracle, is_debugged, is_watched, is_copied] = flags;
        let semihosting = usize::from(reader.byte("request's semihosting")?);
        let semihosting = *Semihosting::ALL.get(semihosting).ok_or(malformed("request's semihosting", reader))?;
        let from = read_addresses(reader)?;
        let until = read_addresses(reader)?;
        let spans = read_list(reader, |reader| Ok((read_addresses(reader)?, read_addresses(reader)?)))?;
        let memory = read_list(reader, read_range)?;
        let snapshot = read_at_most_one(reader, read_range)?;
        let functions = read_list(reader, read_range)?;
        let loops = read_addresses(reader)?;
        let pointed = read_addresses(reader)?;
        let forgetful = read_addresses(reader)?;
        let inlined_calls = read_list(reader, InlinedCall::read)?;
        let unwind = unwind::read(read_bytes(reader)?)?;
        let console = std::str::from_utf8(read_bytes(reader)?).map_err(|_| malformed("request's console", reader))?;
        let console = console.to_owned();
        let input = input::read(read_bytes(reader)?)?;
        let kernel = read_at_most_one(reader, Kernel::read)?;
        let polls = read_list(reader, |reader| {
            let entry = reader.varint("request's task")?;
            let offset = reader.offset;
            let name = String::from_utf8(read_bytes(reader)?.to_vec());
            Ok(Poll { entry, name: name.map_err(|_| Malformed { what: "request's task", offset })? })
        })?;
        let heap = read_list(reader, Allocator::read)?;
        let events = read_list(reader, Event::read)?;
        let timeline = read_at_most_one(reader, Wanted::read)?;
        let chip = read_at_most_one(reader, Chip::read_from)?;
        Ok(Request {
            isa,
            qemu,
            period_insns,
            jitter_seed,
            for_insns,
            max_insns,
            max_output_bytes,
            from,
            until,
            spans,
            entry,
            finisher,
            unshared_vcpus,
            memory,
            snapshot,
            functions,
            loops,
            pointed,
            forgetful,
            inlined_calls,
            unwind,
            max_depth,
            is_exact,
            has_marks,
            is_oracle,
            is_debugged,
            is_watched,
            is_copied,
            semihosting,
            console,
            input,
            kernel,
            polls,
            heap,
            events,
            slice_insns,
            timeline,
            chip,
        })
    }

    /// Returns the name of the first field that makes no sense, as an error.
    fn check(&self) -> Result<(), &'static str> {
        let limits = [Some(self.period_insns), self.for_insns, self.max_insns, self.slice_insns];
        let ranges = self.memory.iter().chain(&self.snapshot).chain(&self.functions);
        let rules: [(bool, &'static str); 17] = [
            (limits.into_iter().flatten().all(|insns| (1..counters::MAX_INSNS).contains(&insns)), "request's limit"),
            (ranges.into_iter().all(|range| range.start <= range.end), "request's range"),
            (self.functions.is_sorted_by_key(|function| function.start), "request's functions"),
            (self.loops.is_sorted(), "request's loops"),
            (self.pointed.is_sorted(), "request's functions reached by pointers"),
            (self.forgetful.is_sorted(), "request's forgetful functions"),
            (self.inlined_calls.is_sorted_by_key(|call| call.return_addr), "request's inlined calls"),
            (self.polls.is_sorted_by(|poll, next| poll.entry < next.entry), "request's tasks"),
            (self.polls.iter().all(|poll| poll.name.len() <= MAX_TEXT_BYTES), "request's tasks"),
            (self.heap.is_sorted_by(|one, next| one.entry < next.entry), "request's allocators"),
            (self.heap.iter().all(Allocator::is_meant), "request's allocators"),
            (self.unwind.is_sorted_by(|row, next| row.pc < next.pc), "request's unwind rows"),
            ((1..=MAX_PATH_BYTES).contains(&self.console.len()), "request's console"),
            (self.spans.iter().all(|(from, until)| !from.is_empty() && !until.is_empty()), "request's span"),
            (self.events.is_sorted_by(|event, next| event.address < next.address), "request's events"),
            (self.events.iter().all(Event::is_sound), "request's event"),
            (self.timeline.iter().all(Wanted::is_meant), "request's timeline"),
        ];
        let broken = rules.into_iter().find(|(holds, _)| !holds);
        broken.map_or(Ok(()), |(_, what)| Err(what))?;
        self.chip.as_ref().map_or(Ok(()), Chip::check)?;
        self.kernel.as_ref().map_or(Ok(()), Kernel::check)
    }
}

/// A call that inlined code makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlinedCall {
    /// Address that it returns to.
    pub return_addr: u64,
    /// Entry of the function that the code is in.
    pub caller: u64,
    /// Address in that function by which all calls are known that the same inlined functions make.
    pub via: u64,
}

impl InlinedCall {
    fn put(out: &mut Vec<u8>, call: &InlinedCall) {
        for address in [call.return_addr, call.caller, call.via] {
            varint::put(out, address);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<InlinedCall, Malformed> {
        let mut address = || reader.varint("request's inlined call");
        Ok(InlinedCall { return_addr: address()?, caller: address()?, via: address()? })
    }
}

impl Kernel {
    fn put(out: &mut Vec<u8>, kernel: &Kernel) {
        put_range(out, &kernel.current);
        put_list(out, kernel.running.as_slice(), put_range);
        for addresses in [&kernel.idle, &kernel.idle_entries] {
            put_list(out, addresses, |out, &address| varint::put(out, address));
        }
        put_list(out, kernel.name.as_slice(), put_range);
        for number in [
            kernel.saved_sp,
            kernel.stack,
            kernel.stack_end.map(|end| end.offset),
            kernel.stack_end.map(|end| end.plus_bytes),
            kernel.paint.map(u64::from),
            kernel.delete,
        ] {
            put_option(out, number);
        }
        put_list(out, &kernel.switchers, put_range);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Kernel, Malformed> {
        let current = read_range(reader)?;
        let running = read_at_most_one(reader, read_range)?;
        let idle = read_list(reader, |reader| reader.varint("kernel's idle task"))?;
        let idle_entries = read_list(reader, |reader| reader.varint("kernel's idle task"))?;
        let name = read_at_most_one(reader, read_range)?;
        let malformed = Malformed { what: "kernel", offset: reader.offset };
        let mut numbers = [None; 6];
        for number in &mut numbers {
            *number = read_option(reader)?;
        }
        let [saved_sp, stack, end, plus, paint, delete] = numbers;
        let stack_end = match (end, plus) {
            (Some(offset), Some(plus_bytes)) => Some(StackEnd { offset, plus_bytes }),
            (None, None) => None,
            _ => return Err(malformed),
        };
        let paint = paint.map(u8::try_from).transpose().map_err(|_| malformed)?;
        let switchers = read_list(reader, read_range)?;
        Ok(Kernel {
            current,
            running,
            idle,
            idle_entries,
            name,
            saved_sp,
            stack,
            stack_end,
            paint,
            switchers,
            delete,
        })
    }

    fn check(&self) -> Result<(), &'static str> {
        let ranges = self.running.iter().chain(&self.name).chain(&self.switchers);
        let offsets = [
            self.saved_sp,
            self.stack,
            self.stack_end.map(|end| end.offset),
            self.stack_end.map(|end| end.plus_bytes),
            self.name.as_ref().map(|name| name.end),
        ];
        let rules: [(bool, &'static str); 4] = [
            (self.current.start < self.current.end, "kernel's current task"),
            (ranges.into_iter().all(|range| range.start <= range.end), "kernel's range"),
            (self.running.iter().all(|running| running.end.saturating_sub(running.start) <= 8), "kernel's flag"),
            (offsets.into_iter().flatten().all(|offset| offset < MAX_OFFSET_BYTES), "kernel's offset"),
        ];
        let broken = rules.into_iter().find(|(holds, _)| !holds);
        broken.map_or(Ok(()), |(_, what)| Err(what))
    }
}

pub(crate) fn put_option(out: &mut Vec<u8>, number: Option<u64>) {
    out.push(number.is_some().into());
    if let Some(number) = number {
        varint::put(out, number);
    }
}

/// Major, minor and micro of a version.
fn read_version(reader: &mut Reader<'_>) -> Result<[u32; 3], Malformed> {
    let mut version = [0; 3];
    for part in &mut version {
        let offset = reader.offset;
        let number = reader.varint("request's version of QEMU")?;
        *part = number.try_into().map_err(|_| Malformed { what: "request's version of QEMU", offset })?;
    }
    Ok(version)
}

fn read_flag(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    let malformed = Malformed { what: "request's flag", offset: reader.offset };
    match reader.byte("request's flag")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(malformed),
    }
}

pub(crate) fn read_option(reader: &mut Reader<'_>) -> Result<Option<u64>, Malformed> {
    if read_flag(reader)? { reader.varint("request's number").map(Some) } else { Ok(None) }
}

fn put_range(out: &mut Vec<u8>, range: &Range<u64>) {
    varint::put(out, range.start);
    varint::put(out, range.end.wrapping_sub(range.start));
}

fn read_range(reader: &mut Reader<'_>) -> Result<Range<u64>, Malformed> {
    let malformed = Malformed { what: "request's range", offset: reader.offset };
    let start = reader.varint("request's range")?;
    let end = start.checked_add(reader.varint("request's range")?).ok_or(malformed)?;
    Ok(start..end)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn read_bytes<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let len = reader.varint("request's length")?;
    reader.bytes(len, "request")
}

pub(crate) fn put_list<T>(out: &mut Vec<u8>, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    varint::put(out, items.len() as u64);
    items.iter().for_each(|item| put(out, item));
}

/// Reads a list. Each item takes at least a byte, so a damaged length ends at the end of the file.
pub(crate) fn read_list<T>(
    reader: &mut Reader<'_>,
    read: impl Fn(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = reader.varint("request's length")?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(read(reader)?);
    }
    Ok(items)
}

pub(crate) fn put_addresses(out: &mut Vec<u8>, addresses: &[u64]) {
    put_list(out, addresses, |out, &address| varint::put(out, address));
}

pub(crate) fn read_addresses(reader: &mut Reader<'_>) -> Result<Vec<u64>, Malformed> {
    read_list(reader, |reader| reader.varint("request's address"))
}

pub(crate) fn read_at_most_one<T>(
    reader: &mut Reader<'_>,
    read: impl Fn(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    if read_flag(reader)? { read(reader).map(Some) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::{Argument, MAX_REGISTER};
    use crate::input::When;
    use crate::timeline::{Objects, State, Waits};
    use crate::unwind::{Base, Rule, Saved};
    use crate::zone::EventKind;

    fn plain() -> Request {
        Request {
            isa: Isa::ThumbV7m,
            qemu: None,
            period_insns: 10_007,
            jitter_seed: None,
            for_insns: None,
            max_insns: None,
            max_output_bytes: None,
            from: vec![],
            until: vec![],
            spans: vec![],
            entry: None,
            finisher: None,
            unshared_vcpus: 1,
            memory: vec![],
            snapshot: None,
            functions: vec![],
            loops: vec![],
            pointed: vec![],
            forgetful: vec![],
            inlined_calls: vec![],
            unwind: vec![],
            max_depth: None,
            is_exact: false,
            has_marks: false,
            is_oracle: false,
            is_debugged: false,
            is_watched: false,
            is_copied: false,
            semihosting: Semihosting::Scratch,
            console: "../console".into(),
            input: vec![],
            kernel: None,
            polls: vec![],
            heap: vec![],
            events: vec![],
            slice_insns: None,
            timeline: None,
            chip: None,
        }
    }

    fn call(return_addr: u64) -> InlinedCall {
        InlinedCall { return_addr, caller: 0x100, via: 0x103 }
    }

    fn kernel() -> Kernel {
        Kernel {
            current: 0x2000_0000..0x2000_0004,
            running: Some(0x2000_0010..0x2000_0014),
            idle: vec![0x2000_0020],
            idle_entries: vec![0x140],
            name: Some(0x34..0x44),
            saved_sp: Some(0),
            stack: Some(0x30),
            stack_end: Some(StackEnd { offset: 0x44, plus_bytes: 4 }),
            paint: Some(0xa5),
            switchers: vec![0x100..0x180, 0x200..0x240],
            delete: Some(0x300),
        }
    }

    fn freeing(entry: u64) -> Allocator {
        Allocator { entry, size: None, count: None, align: None, old: Some(10), result: 10, place: None }
    }

    fn full() -> Request {
        let rule = Rule {
            base: Base::StackPointer,
            cfa_offset_bytes: 8,
            return_addr: Saved::AtCfa(-4),
            frame_pointer: Saved::Register,
        };
        Request {
            isa: Isa::Riscv64,
            qemu: Some([11, 1, 3]),
            jitter_seed: Some(u64::MAX),
            for_insns: Some(1),
            max_insns: Some(counters::MAX_INSNS - 1),
            max_output_bytes: Some(u64::MAX),
            from: vec![0x100, 0x180],
            until: vec![0],
            spans: vec![(vec![0x100], vec![0x200, 0x300]), (vec![u64::MAX], vec![0])],
            entry: Some(0x80),
            finisher: Some(0x10_0000),
            unshared_vcpus: 2,
            memory: vec![0x8000_0000..0x8800_0000, 0..0x1000],
            snapshot: Some(0x2000_0000..0x2000_1000),
            functions: vec![0x80..0x100, 0x100..u64::MAX],
            loops: vec![0x90, 0x98],
            pointed: vec![0x80, 0x100],
            forgetful: vec![0x100],
            inlined_calls: vec![call(0x104), call(u64::MAX)],
            unwind: vec![Row { pc: 0x80, rule: Some(rule) }, Row { pc: 0x100, rule: None }],
            max_depth: Some(1024),
            is_exact: true,
            has_marks: true,
            is_oracle: true,
            input: vec![Step { when: When::After(b"> ".to_vec()), bytes: b"help\n".to_vec() }],
            kernel: Some(kernel()),
            polls: vec![Poll { entry: 0x100, name: "blink".into() }, Poll { entry: 0x200, name: "größe".into() }],
            heap: vec![
                Allocator {
                    size: Some(Argument::Register(11)),
                    count: Some(Argument::Constant(300)),
                    align: Some(Argument::Register(0)),
                    place: Some(MAX_REGISTER),
                    ..freeing(0x100)
                },
                freeing(0x200),
            ],
            events: events(),
            slice_insns: Some(1_000_000),
            timeline: Some(timeline()),
            chip: Some(crate::chip::tests::full()),
            ..plain()
        }
    }

    fn timeline() -> Wanted {
        Wanted {
            functions: vec![0x100, 0x200],
            waits: Some(Waits {
                state: 0x14,
                event: Some(0x28),
                event_value: Some((0x18, 4)),
                lists: vec![(0x2000_0100, State::Ready), (0x2000_0200, State::Deleted)],
                notification: Some((0x60, 1)),
                objects: Some(Objects {
                    end: 8,
                    end_bytes: 4,
                    room: 0x10,
                    item: 0x24,
                    length: 0x3c,
                    item_size: 0x40,
                    registry: Some((0x2000_0300, 8)),
                }),
            }),
            sleep_shift: Some(5),
        }
    }

    fn events() -> Vec<Event> {
        let kinds = [
            EventKind::Enter { scope: u32::MAX },
            EventKind::Leave { scope: 0 },
            EventKind::Begin,
            EventKind::End,
            EventKind::Phase,
            EventKind::Register { register: 31 },
            EventKind::Constant { value: -1 },
        ];
        kinds.into_iter().zip(1..).map(|(kind, name)| Event { address: 2 * u64::from(name), kind, name }).collect()
    }

    fn encode(request: &Request) -> Vec<u8> {
        let mut out = Vec::new();
        request.put(&mut out).unwrap();
        out
    }

    #[test]
    fn requests_survive_the_wire() {
        let mut sparse = plain();
        sparse.kernel =
            Some(Kernel { running: None, name: None, stack_end: None, paint: None, delete: None, ..kernel() });
        for request in [plain(), full(), sparse] {
            assert_eq!(Request::read(&encode(&request)), Ok(request));
        }
        for isa in Isa::ALL {
            let request = Request { isa, ..plain() };
            assert_eq!(Request::read(&encode(&request)), Ok(request));
        }
        for semihosting in Semihosting::ALL {
            let request = Request { semihosting, ..plain() };
            assert_eq!(Request::read(&encode(&request)), Ok(request));
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_when_written() {
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        let reversed = || 2..1;
        let bad_kernel = |change: fn(&mut Kernel)| {
            let mut kernel = kernel();
            change(&mut kernel);
            Request { kernel: Some(kernel), ..plain() }
        };
        let bad = [
            Request { period_insns: 0, ..plain() },
            Request { for_insns: Some(counters::MAX_INSNS), ..plain() },
            Request { max_insns: Some(0), ..plain() },
            Request { memory: vec![reversed()], ..plain() },
            Request { snapshot: Some(reversed()), ..plain() },
            Request { functions: vec![4..5, 2..3], ..plain() },
            Request { loops: vec![2, 1], ..plain() },
            Request { pointed: vec![2, 1], ..plain() },
            Request { forgetful: vec![2, 1], ..plain() },
            Request { inlined_calls: vec![call(2), call(1)], ..plain() },
            Request { unwind: vec![Row { pc: 1, rule: None }; 2], ..plain() },
            Request { polls: vec![Poll { entry: 1, name: String::new() }; 2], ..plain() },
            Request { polls: vec![Poll { entry: 1, name: "x".repeat(MAX_TEXT_BYTES + 1) }], ..plain() },
            Request { heap: vec![freeing(1); 2], ..plain() },
            Request { heap: vec![Allocator { old: None, ..freeing(1) }], ..plain() },
            Request { heap: vec![Allocator { old: Some(MAX_REGISTER + 1), ..freeing(1) }], ..plain() },
            Request { heap: vec![Allocator { align: Some(Argument::Constant(8)), ..freeing(1) }], ..plain() },
            Request { slice_insns: Some(0), ..plain() },
            Request { events: vec![Event { address: 2, kind: EventKind::Begin, name: 1 }; 2], ..plain() },
            Request { events: vec![Event { address: 2, kind: EventKind::Begin, name: 0 }], ..plain() },
            Request {
                events: vec![Event { address: 2, kind: EventKind::Register { register: 32 }, name: 1 }],
                ..plain()
            },
            Request { timeline: Some(Wanted { functions: vec![2, 1], ..timeline() }), ..plain() },
            Request { timeline: Some(Wanted { sleep_shift: Some(11), ..timeline() }), ..plain() },
            Request {
                timeline: Some(Wanted {
                    waits: Some(Waits { state: MAX_OFFSET_BYTES, ..timeline().waits.unwrap() }),
                    ..timeline()
                }),
                ..plain()
            },
            Request { console: String::new(), ..plain() },
            Request { console: "x".repeat(MAX_PATH_BYTES + 1), ..plain() },
            Request { input: vec![Step { when: When::At(1), bytes: vec![] }], ..plain() },
            bad_kernel(|kernel| kernel.current.end = kernel.current.start),
            bad_kernel(|kernel| kernel.running = Some(0..9)),
            bad_kernel(|kernel| kernel.stack = Some(MAX_OFFSET_BYTES)),
            bad_kernel(|kernel| kernel.switchers[0].end = 0),
        ];
        for request in bad {
            let mut out = Vec::new();
            assert!(request.put(&mut out).is_err(), "{request:?}");
            assert!(out.is_empty());
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_when_read() {
        // The period follows magic, version, instruction set and no version of QEMU.
        let mut bytes = encode(&Request { period_insns: 1, ..plain() });
        assert_eq!(bytes[10..12], [0, 1]);
        bytes[11] = 0;
        assert_eq!(Request::read(&bytes), Err(Malformed { what: "request's limit", offset: 0 }));
    }

    #[test]
    fn another_version_a_rest_and_every_cut_are_refused() {
        let bytes = encode(&full());
        for at in [0, 8] {
            let mut other = bytes.clone();
            other[at] += 1;
            assert!(Request::read(&other).is_err(), "byte {at}");
        }
        for cut in 0..bytes.len() {
            assert!(Request::read(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert!(Request::read(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn flipped_bits_are_another_request_or_an_error() {
        let bytes = encode(&full());
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[index] ^= 1 << bit;
                assert_ne!(Request::read(&flipped), Ok(full()), "byte {index} bit {bit} does not matter");
            }
        }
    }
}
