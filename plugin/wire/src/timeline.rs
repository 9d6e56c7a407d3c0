//! Timeline: every event of the run in order, each at its instruction.
//!
//! Events are delta-coded by vCPU: three to six bytes each. Allocations and frees are in the heap's own stream
//! ([`crate::heap`]) at the same instructions; with several vCPUs the timeline says which vCPU each is on. No event
//! is written before the window opens. Activities that are under way then come first, at instruction 0.

use crate::Malformed;
use crate::definition::MAX_TEXT_BYTES;
use crate::request::{self, MAX_OFFSET_BYTES};
use crate::sample::MAX_VCPUS;
use crate::varint::{self, Reader};

/// Name of the event file; it exists where [`crate::request::Request::timeline`] asks for it.
pub const FILE_NAME: &str = "timeline";

/// Event of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Index of the vCPU.
    pub vcpu: u32,
    /// Instructions of the window that the vCPU had started: the event comes after that many.
    pub at_insns: u64,
    /// Kind of event.
    pub what: What,
}

/// Kind of timeline event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Another task executes; 0: no task.
    Switched {
        /// Id of the task.
        task: u32,
        /// Reason why the task before it stopped.
        why: Why,
    },
    /// The handler of an exception begins.
    Entered {
        /// Exception number, or cause with the highest of 64 bits for interrupts.
        number: u64,
    },
    /// The innermost exception is over.
    Left,
    /// A zone begins.
    Begun {
        /// Number of its name.
        name: u32,
    },
    /// The innermost zone ends as it should.
    Ended {
        /// Number of its name.
        name: u32,
    },
    /// The innermost zone was left without its end event, which is noticed now.
    Abandoned {
        /// Number of its name.
        name: u32,
    },
    /// A phase begins.
    Phase {
        /// Number of its name.
        name: u32,
    },
    /// The firmware gave a value by a mark.
    Mark {
        /// Number of the mark's name.
        name: u32,
        /// The value.
        value: i64,
    },
    /// A traced function is called.
    Called {
        /// Index in [`Wanted::functions`].
        function: u32,
    },
    /// The innermost call of this function has returned.
    Returned {
        /// Index in [`Wanted::functions`].
        function: u32,
    },
    /// The innermost call of this function is noticed to be over: an exception or a longjmp led out of it.
    Unwound {
        /// Index in [`Wanted::functions`].
        function: u32,
    },
    /// The firmware has printed.
    Printed {
        /// Bytes printed since the last such event.
        bytes: u64,
    },
    /// The firmware makes a semihosting call.
    Semihosting {
        /// Number of the operation.
        operation: u32,
    },
    /// The processor waits for an interrupt.
    Waits,
    /// The processor has slept: the machine's clock has advanced without an instruction.
    Slept {
        /// Duration of the sleep in nanoseconds.
        ns: u64,
    },
    /// The kernel has saved the registers of the task that is about to be switched out.
    Stack {
        /// Stack pointer of the task at that moment.
        sp: u64,
    },
    /// The firmware masks interrupts.
    Masked,
    /// The firmware unmasks interrupts.
    Unmasked,
    /// The heap's next event in the window belongs to this vCPU, and happened here. Needed only with several vCPUs; a
    /// single vCPU's instruction count tells it.
    Heap,
    /// Progress of this vCPU, which waits for its turn while the next event happens on another vCPU. So each vCPU's
    /// progress is known at every event.
    Stopped,
    /// An object that tasks wait for is described: the n-th of these events is object n.
    Object {
        /// Address of the list of waiting tasks.
        address: u64,
        /// Kind of the object.
        kind: ObjectKind,
        /// Address of the whole object, where that is known.
        whole: u64,
        /// Name that the firmware gave it; empty: no name.
        name: String,
    },
}

/// Reason why a task stopped executing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// The reason cannot be determined.
    Unknown,
    /// No task executed before.
    First,
    /// The task was ready, and an interrupt made another one execute.
    Preempted,
    /// The task was ready and gave way itself: by a yield, or a call that made another task ready.
    Yielded,
    /// The task waits for a time.
    Delayed,
    /// The task waits for an object, perhaps with a time limit.
    Blocked {
        /// Number of the object.
        object: u32,
    },
    /// The task waits for a notification.
    Notification,
    /// The task was suspended.
    Suspended,
    /// The task was deleted.
    Deleted,
    /// The task's function has returned until its next poll, or polls another task.
    Polled,
}

/// Kind of object that tasks can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ObjectKind {
    /// The kind cannot be determined.
    Unknown,
    /// Room in a queue.
    QueueRoom,
    /// Something in a queue.
    QueueItem,
    /// A semaphore.
    Semaphore,
    /// A mutex.
    Mutex,
    /// Bits of an event group.
    EventGroup,
}

impl ObjectKind {
    const ALL: [ObjectKind; 6] = [
        ObjectKind::Unknown,
        ObjectKind::QueueRoom,
        ObjectKind::QueueItem,
        ObjectKind::Semaphore,
        ObjectKind::Mutex,
        ObjectKind::EventGroup,
    ];
}

const SWITCHED: u8 = 0;
const ENTERED: u8 = 1;
const LEFT: u8 = 2;
const BEGUN: u8 = 3;
const ENDED: u8 = 4;
const ABANDONED: u8 = 5;
const PHASE: u8 = 6;
const MARK: u8 = 7;
const CALLED: u8 = 8;
const RETURNED: u8 = 9;
const UNWOUND: u8 = 10;
const PRINTED: u8 = 11;
const SEMIHOSTING: u8 = 12;
const WAITS: u8 = 13;
const MASKED: u8 = 14;
const UNMASKED: u8 = 15;
const OBJECT: u8 = 16;
const SLEPT: u8 = 17;
const STACK: u8 = 18;
const HEAP: u8 = 19;
const STOPPED: u8 = 20;
/// Bits of the first byte that hold the event's kind.
const KIND: u8 = 0x1f;
/// Bit: the event is on another vCPU than the last one.
const VCPU: u8 = 0x20;
/// All bits that are used in the first byte.
const USED: u8 = KIND | VCPU;

const BLOCKED: u8 = 5;

impl Why {
    fn code(self) -> u8 {
        match self {
            Why::Unknown => 0,
            Why::First => 1,
            Why::Preempted => 2,
            Why::Yielded => 3,
            Why::Delayed => 4,
            Why::Blocked { .. } => BLOCKED,
            Why::Notification => 6,
            Why::Suspended => 7,
            Why::Deleted => 8,
            Why::Polled => 9,
        }
    }

    fn of(code: u8) -> Option<Why> {
        Some(match code {
            0 => Why::Unknown,
            1 => Why::First,
            2 => Why::Preempted,
            3 => Why::Yielded,
            4 => Why::Delayed,
            6 => Why::Notification,
            7 => Why::Suspended,
            8 => Why::Deleted,
            9 => Why::Polled,
            _ => return None,
        })
    }
}

/// Values that the next event's differences refer to.
#[derive(Clone, Debug, Default)]
struct Previous {
    vcpu: u32,
    /// Instructions at the last event, by vCPU.
    at_insns: Vec<u64>,
    /// Objects described so far.
    objects: u32,
    /// Last stack pointer.
    sp: u64,
}

impl Previous {
    fn at(&mut self, vcpu: u32) -> &mut u64 {
        let index = vcpu as usize;
        if self.at_insns.len() <= index {
            self.at_insns.resize(index + 1, 0);
        }
        &mut self.at_insns[index]
    }

    /// Whether the event can come next, apart from its time.
    fn allows(&self, event: &Event) -> bool {
        event.vcpu < MAX_VCPUS
            && match &event.what {
                What::Switched { why: Why::Blocked { object }, .. } => (1..=self.objects).contains(object),
                What::Begun { name }
                | What::Ended { name }
                | What::Abandoned { name }
                | What::Phase { name }
                | What::Mark { name, .. } => *name != 0,
                What::Printed { bytes } => *bytes != 0,
                What::Slept { ns } => *ns != 0,
                What::Object { name, .. } => name.len() <= MAX_TEXT_BYTES,
                _ => true,
            }
    }

    fn note(&mut self, event: &Event) {
        self.vcpu = event.vcpu;
        *self.at(event.vcpu) = event.at_insns;
        self.objects += u32::from(matches!(event.what, What::Object { .. }));
        if let What::Stack { sp } = event.what {
            self.sp = sp;
        }
    }
}

/// Encoder of events; keeps the values that the next difference refers to.
#[derive(Clone, Debug, Default)]
pub struct Encoder(Previous);

impl Encoder {
    /// Appends one event to `out`.
    ///
    /// # Errors
    /// When the event comes before the vCPU's last one, or makes no sense here; nothing is appended.
    pub fn put(&mut self, event: &Event, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let malformed = Malformed { what: "timeline event", offset: out.len() };
        let since = event.at_insns.checked_sub(*self.0.at(event.vcpu.min(MAX_VCPUS)));
        let since = since.filter(|_| self.0.allows(event)).ok_or(malformed)?;
        let kind = match event.what {
            What::Switched { .. } => SWITCHED,
            What::Entered { .. } => ENTERED,
            What::Left => LEFT,
            What::Begun { .. } => BEGUN,
            What::Ended { .. } => ENDED,
            What::Abandoned { .. } => ABANDONED,
            What::Phase { .. } => PHASE,
            What::Mark { .. } => MARK,
            What::Called { .. } => CALLED,
            What::Returned { .. } => RETURNED,
            What::Unwound { .. } => UNWOUND,
            What::Printed { .. } => PRINTED,
            What::Semihosting { .. } => SEMIHOSTING,
            What::Waits => WAITS,
            What::Slept { .. } => SLEPT,
            What::Stack { .. } => STACK,
            What::Masked => MASKED,
            What::Unmasked => UNMASKED,
            What::Heap => HEAP,
            What::Stopped => STOPPED,
            What::Object { .. } => OBJECT,
        };
        let is_elsewhere = event.vcpu != self.0.vcpu;
        out.push(kind | if is_elsewhere { VCPU } else { 0 });
        if is_elsewhere {
            varint::put(out, event.vcpu.into());
        }
        varint::put(out, since);
        match &event.what {
            What::Switched { task, why } => {
                varint::put(out, (*task).into());
                out.push(why.code());
                if let Why::Blocked { object } = why {
                    varint::put(out, (*object).into());
                }
            }
            // Rotated so that the highest bit, which marks interrupts, becomes the lowest: the number stays short.
            What::Entered { number } => varint::put(out, number.rotate_left(1)),
            What::Begun { name } | What::Ended { name } | What::Abandoned { name } | What::Phase { name } => {
                varint::put(out, (*name).into());
            }
            What::Mark { name, value } => {
                varint::put(out, (*name).into());
                varint::put_delta(out, 0, *value as u64);
            }
            What::Called { function } | What::Returned { function } | What::Unwound { function } => {
                varint::put(out, (*function).into());
            }
            What::Printed { bytes } => varint::put(out, *bytes),
            What::Slept { ns } => varint::put(out, *ns),
            What::Stack { sp } => varint::put_delta(out, self.0.sp, *sp),
            What::Semihosting { operation } => varint::put(out, (*operation).into()),
            What::Left | What::Waits | What::Masked | What::Unmasked | What::Heap | What::Stopped => {}
            What::Object { address, kind, whole, name } => {
                varint::put(out, *address);
                out.push(*kind as u8);
                varint::put(out, *whole);
                varint::put(out, name.len() as u64);
                out.extend(name.as_bytes());
            }
        }
        self.0.note(event);
        Ok(())
    }
}

/// Decoder of the events that [`Encoder`] wrote.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    reader: Reader<'a>,
    previous: Previous,
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte of a stream.
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { reader: Reader::new(bytes), previous: Previous::default() }
    }

    fn number(&mut self) -> Result<u32, Malformed> {
        const WHAT: &str = "timeline event's number";
        let offset = self.reader.offset;
        self.reader.varint(WHAT)?.try_into().map_err(|_| Malformed { what: WHAT, offset })
    }

    fn event(&mut self) -> Result<Event, Malformed> {
        const WHAT: &str = "timeline event";
        let malformed = Malformed { what: WHAT, offset: self.reader.offset };
        let first = self.reader.byte(WHAT)?;
        if first & !USED != 0 {
            return Err(malformed);
        }
        let mut vcpu = self.previous.vcpu;
        if first & VCPU != 0 {
            vcpu = self.number()?;
            if vcpu == self.previous.vcpu || vcpu >= MAX_VCPUS {
                return Err(malformed);
            }
        }
        let since = self.reader.varint("timeline event's time")?;
        let at_insns = self.previous.at(vcpu).checked_add(since).ok_or(malformed.clone())?;
        let what = match first & KIND {
            SWITCHED => {
                let task = self.number()?;
                let why = match self.reader.byte(WHAT)? {
                    BLOCKED => Why::Blocked { object: self.number()? },
                    code => Why::of(code).ok_or(malformed.clone())?,
                };
                What::Switched { task, why }
            }
            ENTERED => What::Entered { number: self.reader.varint(WHAT)?.rotate_right(1) },
            LEFT => What::Left,
            BEGUN => What::Begun { name: self.number()? },
            ENDED => What::Ended { name: self.number()? },
            ABANDONED => What::Abandoned { name: self.number()? },
            PHASE => What::Phase { name: self.number()? },
            MARK => What::Mark { name: self.number()?, value: self.reader.delta(0, WHAT)? as i64 },
            CALLED => What::Called { function: self.number()? },
            RETURNED => What::Returned { function: self.number()? },
            UNWOUND => What::Unwound { function: self.number()? },
            PRINTED => What::Printed { bytes: self.reader.varint(WHAT)? },
            SEMIHOSTING => What::Semihosting { operation: self.number()? },
            WAITS => What::Waits,
            STACK => What::Stack { sp: self.reader.delta(self.previous.sp, WHAT)? },
            SLEPT => What::Slept { ns: self.reader.varint(WHAT)? },
            MASKED => What::Masked,
            UNMASKED => What::Unmasked,
            HEAP => What::Heap,
            STOPPED => What::Stopped,
            OBJECT => {
                let address = self.reader.varint(WHAT)?;
                let kind = usize::from(self.reader.byte(WHAT)?);
                let kind = *ObjectKind::ALL.get(kind).ok_or(malformed.clone())?;
                let whole = self.reader.varint(WHAT)?;
                let length = self.reader.varint(WHAT)?;
                let name = String::from_utf8(self.reader.bytes(length, WHAT)?.to_vec());
                What::Object { address, kind, whole, name: name.map_err(|_| malformed.clone())? }
            }
            _ => return Err(malformed),
        };
        let event = Event { vcpu, at_insns, what };
        if !self.previous.allows(&event) {
            return Err(malformed);
        }
        self.previous.note(&event);
        Ok(event)
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<Event, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        Some(self.event().inspect_err(|_| self.reader.stop()))
    }
}

/// Request for the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// First addresses of the functions whose calls are among the events, sorted.
    pub functions: Vec<u64>,
    /// Layout of the kernel's data that tell why a task does not execute, if known.
    pub waits: Option<Waits>,
    /// Shift of virtual time (2^shift ns per instruction) with which sleeps are measured; None: sleeps are not asked
    /// for.
    pub sleep_shift: Option<u8>,
}

/// Largest shift that QEMU takes (softmmu/icount.c, `MAX_ICOUNT_SHIFT`).
const MAX_SHIFT: u8 = 10;

/// Layout of the kernel's data that tell why a task does not execute. No field is specific to one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Offset, in a control block, of the pointer to the list that stands for the task's state.
    pub state: u64,
    /// Offset, in a control block, of the pointer to the list of tasks that wait for the same object.
    pub event: Option<u64>,
    /// Offset and size of the value of the task's item in that list: its order in the list, or, for an event group,
    /// flags in high bits.
    pub event_value: Option<(u64, u64)>,
    /// Lists, by address, and the state of the tasks in each.
    pub lists: Vec<(u64, State)>,
    /// Offset and number of the bytes of which one is 1 while the task waits for a notification.
    pub notification: Option<(u64, u64)>,
    /// Layout of the objects that tasks wait for.
    pub objects: Option<Objects>,
}

/// State of a task, by the list that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The task could execute.
    Ready,
    /// The task waits for a time.
    Delayed,
    /// The task waits without a time limit.
    Suspended,
    /// The task is deleted.
    Deleted,
}

impl State {
    const ALL: [State; 4] = [State::Ready, State::Delayed, State::Suspended, State::Deleted];
}

/// Layout of the objects that tasks wait for: offsets, and the marks that tell them from other memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objects {
    /// Offset, in a list, of the item that ends it; all bits of the item's first bytes are set.
    pub end: u64,
    /// Number of those first bytes.
    pub end_bytes: u64,
    /// Offset, in a queue, of the list of tasks that wait for room.
    pub room: u64,
    /// Offset, in a queue, of the list of tasks that wait for an item.
    pub item: u64,
    /// Offset of the queue's length, as wide as a pointer and not 0.
    pub length: u64,
    /// Offset of an item's size, as wide; 0 there: a semaphore, or a mutex, whose first word is 0.
    pub item_size: u64,
    /// Table of queue names: its address and number of entries. An entry is a pointer to a name and one to the queue.
    pub registry: Option<(u64, u64)>,
}

impl Wanted {
    /// Appends the record.
    pub(crate) fn put(out: &mut Vec<u8>, wanted: &Wanted) {
        request::put_addresses(out, &wanted.functions);
        request::put_list(out, wanted.waits.as_slice(), Waits::put);
        request::put_option(out, wanted.sleep_shift.map(u64::from));
    }

    /// Reads what [`Wanted::put`] wrote.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Wanted, Malformed> {
        let functions = request::read_addresses(reader)?;
        let waits = request::read_at_most_one(reader, Waits::read)?;
        let malformed = Malformed { what: "request's shift", offset: reader.offset };
        let sleep_shift = request::read_option(reader)?.map(|shift| u8::try_from(shift).map_err(|_| malformed));
        Ok(Wanted { functions, waits, sleep_shift: sleep_shift.transpose()? })
    }

    /// Whether every field is within its limits.
    pub(crate) fn is_meant(&self) -> bool {
        self.functions.is_sorted_by(|one, next| one < next)
            && self.waits.iter().all(Waits::is_meant)
            && self.sleep_shift.is_none_or(|shift| shift <= MAX_SHIFT)
    }
}

impl Waits {
    fn put(out: &mut Vec<u8>, waits: &Waits) {
        varint::put(out, waits.state);
        request::put_option(out, waits.event);
        request::put_list(out, waits.event_value.as_slice(), put_pair);
        request::put_list(out, &waits.lists, |out, &(address, state)| {
            varint::put(out, address);
            out.push(state as u8);
        });
        request::put_list(out, waits.notification.as_slice(), put_pair);
        request::put_list(out, waits.objects.as_slice(), |out, objects| {
            let &Objects { end, end_bytes, room, item, length, item_size, registry } = objects;
            [end, end_bytes, room, item, length, item_size].iter().for_each(|&number| varint::put(out, number));
            request::put_list(out, registry.as_slice(), put_pair);
        });
    }

    fn read(reader: &mut Reader<'_>) -> Result<Waits, Malformed> {
        const WHAT: &str = "request's waits";
        Ok(Waits {
            state: reader.varint(WHAT)?,
            event: request::read_option(reader)?,
            event_value: request::read_at_most_one(reader, read_pair)?,
            lists: request::read_list(reader, |reader| {
                let address = reader.varint(WHAT)?;
                let malformed = Malformed { what: WHAT, offset: reader.offset };
                let state = usize::from(reader.byte(WHAT)?);
                Ok((address, *State::ALL.get(state).ok_or(malformed)?))
            })?,
            notification: request::read_at_most_one(reader, read_pair)?,
            objects: request::read_at_most_one(reader, |reader| {
                let mut numbers = [0; 6];
                for number in &mut numbers {
                    *number = reader.varint(WHAT)?;
                }
                let [end, end_bytes, room, item, length, item_size] = numbers;
                let registry = request::read_at_most_one(reader, read_pair)?;
                Ok(Objects { end, end_bytes, room, item, length, item_size, registry })
            })?,
        })
    }

    fn is_meant(&self) -> bool {
        let objects = self.objects.iter().flat_map(|objects| {
            let &Objects { end, end_bytes, room, item, length, item_size, .. } = objects;
            [end, end_bytes, room, item, length, item_size]
        });
        let pairs = self.notification.iter().chain(&self.event_value).flat_map(|&(offset, bytes)| [offset, bytes]);
        let mut offsets = [self.state].into_iter().chain(self.event).chain(pairs).chain(objects);
        let registry = self.objects.iter().filter_map(|objects| objects.registry);
        offsets.all(|offset| offset < MAX_OFFSET_BYTES)
            && registry.into_iter().all(|(_, entries)| entries <= MAX_NAMES)
            && self.objects.iter().all(|objects| (1..=8).contains(&objects.end_bytes))
            && self.event_value.is_none_or(|(_, bytes)| (1..=8).contains(&bytes))
            && self.notification.is_none_or(|(_, bytes)| bytes <= MAX_NOTIFICATIONS)
    }
}

/// Most entries in the table of queue names.
const MAX_NAMES: u64 = 1 << 12;

/// Most notifications of a task.
const MAX_NOTIFICATIONS: u64 = 1 << 8;

fn put_pair(out: &mut Vec<u8>, &(one, other): &(u64, u64)) {
    varint::put(out, one);
    varint::put(out, other);
}

fn read_pair(reader: &mut Reader<'_>) -> Result<(u64, u64), Malformed> {
    Ok((reader.varint("request's pair")?, reader.varint("request's pair")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<Event> {
        let event = |vcpu, at_insns, what| Event { vcpu, at_insns, what };
        let object = |kind, name: &str| What::Object { address: 0x2000_0100, kind, whole: 0, name: name.to_owned() };
        vec![
            event(0, 0, What::Switched { task: 1, why: Why::First }),
            event(0, 5, What::Entered { number: 15 }),
            event(0, 5, What::Entered { number: 1 << 63 | 7 }),
            event(1, 3, What::Waits),
            event(0, 9, What::Left),
            event(0, 10, object(ObjectKind::QueueItem, "größe")),
            event(0, 10, What::Switched { task: u32::MAX, why: Why::Blocked { object: 1 } }),
            event(0, 20, What::Begun { name: 1 }),
            event(0, 20, What::Mark { name: 3, value: i64::MIN }),
            event(0, 21, What::Mark { name: 3, value: -1 }),
            event(0, 30, What::Abandoned { name: 2 }),
            event(0, 31, What::Ended { name: 1 }),
            event(0, 40, What::Phase { name: 4 }),
            event(0, 41, What::Called { function: 0 }),
            event(0, 42, What::Called { function: 300 }),
            event(0, 43, What::Unwound { function: 300 }),
            event(0, 44, What::Returned { function: 0 }),
            event(0, 50, What::Printed { bytes: 12 }),
            event(0, 51, What::Semihosting { operation: 5 }),
            event(0, 55, What::Stack { sp: 0x2000_1000 }),
            event(0, 60, What::Slept { ns: 999_968 }),
            event(0, 60, What::Stack { sp: 0x2000_0f80 }),
            event(0, 60, What::Stack { sp: u64::MAX }),
            event(0, 60, What::Slept { ns: u64::MAX }),
            event(2, u64::MAX, What::Masked),
            event(2, u64::MAX, What::Unmasked),
            event(1, 9, What::Heap),
            event(2, u64::MAX, What::Stopped),
            event(0, 1000, What::Switched { task: 0, why: Why::Deleted }),
        ]
    }

    fn encode(events: &[Event]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::default();
        events.iter().for_each(|event| encoder.put(event, &mut out).unwrap());
        out
    }

    #[test]
    fn events_survive_the_wire() {
        let decoded: Result<Vec<_>, _> = Decoder::new(&encode(&events())).collect();
        assert_eq!(decoded.unwrap(), events());
        for why in (0..=9).filter_map(Why::of) {
            let switched = [Event { vcpu: 0, at_insns: 7, what: What::Switched { task: 2, why } }];
            assert_eq!(Decoder::new(&encode(&switched)).next(), Some(Ok(switched[0].clone())));
        }
    }

    #[test]
    fn ten_million_events_are_less_than_a_hundred_megabytes() {
        let pairs: Vec<_> = (0..1000)
            .flat_map(|n| {
                let event = |at_insns, what| Event { vcpu: 0, at_insns, what };
                [event(n * 2000, What::Begun { name: 2 }), event(n * 2000 + 900, What::Ended { name: 2 })]
            })
            .collect();
        assert!(encode(&pairs).len() <= 4 * pairs.len());
    }

    #[test]
    fn what_cannot_be_meant_is_refused_when_written_and_when_read() {
        let event = |at_insns, what| Event { vcpu: 0, at_insns, what };
        let mut encoder = Encoder::default();
        let mut out = Vec::new();
        encoder.put(&event(10, What::Waits), &mut out).unwrap();
        let before = out.clone();
        let blocked = What::Switched { task: 1, why: Why::Blocked { object: 1 } };
        for bad in [event(9, What::Waits), event(10, What::Begun { name: 0 }), event(11, blocked)] {
            assert!(encoder.put(&bad, &mut out).is_err(), "{bad:?}");
        }
        let elsewhere = Event { vcpu: MAX_VCPUS, ..event(11, What::Waits) };
        assert!(encoder.put(&elsewhere, &mut out).is_err());
        assert_eq!(out, before);
        for bad in [
            &[0x40 | WAITS, 1][..],
            &[21, 1],
            &[BEGUN, 1, 0],
            &[SLEPT, 1, 0],
            &[VCPU | WAITS, 0, 1],
            &[SWITCHED, 1, 1, 5, 1],
        ] {
            assert!(Decoder::new(bad).next().unwrap().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn any_cut_or_flipped_byte_is_an_error_or_other_events_and_never_a_panic() {
        let bytes = encode(&events());
        for cut in 0..bytes.len() {
            let _ = Decoder::new(&bytes[..cut]).count();
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[cut] ^= 1 << bit;
                let decoded: Result<Vec<_>, _> = Decoder::new(&flipped).collect();
                assert_ne!(decoded.as_ref(), Ok(&events()), "byte {cut} bit {bit} does not matter");
            }
        }
    }
}
