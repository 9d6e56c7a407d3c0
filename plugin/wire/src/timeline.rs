// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timeline: every event of the run in order, each at its instruction.
//!
//! Events are delta-coded by vCPU: three to six bytes each. Allocations and frees are in the heap's own stream
//! ([`crate::heap`]) at the same instructions; with several vCPUs the timeline says to which vCPU each belongs. No
//! event is written before the window opens. Activities that are under way then come first, at instruction 0.

use std::ops::Range;

use crate::Malformed;
use crate::can::Frame;
use crate::definition::MAX_TEXT_BYTES;
use crate::record::{Marked, Record, record, since};
use crate::request::MAX_OFFSET_BYTES;
use crate::sample::MAX_VCPUS;
use crate::stream::{self, Stream};
use crate::varint::Reader;

/// Name of the event file; it exists if [`crate::request::Measure::timeline`] asks for it.
pub const FILE_NAME: &str = "timeline";

/// Event of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Index of the vCPU.
    pub vcpu: u32,
    /// Instructions of the window that the vCPU had started before the event.
    pub at_insns: u64,
    /// Kind of event.
    pub what: What,
}

record! {
    /// Kind of timeline event.
    pub enum What given previous: &Events {
        /// Another task executes; 0: no task.
        0 = Switched {
        /// Id of the task.
            task: u32,
        /// Reason why the task before it stopped.
            why: Why,
        },
        /// The handler of an exception begins.
        1 = Entered {
            /// Exception number, or cause with the highest of 64 bits for interrupts.
            number: u64 = Marked,
        },
        /// The innermost exception is over.
        2 = Left,
        /// A zone begins.
        3 = Begun {
        /// Number of the mark's name.
            name: u32,
        },
        /// The innermost zone ends as it should.
        4 = Ended {
        /// Number of the mark's name.
            name: u32,
        },
        /// The innermost zone was left without its end event, which is noticed now.
        5 = Abandoned {
        /// Number of the mark's name.
            name: u32,
        },
        /// A phase begins.
        6 = Phase {
        /// Number of the mark's name.
            name: u32,
        },
        /// The firmware gave a value by a mark.
        7 = Mark {
        /// Number of the mark's name.
            name: u32,
        /// The value.
            value: i64,
        },
        /// A traced function is called.
        8 = Called {
        /// Index in [`Wanted::functions`].
            function: u32,
        },
        /// The innermost call of this function has returned.
        9 = Returned {
        /// Index in [`Wanted::functions`].
            function: u32,
        },
        /// The innermost call of this function is over without a return: an exception or a longjmp led out of it.
        /// This is noticed here.
        10 = Unwound {
        /// Index in [`Wanted::functions`].
            function: u32,
        },
        /// The firmware has printed.
        11 = Printed {
        /// Bytes printed since the last such event.
            bytes: u64,
        },
        /// The firmware makes a semihosting call.
        12 = Semihosting {
        /// Number of the operation.
            operation: u32,
        },
        /// The processor waits for an interrupt.
        13 = Waits,
        /// The processor has slept: the machine's clock has advanced without an instruction.
        17 = Slept {
        /// Duration of the sleep in nanoseconds.
            ns: u64,
        },
        /// The machine's clock has moved on beyond the time of the instructions, by what their cycles take.
        25 = Ahead {
            /// By so many nanoseconds, since the last such event.
            ns: u64,
        },
        /// The kernel has saved the registers of the task that is about to be switched out.
        18 = Stack {
            /// Stack pointer of the task at that moment.
            sp: u64 = since(previous.sp),
        },
        /// The firmware masks interrupts.
        14 = Masked,
        /// The firmware unmasks interrupts.
        15 = Unmasked,
        /// The next event of the heap in the window belongs to this vCPU and comes here. With a single vCPU this
        /// event is not needed, since the heap event's instruction count says the same.
        19 = Heap,
        /// This vCPU has started `at_insns` instructions and waits for its turn, because the next event happens on
        /// another vCPU. So each vCPU's progress is known at every event.
        20 = Stopped,
        /// A pin of a chip has changed its level.
        21 = Pin {
            /// Address of the port's registers.
            port: u64,
            /// Number of the pin in the port.
            pin: u32,
            /// Whether it is high now.
            is_high: bool,
            /// Whether the chip drives it.
            is_output: bool,
        },
        /// A frame was on the bus of a chip's CAN controller.
        27 = Frame {
            /// Address of the controller's registers.
            port: u64,
            /// Whether the chip has sent it.
            is_sent: bool,
            /// The frame.
            frame: Frame,
        },
        /// The life of an executor's task has changed, or a kernel's task has become ready or not while it did not execute.
        26 = Lives {
            /// Id of the task.
            task: u32,
            /// Change of its life.
            change: Life,
        },
        /// An object that tasks wait for is described: the n-th of these events is object n.
        16 = Object {
        /// Address of the list of waiting tasks.
            address: u64,
        /// Kind of the object.
            kind: ObjectKind,
        /// Address of the whole object, if known.
            whole: u64,
        /// Name that the firmware gave it; empty: no name.
            name: String,
        },
    }
}

record! {
    /// Change of the life of an executor's task, or of a kernel's task that does not execute.
    #[derive(Copy, Hash, PartialOrd, Ord)]
    pub enum Life {
        /// The executor takes the task.
        0 = Spawned,
        /// The task is to be polled again, or the kernel has made it ready.
        1 = Woken,
        /// The task is done: its last poll is over, or another task has deleted it.
        2 = Finished,
        /// The task is not ready, and it was not its own execution that ended with this: another task has suspended it, or
        /// the window opens.
        3 = Unready,
    }
}

record! {
    /// Reason why a task stopped executing.
    #[derive(Copy, Hash, PartialOrd, Ord)]
    pub enum Why {
        /// The reason cannot be determined.
        0 = Unknown,
        /// No task executed before.
        1 = First,
        /// The task was ready, and an interrupt made another one execute.
        2 = Preempted,
        /// The task was ready and gave way itself: by a yield, or a call that made another task ready.
        3 = Yielded,
        /// The task waits for a time.
        4 = Delayed,
        /// The task waits for an object, perhaps with a time limit.
        5 = Blocked {
            /// Number of the object.
            object: u32,
        },
        /// The task waits for a notification.
        6 = Notification,
        /// The task was suspended.
        7 = Suspended,
        /// The task was deleted.
        8 = Deleted,
        /// The task's function has returned until its next poll, or polls another task.
        9 = Polled,
    }
}

record! {
    /// Kind of object that tasks can wait for.
    #[derive(Copy, Hash, PartialOrd, Ord)]
    pub enum ObjectKind {
        /// The kind cannot be determined.
        0 = Unknown,
        /// Room in a queue.
        1 = QueueRoom,
        /// Something in a queue.
        2 = QueueItem,
        /// A semaphore.
        3 = Semaphore,
        /// A mutex.
        4 = Mutex,
        /// Bits of an event group.
        5 = EventGroup,
        /// A queue, where it is not known whether for room or for an item.
        6 = Queue,
        /// Memory of a pool or heap.
        7 = Memory,
        /// The end of a thread.
        8 = Thread,
        /// A condition variable.
        9 = Condition,
        /// A pipe.
        10 = Pipe,
        /// A mailbox.
        11 = Mailbox,
        /// A timer.
        12 = Timer,
    }
}

/// Bits of the first byte that hold the event's kind.
const KIND: u8 = 0x1f;
/// Bit: the event is on another vCPU than the last one.
const VCPU: u8 = 0x20;
/// All bits that are used in the first byte.
const USED: u8 = KIND | VCPU;

/// Stream of events: the values that the next one's differences refer to.
#[derive(Clone, Debug, Default)]
pub struct Events {
    vcpu: u32,
    /// Instructions at the last event, by vCPU.
    at_insns: Vec<u64>,
    /// Objects described so far.
    objects: u32,
    /// Last stack pointer.
    sp: u64,
}

/// Encoder of events.
pub type Encoder = stream::Encoder<Events>;

/// Decoder of the events that an [`Encoder`] wrote.
pub type Decoder<'a> = stream::Decoder<'a, Events>;

impl Events {
    #[inline]
    fn at_insns(&self, vcpu: u32) -> u64 {
        self.at_insns.get(vcpu as usize).copied().unwrap_or(0)
    }
}

impl Stream for Events {
    type Item = Event;
    const WHAT: &'static str = "timeline event";

    #[inline]
    fn allows(&self, event: &Event) -> bool {
        event.vcpu < MAX_VCPUS
            && event.at_insns >= self.at_insns(event.vcpu)
            && match &event.what {
                What::Switched { why: Why::Blocked { object }, .. } => (1..=self.objects).contains(object),
                What::Begun { name }
                | What::Ended { name }
                | What::Abandoned { name }
                | What::Phase { name }
                | What::Mark { name, .. } => *name != 0,
                What::Printed { bytes } => *bytes != 0,
                What::Slept { ns } | What::Ahead { ns } => *ns != 0,
                What::Frame { frame, .. } => frame.is_sound(),
                What::Object { name, .. } => name.len() <= MAX_TEXT_BYTES,
                _ => true,
            }
    }

    #[inline]
    fn put(&self, event: &Event, out: &mut Vec<u8>) {
        let is_elsewhere = event.vcpu != self.vcpu;
        out.push(event.what.code() | if is_elsewhere { VCPU } else { 0 });
        if is_elsewhere {
            event.vcpu.put(out);
        }
        (event.at_insns - self.at_insns(event.vcpu)).put(out);
        event.what.put_fields(self, out);
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Event, Malformed> {
        let malformed = reader.malformed();
        let first = reader.byte()?;
        let vcpu = if first & VCPU == 0 { self.vcpu } else { u32::read(reader)? };
        if first & !USED != 0 || (first & VCPU != 0 && vcpu == self.vcpu) {
            return Err(malformed);
        }
        let at_insns = self.at_insns(vcpu).checked_add(reader.varint()?).ok_or(malformed)?;
        Ok(Event { vcpu, at_insns, what: What::read_fields(first & KIND, self, reader)? })
    }

    #[inline]
    fn note(&mut self, event: &Event) {
        let index = event.vcpu as usize;
        if self.at_insns.len() <= index {
            self.at_insns.resize(index + 1, 0);
        }
        self.at_insns[index] = event.at_insns;
        self.vcpu = event.vcpu;
        match event.what {
            What::Object { .. } => self.objects += 1,
            What::Stack { sp } => self.sp = sp,
            _ => {}
        }
    }
}

record! {
    /// Request for the timeline.
    pub struct Wanted {
        /// First addresses of the functions whose calls are among the events, sorted.
        functions: Vec<u64>,
        /// Layout of the kernel's data that show why a task does not execute, if known.
        waits: Option<Waits>,
    }
}

record! {
    /// Layout of the kernel's data that tell why a task does not execute. No field is specific to one kernel.
    pub enum Waits {
        /// The lists that a control block is in tell.
        0 = Lists(lists: Lists),
        /// A member of the control block tells.
        1 = States(states: States),
    }
}

record! {
    /// Layout of control blocks that are in lists, each of which stands for a state.
    pub struct Lists {
        /// Offset, in a control block, of the pointer to the list that stands for the task's state.
        state: u64,
        /// Offset, in a control block, of the pointer to the list of tasks that wait for the same object.
        event: Option<u64>,
        /// Offset and size of the value of the task's item in that list: its order in the list, or, for an event group,
        /// flags in high bits.
        event_value: Option<(u64, u64)>,
        /// Lists, by address, and the state of the tasks in each.
        lists: Vec<(u64, State)>,
        /// Offset and number of bytes in a control block; one of these bytes is 1 while the task waits for a
        /// notification.
        notification: Option<(u64, u64)>,
        /// Layout of the objects that tasks wait for.
        objects: Option<Objects>,
    }
}

record! {
    /// Layout of control blocks that have a member for the state, and one for the object that the task waits for.
    pub struct States {
        /// Offsets, in a control block, of the state.
        state: Range<u64>,
        /// Values of the state. The first that fits counts.
        values: Vec<StateValue>,
        /// Offset, in a control block, of the pointer to what the task waits for: an object, or a list in one.
        object: Option<u64>,
        /// Offset, in a control block, of a pointer that is not null while a time limit runs: a suspended task is then
        /// a delayed one.
        time_limit: Option<u64>,
        /// Objects in variables, sorted and apart.
        known: Vec<KnownObject>,
        /// Members of objects, by their kind.
        kinds: Vec<ObjectMembers>,
    }
}

record! {
    /// Value of a state, and its meaning.
    #[derive(Copy)]
    pub struct StateValue {
        /// Bits of the state that are compared.
        mask: u64,
        /// Value of these bits.
        value: u64,
        /// State of a task with that value.
        state: State,
    }
}

record! {
    /// Object in a variable.
    pub struct KnownObject {
        /// Addresses of the object.
        at: Range<u64>,
        /// Kind of the object.
        kind: ObjectKind,
    }
}

record! {
    /// Members of the objects of one kind.
    pub struct ObjectMembers {
        /// Kind of these objects.
        kind: ObjectKind,
        /// Offset of the pointer to the object's name.
        name: Option<u64>,
        /// Offsets, in a queue, of its number of items: tasks wait for an item while it is 0, and else for room.
        items: Option<Range<u64>>,
    }
}

record! {
    /// State of a task.
    #[derive(Copy)]
    pub enum State {
        /// The task could execute.
        0 = Ready,
        /// The task waits for a time.
        1 = Delayed,
        /// The task waits without a time limit.
        2 = Suspended,
        /// The task is deleted.
        3 = Deleted,
        /// The task waits for an object of this kind.
        4 = Waiting {
            /// Kind of the object.
            kind: ObjectKind,
        },
    }
}

record! {
    /// Layout of the objects that tasks wait for: offsets, and marks that distinguish objects from other memory.
    #[derive(Copy)]
    pub struct Objects {
        /// Offset, in a list, of the item that ends it; all bits of the item's first bytes are set.
        end: u64,
        /// Number of those first bytes.
        end_bytes: u64,
        /// Offset, in a queue, of the list of tasks that wait for room.
        room: u64,
        /// Offset, in a queue, of the list of tasks that wait for an item.
        item: u64,
        /// Offset of the queue's length, as wide as a pointer and not 0.
        length: u64,
        /// Offset of an item's size, as wide as a pointer. Size 0: the object is a semaphore, or a mutex, whose first
        /// word is 0.
        item_size: u64,
        /// Table of queue names: its address and number of entries. An entry is a pointer to a name and one to the
        /// queue.
        registry: Option<(u64, u64)>,
    }
}

impl Wanted {
    /// Whether every field is within its limits.
    pub(crate) fn is_meant(&self) -> bool {
        self.functions.is_sorted_by(|one, next| one < next) && self.waits.iter().all(Waits::is_meant)
    }
}

impl Waits {
    fn is_meant(&self) -> bool {
        match self {
            Waits::Lists(lists) => lists.is_meant(),
            Waits::States(states) => states.is_meant(),
        }
    }
}

impl States {
    /// State of a task by the value of its control block's member; None: the value is not known.
    pub fn state(&self, value: u64) -> Option<State> {
        self.values.iter().find(|known| value & known.mask == known.value).map(|known| known.state)
    }

    /// Object in a variable that holds an address.
    pub fn known(&self, address: u64) -> Option<&KnownObject> {
        let after = self.known.partition_point(|known| known.at.start <= address);
        self.known[..after].last().filter(|known| known.at.contains(&address))
    }

    /// Members of the objects of a kind.
    pub fn members(&self, kind: ObjectKind) -> Option<&ObjectMembers> {
        self.kinds.iter().find(|members| members.kind == kind)
    }

    fn is_meant(&self) -> bool {
        let is_word = |at: &Range<u64>| {
            at.end < MAX_OFFSET_BYTES && at.end.checked_sub(at.start).is_some_and(|bytes| (1..=8).contains(&bytes))
        };
        let mut offsets = self.object.iter().chain(&self.time_limit).chain(self.kinds.iter().flat_map(|of| &of.name));
        is_word(&self.state)
            && offsets.all(|&offset| offset < MAX_OFFSET_BYTES)
            && self.kinds.iter().flat_map(|of| &of.items).all(is_word)
            && self.known.iter().all(|known| known.at.start < known.at.end)
            && self.known.is_sorted_by(|one, next| one.at.end <= next.at.start)
    }
}

impl Lists {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::promises;

    fn event(at_insns: u64, what: What) -> Event {
        Event { vcpu: 0, at_insns, what }
    }

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
            event(0, 1001, What::Pin { port: 0x4002_0000, pin: 5, is_high: true, is_output: false }),
            event(0, 1003, What::Ahead { ns: 300 }),
            event(
                0,
                1004,
                What::Frame { port: 0x4000_6400, is_sent: true, frame: Frame::parse("123#1122").unwrap() },
            ),
        ]
    }

    #[test]
    fn events_survive_the_wire_and_no_cut_or_flipped_bit_goes_unseen() {
        promises::hold::<Events>(&events());
        let whys = [
            Why::Unknown,
            Why::First,
            Why::Preempted,
            Why::Yielded,
            Why::Delayed,
            Why::Notification,
            Why::Suspended,
            Why::Deleted,
            Why::Polled,
        ];
        promises::hold::<Events>(&whys.map(|why| event(7, What::Switched { task: 2, why })));
        let lives = [Life::Spawned, Life::Woken, Life::Finished, Life::Unready];
        promises::hold::<Events>(&lives.map(|change| event(7, What::Lives { task: 2, change })));
    }

    #[test]
    fn ten_million_events_are_less_than_a_hundred_megabytes() {
        let pairs: Vec<_> = (0..1000)
            .flat_map(|n| [event(n * 2000, What::Begun { name: 2 }), event(n * 2000 + 900, What::Ended { name: 2 })])
            .collect();
        assert!(promises::encode::<Events>(&pairs).len() <= 4 * pairs.len());
    }

    #[test]
    fn what_cannot_be_meant_is_refused_when_written_and_when_read() {
        let blocked = What::Switched { task: 1, why: Why::Blocked { object: 1 } };
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        let object = What::Object { address: 0, kind: ObjectKind::Mutex, whole: 0, name: long };
        let elsewhere = Event { vcpu: MAX_VCPUS, ..event(11, What::Waits) };
        let mut bad = vec![event(11, blocked), event(11, object), elsewhere];
        bad.extend(
            [
                What::Begun { name: 0 },
                What::Ended { name: 0 },
                What::Abandoned { name: 0 },
                What::Phase { name: 0 },
                What::Mark { name: 0, value: 1 },
                What::Printed { bytes: 0 },
                What::Slept { ns: 0 },
                What::Ahead { ns: 0 },
                What::Frame { port: 0, is_sent: true, frame: Frame { length: 9, ..Frame::default() } },
            ]
            .map(|what| event(10, what)),
        );
        promises::refuse::<Events>(&[event(10, What::Waits)], &bad);
        let mut encoder = Encoder::default();
        let mut out = Vec::new();
        encoder.put(&event(10, What::Waits), &mut out).unwrap();
        assert!(encoder.put(&event(9, What::Waits), &mut out).is_err(), "time has gone back");
        let waits = What::Waits.code();
        for bad in [&[0x40 | waits, 1][..], &[22, 1], &[VCPU | waits, 0, 1]] {
            assert!(Decoder::new(bad).next().unwrap().is_err(), "{bad:?}");
        }
    }

    /// Profiles are saved in these bytes.
    #[test]
    fn events_of_saved_profiles_stay_readable() {
        promises::stay::<Events>(
            &events(),
            "0000010101051e01000f2d0103220004100180828080020200076772c3b6c39f650000ffffffff0f0501030a01070003ffffffff\
             ffffffffff01070103010509020401010609040801000801ac020a01ac020901000b060c0c0105120480c08080041105a0843d12\
             00ff01120081be8080041100ffffffffffffffffff012e02ffffffffffffffffff010f003301063402002000ac0700081501808088800405010019\
             02ac021b0180c881800401a3020000029144",
        );
    }
}
