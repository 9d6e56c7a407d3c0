// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zones, phases and marks that the firmware names itself (`targets/zone/zone.h`). Each of
//! their events is an instruction that does nothing. The image lists these instructions, and the plugin looks at no
//! others.

use crate::record::record;

record! {
    /// Instruction of the firmware that begins or ends a zone or phase, or is a mark.
    #[derive(Copy)]
    pub struct Event {
        /// Address of the instruction.
        address: u64,
        /// Meaning of the instruction.
        kind: EventKind,
        /// Number of the name among the image's names, from 1; 0: no name (only at the end of a scope).
        name: u32,
    }
}

record! {
    /// Meaning of such an instruction.
    #[derive(Copy, Hash)]
    pub enum EventKind {
        /// A scope begins. Its number connects it with its end; number 0 matches any scope.
        1 = Enter {
            /// Number of the scope.
            scope: u32,
        },
        /// A scope ends, see [`EventKind::Enter`].
        2 = Leave {
            /// Number of the scope.
            scope: u32,
        },
        /// A zone that belongs to no scope begins.
        3 = Begin,
        /// A zone that belongs to no scope ends.
        4 = End,
        /// A phase begins, and the phase before it ends.
        5 = Phase,
        /// A mark whose value is in a register.
        6 = Register {
            /// Number of the register.
            register: u8,
        },
        /// A mark whose value is given by the instruction itself.
        7 = Constant {
            /// Value of the mark.
            value: i64,
        },
        /// A mark whose value is in several registers of a byte each (AVR), the lowest byte in the first.
        8 = Bytes {
            /// Number of the first register.
            register: u8,
            /// Number of bytes, at most [`MAX_VALUE_BYTES`].
            bytes: u8,
            /// Whether the highest bit is a sign.
            is_signed: bool,
        },
    }
}

/// Number of registers that can hold a mark's value.
pub const REGISTERS: u8 = 32;

/// Most registers of a byte that hold a mark's value.
pub const MAX_VALUE_BYTES: u8 = 4;

/// Most places in memory that one text of a call's name is behind.
pub const MAX_STEPS: usize = 8;

/// Most texts of a call's name.
pub const MAX_TEXTS: usize = 8;

record! {
    /// Function whose calls are zones, from its first instruction to its return.
    pub struct Call {
        /// First address of the function.
        entry: u64,
        /// Number of the zone's name where no text names the call.
        name: u32,
        /// Texts that name the call, joined by dots; empty: all calls have `name`.
        texts: Vec<CallText>,
    }
}

record! {
    /// Text in memory that a call's argument leads to, read at the function's first instruction.
    pub struct CallText {
        /// Number of the register that holds the argument.
        register: u8,
        /// Offset of each pointer that leads to the next: the last one points to the text, which ends with a zero.
        offsets: Vec<u64>,
    }
}

record! {
    /// Call that code makes which only waits: until it has returned, its context waits, too.
    #[derive(Copy)]
    pub struct WaitingCall {
        /// Address of the call instruction.
        site: u64,
        /// Address that it returns to.
        next: u64,
    }
}

impl Call {
    /// Whether registers exist and names have numbers.
    pub(crate) fn is_sound(&self) -> bool {
        let is_text = |text: &CallText| text.register < REGISTERS && text.offsets.len() <= MAX_STEPS;
        self.name != 0 && self.texts.len() <= MAX_TEXTS && self.texts.iter().all(is_text)
    }
}

impl Event {
    /// Whether name and register fit the kind.
    pub(crate) fn is_sound(&self) -> bool {
        match self.kind {
            EventKind::Leave { .. } => true,
            EventKind::Register { register } => register < REGISTERS && self.name != 0,
            EventKind::Bytes { register, bytes, .. } => {
                (1..=MAX_VALUE_BYTES).contains(&bytes) && register <= REGISTERS - bytes && self.name != 0
            }
            _ => self.name != 0,
        }
    }
}

record! {
    /// Context of a zone: tasks and exceptions have zones of their own.
    #[derive(Copy, Hash, PartialOrd, Ord)]
    pub enum ContextKind {
        /// Task, the id of a [`crate::definition::Definition::Task`]; 0: code outside of all tasks.
        1 = Task(task: u32),
        /// Exception, as in [`crate::definition::FrameKind::Exception`].
        2 = Exception(number: u64),
    }
}

record! {
    /// Subject of a row of counters: a zone, a mark or a context.
    #[derive(Copy, Hash, PartialOrd, Ord)]
    pub enum Row {
        /// Zone in one context: [`ZONE_COUNTERS`], see [`ZoneCounter`].
        1 = Zone {
            /// Number of the zone's name.
            name: u32,
            /// Context that executes it.
            context: ContextKind,
        },
        /// Marks of one name: [`MARK_COUNTERS`], see [`MarkCounter`].
        2 = Mark {
            /// Number of the name.
            name: u32,
        },
        /// Instructions of one task, and of no exception above it: one counter.
        3 = Task {
            /// Id, as in [`ContextKind::Task`].
            task: u32,
        },
        /// Instructions of one exception's handlers, and of no exception above them: one counter.
        4 = Exception {
            /// Number, as in [`ContextKind::Exception`].
            number: u64,
            /// First address of the handler; with several handlers, of the first one.
            handler: u64,
        },
        /// Cycles of those instructions, and of the exception's entries, where they are counted: one counter.
        7 = ExceptionCycles {
            /// Number, as in [`Row::Exception`].
            number: u64,
        },
        /// Instructions within [`WaitingCall`]s, the calls' own included: one counter.
        5 = Waiting,
        /// Number of such calls that were left without their return, or came within another: one counter.
        6 = WaitingUnsure,
    }
}

/// Meaning of a zone's counters, by distance from the first. Only instructions of the zone's own context count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ZoneCounter {
    /// Times that the zone was left by its end event.
    Count,
    /// Instructions of all those times together.
    Sum,
    /// Instructions as in `Sum`, but without the times inside another time of the same zone.
    Total,
    /// Instructions in the zone and in no zone within it.
    Own,
    /// Instructions of the longest time.
    Max,
    /// 2^64 - 1 minus the instructions of the shortest time.
    MinComplement,
    /// Address of the event that began the longest time.
    LongestAt,
    /// Instructions of the vCPU in the window before the longest time.
    LongestSince,
    /// Number of those times that are inside another time of the same zone.
    Recursive,
    /// Number of times that the zone was not ended: the code that began it was left without its end event.
    Left,
    /// Number of ends of a zone that had not begun.
    Orphans,
    /// Number of those ends whose zone had begun in another context.
    Foreign,
    /// Number of times that are under way.
    Open,
    /// Instructions of the vCPU in all those times together, those of other contexts included.
    Elapsed,
    /// Cycles as `Sum`, where they are counted.
    SumCycles,
    /// Cycles as `Total`.
    TotalCycles,
    /// Cycles as `Own`.
    OwnCycles,
    /// Most cycles of a time, which may be another one than that of the most instructions.
    MaxCycles,
    /// 2^64 - 1 minus the least cycles of a time.
    MinCyclesComplement,
    /// Cycles as `Elapsed`.
    ElapsedCycles,
}

/// Counters of one zone in one context.
pub const ZONE_COUNTERS: u32 = 20;

/// Meaning of a mark's counters, by distance from the first. Values are signed; extremes are kept as distances from
/// the lowest value, -2^63, since counters grow from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MarkCounter {
    /// Number of marks.
    Count,
    /// Sum of the values, wrapping.
    Sum,
    /// The highest value plus 2^63.
    Max,
    /// 2^64 - 1 minus (the lowest value plus 2^63).
    MinComplement,
    /// Last value.
    Last,
}

/// Counters of the marks of one name.
pub const MARK_COUNTERS: u32 = 5;

impl Row {
    /// Whether the row of a zone or a mark has the number of a name.
    pub(crate) fn is_sound(&self) -> bool {
        match *self {
            Row::Zone { name, .. } | Row::Mark { name } => name != 0,
            Row::Task { .. }
            | Row::Exception { .. }
            | Row::ExceptionCycles { .. }
            | Row::Waiting
            | Row::WaitingUnsure => true,
        }
    }
}
