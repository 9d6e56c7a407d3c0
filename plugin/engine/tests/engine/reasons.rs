// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the timeline says why each task stops, by the kernel's own data, for both ways in which kernels keep
//! them: lists that a control block is in, and a state in the control block.

use engine::follow::context::{Active, Core, Path};
use engine::follow::open_zones::Nest;
use engine::follow::task::Tasks;
use engine::guest::{Guest, PENDSV};
use engine::ledger::Ledger;
use wire::request::Measure;
use wire::stream::StreamFile;
use wire::timeline::{
    Decoder, KnownObject, Life, Lists, ObjectKind, ObjectMembers, Objects, State, StateValue, States, Waits, Wanted,
    What, Why,
};

use crate::fake::{Books, Fake, guest, kernel, ledger, riscv_request};

const MEMORY: u64 = 0x8020_0000;
const CURRENT: u64 = MEMORY + 0xf00;
/// Control blocks of the task that stops and of the next one.
const TASK: u64 = MEMORY;
const NEXT: u64 = MEMORY + 0x40;
const QUEUE: u64 = MEMORY + 0x100;
const NAME: u64 = MEMORY + 0x200;
const REGISTRY: u64 = MEMORY + 0x300;

/// Number of an interrupt, and of an environment call.
const INTERRUPT: u64 = 1 << 63 | 7;
const ECALL: u64 = 11;

struct Kernel {
    tasks: Tasks,
    core: Core,
    guest: Guest<Fake>,
    ledger: Ledger<Books>,
}

impl Kernel {
    /// A kernel that executes its first task.
    fn new(waits: Waits) -> Kernel {
        let timeline = Some(Wanted { functions: Vec::new(), waits: Some(waits) });
        let mut kernel = kernel(CURRENT);
        kernel.delete = Some(0x8000_1000);
        kernel.is_first_running = true;
        let request = riscv_request(Measure { kernel: Some(kernel), timeline, ..Measure::default() });
        let mut fake = Fake::riscv(0x8000_0100);
        fake.set("a0", 0);
        fake.memory = vec![(MEMORY, vec![0; 0x1000])];
        let (guest, mut ledger) = (guest(&request, fake), ledger(1));
        ledger.open_timeline();
        let tasks = Tasks::new(&request, 1).unwrap();
        let mut kernel = Kernel { tasks, core: Core::new(0, false), guest, ledger };
        kernel.switch_to(TASK);
        kernel
    }

    fn store(&mut self, stores: &[(u64, u64)]) {
        stores.iter().for_each(|&(address, word)| self.guest.registers().unwrap().store(address, word));
    }

    fn switch_to(&mut self, tcb: u64) {
        self.store(&[(CURRENT, tcb)]);
        self.tasks.switch(&mut self.core, None, &mut self.guest, &mut self.ledger);
    }

    /// Executes a handler from now on.
    fn enter(&mut self, number: u64) {
        self.core.exceptions.push(Active {
            number,
            handler: 0x8000_0100,
            entry_sp: 0,
            interrupted: None,
            began_at: 0,
            path: Path::default(),
            nest: Nest::default(),
            node: 0,
            is_preempted: false,
        });
    }

    fn text(&mut self, address: u64, text: &[u8]) {
        for (address, bytes) in (address..).step_by(4).zip(text.chunks(4)) {
            let word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            self.store(&[(address, word)]);
        }
    }

    fn events(&self) -> Vec<What> {
        let events = Decoder::new(self.ledger.records().stream(StreamFile::Timeline));
        events.map(|event| event.unwrap().what).collect()
    }

    /// Reason why the first task stops now.
    fn why(&mut self) -> Why {
        self.switch_to(NEXT);
        match self.events().pop() {
            Some(What::Switched { task: 2, why }) => why,
            other => panic!("{other:?}"),
        }
    }

    /// The object that it stops for.
    fn object(&mut self) -> (u64, ObjectKind, u64, String) {
        assert_eq!(self.why(), Why::Blocked { object: 1 });
        let events = self.events();
        match &events[events.len() - 2] {
            What::Object { address, kind, whole, name } => (*address, *kind, *whole, name.clone()),
            other => panic!("{other:?}"),
        }
    }
}

const READY: u64 = MEMORY + 0x80;
const DELAYED: u64 = MEMORY + 0x84;
const SUSPENDED: u64 = MEMORY + 0x88;
const DELETED: u64 = MEMORY + 0x8c;
const ROOM: u64 = 8;
const ITEM: u64 = 0x20;

fn lists() -> Lists {
    Lists {
        state: 0,
        event: Some(4),
        event_value: Some((8, 4)),
        lists: vec![
            (READY, State::Ready),
            (DELAYED, State::Delayed),
            (SUSPENDED, State::Suspended),
            (DELETED, State::Deleted),
        ],
        notification: Some((12, 4)),
        objects: Some(Objects {
            end: 8,
            end_bytes: 4,
            room: ROOM,
            item: ITEM,
            length: 0x40,
            item_size: 0x44,
            registry: Some((REGISTRY, 2)),
        }),
    }
}

fn by_lists() -> Kernel {
    Kernel::new(Waits::Lists(lists()))
}

#[test]
fn list_of_a_task_says_why_it_stops() {
    for (list, why) in [
        (READY, Why::Yielded),
        (DELAYED, Why::Delayed),
        (SUSPENDED, Why::Suspended),
        (DELETED, Why::Deleted),
        (0x1234, Why::Unknown),
    ] {
        let mut kernel = by_lists();
        assert_eq!(kernel.events(), [What::Switched { task: 1, why: Why::First }]);
        kernel.store(&[(TASK, list)]);
        assert_eq!(kernel.why(), why);
    }
    // One of its bytes says that it waits for a notification.
    for (bytes, why) in [(0x0001_0000, Why::Notification), (0x0002_0000, Why::Delayed)] {
        let mut kernel = by_lists();
        kernel.store(&[(TASK, DELAYED), (TASK + 12, bytes)]);
        assert_eq!(kernel.why(), why);
    }
    // Without the list of what it waits for, a task in such a list may wait for anything.
    let mut kernel = Kernel::new(Waits::Lists(Lists { event: None, ..lists() }));
    kernel.store(&[(TASK, SUSPENDED)]);
    assert_eq!(kernel.why(), Why::Unknown);
}

#[test]
fn ready_task_is_preempted_by_an_interrupt_and_yields_by_itself() {
    for (number, why) in [(Some(INTERRUPT), Why::Preempted), (Some(ECALL), Why::Yielded), (Some(2), Why::Unknown)] {
        let mut kernel = by_lists();
        kernel.store(&[(TASK, READY)]);
        number.into_iter().for_each(|number| kernel.enter(number));
        assert_eq!(kernel.why(), why, "{number:?}");
    }
    // PendSV switches for who asked first: the task, or an interrupt above it.
    let pend = |by_interrupt: bool, is_canceled: bool, asks: bool| {
        let mut kernel = by_lists();
        kernel.store(&[(TASK, READY)]);
        if by_interrupt {
            kernel.enter(20);
        }
        if asks {
            kernel.tasks.pend(&kernel.core, true);
        }
        if is_canceled {
            kernel.tasks.pend(&kernel.core, false);
        }
        kernel.core.exceptions.clear();
        kernel.enter(PENDSV);
        if asks {
            // Another request does not change who was first.
            kernel.tasks.pend(&kernel.core, !is_canceled);
        }
        kernel.why()
    };
    assert_eq!([pend(false, false, true), pend(true, false, true)], [Why::Yielded, Why::Preempted]);
    assert_eq!([pend(false, true, true), pend(false, false, false)], [Why::Unknown, Why::Unknown]);
}

#[test]
fn deleted_task_was_deleted_whatever_its_list_is() {
    let mut kernel = by_lists();
    kernel.store(&[(TASK, READY)]);
    assert!(kernel.tasks.deletes_at(0x8000_1000) && !kernel.tasks.deletes_at(0x8000_1002));
    kernel.tasks.delete(0x8000_1000, 0, &mut kernel.guest, &mut kernel.ledger);
    assert_eq!(kernel.why(), Why::Deleted);
    // The next task at its address is another one.
    kernel.switch_to(TASK);
    assert!(matches!(kernel.events().last(), Some(What::Switched { task: 3, .. })));
    // A handle names a task that does not run.
    kernel.guest.registers().unwrap().set("a0", NEXT);
    kernel.tasks.delete(0x8000_1000, 0, &mut kernel.guest, &mut kernel.ledger);
    kernel.switch_to(NEXT);
    assert!(matches!(kernel.events().last(), Some(What::Switched { task: 4, .. })));
}

/// Words of a queue of which nobody waits: its two lists, its length and its items' size.
fn queue(kind: u64, item_bytes: u64) -> Vec<(u64, u64)> {
    let list = |at: u64| [(at, 0), (at + 4, at + 8), (at + 8, 0xffff_ffff)];
    let mut words = vec![(QUEUE, kind), (QUEUE + 0x40, 5), (QUEUE + 0x44, item_bytes)];
    words.extend([list(QUEUE + ROOM), list(QUEUE + ITEM)].concat());
    words
}

#[test]
fn queue_is_recognised_by_its_other_list() {
    for (first_word, item_bytes, list, kind) in [
        (0, 0, ITEM, ObjectKind::Mutex),
        (QUEUE, 0, ITEM, ObjectKind::Semaphore),
        (QUEUE, 8, ITEM, ObjectKind::QueueItem),
        (QUEUE, 8, ROOM, ObjectKind::QueueRoom),
    ] {
        let mut kernel = by_lists();
        kernel.text(NAME, b"inbox\n");
        // The registry's second entry; the first one is another queue's.
        kernel.store(&[(REGISTRY, NAME), (REGISTRY + 4, 1), (REGISTRY + 8, NAME), (REGISTRY + 12, QUEUE)]);
        kernel.store(&queue(first_word, item_bytes));
        // The task is in the list that it waits in.
        kernel.store(&[(QUEUE + list, 1), (TASK, DELAYED), (TASK + 4, QUEUE + list)]);
        assert_eq!(kernel.object(), (QUEUE + list, kind, QUEUE, "inbox?".to_owned()));
    }
    // Other memory is not a queue: a list with tasks on both sides, one without an end, one without a length.
    for (address, word) in [(QUEUE + ROOM, 1), (QUEUE + ROOM + 4, 0), (QUEUE + ROOM + 8, 1), (QUEUE + 0x40, 0)] {
        let mut kernel = by_lists();
        kernel.store(&queue(QUEUE, 8));
        kernel.store(&[(QUEUE + ITEM, 1), (address, word), (TASK, DELAYED), (TASK + 4, QUEUE + ITEM)]);
        assert_eq!(kernel.object(), (QUEUE + ITEM, ObjectKind::Unknown, 0, String::new()));
    }
    // Flags in the order of the list belong to an event group.
    let mut kernel = by_lists();
    kernel.store(&[(TASK, SUSPENDED), (TASK + 4, QUEUE), (TASK + 8, 1 << 15)]);
    assert_eq!(kernel.object(), (QUEUE, ObjectKind::EventGroup, 0, String::new()));
    // Without a layout of objects, the list alone is known.
    let mut kernel = Kernel::new(Waits::Lists(Lists { objects: None, ..lists() }));
    kernel.store(&[(TASK, DELAYED), (TASK + 4, QUEUE)]);
    assert_eq!(kernel.object(), (QUEUE, ObjectKind::Unknown, 0, String::new()));
}

#[test]
fn object_has_one_number_until_the_window_opens() {
    let mut kernel = by_lists();
    kernel.store(&[(TASK, DELAYED), (TASK + 4, QUEUE), (NEXT, DELAYED), (NEXT + 4, QUEUE + 4)]);
    assert_eq!(kernel.why(), Why::Blocked { object: 1 });
    kernel.switch_to(TASK);
    assert_eq!(kernel.events().pop(), Some(What::Switched { task: 1, why: Why::Blocked { object: 2 } }));
    assert_eq!(kernel.why(), Why::Blocked { object: 1 });
    let count = |kernel: &Kernel| kernel.events().iter().filter(|what| matches!(what, What::Object { .. })).count();
    assert_eq!(count(&kernel), 2);
    kernel.tasks.restart(&kernel.ledger);
    kernel.switch_to(TASK);
    assert_eq!(kernel.events().pop(), Some(What::Switched { task: 1, why: Why::Blocked { object: 1 } }));
    assert_eq!(count(&kernel), 3);
}

fn states() -> States {
    let value = |value, state| StateValue { mask: 0xff, value, state };
    let members = |kind, items| ObjectMembers { kind, name: Some(8), items };
    States {
        state: 0..2,
        values: vec![
            value(0, State::Ready),
            value(1, State::Delayed),
            value(2, State::Suspended),
            value(3, State::Deleted),
            value(4, State::Waiting { kind: ObjectKind::Semaphore }),
            value(5, State::Waiting { kind: ObjectKind::Queue }),
            value(6, State::Waiting { kind: ObjectKind::Unknown }),
        ],
        object: Some(4),
        time_limit: Some(12),
        known: vec![KnownObject { at: QUEUE..QUEUE + 0x20, kind: ObjectKind::Mutex }],
        kinds: vec![members(ObjectKind::Queue, Some(12..14)), members(ObjectKind::Mutex, None)],
    }
}

fn by_states() -> Kernel {
    Kernel::new(Waits::States(states()))
}

#[test]
fn state_of_a_task_says_why_it_stops() {
    // Other bits than the mask's do not matter.
    for (state, limit, why) in [
        (0x100, 0, Why::Yielded),
        (1, 0, Why::Delayed),
        (2, 0, Why::Suspended),
        (2, 1, Why::Delayed),
        (3, 0, Why::Deleted),
        (9, 0, Why::Unknown),
    ] {
        let mut kernel = by_states();
        kernel.store(&[(TASK, state), (TASK + 12, limit)]);
        assert_eq!(kernel.why(), why, "{state}");
    }
}

#[test]
fn state_leads_to_the_object_with_its_kind_and_name() {
    // State, pointer, and number of items, with the kind and the whole object.
    for (state, pointer, items, kind, whole) in [
        (4, QUEUE, 0, ObjectKind::Semaphore, QUEUE),
        (5, QUEUE, 0, ObjectKind::QueueItem, QUEUE),
        (5, QUEUE, 3, ObjectKind::QueueRoom, QUEUE),
        (6, QUEUE + 0x1c, 0, ObjectKind::Mutex, QUEUE),
        (6, QUEUE + 0x20, 0, ObjectKind::Unknown, 0),
        (5, 0, 0, ObjectKind::Queue, 0),
    ] {
        let mut kernel = by_states();
        kernel.text(NAME, b"lock");
        kernel.store(&[(TASK, state), (TASK + 4, pointer), (QUEUE + 8, NAME), (QUEUE + 12, items)]);
        // Members of semaphores are not described.
        let is_named = whole != 0 && kind != ObjectKind::Semaphore;
        let name = if is_named { "lock" } else { "" };
        assert_eq!(kernel.object(), (pointer, kind, whole, name.to_owned()), "{state} {pointer:x}");
    }
    // A name is cut at the greatest length of texts, and an object may have none.
    let mut kernel = by_states();
    kernel.text(NAME, "é".repeat(200).as_bytes());
    kernel.store(&[(TASK, 6), (TASK + 4, QUEUE), (QUEUE + 8, NAME)]);
    let name = kernel.object().3;
    assert!(name.len() <= wire::definition::MAX_TEXT_BYTES && name.starts_with("éé"), "{name}");
    let mut kernel = by_states();
    kernel.store(&[(TASK, 6), (TASK + 4, QUEUE)]);
    assert_eq!(kernel.object().3, "");
}

/// A change that the timeline tells of a task which does not execute.
fn lives(task: u32, change: Life) -> What {
    What::Lives { task, change }
}

#[test]
fn task_that_waits_is_woken_once_and_one_that_is_suspended_meanwhile_is_no_longer_ready() {
    let mut kernel = by_lists();
    kernel.store(&[(TASK, DELAYED)]);
    assert_eq!(kernel.why(), Why::Delayed);
    let mut look = |list: u64| {
        kernel.store(&[(TASK, list)]);
        let before = kernel.events().len();
        (0..2).for_each(|_| kernel.tasks.look(0, &mut kernel.guest, &mut kernel.ledger));
        kernel.events().split_off(before)
    };
    assert_eq!(look(DELAYED), []);
    assert_eq!(look(READY), [lives(1, Life::Woken)]);
    // A list that is not known, as while the kernel moves the task, says nothing.
    assert_eq!(look(0x1234), []);
    assert_eq!(look(SUSPENDED), [lives(1, Life::Unready)]);
    assert_eq!(look(READY), [lives(1, Life::Woken)]);
    // The one that executes is looked at no more, and the one that stopped is.
    kernel.switch_to(TASK);
    kernel.store(&[(TASK, DELAYED), (NEXT, SUSPENDED)]);
    let before = kernel.events().len();
    kernel.tasks.look(0, &mut kernel.guest, &mut kernel.ledger);
    assert_eq!(kernel.events().split_off(before), [lives(2, Life::Unready)]);
    // Another task deletes it.
    kernel.guest.registers().unwrap().set("a0", NEXT);
    kernel.tasks.delete(0x8000_1000, 0, &mut kernel.guest, &mut kernel.ledger);
    assert_eq!(kernel.events().split_off(before + 1), [lives(2, Life::Finished)]);
}

#[test]
fn timeline_begins_with_the_readiness_of_all_that_do_not_execute() {
    for (list, change) in [(READY, Life::Woken), (DELAYED, Life::Unready)] {
        let mut kernel = by_lists();
        kernel.store(&[(TASK, list)]);
        kernel.why();
        let before = kernel.events().len();
        kernel.tasks.open_timeline(&mut kernel.ledger);
        assert_eq!(kernel.events().split_off(before), [lives(1, change)]);
    }
}
