//! Zones, phases and marks that the firmware names itself (`targets/zone/zone.h`). Each is an instruction that does
//! nothing. The image lists these instructions, and the plugin looks at no others.

use crate::varint::{self, Reader};
use crate::{Malformed, counters};

/// Instruction of the firmware that names something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Address of the instruction.
    pub address: u64,
    /// Meaning of the instruction.
    pub kind: EventKind,
    /// Number of the name among the image's names, from 1; 0: no name (only at the end of a scope).
    pub name: u32,
}

/// Meaning of such an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A scope begins. Its number ties it to its end; number 0 matches any.
    Enter {
        /// Number of the scope.
        scope: u32,
    },
    /// A scope ends, see [`EventKind::Enter`].
    Leave {
        /// Number of the scope.
        scope: u32,
    },
    /// A zone that belongs to no scope begins.
    Begin,
    /// A zone that belongs to no scope ends.
    End,
    /// A phase begins, and the phase before it ends.
    Phase,
    /// A mark whose value is in a register.
    Register {
        /// Number of the register.
        register: u8,
    },
    /// A mark whose value is given by the instruction itself.
    Constant {
        /// Value of the mark.
        value: i64,
    },
}

/// Number of registers that a value may be in.
pub const REGISTERS: u8 = 32;

const ENTER: u8 = 1;
const LEAVE: u8 = 2;
const BEGIN: u8 = 3;
const END: u8 = 4;
const PHASE: u8 = 5;
const REGISTER: u8 = 6;
const CONSTANT: u8 = 7;

impl Event {
    pub(crate) fn put(out: &mut Vec<u8>, event: &Event) {
        varint::put(out, event.address);
        varint::put(out, event.name.into());
        let (code, value) = match event.kind {
            EventKind::Enter { scope } => (ENTER, scope.into()),
            EventKind::Leave { scope } => (LEAVE, scope.into()),
            EventKind::Begin => (BEGIN, 0),
            EventKind::End => (END, 0),
            EventKind::Phase => (PHASE, 0),
            EventKind::Register { register } => (REGISTER, register.into()),
            EventKind::Constant { value } => (CONSTANT, value as u64),
        };
        out.push(code);
        varint::put(out, value);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Event, Malformed> {
        let malformed = Malformed { what: "request's event", offset: reader.offset };
        let small = |value: u64| u32::try_from(value).map_err(|_| malformed.clone());
        let address = reader.varint("request's event")?;
        let name = small(reader.varint("request's event")?)?;
        let code = reader.byte("request's event")?;
        let value = reader.varint("request's event")?;
        let kind = match (code, value) {
            (ENTER, scope) => EventKind::Enter { scope: small(scope)? },
            (LEAVE, scope) => EventKind::Leave { scope: small(scope)? },
            (BEGIN, 0) => EventKind::Begin,
            (END, 0) => EventKind::End,
            (PHASE, 0) => EventKind::Phase,
            (REGISTER, register) => {
                EventKind::Register { register: u8::try_from(register).map_err(|_| malformed.clone())? }
            }
            (CONSTANT, value) => EventKind::Constant { value: value as i64 },
            _ => return Err(malformed),
        };
        Ok(Event { address, kind, name })
    }

    /// Whether name and register fit the kind.
    pub(crate) fn is_sound(&self) -> bool {
        match self.kind {
            EventKind::Leave { .. } => true,
            EventKind::Register { register } => register < REGISTERS && self.name != 0,
            _ => self.name != 0,
        }
    }
}

/// Context of a zone: tasks and exceptions have zones of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContextKind {
    /// Task, the id of a [`crate::definition::Definition::Task`]; 0: code outside of all tasks.
    Task(u32),
    /// Exception, as in [`crate::definition::FrameKind::Exception`].
    Exception(u64),
}

/// Subject of a row of counters: a zone, a mark or a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Row {
    /// Zone in one context: [`ZONE_COUNTERS`], see [`ZoneCounter`].
    Zone {
        /// Number of the zone's name.
        name: u32,
        /// Context that executes it.
        context: ContextKind,
    },
    /// Marks of one name: [`MARK_COUNTERS`], see [`MarkCounter`].
    Mark {
        /// Number of the name.
        name: u32,
    },
    /// Instructions of one task, and of no exception above it: one counter.
    Task {
        /// Id, as in [`ContextKind::Task`].
        task: u32,
    },
    /// Instructions of one exception's handlers, and of no exception above them: one counter.
    Exception {
        /// Number, as in [`ContextKind::Exception`].
        number: u64,
        /// First address of the handler; with several handlers, of the first one.
        handler: u64,
    },
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
    /// Times that the code that began the zone was left without the zone's end event.
    Left,
    /// Ends that came where the zone had not begun.
    Orphans,
    /// Number of those ends whose zone had begun in another context.
    Foreign,
    /// Number of times that are under way.
    Open,
}

/// Counters of one zone in one context.
pub const ZONE_COUNTERS: u32 = 13;

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

const ROW_TASK: u8 = 1;
const ROW_EXCEPTION: u8 = 2;
const ROW_MARK: u8 = 3;
const ROW_CONTEXT: u8 = 4;
const ROW_THREAD: u8 = 5;

impl Row {
    pub(crate) fn put(&self, slot: u32, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let is_named = match *self {
            Row::Zone { name, .. } | Row::Mark { name } => name != 0,
            Row::Task { .. } | Row::Exception { .. } => true,
        };
        if slot < counters::FIRST_DEFINED || !is_named {
            return Err(Malformed { what: "row", offset: out.len() });
        }
        let (code, name, value) = match *self {
            Row::Zone { name, context: ContextKind::Task(task) } => (ROW_TASK, name, task.into()),
            Row::Zone { name, context: ContextKind::Exception(number) } => (ROW_EXCEPTION, name, number),
            Row::Mark { name } => (ROW_MARK, name, 0),
            Row::Task { task } => (ROW_THREAD, 0, task.into()),
            Row::Exception { number, .. } => (ROW_CONTEXT, 0, number),
        };
        out.push(code);
        varint::put(out, name.into());
        varint::put(out, value);
        if let Row::Exception { handler, .. } = *self {
            varint::put(out, handler);
        }
        Ok(())
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Row, Malformed> {
        let malformed = Malformed { what: "row", offset: reader.offset };
        let code = reader.byte("row")?;
        let name = u32::try_from(reader.varint("row's name")?).map_err(|_| malformed.clone())?;
        let value = reader.varint("row's context")?;
        let task = u32::try_from(value);
        match code {
            ROW_TASK if name != 0 => Ok(Row::Zone { name, context: ContextKind::Task(task.map_err(|_| malformed)?) }),
            ROW_EXCEPTION if name != 0 => Ok(Row::Zone { name, context: ContextKind::Exception(value) }),
            ROW_MARK if name != 0 && value == 0 => Ok(Row::Mark { name }),
            ROW_THREAD if name == 0 => Ok(Row::Task { task: task.map_err(|_| malformed)? }),
            ROW_CONTEXT if name == 0 => {
                Ok(Row::Exception { number: value, handler: reader.varint("row's handler")? })
            }
            _ => Err(malformed),
        }
    }
}
