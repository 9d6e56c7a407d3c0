// SPDX-License-Identifier: MIT OR Apache-2.0
//! Request of harness to the plugin: one record, written before QEMU starts.
//!
//! QEMU's command line names only the directory of the file ([`FILE_NAME`]). The record is checked as a whole when it
//! is written and again when it is read, because the plugin uses its lists and offsets without further checks. A
//! request that the plugin cannot serve is answered by a [`crate::refusal`].
//!
//! All addresses are the running guest's, load bias included.

use std::ops::Range;

use crate::chip::Chip;
use crate::core::Core;
use crate::definition::MAX_TEXT_BYTES;
use crate::heap::Allocator;
use crate::input::Step;
use crate::record::{self, Bytes, Codec, Record, record};
use crate::timeline::Wanted;
use crate::unwind::{self, Row};
use crate::varint::Reader;
use crate::zone::{Call, Event, WaitingCall};
use crate::{Malformed, counters};

/// Name of the file.
pub const FILE_NAME: &str = "request";

/// First eight bytes of the file.
const MAGIC: [u8; 8] = *b"fwreq\r\n\0";

/// Changes whenever any byte of the file changes its meaning.
const VERSION: u64 = 19;

/// Longest path, in bytes.
pub const MAX_PATH_BYTES: usize = 4096;

/// Bound of the offsets of a kernel control block's members.
pub const MAX_OFFSET_BYTES: u64 = 1 << 32;

record! {
    /// Instruction set of the emulated processor.
    #[derive(Copy)]
    pub enum Isa {
        /// RV32.
        0 = Riscv32,
        /// RV64.
        1 = Riscv64,
        /// Armv6-M.
        2 = ThumbV6m,
        /// Armv7-M and Armv7E-M.
        3 = ThumbV7m,
        /// Armv8-M.
        4 = ThumbV8m,
        /// AVR with a program counter of two bytes.
        5 = AvrPc16,
        /// AVR with a program counter of three bytes.
        6 = AvrPc22,
        /// RV32 with Zcmp and Zcmt.
        7 = Riscv32Zc,
        /// RV64 with Zcmp and Zcmt.
        8 = Riscv64Zc,
    }
}

record! {
    /// Policy for the firmware's semihosting calls. Exits are let through under every policy but `Off`.
    #[derive(Copy)]
    pub enum Semihosting {
        /// No semihosting: the call's instruction is like any other.
        0 = Off,
        /// Only calls that need no file but the console, `:tt`.
        1 = Console,
        /// Console calls, and files in the run's scratch directory.
        2 = Scratch,
        /// All calls; for tests of the sandbox around QEMU.
        3 = Unchecked,
        /// All calls, but each path is judged where QEMU uses it; for tests of that wall.
        4 = AtUse,
    }
}

record! {
    /// Complete set of orders for one run's plugin.
    pub struct Request {
        /// Instruction set in which code is decoded.
        isa: Isa,
        /// QEMU's version (major, minor, micro), which decides the rows of [`crate::trick`] that may be used. None:
        /// none may.
        qemu: Option<[u32; 3]>,
        /// Bytes printed and written to files after which the run has failed.
        max_output_bytes: Option<u64>,
        /// Address of the firmware's first instruction.
        entry: Option<u64>,
        /// End of the run: the address of the test finisher, a device of RISC-V's `virt` machine, or on AVR the address
        /// of the loop in which avr-libc's `exit` ends.
        finisher: Option<u64>,
        /// Address of avr-libc's `exit`, whose argument is the firmware's status.
        exit: Option<u64>,
        /// Number of vCPUs up to which each executes only what QEMU has translated for it alone.
        unshared_vcpus: u32,
        /// Ranges that can be read without a device noticing; the file of [`crate::memory`], if there is one,
        /// replaces them.
        memory: Vec<Range<u64>>,
        /// Policy for the firmware's semihosting calls.
        semihosting: Semihosting,
        /// Console's path without its ending: `.log` is the firmware's output, `.in` the pipe to the firmware.
        console: String,
        /// Texts to be typed on the console.
        input: Vec<Step>,
        /// The chip that the plugin adds to the machine; None: the machine stays as QEMU makes it.
        chip: Option<Chip>,
        /// Core whose cycles are counted by passages through blocks (RISC-V); None: they are not.
        core: Option<Core>,
        /// Time by the core's cycles; None: the machine's clock counts instructions.
        pace: Option<Pace>,
        /// Purpose of the run.
        purpose: Purpose,
    }
}

record! {
    /// Time by the core's cycles.
    #[derive(Copy)]
    pub struct Pace {
        /// Cycles in a second.
        hz: u64,
        /// QEMU's clock moves by 2^shift ns with each instruction, which is not more than a cycle.
        insn_shift: u8,
    }
}

record! {
    /// Purpose of a run.
    pub enum Purpose {
        /// A profile.
        0 = Measure(measure: Box<Measure>),
        /// A debugger.
        1 = Debug(debug: Debug),
    }
}

record! {
    /// Orders for a run that is debugged over a socket, see [`crate::debug`]. Nothing in it is counted or followed.
    #[derive(Copy)]
    pub struct Debug {
        /// Whether accesses of memory can be watched, which makes the run slow.
        is_watched: bool,
        /// Whether the process may be forked: the walls around QEMU must not end a process that forks.
        is_copied: bool,
    }
}

record! {
    /// Orders for a run that is measured: the window, and everything that is counted and followed. The default asks
    /// for nothing.
    #[derive(Default)]
    pub struct Measure {
        /// Instructions from one sample to the next, below [`counters::MAX_INSNS`] like all limits; None: no samples.
        period_insns: Option<u64>,
        /// Seed of the dither around the period; None: no dither.
        jitter_seed: Option<u64>,
        /// Instructions of the window.
        for_insns: Option<u64>,
        /// Instructions since reset after which the run has failed.
        max_insns: Option<u64>,
        /// Addresses whose execution opens the window; empty: reset opens it.
        from: Vec<u64>,
        /// Addresses whose execution closes the window.
        until: Vec<u64>,
        /// Spans to measure in instructions: from any address of the first list until any of the second.
        spans: Vec<(Vec<u64>, Vec<u64>)>,
        /// Memory to be copied as the window opens and as the run ends.
        snapshot: Option<Range<u64>>,
        /// Functions of the firmware, sorted by their start.
        functions: Vec<Range<u64>>,
        /// Branches to their function's start that need no watching (see [`crate::definition::TransferKind::Branch`]),
        /// sorted.
        loops: Vec<u64>,
        /// Ways of branches that are counted, at most one of each branch; sorted by the branches' addresses.
        ways: Vec<Way>,
        /// Places at which the jumps through registers and tables that arrive are counted, by the jump; sorted.
        landings: Vec<Range<u64>>,
        /// Whether the cycles are counted by which instructions differ from their usual number (AVR).
        has_cycles: bool,
        /// Entries of functions that no instruction names as its target, sorted. As far as the code shows, they are
        /// reached through pointers only.
        pointed: Vec<u64>,
        /// Entries of functions that never return and do not keep their return address, sorted.
        forgetful: Vec<u64>,
        /// Calls that never return, of other functions that do not keep their return address; sorted. Each from the last
        /// instruction at which the register has it to behind the call.
        forgetting: Vec<Range<u64>>,
        /// Calls made by inlined code, sorted by their return addresses; for the exact call tree.
        inlined_calls: Vec<InlinedCall>,
        /// Variables, sorted and apart: a stack that reaches from one, or from between two of them, into another has left
        /// its memory. Empty: no stack is judged by them.
        variables: Vec<Range<u64>>,
        /// Variable in which the C library keeps the address behind its heap, which grows towards the main stack.
        heap_end: Option<u64>,
        /// Rules for walking stacks, sorted by address.
        unwind: Vec<Row> = Rows,
        /// Most frames of a call stack; None: no call stacks are taken.
        max_depth: Option<u32>,
        /// Whether the exact call tree is kept.
        is_exact: bool,
        /// Whether the amount of console output is noted at samples.
        has_marks: bool,
        /// Whether one callback per instruction replaces the inline counters; for the tests.
        is_oracle: bool,
        /// Kernel of the firmware, if it has one.
        kernel: Option<Kernel>,
        /// Tasks of an async executor, which have no stacks of their own; sorted by their functions.
        polls: Vec<Poll>,
        /// Events of these tasks' lives, which the timeline shows.
        lives: Lives,
        /// Functions that allocate and free memory, sorted by their first addresses; empty: the heap is not followed.
        heap: Vec<Allocator>,
        /// Events that the firmware names itself, sorted by address.
        events: Vec<Event>,
        /// Functions whose calls are zones, sorted by their first addresses.
        zone_calls: Vec<Call>,
        /// Number of the names that the harness has given; names that calls bring have higher numbers.
        zone_names: u32,
        /// Calls that belong to waiting, sorted by their sites.
        waiting_calls: Vec<WaitingCall>,
        /// Beginnings of waiting code, sorted.
        waiting_code: Vec<u64>,
        /// Instructions of a slice; None: no slices.
        slice_insns: Option<u64>,
        /// Shift of virtual time (2^shift ns per instruction) with which sleeps are measured; None: sleeps are not
        /// asked for.
        sleep_shift: Option<u8>,
        /// Timeline that is written event by event, see [`crate::timeline`]; None: no timeline.
        timeline: Option<Wanted>,
    }
}

/// Largest shift that QEMU takes (softmmu/icount.c, `MAX_ICOUNT_SHIFT`).
const MAX_SHIFT: u8 = 10;

/// Nanoseconds in a second.
const NS_PER_S: u64 = 1_000_000_000;

record! {
    /// Way of a conditional branch.
    #[derive(Copy)]
    pub struct Way {
        /// Address of the branch.
        site: u64,
        /// Address after it, where it goes on when it is not taken.
        next: u64,
        /// Address that it goes to when it is taken.
        target: u64,
        /// Whether the counted way is the taken one.
        is_taken: bool,
    }
}

impl Way {
    /// Address that the counted way leads to.
    pub fn leads_to(&self) -> u64 {
        if self.is_taken { self.target } else { self.next }
    }
}

record! {
    /// Async task: a function is called each time that the task resumes. Tasks that share the function differ in its
    /// first argument, a pointer.
    pub struct Poll {
        /// First address of the function.
        entry: u64,
        /// The task's name.
        name: String,
    }
}

record! {
    /// Places at which the lives of an executor's tasks can be seen. A task is known by the pointer that its function gets.
    #[derive(Default)]
    pub struct Lives {
        /// Functions that make the task ready that their first argument points to, by their first addresses.
        wakes: Vec<u64>,
        /// Functions that begin the life of the task that their second argument points to.
        spawns: Vec<u64>,
        /// Offset, in a task, of the pointer to the function that is called to resume it.
        poll: Option<u64>,
        /// Offset, in a task, of the byte whose lowest bit is set while the task lives.
        alive: Option<u64>,
    }
}

record! {
    /// Layout of a kernel's tasks in memory. No field is specific to one kernel.
    pub struct Kernel {
        /// Pointers to the running tasks' control blocks, one per core.
        current: Range<u64>,
        /// Variable that is not zero while the scheduler runs; None: the scheduler always runs.
        running: Option<Range<u64>>,
        /// Variables that hold the idle tasks' control blocks.
        idle: Vec<u64>,
        /// Functions in which tasks begin, which nothing calls.
        begins: Vec<u64>,
        /// Functions in which some tasks begin, and which other tasks call.
        called_begins: Vec<u64>,
        /// Functions in which the idle tasks, and no others, begin.
        idle_entries: Vec<u64>,
        /// Pointers to the tasks that run next, one per core. While one is null and no task runs, the kernel idles outside
        /// of all tasks; None: it has an idle task.
        next: Option<Range<u64>>,
        /// Place of the task's name; None: the control block has none.
        name: Option<TaskName>,
        /// Offset of the stack pointer that is saved when a task is switched out.
        saved_sp: Option<u64>,
        /// Offset of the stack's lowest address.
        stack: Option<u64>,
        /// Member that says where the stack ends.
        stack_end: Option<StackEnd>,
        /// Pattern that fills a stack before it is used.
        paint: Option<Paint>,
        /// Code whose stores may switch tasks.
        switchers: Vec<Range<u64>>,
        /// Function that deletes the task whose control block is its first argument; argument 0 means the running task.
        delete: Option<u64>,
        /// Function in which the running task ends, whatever its arguments are.
        exit: Option<u64>,
        /// Whether the code that names the first task is that task: the kernel's start becomes its idle task.
        is_first_running: bool,
        /// Whether the kernel goes on with a task out of an exception by an ordinary jump, although the processor has an
        /// instruction that returns from exceptions.
        leaves_by_jumps: bool,
        /// Whether the kernel saves a task's stack pointer before it names the next task.
        saves_first: bool,
        /// Functions in assembly that exchange the task's stack for another one under themselves.
        exchanges: Vec<Exchange>,
    }
}

record! {
    /// Function in assembly that exchanges its task's stack, so that no rule leads to its caller.
    #[derive(Copy)]
    pub struct Exchange {
        /// First address of the function.
        entry: u64,
        /// Whether the handler of an exception goes on here, in place of the code that asked for it; false: it is called.
        is_by_exception: bool,
    }
}

record! {
    /// Place of a task's name in its control block.
    pub struct TaskName {
        /// Offsets of the name's bytes, or of the pointer to them.
        at: Range<u64>,
        /// Whether the member is a pointer to the name.
        is_pointer: bool,
    }
}

record! {
    /// Pattern that fills a stack before it is used.
    #[derive(Copy)]
    pub enum Paint {
        /// The same byte everywhere.
        0 = Byte(byte: u8),
        /// The same word of 32 bits everywhere.
        1 = Word(word: u32),
        /// Each pointer-sized word has its own address.
        2 = OwnAddress,
        /// The same byte everywhere above a word of 32 bits, which shows an overflow once it has another value.
        3 = Guarded(guard: u32, byte: u8),
    }
}

record! {
    /// Member of a control block that says where the stack ends.
    #[derive(Copy)]
    pub struct StackEnd {
        /// Offset of the member.
        offset: u64,
        /// Size of the member in bytes: 4 or 8.
        bytes: u64,
        /// Whether the member is the stack's size, which counts from the lowest address.
        is_size: bool,
        /// Number added to the member's value to get the address above the stack: the size of a word if the member
        /// points to the last word.
        plus_bytes: u64,
    }
}

record! {
    /// A call that inlined code makes.
    #[derive(Copy)]
    pub struct InlinedCall {
        /// Address to which the call returns.
        return_addr: u64,
        /// Entry of the function that contains the code.
        caller: u64,
        /// Address in that function that identifies all calls made by the same inlined functions.
        via: u64,
    }
}

/// Codec of rows of fixed size, as in a file of rows.
struct Rows;

impl Codec<Vec<Row>> for Rows {
    fn put(&self, rows: &Vec<Row>, out: &mut Vec<u8>) {
        let mut bytes = Vec::with_capacity(rows.len() * unwind::ROW_BYTES);
        rows.iter().for_each(|row| row.put(&mut bytes));
        Bytes.put(&bytes, out);
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Vec<Row>, Malformed> {
        let length = reader.varint()?;
        let start = reader.offset;
        let rows = unwind::read(reader.bytes(length)?);
        rows.map_err(|error| Malformed { offset: start + error.offset, ..error })
    }
}

impl Pace {
    /// The pace of a clock of so many cycles in a second; None: a cycle is shorter than a nanosecond.
    pub fn of(hz: u64) -> Option<Pace> {
        let insn_shift = NS_PER_S.checked_div(hz)?.checked_ilog2()?.min(MAX_SHIFT.into()) as u8;
        Some(Pace { hz, insn_shift })
    }

    fn is_meant(&self) -> bool {
        self.insn_shift <= MAX_SHIFT && self.hz > 0 && NS_PER_S / self.hz >= 1 << self.insn_shift
    }
}

/// Returns the name of the first rule that does not hold, as an error.
fn hold<const RULES: usize>(rules: [(bool, &'static str); RULES]) -> Result<(), &'static str> {
    rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(what))
}

fn are_ranges<'a>(ranges: impl IntoIterator<Item = &'a Range<u64>>) -> bool {
    ranges.into_iter().all(|range| range.start <= range.end)
}

impl Request {
    /// Orders for measuring; None: the run is debugged.
    pub fn measure(&self) -> Option<&Measure> {
        match &self.purpose {
            Purpose::Measure(measure) => Some(measure),
            Purpose::Debug(_) => None,
        }
    }

    /// Orders for debugging; None: the run is measured.
    pub fn debug(&self) -> Option<Debug> {
        match self.purpose {
            Purpose::Measure(_) => None,
            Purpose::Debug(debug) => Some(debug),
        }
    }

    /// Appends the record to `out`.
    ///
    /// # Errors
    /// When a field makes no sense; nothing is appended.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        self.check().map_err(|what| Malformed { what, offset: out.len() })?;
        out.extend(MAGIC);
        VERSION.put(out);
        Record::put(self, out);
        Ok(())
    }

    /// Reads the record, which is all of `bytes`.
    ///
    /// # Errors
    /// When the record is damaged, of another version, or a field makes no sense.
    pub fn read(bytes: &[u8]) -> Result<Request, Malformed> {
        let mut reader = Reader::new(bytes, "request");
        if reader.bytes(MAGIC.len() as u64)? != MAGIC {
            return Err(Malformed { what: "request's magic", offset: 0 });
        }
        if reader.varint()? != VERSION {
            return Err(Malformed { what: "request's version", offset: MAGIC.len() });
        }
        let request: Request = record::rest(&mut reader)?;
        request.check().map_err(|what| Malformed { what, offset: 0 })?;
        Ok(request)
    }

    /// Returns the name of the first field that makes no sense, as an error.
    fn check(&self) -> Result<(), &'static str> {
        hold([
            (are_ranges(&self.memory), "request's range"),
            ((1..=MAX_PATH_BYTES).contains(&self.console.len()), "request's console"),
            (self.input.iter().all(Step::is_meant), "request's input"),
            (self.core.iter().all(Core::is_meant), "request's core"),
            (self.pace.iter().all(Pace::is_meant), "request's pace"),
        ])?;
        self.chip.as_ref().map_or(Ok(()), Chip::check)?;
        self.measure().map_or(Ok(()), Measure::check)
    }
}

impl Measure {
    fn check(&self) -> Result<(), &'static str> {
        let limits = [self.period_insns, self.for_insns, self.max_insns, self.slice_insns];
        hold([
            (limits.into_iter().flatten().all(|insns| (1..counters::MAX_INSNS).contains(&insns)), "request's limit"),
            (are_ranges(self.functions.iter().chain(&self.snapshot)), "request's range"),
            (self.functions.is_sorted_by_key(|function| function.start), "request's functions"),
            (self.loops.is_sorted(), "request's loops"),
            (self.ways.is_sorted_by(|way, next| way.site < next.site), "request's ways"),
            (self.ways.iter().all(|way| way.target != way.next), "request's ways"),
            (are_ranges(&self.landings), "request's landings"),
            (self.landings.is_sorted_by(|one, next| one.end <= next.start), "request's landings"),
            (self.pointed.is_sorted(), "request's functions reached by pointers"),
            (self.forgetful.is_sorted(), "request's forgetful functions"),
            (are_ranges(&self.forgetting), "request's forgetting calls"),
            (self.forgetting.is_sorted_by(|one, next| one.end <= next.start), "request's forgetting calls"),
            (self.inlined_calls.is_sorted_by_key(|call| call.return_addr), "request's inlined calls"),
            (self.polls.is_sorted_by(|poll, next| poll.entry < next.entry), "request's tasks"),
            (self.polls.iter().all(|poll| poll.name.len() <= MAX_TEXT_BYTES), "request's tasks"),
            (self.heap.is_sorted_by(|one, next| one.entry < next.entry), "request's allocators"),
            (self.heap.iter().all(Allocator::is_meant), "request's allocators"),
            (are_ranges(&self.variables), "request's variables"),
            (self.variables.is_sorted_by(|one, next| one.end <= next.start), "request's variables"),
            (self.unwind.is_sorted_by(|row, next| row.pc < next.pc), "request's unwind rows"),
            (self.spans.iter().all(|(from, until)| !from.is_empty() && !until.is_empty()), "request's span"),
            (self.events.is_sorted_by(|event, next| event.address < next.address), "request's events"),
            (self.events.iter().all(Event::is_sound), "request's event"),
            (self.zone_calls.is_sorted_by(|one, next| one.entry < next.entry), "request's calls"),
            (self.zone_calls.iter().all(Call::is_sound), "request's calls"),
            (self.zone_calls.iter().all(|call| call.name <= self.zone_names), "request's calls"),
            (self.waiting_calls.is_sorted_by(|one, next| one.site < next.site), "request's waiting calls"),
            (self.waiting_code.is_sorted_by(|one, next| one < next), "request's waiting code"),
            (self.sleep_shift.is_none_or(|shift| shift <= MAX_SHIFT), "request's shift of virtual time"),
            (self.timeline.iter().all(Wanted::is_meant), "request's timeline"),
        ])?;
        self.kernel.as_ref().map_or(Ok(()), Kernel::check)
    }
}

impl Kernel {
    fn check(&self) -> Result<(), &'static str> {
        let ranges =
            self.running.iter().chain(&self.next).chain(self.name.iter().map(|name| &name.at)).chain(&self.switchers);
        let offsets = [
            self.saved_sp,
            self.stack,
            self.stack_end.map(|end| end.offset),
            self.stack_end.map(|end| end.plus_bytes),
            self.name.as_ref().map(|name| name.at.end),
        ];
        hold([
            (self.current.start < self.current.end, "kernel's current task"),
            (are_ranges(ranges), "kernel's range"),
            (self.running.iter().all(|running| running.end.saturating_sub(running.start) <= 8), "kernel's flag"),
            (self.stack_end.iter().all(|end| matches!(end.bytes, 4 | 8)), "kernel's end of a stack"),
            (offsets.into_iter().flatten().all(|offset| offset < MAX_OFFSET_BYTES), "kernel's offset"),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{CLASSES, MAX_CYCLES, Queue};
    use crate::heap::{Argument, MAX_REGISTER};
    use crate::input::When;
    use crate::timeline::{KnownObject, Lists, ObjectKind, ObjectMembers, Objects, State, StateValue, States, Waits};
    use crate::unwind::{Base, Rule, Saved};
    use crate::zone::{CallText, EventKind, WaitingCall};

    fn measured(measure: Measure) -> Request {
        Request {
            isa: Isa::ThumbV7m,
            qemu: None,
            max_output_bytes: None,
            entry: None,
            finisher: None,
            exit: None,
            unshared_vcpus: 1,
            memory: vec![],
            semihosting: Semihosting::Scratch,
            console: "../console".into(),
            input: vec![],
            chip: None,
            core: None,
            pace: None,
            purpose: Purpose::Measure(Box::new(measure)),
        }
    }

    fn plain() -> Request {
        measured(Measure { period_insns: Some(10_007), ..Measure::default() })
    }

    fn core() -> Core {
        let queue = Some(Queue { words: 2, has_predictor: true });
        let cycles = vec![Some(1), None, Some(3)].into_iter().cycle().take(CLASSES).collect();
        Core { cycles, is_compressed: true, load_use: 1, negative_dividend: 1, queue, ..Core::default() }
    }

    fn call(return_addr: u64) -> InlinedCall {
        InlinedCall { return_addr, caller: 0x100, via: 0x103 }
    }

    fn kernel() -> Kernel {
        Kernel {
            current: 0x2000_0000..0x2000_0004,
            running: Some(0x2000_0010..0x2000_0014),
            idle: vec![0x2000_0020],
            begins: vec![0x180],
            called_begins: vec![0x1c0],
            idle_entries: vec![0x140],
            next: Some(0x2000_0030..0x2000_0034),
            name: Some(TaskName { at: 0x34..0x44, is_pointer: true }),
            saved_sp: Some(0),
            stack: Some(0x30),
            stack_end: Some(StackEnd { offset: 0x44, bytes: 4, is_size: true, plus_bytes: 4 }),
            paint: Some(Paint::Word(0xdead_beef)),
            switchers: vec![0x100..0x180, 0x200..0x240],
            delete: Some(0x300),
            exit: Some(0x380),
            is_first_running: true,
            leaves_by_jumps: true,
            saves_first: true,
            exchanges: vec![Exchange { entry: 0x400, is_by_exception: true }],
        }
    }

    fn zone_call(entry: u64) -> Call {
        Call { entry, name: 1, texts: vec![CallText { register: 31, offsets: vec![0, u64::MAX] }] }
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
        let measure = Measure {
            period_insns: Some(10_007),
            jitter_seed: Some(u64::MAX),
            for_insns: Some(1),
            max_insns: Some(counters::MAX_INSNS - 1),
            from: vec![0x100, 0x180],
            until: vec![0],
            spans: vec![(vec![0x100], vec![0x200, 0x300]), (vec![u64::MAX], vec![0])],
            snapshot: Some(0x2000_0000..0x2000_1000),
            functions: vec![0x80..0x100, 0x100..u64::MAX],
            loops: vec![0x90, 0x98],
            ways: vec![
                Way { site: 0x90, next: 0x92, target: 0x80, is_taken: true },
                Way { site: 0x98, next: 0x9a, target: u64::MAX, is_taken: false },
            ],
            landings: vec![0x82..0x84, 0x84..u64::MAX],
            has_cycles: true,
            pointed: vec![0x80, 0x100],
            forgetful: vec![0x100],
            forgetting: vec![0x82..0x84, 0x84..u64::MAX],
            inlined_calls: vec![call(0x104), call(u64::MAX)],
            variables: vec![0x2000_0000..0x2000_0004, 0x2000_0010..u64::MAX],
            heap_end: Some(0x2000_0010),
            unwind: vec![Row { pc: 0x80, rule: Some(rule) }, Row { pc: 0x100, rule: None }],
            max_depth: Some(1024),
            is_exact: true,
            has_marks: true,
            is_oracle: true,
            kernel: Some(kernel()),
            polls: vec![Poll { entry: 0x100, name: "blink".into() }, Poll { entry: 0x200, name: "größe".into() }],
            lives: Lives { wakes: vec![0x300], spawns: vec![u64::MAX, 0], poll: Some(8), alive: None },
            heap: vec![
                Allocator {
                    size: Some(Argument::Register(11)),
                    count: Some(Argument::Constant(300)),
                    align: Some(Argument::Register(0)),
                    place: Some(MAX_REGISTER),
                    ..freeing(0x100)
                },
                Allocator { size: Some(Argument::Word { register: 10, offset: 28 }), ..freeing(0x180) },
                freeing(0x200),
            ],
            events: events(),
            zone_calls: vec![zone_call(0x100), Call { texts: Vec::new(), ..zone_call(0x200) }],
            zone_names: 9,
            waiting_calls: vec![WaitingCall { site: 2, next: 6 }, WaitingCall { site: 6, next: 8 }],
            waiting_code: vec![0, 6],
            slice_insns: Some(1_000_000),
            sleep_shift: Some(5),
            timeline: Some(timeline()),
        };
        Request {
            isa: Isa::Riscv64,
            qemu: Some([11, 1, 3]),
            max_output_bytes: Some(u64::MAX),
            entry: Some(0x80),
            finisher: Some(0x10_0000),
            exit: Some(0x400),
            unshared_vcpus: 2,
            memory: vec![0x8000_0000..0x8800_0000, 0..0x1000],
            input: vec![Step { when: When::After(b"> ".to_vec()), bytes: b"help\n".to_vec() }],
            chip: Some(crate::chip::tests::full()),
            core: Some(core()),
            pace: Some(Pace { hz: 150_000_000, insn_shift: 2 }),
            ..measured(measure)
        }
    }

    fn timeline() -> Wanted {
        Wanted { functions: vec![0x100, 0x200], waits: Some(Waits::Lists(lists())) }
    }

    fn lists() -> Lists {
        Lists {
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
        }
    }

    fn states() -> States {
        let members = ObjectMembers { kind: ObjectKind::Queue, name: Some(4), items: Some(0x10..0x14) };
        let value = |mask, value, state| StateValue { mask, value, state };
        States {
            state: 0x30..0x31,
            values: vec![
                value(2, 2, State::Waiting { kind: ObjectKind::Thread }),
                value(u64::MAX, 4, State::Delayed),
            ],
            object: Some(0x40),
            time_limit: Some(0x44),
            known: vec![KnownObject { at: 0x2000_0400..0x2000_0410, kind: ObjectKind::Mutex }],
            kinds: vec![members],
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
            EventKind::Bytes { register: 28, bytes: 4, is_signed: true },
        ];
        kinds.into_iter().zip(1..).map(|(kind, name)| Event { address: 2 * u64::from(name), kind, name }).collect()
    }

    fn debugged(is_watched: bool) -> Request {
        Request { purpose: Purpose::Debug(Debug { is_watched, is_copied: !is_watched }), ..full() }
    }

    fn encode(request: &Request) -> Vec<u8> {
        let mut out = Vec::new();
        request.put(&mut out).unwrap();
        out
    }

    #[test]
    fn requests_survive_the_wire() {
        let kernel = Kernel { running: None, name: None, stack_end: None, paint: None, delete: None, ..kernel() };
        let painted = |paint| {
            let kernel = Kernel { paint: Some(paint), exit: None, ..kernel.clone() };
            measured(Measure { kernel: Some(kernel), ..Measure::default() })
        };
        let (byte, own_address) = (painted(Paint::Byte(0xa5)), painted(Paint::OwnAddress));
        let guarded = painted(Paint::Guarded(0xf0f0_f0f0, 0xaa));
        let sparse = measured(Measure { kernel: Some(kernel), ..Measure::default() });
        let waits = Some(Waits::States(states()));
        let by_states = measured(Measure { timeline: Some(Wanted { waits, ..timeline() }), ..Measure::default() });
        for request in
            [plain(), full(), sparse, byte, own_address, guarded, debugged(true), debugged(false), by_states]
        {
            assert_eq!(Request::read(&encode(&request)), Ok(request));
        }
        let riscv = [Isa::Riscv32, Isa::Riscv64, Isa::Riscv32Zc, Isa::Riscv64Zc];
        let others = [Isa::ThumbV6m, Isa::ThumbV7m, Isa::ThumbV8m, Isa::AvrPc16, Isa::AvrPc22];
        for isa in riscv.into_iter().chain(others) {
            let request = Request { isa, ..plain() };
            assert_eq!(Request::read(&encode(&request)), Ok(request));
        }
        for semihosting in
            [Semihosting::Off, Semihosting::Console, Semihosting::Scratch, Semihosting::Unchecked, Semihosting::AtUse]
        {
            let request = Request { semihosting, ..plain() };
            assert_eq!(Request::read(&encode(&request)), Ok(request));
        }
    }

    /// Asserts that none of the requests can be written, not even in part.
    fn assert_refused(requests: &[Request]) {
        for request in requests {
            let mut out = Vec::new();
            assert!(request.put(&mut out).is_err(), "{request:?}");
            assert!(out.is_empty());
        }
    }

    #[test]
    fn calls_that_cannot_be_meant_are_refused_when_written() {
        let bad = [
            measured(Measure { zone_calls: vec![zone_call(2); 2], zone_names: 1, ..Measure::default() }),
            measured(Measure { zone_calls: vec![zone_call(2)], zone_names: 0, ..Measure::default() }),
            measured(Measure { zone_calls: vec![Call { name: 0, ..zone_call(2) }], ..Measure::default() }),
            measured(Measure {
                zone_calls: vec![Call {
                    texts: vec![CallText { register: 32, offsets: Vec::new() }],
                    ..zone_call(2)
                }],
                zone_names: 1,
                ..Measure::default()
            }),
        ];
        assert_refused(&bad);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_when_written() {
        let of_core = |core| Request { core: Some(core), ..plain() };
        let of_pace = |hz, insn_shift| Request { pace: Some(Pace { hz, insn_shift }), ..plain() };
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        let reversed = || 2..1;
        let bad_bytes = |register, bytes| {
            let kind = EventKind::Bytes { register, bytes, is_signed: false };
            measured(Measure { events: vec![Event { address: 2, kind, name: 1 }], ..Measure::default() })
        };
        let bad = [
            measured(Measure { period_insns: Some(0), ..Measure::default() }),
            measured(Measure { for_insns: Some(counters::MAX_INSNS), ..Measure::default() }),
            measured(Measure { max_insns: Some(0), ..Measure::default() }),
            Request { memory: vec![reversed()], ..plain() },
            measured(Measure { snapshot: Some(reversed()), ..Measure::default() }),
            measured(Measure { functions: vec![4..5, 2..3], ..Measure::default() }),
            measured(Measure { loops: vec![2, 1], ..Measure::default() }),
            measured(Measure { pointed: vec![2, 1], ..Measure::default() }),
            measured(Measure { variables: vec![2..4, 3..5], ..Measure::default() }),
            measured(Measure { forgetful: vec![2, 1], ..Measure::default() }),
            measured(Measure { forgetting: vec![2..6, 4..8], ..Measure::default() }),
            measured(Measure { inlined_calls: vec![call(2), call(1)], ..Measure::default() }),
            measured(Measure { unwind: vec![Row { pc: 1, rule: None }; 2], ..Measure::default() }),
            measured(Measure { polls: vec![Poll { entry: 1, name: String::new() }; 2], ..Measure::default() }),
            measured(Measure {
                polls: vec![Poll { entry: 1, name: "x".repeat(MAX_TEXT_BYTES + 1) }],
                ..Measure::default()
            }),
            measured(Measure { heap: vec![freeing(1); 2], ..Measure::default() }),
            measured(Measure { heap: vec![Allocator { old: None, ..freeing(1) }], ..Measure::default() }),
            measured(Measure {
                heap: vec![Allocator { old: Some(MAX_REGISTER + 1), ..freeing(1) }],
                ..Measure::default()
            }),
            measured(Measure {
                heap: vec![Allocator { align: Some(Argument::Constant(8)), ..freeing(1) }],
                ..Measure::default()
            }),
            measured(Measure { slice_insns: Some(0), ..Measure::default() }),
            measured(Measure {
                events: vec![Event { address: 2, kind: EventKind::Begin, name: 1 }; 2],
                ..Measure::default()
            }),
            measured(Measure {
                events: vec![Event { address: 2, kind: EventKind::Begin, name: 0 }],
                ..Measure::default()
            }),
            measured(Measure {
                events: vec![Event { address: 2, kind: EventKind::Register { register: 32 }, name: 1 }],
                ..Measure::default()
            }),
            measured(Measure { waiting_calls: vec![WaitingCall { site: 2, next: 6 }; 2], ..Measure::default() }),
            measured(Measure { waiting_code: vec![6, 6], ..Measure::default() }),
            bad_bytes(31, 2),
            bad_bytes(0, 0),
            bad_bytes(0, 5),
            measured(Measure {
                timeline: Some(Wanted { functions: vec![2, 1], ..timeline() }),
                ..Measure::default()
            }),
            measured(Measure { sleep_shift: Some(11), ..Measure::default() }),
            of_core(Core { cycles: vec![Some(1)], ..core() }),
            of_core(Core { load_use: MAX_CYCLES + 1, ..core() }),
            of_core(Core { cycles: vec![Some(MAX_CYCLES + 1); CLASSES], ..core() }),
            of_core(Core { queue: Some(Queue { words: 0, has_predictor: true }), ..core() }),
            of_core(Core { queue: Some(Queue { words: 5, has_predictor: true }), ..core() }),
            of_pace(0, 0),
            of_pace(150_000_000, 3),
            of_pace(1, 11),
            Request { console: String::new(), ..plain() },
            Request { console: "x".repeat(MAX_PATH_BYTES + 1), ..plain() },
            Request { input: vec![Step { when: When::After(vec![]), bytes: vec![1] }], ..plain() },
        ];
        assert_refused(&bad);
    }

    #[test]
    fn what_cannot_be_meant_of_a_kernel_is_refused_when_written() {
        let bad_states = |change: &dyn Fn(&mut States)| {
            let mut states = states();
            change(&mut states);
            let waits = Some(Waits::States(states));
            measured(Measure { timeline: Some(Wanted { waits, ..timeline() }), ..Measure::default() })
        };
        let bad_kernel = |change: fn(&mut Kernel)| {
            let mut kernel = kernel();
            change(&mut kernel);
            measured(Measure { kernel: Some(kernel), ..Measure::default() })
        };
        let bad = [
            measured(Measure {
                timeline: Some(Wanted {
                    waits: Some(Waits::Lists(Lists { state: MAX_OFFSET_BYTES, ..lists() })),
                    ..timeline()
                }),
                ..Measure::default()
            }),
            bad_states(&|states| states.state = 0x30..0x39),
            bad_states(&|states| states.object = Some(MAX_OFFSET_BYTES)),
            bad_states(&|states| states.kinds[0].items = Some(8..8)),
            bad_states(&|states| states.known.push(states.known[0].clone())),
            bad_kernel(|kernel| kernel.current.end = kernel.current.start),
            bad_kernel(|kernel| kernel.running = Some(0..9)),
            bad_kernel(|kernel| kernel.stack = Some(MAX_OFFSET_BYTES)),
            bad_kernel(|kernel| kernel.switchers[0].end = 0),
        ];
        assert_refused(&bad);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_when_read() {
        let of = |insns| encode(&measured(Measure { period_insns: Some(insns), ..Measure::default() }));
        let (mut bytes, other) = (of(1), of(2));
        let period = bytes.iter().zip(&other).position(|(one, other)| one != other).unwrap();
        assert_eq!(bytes[period], 1);
        bytes[period] = 0;
        assert_eq!(Request::read(&bytes), Err(Malformed { what: "request's limit", offset: 0 }));
    }

    #[test]
    fn a_damaged_request_says_what_is_damaged_and_where() {
        let bytes = encode(&full());
        let mut other = bytes.clone();
        let isa = MAGIC.len() + 1;
        other[isa] = 0xff;
        assert_eq!(Request::read(&other), Err(Malformed { what: "Isa", offset: isa }));
        other[isa..=isa + 1].copy_from_slice(&[0, 2]);
        assert_eq!(Request::read(&other), Err(Malformed { what: "Request's qemu", offset: isa + 1 }));
        // The same for a damaged row in a table of rows.
        let row = Row { pc: 0x1234_5678_9abc_def0, rule: None };
        let mut other = encode(&measured(Measure { unwind: vec![row], ..Measure::default() }));
        let start = other.windows(8).position(|bytes| bytes == row.pc.to_le_bytes()).unwrap();
        other[start + unwind::ROW_BYTES - 1] = 9;
        assert_eq!(Request::read(&other), Err(Malformed { what: "unwind row", offset: start }));
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
        for request in [full(), debugged(true)] {
            let bytes = encode(&request);
            for index in 0..bytes.len() {
                for bit in 0..8 {
                    let mut flipped = bytes.clone();
                    flipped[index] ^= 1 << bit;
                    assert_ne!(
                        Request::read(&flipped).as_ref(),
                        Ok(&request),
                        "byte {index} bit {bit} does not matter"
                    );
                }
            }
        }
    }
}
