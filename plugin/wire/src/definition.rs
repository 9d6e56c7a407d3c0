//! Definitions: the meaning of each counter, and actions of the firmware that the reader of a profile must know.
//!
//! A definition is appended once, when its code is first translated or its arc first taken. Its counter then lives in
//! the counters file under the definition's slot.

use crate::varint::{self, Reader};
use crate::zone::Row;
use crate::{Malformed, counters};

/// Most instructions of one segment; QEMU's translation blocks hold at most 512.
pub const MAX_SEGMENT_INSNS: usize = 4096;

/// Longest text of a note, in bytes.
pub const MAX_TEXT_BYTES: usize = 1024;

/// Record of the definitions file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Definition {
    /// Straight-line code that starts as a whole or not at all, so one counter holds the executions of each of its
    /// instructions.
    Segment {
        /// Counter.
        slot: u32,
        /// Address of the first instruction.
        pc: u64,
        /// Size of each instruction in bytes, 2 or 4.
        sizes: Vec<u8>,
        /// Transfer of the last instruction, where the code alone names the target.
        transfer: Option<Transfer>,
    },
    /// Transfer to a function's entry whose target or return address is known only at run time.
    Arc {
        /// Counter.
        slot: u32,
        /// Address of the instruction that transferred control.
        site: u64,
        /// Address it went to.
        target: u64,
        /// Return address that the target saw at its entry, as `_mcount` would record it. None for a jump to the
        /// start of the function that contains the jump.
        return_addr: Option<u64>,
        /// Kind of transfer: a call sets the return address, a jump (tail call or loop) keeps it.
        kind: TransferKind,
    },
    /// Frame of a call stack; stacks with the same outer frames share them. The n-th frame has the id n, from 1.
    Frame {
        /// Id of the next outer frame, less than this frame's own; 0: this is the outermost.
        parent: u32,
        /// Call, exception or gap that the frame stands for.
        kind: FrameKind,
    },
    /// Task of the firmware's kernel. The n-th task has the id n, from 1.
    Task {
        /// First of [`TASK_COUNTERS`] counters, see [`TaskCounter`].
        slot: u32,
        /// Address of the task's control block.
        tcb: u64,
        /// Name of the task; empty where none could be read.
        name: String,
        /// Lowest address of the task's stack; 0: not known.
        stack_start: u64,
        /// Address above the task's stack; 0: not known.
        stack_end: u64,
        /// Whether the task is one of the kernel's idle tasks.
        is_idle: bool,
        /// First address of the function that is called to resume the task; 0: the task has a stack of its own.
        poll: u64,
    },
    /// Marks a task as one of the kernel's idle tasks, once that is known.
    Idle {
        /// Id of the task, defined before.
        task: u32,
    },
    /// Node of the exact call tree. The n-th node has the id n, from 1.
    Node {
        /// First of [`NODE_COUNTERS`] counters, see [`NodeCounter`].
        slot: u32,
        /// Id of the caller, less than this node's own; 0: no caller.
        parent: u32,
        /// Function, exception or root that the node stands for.
        kind: NodeKind,
        /// An address in the caller at which the functions are inlined that made the call; 0: it made the call itself, or
        /// that is not told.
        via: u64,
    },
    /// An instruction has read the same from a register of a device over and over, up to the end.
    Poll {
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
    /// Amount of console output, at a sample that found more than the one before.
    Mark {
        /// Instructions of the window up to the sample.
        at_insns: u64,
        /// Bytes on the console.
        bytes: u64,
    },
    /// Repeated activity and its durations.
    Span {
        /// First of [`SPAN_COUNTERS`] counters, see [`SpanCounter`].
        slot: u32,
        /// Start and end of the activity.
        kind: SpanKind,
    },
    /// Site that allocates or frees memory. The n-th site has the id n, from 1.
    Site {
        /// First address of the function that allocates or frees.
        entry: u64,
        /// Callers: the id of the innermost [`Definition::Frame`]; 0: none, or not known.
        stack: u32,
        /// Running task, the id of a [`Definition::Task`]; 0: none.
        task: u32,
    },
    /// Zone, mark or context with counters, see [`crate::zone`].
    Row {
        /// First of the row's counters.
        slot: u32,
        /// Subject of the counters.
        row: Row,
    },
    /// Stack of zones, as samples find it. The n-th path has the id n, from 1.
    ZonePath {
        /// Id of the enclosing zone's path, less than this path's own; 0: no zone encloses it.
        parent: u32,
        /// Number of the zone's name.
        name: u32,
        /// Address of the event that began the zone.
        pc: u64,
    },
    /// Action of the firmware that left the emulated machine.
    Note {
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

/// Kind of a call stack's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// Function that called the next inner frame's.
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
    /// Bytes at the low end of the task's stack that still hold the kernel's paint, plus one; 0: not looked at.
    Painted,
}

/// Counters of one task.
pub const TASK_COUNTERS: u32 = 4;

/// Kind of an exact call tree's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeKind {
    /// Outermost code of a task, or with task 0 of no task: it was not called. A polled task has no root, it begins
    /// in the code that calls it.
    Root {
        /// Id of the task, or 0.
        task: u32,
    },
    /// Function that was called, or jumped to as a tail call.
    Function {
        /// First address of the function.
        entry: u64,
    },
    /// Exception; its handler is a function below this node.
    Exception {
        /// Number or cause, as in [`FrameKind::Exception`].
        number: u64,
    },
}

/// Meaning of a node's counters, by distance from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NodeCounter {
    /// Instructions in this function itself, without the functions that it called, up to the last change.
    Insns,
    /// Entries into the node.
    Calls,
}

/// Counters of one node.
pub const NODE_COUNTERS: u32 = 2;

/// Kind of span, from one instruction to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SpanKind {
    /// Call of a function: from its first instruction until it is left.
    Call {
        /// First address of the function.
        entry: u64,
    },
    /// Exception: from its handler's first instruction until it returns.
    Exception {
        /// Number or cause, as in [`FrameKind::Exception`].
        number: u64,
    },
    /// Time during which interrupts are masked.
    Masked,
    /// Latency of a Cortex-M's PendSV: from the store that pends it to its handler's first instruction.
    PendSv,
    /// Time from one instruction of the firmware to another.
    Between {
        /// Address whose execution begins the span.
        from: u64,
        /// Address whose execution ends the span.
        until: u64,
    },
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
}

/// Counters of one kind of span.
pub const SPAN_COUNTERS: u32 = 6;

/// Direct call or jump that always goes to the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// Kind of transfer.
    pub kind: TransferKind,
    /// Address that it goes to.
    pub target: u64,
}

/// Whether, and how, a transfer sets the return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TransferKind {
    /// Sets the return address: `bl`, `jal ra`.
    Call,
    /// Keeps the return address: `b`, `j`; a tail call where it enters a function, else a loop.
    Jump,
    /// Keeps the return address and is conditional. When it is not taken, the instruction after it starts, which
    /// starts in no other way: the number of jumps is a difference of counts. Only in segments.
    Branch,
}

/// Meaning of a note for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoteKind {
    /// The answer came from the host: another machine may give another one.
    HostDependent,
    /// The operation was not carried out, or the run ended before it could be.
    Denied,
    /// The operation was denied because its argument cannot be read as a whole.
    Unread,
}

const SEGMENT: u8 = 1;
const ARC: u8 = 2;
const NOTE: u8 = 3;
const FRAME: u8 = 4;
const TASK: u8 = 5;
const NODE: u8 = 6;
const POLL: u8 = 8;
const MARK: u8 = 9;
const SPAN: u8 = 7;
const IDLE: u8 = 10;
const SITE: u8 = 11;
const ROW: u8 = 14;
const ZONE_PATH: u8 = 15;

const CALLER: u8 = 1;
const EXCEPTION: u8 = 2;
const ROOT: u8 = 3;
const FUNCTION: u8 = 4;
const MASKED: u8 = 5;
const PEND_SV: u8 = 6;
const BETWEEN: u8 = 7;
/// Added to the index in [`Unknown::ALL`].
const UNKNOWN: u8 = 0x10;

fn kind_code(kind: TransferKind) -> u8 {
    match kind {
        TransferKind::Call => 1,
        TransferKind::Jump => 2,
        TransferKind::Branch => 3,
    }
}

/// Decodes the code of [`kind_code`].
fn kind(code: u8) -> Option<TransferKind> {
    [TransferKind::Call, TransferKind::Jump, TransferKind::Branch].into_iter().find(|&kind| kind_code(kind) == code)
}

/// Bit added to an arc's kind when a return address follows.
const RETURNS: u8 = 0x10;

impl Definition {
    /// Appends the record to `out`.
    ///
    /// # Errors
    /// When the record breaks a limit that the reader checks; nothing is appended.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let malformed = |what| Malformed { what, offset: out.len() };
        match self {
            Definition::Segment { slot, pc, sizes, transfer } => {
                let fits = (1..=MAX_SEGMENT_INSNS).contains(&sizes.len());
                if !fits || sizes.iter().any(|size| !matches!(size, 2 | 4)) || *slot < counters::FIRST_DEFINED {
                    return Err(malformed("segment"));
                }
                out.push(SEGMENT);
                varint::put(out, u64::from(*slot));
                varint::put(out, *pc);
                out.push(transfer.map_or(0, |transfer| kind_code(transfer.kind)));
                if let Some(transfer) = transfer {
                    varint::put_delta(out, *pc, transfer.target);
                }
                varint::put(out, sizes.len() as u64);
                for eight in sizes.chunks(8) {
                    out.push(eight.iter().enumerate().fold(0, |bits, (n, &size)| bits | u8::from(size == 4) << n));
                }
            }
            Definition::Arc { slot, site, target, return_addr, kind } => {
                if *slot < counters::FIRST_DEFINED || *kind == TransferKind::Branch {
                    return Err(malformed("arc"));
                }
                out.push(ARC);
                varint::put(out, u64::from(*slot));
                varint::put(out, *site);
                varint::put_delta(out, *site, *target);
                out.push(kind_code(*kind) | if return_addr.is_some() { RETURNS } else { 0 });
                if let Some(return_addr) = return_addr {
                    varint::put_delta(out, *site, *return_addr);
                }
            }
            Definition::Frame { parent, kind } => {
                out.push(FRAME);
                varint::put(out, u64::from(*parent));
                match *kind {
                    FrameKind::Caller { return_addr } => {
                        out.push(CALLER);
                        varint::put(out, return_addr);
                    }
                    FrameKind::Exception { number, handler, pc } => {
                        out.push(EXCEPTION);
                        varint::put(out, number);
                        varint::put(out, handler);
                        varint::put(out, pc);
                    }
                    FrameKind::Unknown(why) => out.push(UNKNOWN + why as u8),
                }
            }
            Definition::Task { slot, tcb, name, stack_start, stack_end, is_idle, poll } => {
                if *slot < counters::FIRST_DEFINED || name.len() > MAX_TEXT_BYTES {
                    return Err(malformed("task"));
                }
                out.push(TASK);
                varint::put(out, u64::from(*slot));
                varint::put(out, *tcb);
                varint::put(out, *stack_start);
                varint::put(out, *stack_end);
                out.push(u8::from(*is_idle));
                varint::put(out, *poll);
                varint::put(out, name.len() as u64);
                out.extend_from_slice(name.as_bytes());
            }
            Definition::Idle { task } => {
                if *task == 0 {
                    return Err(malformed("idle task"));
                }
                out.push(IDLE);
                varint::put(out, u64::from(*task));
            }
            Definition::Node { slot, parent, kind, via } => {
                if *slot < counters::FIRST_DEFINED {
                    return Err(malformed("node"));
                }
                out.push(NODE);
                varint::put(out, u64::from(*slot));
                varint::put(out, u64::from(*parent));
                let (code, value) = match *kind {
                    NodeKind::Root { task } => (ROOT, task.into()),
                    NodeKind::Function { entry } => (FUNCTION, entry),
                    NodeKind::Exception { number } => (EXCEPTION, number),
                };
                out.push(code);
                varint::put(out, value);
                varint::put(out, *via);
            }
            Definition::Poll { pc, address, value, since_insns, times } => {
                out.push(POLL);
                for number in [pc, address, value, since_insns, times] {
                    varint::put(out, *number);
                }
            }
            Definition::Mark { at_insns, bytes } => {
                out.push(MARK);
                varint::put(out, *at_insns);
                varint::put(out, *bytes);
            }
            Definition::Span { slot, kind } => {
                if *slot < counters::FIRST_DEFINED {
                    return Err(malformed("span"));
                }
                out.push(SPAN);
                varint::put(out, u64::from(*slot));
                match *kind {
                    SpanKind::Call { entry } => {
                        out.push(FUNCTION);
                        varint::put(out, entry);
                    }
                    SpanKind::Exception { number } => {
                        out.push(EXCEPTION);
                        varint::put(out, number);
                    }
                    SpanKind::Masked => out.push(MASKED),
                    SpanKind::PendSv => out.push(PEND_SV),
                    SpanKind::Between { from, until } => {
                        out.push(BETWEEN);
                        varint::put(out, from);
                        varint::put(out, until);
                    }
                }
            }
            Definition::Site { entry, stack, task } => {
                out.push(SITE);
                varint::put(out, *entry);
                varint::put(out, u64::from(*stack));
                varint::put(out, u64::from(*task));
            }
            Definition::Row { slot, row } => {
                let mut bytes = Vec::new();
                row.put(*slot, &mut bytes).map_err(|_| malformed("row"))?;
                out.push(ROW);
                varint::put(out, u64::from(*slot));
                out.extend(bytes);
            }
            Definition::ZonePath { parent, name, pc } => {
                out.push(ZONE_PATH);
                varint::put(out, u64::from(*parent));
                varint::put(out, u64::from(*name));
                varint::put(out, *pc);
            }
            Definition::Note { kind, operation, pc, text } => {
                if text.len() > MAX_TEXT_BYTES {
                    return Err(malformed("note"));
                }
                out.push(NOTE);
                out.push(match kind {
                    NoteKind::HostDependent => 1,
                    NoteKind::Denied => 2,
                    NoteKind::Unread => 3,
                });
                varint::put(out, u64::from(*operation));
                varint::put(out, *pc);
                varint::put(out, text.len() as u64);
                out.extend_from_slice(text.as_bytes());
            }
        }
        Ok(())
    }
}

/// Decoder of a definitions file, record by record.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    reader: Reader<'a>,
    frames: u32,
    nodes: u32,
    tasks: u32,
    zone_paths: u32,
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte of a file.
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { reader: Reader::new(bytes), frames: 0, nodes: 0, tasks: 0, zone_paths: 0 }
    }

    fn slot(&mut self) -> Result<u32, Malformed> {
        let malformed = Malformed { what: "slot", offset: self.reader.offset };
        let slot = self.reader.varint("slot")?;
        u32::try_from(slot).ok().filter(|&slot| slot >= counters::FIRST_DEFINED).ok_or(malformed)
    }

    /// Reads the id of a frame, node or zone path that was defined before; `known` is the highest such id.
    fn parent(&mut self, known: u32) -> Result<u32, Malformed> {
        let malformed = Malformed { what: "parent", offset: self.reader.offset };
        let parent = self.reader.varint("parent")?;
        u32::try_from(parent).ok().filter(|&parent| parent <= known).ok_or(malformed)
    }

    fn text(&mut self) -> Result<String, Malformed> {
        let malformed = Malformed { what: "text", offset: self.reader.offset };
        let len = self.reader.varint("text's length")?;
        if len > MAX_TEXT_BYTES as u64 {
            return Err(malformed);
        }
        let text = std::str::from_utf8(self.reader.bytes(len, "text")?).map_err(|_| malformed)?;
        Ok(text.to_owned())
    }

    fn definition(&mut self) -> Result<Definition, Malformed> {
        let start = self.reader.offset;
        let malformed = |what| Malformed { what, offset: start };
        match self.reader.byte("definition")? {
            SEGMENT => {
                let slot = self.slot()?;
                let pc = self.reader.varint("segment's pc")?;
                let transfer = match self.reader.byte("segment's transfer")? {
                    0 => None,
                    code => {
                        let kind = kind(code).ok_or(malformed("segment"))?;
                        Some(Transfer { kind, target: self.reader.delta(pc, "segment's target")? })
                    }
                };
                let count = self.reader.varint("segment's length")?;
                if count == 0 || count > MAX_SEGMENT_INSNS as u64 {
                    return Err(malformed("segment"));
                }
                let bits = self.reader.bytes(count.div_ceil(8), "segment's sizes")?;
                let sizes =
                    (0..count as usize).map(|n| if bits[n / 8] >> (n % 8) & 1 == 1 { 4 } else { 2 }).collect();
                Ok(Definition::Segment { slot, pc, sizes, transfer })
            }
            ARC => {
                let slot = self.slot()?;
                let site = self.reader.varint("arc's site")?;
                let target = self.reader.delta(site, "arc's target")?;
                let flags = self.reader.byte("arc's kind")?;
                let kind = kind(flags & !RETURNS).filter(|&kind| kind != TransferKind::Branch);
                let kind = kind.ok_or(malformed("arc"))?;
                let return_addr = match flags & RETURNS {
                    0 => None,
                    _ => Some(self.reader.delta(site, "arc's return address")?),
                };
                Ok(Definition::Arc { slot, site, target, return_addr, kind })
            }
            SITE => {
                let entry = self.reader.varint("site's function")?;
                Ok(Definition::Site { entry, stack: self.parent(self.frames)?, task: self.parent(self.tasks)? })
            }
            NOTE => {
                let kind = match self.reader.byte("note")? {
                    1 => NoteKind::HostDependent,
                    2 => NoteKind::Denied,
                    3 => NoteKind::Unread,
                    _ => return Err(malformed("note")),
                };
                let operation =
                    u32::try_from(self.reader.varint("note's operation")?).map_err(|_| malformed("note"))?;
                let pc = self.reader.varint("note's pc")?;
                let text = self.text()?;
                Ok(Definition::Note { kind, operation, pc, text })
            }
            FRAME => {
                let parent = self.parent(self.frames)?;
                let kind = match self.reader.byte("frame's kind")? {
                    CALLER => FrameKind::Caller { return_addr: self.reader.varint("frame's return address")? },
                    EXCEPTION => FrameKind::Exception {
                        number: self.reader.varint("frame's exception")?,
                        handler: self.reader.varint("frame's handler")?,
                        pc: self.reader.varint("frame's pc")?,
                    },
                    code => {
                        let why = code.checked_sub(UNKNOWN).and_then(|index| Unknown::ALL.get(usize::from(index)));
                        FrameKind::Unknown(*why.filter(|_| parent == 0).ok_or(malformed("frame"))?)
                    }
                };
                self.frames += 1;
                Ok(Definition::Frame { parent, kind })
            }
            TASK => {
                let slot = self.slot()?;
                let tcb = self.reader.varint("task's control block")?;
                let stack_start = self.reader.varint("task's stack")?;
                let stack_end = self.reader.varint("task's stack")?;
                let is_idle = match self.reader.byte("task's kind")? {
                    0 => false,
                    1 => true,
                    _ => return Err(malformed("task")),
                };
                let poll = self.reader.varint("task's function")?;
                let name = self.text()?;
                self.tasks += 1;
                Ok(Definition::Task { slot, tcb, name, stack_start, stack_end, is_idle, poll })
            }
            IDLE => match self.parent(self.tasks)? {
                0 => Err(malformed("idle task")),
                task => Ok(Definition::Idle { task }),
            },
            NODE => {
                let slot = self.slot()?;
                let parent = self.parent(self.nodes)?;
                let code = self.reader.byte("node's kind")?;
                let value = self.reader.varint("node's value")?;
                let via = self.reader.varint("node's call")?;
                let kind = match code {
                    ROOT => NodeKind::Root { task: u32::try_from(value).map_err(|_| malformed("node"))? },
                    FUNCTION => NodeKind::Function { entry: value },
                    EXCEPTION => NodeKind::Exception { number: value },
                    _ => return Err(malformed("node")),
                };
                self.nodes += 1;
                Ok(Definition::Node { slot, parent, kind, via })
            }
            POLL => {
                let mut number = || self.reader.varint("poll");
                let [pc, address, value, since_insns, times] =
                    [number()?, number()?, number()?, number()?, number()?];
                Ok(Definition::Poll { pc, address, value, since_insns, times })
            }
            MARK => Ok(Definition::Mark {
                at_insns: self.reader.varint("mark's instruction")?,
                bytes: self.reader.varint("mark's bytes")?,
            }),
            SPAN => {
                let slot = self.slot()?;
                let kind = match self.reader.byte("span's kind")? {
                    FUNCTION => SpanKind::Call { entry: self.reader.varint("span's entry")? },
                    EXCEPTION => SpanKind::Exception { number: self.reader.varint("span's exception")? },
                    MASKED => SpanKind::Masked,
                    PEND_SV => SpanKind::PendSv,
                    BETWEEN => SpanKind::Between {
                        from: self.reader.varint("span's beginning")?,
                        until: self.reader.varint("span's end")?,
                    },
                    _ => return Err(malformed("span")),
                };
                Ok(Definition::Span { slot, kind })
            }
            ROW => {
                let slot = self.slot()?;
                Ok(Definition::Row { slot, row: Row::read(&mut self.reader)? })
            }
            ZONE_PATH => {
                let parent = self.parent(self.zone_paths)?;
                let name = u32::try_from(self.reader.varint("zone's name")?).map_err(|_| malformed("zone"))?;
                let pc = self.reader.varint("zone's event")?;
                self.zone_paths += 1;
                Ok(Definition::ZonePath { parent, name, pc })
            }
            _ => Err(malformed("definition")),
        }
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<Definition, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        Some(self.definition().inspect_err(|_| self.reader.stop()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::ContextKind;

    fn slot(number: u32) -> u32 {
        counters::FIRST_DEFINED + number
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
            Definition::Poll { pc: 0x100, address: 0x4002_1000, value: 0, since_insns: 77, times: u64::MAX },
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
            Definition::ZonePath { parent: 1, name: 2, pc: u64::MAX },
        ]
    }

    fn encode(definitions: &[Definition]) -> Vec<u8> {
        let mut out = Vec::new();
        for definition in definitions {
            definition.put(&mut out).unwrap();
        }
        out
    }

    #[test]
    fn definitions_survive_the_wire() {
        let decoded: Result<Vec<_>, _> = Decoder::new(&encode(&definitions())).collect();
        assert_eq!(decoded.unwrap(), definitions());
    }

    #[test]
    fn impossible_definitions_are_refused_when_written() {
        let mut out = Vec::new();
        let segment = |slot, sizes| Definition::Segment { slot, pc: 0, sizes, transfer: None };
        assert!(segment(slot(0), vec![]).put(&mut out).is_err());
        assert!(segment(slot(0), vec![3]).put(&mut out).is_err());
        assert!(segment(slot(0), vec![2; MAX_SEGMENT_INSNS + 1]).put(&mut out).is_err());
        assert!(segment(counters::CLOCK, vec![2]).put(&mut out).is_err());
        assert!(Definition::Span { slot: counters::CLOCK, kind: SpanKind::Masked }.put(&mut out).is_err());
        let text = "x".repeat(MAX_TEXT_BYTES + 1);
        assert!(Definition::Note { kind: NoteKind::Denied, operation: 1, pc: 0, text }.put(&mut out).is_err());
        assert!(Definition::Idle { task: 0 }.put(&mut out).is_err());
        assert!(Definition::Row { slot: slot(0), row: Row::Mark { name: 0 } }.put(&mut out).is_err());
        assert!(Definition::Row { slot: counters::CLOCK, row: Row::Mark { name: 1 } }.put(&mut out).is_err());
        assert!(out.is_empty());
    }

    #[test]
    fn nobody_has_a_parent_that_comes_later() {
        for definition in [
            Definition::Frame { parent: 1, kind: FrameKind::Caller { return_addr: 2 } },
            Definition::Node { slot: slot(0), parent: 1, kind: NodeKind::Function { entry: 2 }, via: 0 },
            Definition::Idle { task: 1 },
            Definition::ZonePath { parent: 1, name: 1, pc: 0 },
        ] {
            assert!(Decoder::new(&encode(&[definition])).next().unwrap().is_err());
        }
        let inner = Definition::Frame { parent: 1, kind: FrameKind::Unknown(Unknown::Corrupt) };
        assert!(Decoder::new(&encode(&[definitions()[8].clone(), inner])).any(|read| read.is_err()));
    }

    #[test]
    fn cut_and_flipped_bytes_never_panic() {
        let bytes = encode(&definitions());
        for cut in 0..bytes.len() {
            let _ = Decoder::new(&bytes[..cut]).count();
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[cut] ^= 1 << bit;
                let _ = Decoder::new(&flipped).count();
            }
        }
    }
}
