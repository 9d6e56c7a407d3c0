// SPDX-License-Identifier: MIT OR Apache-2.0
//! Definitions: the meaning of each counter, and actions of the firmware that the reader of a profile must know.
//!
//! A definition is appended once, when its code is first translated or its arc first taken. Its counter then lives in
//! the counters file under the definition's slot.

use std::borrow::Borrow;

use crate::record::{AtMost, Codec, Optional, Record, record, since};
use crate::stream::{self, Stream};
use crate::varint::Reader;
use crate::zone::Row;
use crate::{Malformed, counters};

/// Most instructions of one segment; QEMU's translation blocks hold at most 512.
pub const MAX_SEGMENT_INSNS: usize = 4096;

/// More cycles than an instruction takes in a passage.
pub const MAX_PASSAGE_CYCLES: u64 = 4 * crate::core::MAX_CYCLES;

/// Longest text of a note, in bytes.
pub const MAX_TEXT_BYTES: usize = 1024;

record! {
    /// Cycles by which a number of them may be too many, and too few.
    #[derive(Copy, Default, Hash)]
    pub struct Doubt {
        /// Cycles that it may be fewer.
        fewer: u64,
        /// Cycles that it may be more.
        more: u64,
    }
}

record! {
    /// Record of the definitions file.
    #[derive(Hash)]
    pub enum Definition {
        /// Straight-line code that starts as a whole or not at all, so one counter holds the executions of each of its
        /// instructions.
        1 = Segment {
            /// Counter.
            slot: u32,
            /// Address of the first instruction.
            pc: u64,
            /// Transfer of the last instruction, if the code alone names the target.
            transfer: Option<Transfer> = OfSegment::at(pc),
            /// Size of each instruction in bytes, 2 or 4.
            sizes: Vec<u8> = Sizes,
        },
        /// Transfer to a function's entry whose target or return address is known only at run time.
        2 = Arc {
            /// Counter.
            slot: u32,
            /// Address of the instruction that transferred control.
            site: u64,
            /// Address it went to.
            target: u64 = since(site),
            /// Kind of transfer: a call sets the return address, a jump (tail call or loop) keeps it.
            kind: TransferKind,
            /// Return address that the target saw at its entry, as `_mcount` would record it. None for a jump to the
            /// start of the function that contains the jump.
            return_addr: Option<u64> = Optional(since(site)),
        },
        /// Frame of a call stack; stacks with the same outer frames share them. The n-th frame has the id n, from 1.
        4 = Frame {
            /// Id of the next outer frame, less than this frame's own; 0: this is the outermost.
            parent: u32,
            /// Call, exception or gap that the frame stands for.
            kind: FrameKind,
        },
        /// Task of the firmware's kernel. The n-th task has the id n, from 1.
        5 = Task {
            /// First of [`TASK_COUNTERS`] counters, see [`TaskCounter`].
            slot: u32,
            /// Address of the task's control block.
            tcb: u64,
            /// Lowest address of the task's stack; 0: not known.
            stack_start: u64,
            /// Address above the task's stack; 0: not known.
            stack_end: u64,
            /// Whether the task is one of the kernel's idle tasks.
            is_idle: bool,
            /// First address of the function that is called to resume the task; 0: the task has a stack of its own.
            poll: u64,
            /// Name of the task; empty if it could not be read.
            name: String,
        },
        /// Marks a task as one of the kernel's idle tasks, once that is known.
        10 = Idle {
            /// Id of the task, defined before.
            task: u32,
        },
        /// The stack pointer of a task has left its stack for the first time.
        22 = Overflow {
            /// Id of the task, defined before.
            task: u32,
            /// Address of the instruction that took it there, or at which the task was interrupted; 0: not known.
            pc: u64,
            /// The stack pointer.
            sp: u64,
            /// Instructions of the window so far.
            at_insns: u64,
            /// Whether the instruction itself was seen, not only the stack pointer that the kernel has saved.
            is_first: bool,
        },
        /// A stack that no kernel describes has been left for the first time.
        24 = StackLeft {
            /// Address of the instruction that took the stack pointer there, or at which this was noticed.
            pc: u64,
            /// The stack pointer.
            sp: u64,
            /// Lowest address of the stack: the end of the variable below it, or the start of the one that it is in.
            low: u64,
            /// Address above its outermost frame; 0: not all frames are known.
            top: u64,
            /// Instructions of the window so far.
            at_insns: u64,
            /// Whether the instruction itself was seen.
            is_first: bool,
            /// Whether the heap is below it, not a variable.
            is_heap: bool,
        },
        /// Counter of the nanoseconds of virtual time that the machine slept.
        23 = Slept {
            /// Counter.
            slot: u32,
        },
        /// Node of the exact call tree. The n-th node has the id n, from 1.
        6 = Node {
            /// First of [`NODE_COUNTERS`] counters, see [`NodeCounter`].
            slot: u32,
            /// Id of the caller, less than this node's own; 0: no caller.
            parent: u32,
            /// Function, exception or root that the node stands for.
            kind: NodeKind,
            /// Address in the caller at which the inlined functions that made the call are found; 0: the caller made
            /// the call itself, or this is not known.
            via: u64,
        },
        /// An instruction has read the same value from a register of a device over and over, up to the end.
        8 = Poll {
            /// Address of the instruction.
            pc: u64,
            /// Address of the register.
            address: u64,
            /// Value that it has read.
            value: u64,
            /// Instructions of the window up to the first of these reads.
            since_insns: u64,
            /// Number of these reads.
            times: u64,
        },
        /// An instruction has stored to a device.
        21 = Written {
            /// Address of the instruction.
            pc: u64,
            /// Address of the register, at the last store.
            address: u64,
            /// Instructions of the window up to the last store.
            last_insns: u64,
            /// Instructions of the window up to the last store that differed from the one before by the same instruction.
            changed_insns: u64,
        },
        /// Amount of console output, at a sample that found more than the one before.
        9 = Mark {
            /// Instructions of the window up to the sample.
            at_insns: u64,
            /// Bytes on the console.
            bytes: u64,
        },
        /// Repeated activity and its durations.
        7 = Span {
            /// First of [`SPAN_COUNTERS`] counters, see [`SpanCounter`].
            slot: u32,
            /// Start and end of the activity.
            kind: SpanKind,
        },
        /// Site that allocates or frees memory. The n-th site has the id n, from 1.
        11 = Site {
            /// First address of the function that allocates or frees.
            entry: u64,
            /// Callers: the id of the innermost [`Definition::Frame`]; 0: none, or not known.
            stack: u32,
            /// Running task, the id of a [`Definition::Task`]; 0: none.
            task: u32,
        },
        /// Zone, mark or context with counters, see [`crate::zone`].
        14 = Row {
            /// First of the row's counters.
            slot: u32,
            /// Subject of the counters.
            row: Row,
        },
        /// Stack of zones, as samples find it. The n-th path has the id n, from 1.
        15 = ZonePath {
            /// Id of the enclosing zone's path, less than this path's own; 0: no zone encloses it.
            parent: u32,
            /// Number of the zone's name.
            name: u32,
            /// Address of the event that began the zone.
            pc: u64,
        },
        /// Name that a call has brought. The n-th one has the number n after [`crate::request::Measure::zone_names`].
        16 = ZoneName {
            /// The name.
            text: String,
        },
        /// Way of a branch, counted each time that control took it.
        17 = Edge {
            /// Counter.
            slot: u32,
            /// Address of the branch.
            site: u64,
            /// Address that control went to.
            target: u64 = since(site),
        },
        /// Executions of an instruction that took more or fewer cycles than it usually does, by so many.
        19 = Slower {
            /// Counter.
            slot: u32,
            /// Address of the instruction.
            pc: u64,
            /// Cycles more; fewer, if negative.
            cycles: i64,
            /// Cycles by which this may be too many and too few.
            doubt: Doubt,
        },
        /// Passages through straight-line code in which each instruction took these cycles.
        25 = Passage {
            /// Counter.
            slot: u32,
            /// Address of the first instruction.
            pc: u64,
            /// Size of each instruction in bytes, 2 or 4.
            sizes: Vec<u8> = Sizes,
            /// Cycles of each.
            cycles: Vec<u64>,
            /// Cycles of each by which this may be too many and too few; empty: it is proved.
            doubts: Vec<Doubt>,
        },
        /// All cycles of a vCPU's instructions, counted as they start.
        20 = CycleClock {
            /// Counter.
            slot: u32,
        },
        /// Priority with which a Cortex-M's exception started, once for each that it had.
        18 = Priority {
            /// Exception number.
            number: u64,
            /// Group priority: exceptions of one value do not interrupt each other.
            level: u64,
        },
        /// Action of the firmware that left the emulated machine.
        3 = Note {
            /// Meaning for the run.
            kind: NoteKind,
            /// Number of the semihosting operation.
            operation: u32,
            /// Address of the instruction that asked for it.
            pc: u64,
            /// Argument of the operation, as far as it could be read: a path, a command.
            text: String,
        },
    }
}

/// Kind of a call stack's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// Function that called the function of the next inner frame.
    Caller {
        /// Address after the call.
        return_addr: u64,
    },
    /// Code that an exception interrupted; the next inner frame is its handler.
    Exception {
        /// Exception number (Cortex-M) or cause (RISC-V, where the highest bit marks interrupts).
        number: u64,
        /// First address of the handler.
        handler: u64,
        /// Address of the instruction that would have executed next.
        pc: u64,
    },
    /// Gap: the stack continues, but the next frame cannot be found. Only as the outermost frame.
    Unknown(Unknown),
}

/// Reason why the rest of a stack is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unknown {
    /// The code has no unwind information.
    NoUnwindInfo,
    /// The return address was not kept, because the function never returns.
    NotKept,
    /// The values found do not form a stack: an address outside memory, a return address that follows no call, or a
    /// frame that does not lie above the one before.
    Corrupt,
    /// The stack has more frames than `--max-depth`.
    TooDeep,
    /// The exact counts disprove the stack: a call in it was never made, or its outermost function was only ever
    /// called. The harness sets this, never the plugin.
    Disproved,
}

impl Unknown {
    /// All reasons.
    pub const ALL: [Unknown; 5] =
        [Unknown::NoUnwindInfo, Unknown::NotKept, Unknown::Corrupt, Unknown::TooDeep, Unknown::Disproved];
}

/// Meaning of a task's counters, by distance from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TaskCounter {
    /// Instructions up to the task's last switch-out.
    Insns,
    /// Times that the task was switched in.
    Switches,
    /// 2^64 minus the lowest stack pointer seen; 0: no stack pointer was seen.
    DeepestSp,
    /// Bytes at the low end of the task's stack that still hold the kernel's paint, plus one; 0: not read.
    Painted,
    /// Highest stack pointer seen on the task's stack; 0: none was seen.
    HighestSp,
    /// Nanoseconds of virtual time that the machine slept while the task was the running one.
    SleptNs,
    /// Nanoseconds by which the machine's clock moved on beyond the instructions while the task was the running one.
    AheadNs,
}

/// Counters of one task.
pub const TASK_COUNTERS: u32 = 7;

record! {
    /// Kind of an exact call tree's node.
    #[derive(Copy, Hash, PartialOrd, Ord)]
    pub enum NodeKind {
        /// Outermost code of a task, which was not called; with task 0, outermost code outside of all tasks. A polled
        /// task has no root: it begins in the code that calls it.
        3 = Root {
            /// Id of the task, or 0.
            task: u32,
        },
        /// Function that was called, or jumped to as a tail call.
        4 = Function {
            /// First address of the function.
            entry: u64,
        },
        /// Exception; its handler is a function below this node.
        2 = Exception {
            /// Number or cause, as in [`FrameKind::Exception`].
            number: u64,
        },
    }
}

/// Meaning of a node's counters, by distance from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NodeCounter {
    /// Instructions in this function itself, without the functions that it called, up to the last change.
    Insns,
    /// Entries into the node.
    Calls,
    /// Cycles of its instructions, where they are counted.
    Cycles,
}

/// Counters of one node.
pub const NODE_COUNTERS: u32 = 3;

record! {
    /// Kind of span, from one instruction to another.
    #[derive(Copy, Hash, PartialOrd, Ord)]
    pub enum SpanKind {
        /// Call of a function: from its first instruction until it is left.
        4 = Call {
            /// First address of the function.
            entry: u64,
        },
        /// Exception: from its handler's first instruction until it returns.
        2 = Exception {
            /// Number or cause, as in [`FrameKind::Exception`].
            number: u64,
        },
        /// Time during which interrupts are masked.
        5 = Masked,
        /// Latency of a Cortex-M's PendSV: from the store that pends it to its handler's first instruction.
        6 = PendSv,
        /// Time from one instruction of the firmware to another.
        7 = Between {
            /// Address whose execution begins the span.
            from: u64,
            /// Address whose execution ends the span.
            until: u64,
        },
    }
}

/// Meaning of a span's counters, by distance from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SpanCounter {
    /// Number of spans.
    Count,
    /// Instructions of all spans together.
    Sum,
    /// Instructions of the longest span.
    Max,
    /// 2^64 - 1 minus the instructions of the shortest span.
    MinComplement,
    /// Address where the longest span began.
    LongestAt,
    /// Instructions of the window before the longest span.
    LongestSince,
    /// Cycles of all spans together, where they are counted.
    SumCycles,
    /// Most cycles of a span, which may be another one than that of the most instructions.
    MaxCycles,
    /// 2^64 - 1 minus the least cycles of a span.
    MinCyclesComplement,
}

/// Counters of one kind of span.
pub const SPAN_COUNTERS: u32 = 9;

/// Direct call or jump that always goes to the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// Kind of transfer.
    pub kind: TransferKind,
    /// Address that it goes to.
    pub target: u64,
}

record! {
    /// Whether, and how, a transfer sets the return address.
    #[derive(Copy, Hash, PartialOrd, Ord)]
    pub enum TransferKind {
        /// Sets the return address: `bl`, `jal ra`.
        1 = Call,
        /// Keeps the return address: `b`, `j`; a tail call if it enters a function, else a loop.
        2 = Jump,
        /// Keeps the return address and is conditional. If the branch is not taken, the instruction after it starts,
        /// and that instruction starts in no other way. So the number of jumps is a difference of counts. Only in
        /// segments.
        3 = Branch,
    }
}

record! {
    /// Meaning of a note for the run.
    #[derive(Copy, Hash, PartialOrd, Ord)]
    pub enum NoteKind {
        /// The answer came from the host: on another machine it may differ.
        1 = HostDependent,
        /// The operation was not carried out, or the run ended before it could be.
        2 = Denied,
        /// The operation was denied because its argument cannot be read as a whole.
        3 = Unread,
    }
}

impl Record for FrameKind {
    fn put(&self, out: &mut Vec<u8>) {
        match *self {
            FrameKind::Caller { return_addr } => {
                out.push(CALLER);
                return_addr.put(out);
            }
            FrameKind::Exception { number, handler, pc } => {
                out.push(EXCEPTION);
                [number, handler, pc].put(out);
            }
            FrameKind::Unknown(why) => out.push(UNKNOWN + why as u8),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<FrameKind, Malformed> {
        let malformed = reader.malformed();
        match reader.byte()? {
            CALLER => Ok(FrameKind::Caller { return_addr: reader.varint()? }),
            EXCEPTION => {
                let [number, handler, pc] = Record::read(reader)?;
                Ok(FrameKind::Exception { number, handler, pc })
            }
            code => {
                let why = code.checked_sub(UNKNOWN).and_then(|index| Unknown::ALL.get(usize::from(index)));
                Ok(FrameKind::Unknown(*why.ok_or(malformed)?))
            }
        }
    }
}

const CALLER: u8 = 1;
const EXCEPTION: u8 = 2;
/// Added to the index in [`Unknown::ALL`].
const UNKNOWN: u8 = 0x10;

/// The transfer of a segment, by the segment's address: the code of its kind or 0, and its distance.
struct OfSegment {
    pc: u64,
}

impl OfSegment {
    fn at(pc: impl Borrow<u64>) -> OfSegment {
        OfSegment { pc: *pc.borrow() }
    }
}

impl Codec<Option<Transfer>> for OfSegment {
    fn put(&self, transfer: &Option<Transfer>, out: &mut Vec<u8>) {
        match transfer {
            None => out.push(0),
            Some(Transfer { kind, target }) => {
                kind.put(out);
                since(self.pc).put(target, out);
            }
        }
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Option<Transfer>, Malformed> {
        let code = reader.byte()?;
        if code == 0 {
            return Ok(None);
        }
        let kind = TransferKind::read_fields(code, (), reader)?;
        Ok(Some(Transfer { kind, target: since(self.pc).read(reader)? }))
    }
}

/// Whether these can be the sizes of straight-line code's instructions.
fn are_sizes(sizes: &[u8]) -> bool {
    (1..=MAX_SEGMENT_INSNS).contains(&sizes.len()) && sizes.iter().all(|size| matches!(size, 2 | 4))
}

/// Sizes of instructions, in bytes, encoded as the number of instructions and one bit for each.
struct Sizes;

impl Codec<Vec<u8>> for Sizes {
    fn put(&self, sizes: &Vec<u8>, out: &mut Vec<u8>) {
        (sizes.len() as u64).put(out);
        for eight in sizes.chunks(8) {
            out.push(eight.iter().enumerate().fold(0, |bits, (n, &size)| bits | u8::from(size == 4) << n));
        }
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
        let malformed = reader.malformed();
        let count = AtMost(MAX_SEGMENT_INSNS as u64).read(reader)?;
        let bits = reader.bytes(count.div_ceil(8))?;
        let size = |n: usize| if bits[n / 8] >> (n % 8) & 1 == 1 { 4 } else { 2 };
        // No bit is set after that of the last instruction.
        let is_whole = count % 8 == 0 || bits.last().is_some_and(|last| last >> (count % 8) == 0);
        if is_whole { Ok((0..count as usize).map(size).collect()) } else { Err(malformed) }
    }
}

impl Definition {
    /// First of the record's counters; None: the record has no counters.
    fn slot(&self) -> Option<u32> {
        match *self {
            Definition::Segment { slot, .. }
            | Definition::Arc { slot, .. }
            | Definition::Task { slot, .. }
            | Definition::Node { slot, .. }
            | Definition::Span { slot, .. }
            | Definition::Edge { slot, .. }
            | Definition::Slower { slot, .. }
            | Definition::Passage { slot, .. }
            | Definition::CycleClock { slot }
            | Definition::Slept { slot }
            | Definition::Row { slot, .. } => Some(slot),
            _ => None,
        }
    }
}

/// Whether a doubt is about no more cycles than an instruction takes.
fn is_doubt(Doubt { fewer, more }: Doubt) -> bool {
    fewer <= MAX_PASSAGE_CYCLES && more <= MAX_PASSAGE_CYCLES
}

/// Stream of definitions: the highest ids so far, which later ones may refer to.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    frames: u32,
    tasks: u32,
    nodes: u32,
    zone_paths: u32,
}

/// Encoder of definitions.
pub type Encoder = stream::Encoder<Definitions>;

/// Decoder of the definitions that an [`Encoder`] wrote.
pub type Decoder<'a> = stream::Decoder<'a, Definitions>;

impl Stream for Definitions {
    type Item = Definition;
    const WHAT: &'static str = "definition";

    fn allows(&self, definition: &Definition) -> bool {
        definition.slot().is_none_or(|slot| slot >= counters::FIRST_DEFINED)
            && match definition {
                Definition::Segment { sizes, .. } => are_sizes(sizes),
                Definition::Passage { sizes, cycles, doubts, .. } => {
                    are_sizes(sizes)
                        && sizes.len() == cycles.len()
                        && (doubts.is_empty() || doubts.len() == cycles.len())
                        && cycles.iter().all(|&cycles| cycles <= MAX_PASSAGE_CYCLES)
                        && doubts.iter().all(|&doubt| is_doubt(doubt))
                }
                Definition::Slower { doubt, .. } => is_doubt(*doubt),
                Definition::Arc { kind, .. } => *kind != TransferKind::Branch,
                Definition::Frame { parent, kind: FrameKind::Unknown(_) } => *parent == 0,
                Definition::Frame { parent, .. } => *parent <= self.frames,
                Definition::Task { name, .. } => name.len() <= MAX_TEXT_BYTES,
                Definition::Idle { task } | Definition::Overflow { task, .. } => (1..=self.tasks).contains(task),
                Definition::Node { parent, .. } => *parent <= self.nodes,
                Definition::Site { stack, task, .. } => *stack <= self.frames && *task <= self.tasks,
                Definition::Row { row, .. } => row.is_sound(),
                Definition::ZonePath { parent, .. } => *parent <= self.zone_paths,
                Definition::Note { text, .. } | Definition::ZoneName { text } => text.len() <= MAX_TEXT_BYTES,
                Definition::Poll { .. }
                | Definition::Written { .. }
                | Definition::Mark { .. }
                | Definition::Span { .. }
                | Definition::Priority { .. }
                | Definition::CycleClock { .. }
                | Definition::Slept { .. }
                | Definition::StackLeft { .. }
                | Definition::Edge { .. } => true,
            }
    }

    fn put(&self, definition: &Definition, out: &mut Vec<u8>) {
        definition.put(out);
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Definition, Malformed> {
        Record::read(reader)
    }

    fn note(&mut self, definition: &Definition) {
        match definition {
            Definition::Frame { .. } => self.frames += 1,
            Definition::Task { .. } => self.tasks += 1,
            Definition::Node { .. } => self.nodes += 1,
            Definition::ZonePath { .. } => self.zone_paths += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::promises;
    use crate::zone::ContextKind;

    fn slot(number: u32) -> u32 {
        counters::FIRST_DEFINED + number
    }

    fn passage(offset: u32, cycles: &[u64], doubts: &[Doubt]) -> Definition {
        let sizes = vec![2; cycles.len()];
        Definition::Passage { slot: slot(offset), pc: 0x104, sizes, cycles: cycles.to_vec(), doubts: doubts.to_vec() }
    }

    fn definitions() -> Vec<Definition> {
        let segment = |sizes, transfer| Definition::Segment { slot: slot(0), pc: 0x8000_0000, sizes, transfer };
        vec![
            segment(vec![2], None),
            segment(vec![4, 2, 2, 4, 4, 4, 4, 4, 2], Some(Transfer { kind: TransferKind::Call, target: 4 })),
            segment(vec![4; 8], Some(Transfer { kind: TransferKind::Jump, target: u64::MAX })),
            segment(vec![2, 2], Some(Transfer { kind: TransferKind::Branch, target: 0x8000_0000 })),
            Definition::Arc {
                slot: u32::MAX,
                site: 0x100,
                target: 0x200,
                return_addr: Some(0xffff_fff9),
                kind: TransferKind::Jump,
            },
            Definition::Arc { slot: slot(1), site: 8, target: 4, return_addr: None, kind: TransferKind::Jump },
            Definition::Note { kind: NoteKind::Denied, operation: 0x12, pc: 0x44, text: "touch gepäck".into() },
            Definition::Note { kind: NoteKind::Unread, operation: 0x01, pc: 0x46, text: String::new() },
            Definition::Frame { parent: 0, kind: FrameKind::Unknown(Unknown::TooDeep) },
            Definition::Frame { parent: 1, kind: FrameKind::Caller { return_addr: 0x105 } },
            Definition::Frame {
                parent: 2,
                kind: FrameKind::Exception { number: 1 << 63 | 7, handler: 0x200, pc: 0x108 },
            },
            Definition::Task {
                slot: slot(2),
                tcb: 0x2000_0000,
                name: "größe".into(),
                stack_start: 0x2000_1000,
                stack_end: 0,
                is_idle: true,
                poll: 0x140,
            },
            Definition::Idle { task: 1 },
            Definition::Overflow { task: 1, pc: 0x8000_0040, sp: 0x8000_0ff0, at_insns: u64::MAX, is_first: true },
            Definition::StackLeft {
                pc: 0x8000_0040,
                sp: 0x2000_0ff0,
                low: 0x2000_1000,
                top: u64::MAX,
                at_insns: 9,
                is_first: false,
                is_heap: true,
            },
            Definition::Poll { pc: 0x100, address: 0x4002_1000, value: 0, since_insns: 77, times: u64::MAX },
            Definition::Written { pc: 0x104, address: 0x4002_1004, last_insns: u64::MAX, changed_insns: 78 },
            Definition::Site { entry: 0x8000_0040, stack: 1, task: 1 },
            Definition::Site { entry: u64::MAX, stack: 0, task: 0 },
            Definition::Node { slot: slot(6), parent: 0, kind: NodeKind::Root { task: 1 }, via: 0 },
            Definition::Node { slot: slot(8), parent: 1, kind: NodeKind::Function { entry: 0x100 }, via: u64::MAX },
            Definition::Node { slot: slot(10), parent: 2, kind: NodeKind::Exception { number: 15 }, via: 0 },
            Definition::Span { slot: slot(12), kind: SpanKind::Call { entry: 0x100 } },
            Definition::Span { slot: slot(18), kind: SpanKind::Exception { number: 1 << 63 | 7 } },
            Definition::Span { slot: slot(24), kind: SpanKind::Masked },
            Definition::Span { slot: slot(30), kind: SpanKind::PendSv },
            Definition::Span { slot: slot(36), kind: SpanKind::Between { from: 0x100, until: u64::MAX } },
            Definition::Row { slot: slot(42), row: Row::Zone { name: 1, context: ContextKind::Task(0) } },
            Definition::Row { slot: slot(60), row: Row::Zone { name: 9, context: ContextKind::Exception(1 << 63) } },
            Definition::Row { slot: slot(80), row: Row::Mark { name: 2 } },
            Definition::Row { slot: slot(90), row: Row::Exception { number: 15, handler: 0x140 } },
            Definition::Row { slot: slot(91), row: Row::Task { task: 1 } },
            Definition::ZonePath { parent: 0, name: 1, pc: 0x100 },
            Definition::ZoneName { text: "queue.test_put".into() },
            Definition::Edge { slot: slot(92), site: 0x104, target: 0x100 },
            Definition::Slower { slot: slot(93), pc: 0x104, cycles: -2, doubt: Doubt::default() },
            Definition::Slower { slot: slot(93), pc: 0x104, cycles: 12, doubt: Doubt { fewer: 6, more: 17 } },
            passage(93, &[1, 200], &[]),
            passage(93, &[1], &[Doubt { fewer: 0, more: 1 }]),
            Definition::CycleClock { slot: slot(94) },
            Definition::Slept { slot: slot(95) },
            Definition::Row { slot: slot(95), row: Row::ExceptionCycles { number: 1 << 32 | 12 } },
            Definition::ZonePath { parent: 1, name: 2, pc: u64::MAX },
            Definition::Priority { number: 15, level: 0xe0 },
        ]
    }

    #[test]
    fn definitions_survive_the_wire_and_no_cut_or_flipped_bit_goes_unseen() {
        promises::hold::<Definitions>(&definitions());
    }

    #[test]
    fn impossible_definitions_are_refused_when_written_and_when_read() {
        let segment = |slot, sizes| Definition::Segment { slot, pc: 0, transfer: None, sizes };
        let passage = |sizes, cycles, doubts| Definition::Passage { slot: slot(0), pc: 0, sizes, cycles, doubts };
        let long = || "x".repeat(MAX_TEXT_BYTES + 1);
        let task = Definition::Task {
            slot: slot(0),
            tcb: 0,
            stack_start: 0,
            stack_end: 0,
            is_idle: false,
            poll: 0,
            name: long(),
        };
        let bad = [
            segment(slot(0), vec![]),
            segment(slot(0), vec![2; MAX_SEGMENT_INSNS + 1]),
            segment(counters::CLOCK, vec![2]),
            Definition::Arc { slot: slot(0), site: 0, target: 0, kind: TransferKind::Branch, return_addr: None },
            Definition::Span { slot: counters::CLOCK, kind: SpanKind::Masked },
            Definition::Edge { slot: counters::CLOCK, site: 4, target: 8 },
            Definition::CycleClock { slot: counters::CLOCK },
            passage(vec![2, 4], vec![1], vec![]),
            passage(vec![2], vec![MAX_PASSAGE_CYCLES + 1], vec![]),
            passage(vec![2, 4], vec![1, 1], vec![Doubt::default()]),
            passage(vec![2], vec![1], vec![Doubt { fewer: 0, more: MAX_PASSAGE_CYCLES + 1 }]),
            Definition::Slower {
                slot: slot(0),
                pc: 0,
                cycles: 1,
                doubt: Doubt { fewer: MAX_PASSAGE_CYCLES + 1, more: 0 },
            },
            Definition::Slept { slot: counters::CLOCK },
            Definition::Note { kind: NoteKind::Denied, operation: 1, pc: 0, text: long() },
            task,
            Definition::ZoneName { text: long() },
            Definition::Idle { task: 0 },
            Definition::Row { slot: slot(0), row: Row::Mark { name: 0 } },
            Definition::Row { slot: counters::CLOCK, row: Row::Mark { name: 1 } },
        ];
        promises::refuse::<Definitions>(&[segment(slot(0), vec![2])], &bad);
        // A size of 3 bytes cannot be encoded.
        assert!(Encoder::default().put(&segment(slot(0), vec![3]), &mut Vec::new()).is_err());
    }

    #[test]
    fn nobody_has_a_parent_that_comes_later() {
        let caller = FrameKind::Caller { return_addr: 2 };
        let bad = [
            Definition::Frame { parent: 2, kind: caller },
            Definition::Frame { parent: 1, kind: FrameKind::Unknown(Unknown::Corrupt) },
            Definition::Node { slot: slot(0), parent: 1, kind: NodeKind::Function { entry: 2 }, via: 0 },
            Definition::Idle { task: 1 },
            Definition::Site { entry: 0, stack: 2, task: 0 },
            Definition::Site { entry: 0, stack: 1, task: 1 },
            Definition::ZonePath { parent: 1, name: 1, pc: 0 },
        ];
        promises::refuse::<Definitions>(&[Definition::Frame { parent: 0, kind: caller }], &bad);
    }

    /// Profiles are saved in these bytes.
    #[test]
    fn definitions_of_saved_profiles_stay_readable() {
        let is_kept = |one: &Definition| {
            matches!(one, Definition::Frame { .. } | Definition::Node { .. } | Definition::Span { .. })
        };
        let kept: Vec<Definition> = definitions().into_iter().filter(is_kept).collect();
        promises::stay::<Definitions>(
            &kept,
            "04001304010185020402028780808080808080800180048802061a00030100061c01048002ffffffffffffffffff01061e02020f\
             00072004800207260287808080808080808001072c050732060738078002ffffffffffffffffff01",
        );
    }
}
