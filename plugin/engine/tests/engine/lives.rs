// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promises of an executor's tasks' lives and of calls that are zones, at their edges: a wake that one function
//! passes on to another is one, names come from memory that may end, and a zone counts what others execute in it.

use engine::code::Code;
use engine::follow::context::Core;
use engine::follow::poll::Polls;
use engine::follow::zone::{Happened, Zones};
use engine::guest::Guest;
use engine::ledger::Ledger;
use wire::counters::CLOCK;
use wire::definition::Definition;
use wire::request::{Isa, Lives, Measure, Poll, Request};
use wire::stream::StreamFile;
use wire::timeline::{Decoder, Life, What};
use wire::zone::{Call, CallText, Row, ZoneCounter};

use crate::fake::{Books, Fake, guest, ledger, request};

const POLL: u64 = 0x1000;
const WAKER: u64 = 0x2000;
const WAKE_TASK: u64 = 0x2100;
const SPAWN: u64 = 0x3000;
const TASK: u64 = 0x2000_0100;

/// A processor whose memory is these bytes from [`TASK`] on.
fn fake(bytes: &[u8]) -> Fake {
    let mut fake = Fake { memory: vec![(TASK, bytes.to_vec())], ..Fake::default() };
    ["sp", "ra", "fp", "t0", "a0", "a1"].into_iter().for_each(|name| fake.set(name, 0));
    fake
}

#[test]
fn a_wake_that_is_passed_on_is_one_and_a_second_one_is_another() {
    let lives = Lives { wakes: vec![WAKER, WAKE_TASK], spawns: vec![SPAWN], poll: Some(4), alive: Some(0) };
    let polls = vec![Poll { entry: POLL, name: "blink".into() }];
    let request = Request {
        memory: std::iter::once(TASK..TASK + 8).collect(),
        ..request(Isa::Riscv32, None, Measure { polls, lives, ..Measure::default() })
    };
    let mut bytes = vec![1, 0, 0, 0];
    bytes.extend((POLL as u32).to_le_bytes());
    let (mut guest, mut ledger) = (guest(&request, fake(&bytes)), ledger(1));
    guest.learn_memory();
    guest.read_here();
    ledger.open_timeline();
    let mut polls = Polls::new(&request, 1).unwrap();
    let mut call =
        |entry: u64, [sp, a0, a1]: [u64; 3], insns: u64, guest: &mut Guest<Fake>, ledger: &mut Ledger<Books>| {
            ledger.add(CLOCK, 0, insns);
            for (name, value) in [("sp", sp), ("a0", a0), ("a1", a1)] {
                guest.registers().unwrap().set(name, value);
            }
            polls.change(0, entry, guest, ledger);
        };
    let (guest, ledger) = (&mut guest, &mut ledger);
    // A task that was never spawned nor polled has no number.
    call(WAKER, [0x8000, TASK, 0], 1, guest, ledger);
    call(SPAWN, [0x8000, 0x5000, TASK], 100, guest, ledger);
    // Passed on at once, by a jump and by a call.
    call(WAKER, [0x8000, TASK, 0], 100, guest, ledger);
    call(WAKE_TASK, [0x8000, TASK, 0], 4, guest, ledger);
    call(WAKER, [0x8000, TASK, 0], 4, guest, ledger);
    call(WAKE_TASK, [0x7ff0, TASK, 0], 4, guest, ledger);
    // From elsewhere, from above, and much later.
    call(WAKE_TASK, [0x9000, TASK, 0], 4, guest, ledger);
    call(WAKER, [0x9000, TASK, 0], 1000, guest, ledger);
    let events = Decoder::new(ledger.records().stream(StreamFile::Timeline));
    let lives: Vec<Life> = events
        .map(|event| match event.unwrap().what {
            What::Lives { task: 1, change } => change,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lives, [Life::Spawned, Life::Woken, Life::Woken, Life::Woken, Life::Woken]);
}

#[test]
fn a_call_is_named_by_what_memory_has_and_counts_what_others_execute() {
    let text = |offsets: &[u64]| CallText { register: 10, offsets: offsets.to_vec() };
    let zone_calls = vec![Call { entry: POLL, name: 1, texts: vec![text(&[0]), text(&[4])] }];
    let measure = Measure { zone_calls, zone_names: 1, ..Measure::default() };
    let request =
        Request { memory: std::iter::once(TASK..TASK + 32).collect(), ..request(Isa::Riscv32, None, measure) };
    // Two pointers, and the texts "ab" and "c" behind them.
    let mut bytes = Vec::new();
    [TASK + 16, TASK + 19].into_iter().for_each(|address| bytes.extend((address as u32).to_le_bytes()));
    bytes.resize(16, 0);
    bytes.extend(b"ab\0c\0");
    bytes.resize(32, b'x');
    let (mut guest, mut ledger) = (guest(&request, fake(&bytes)), ledger(1));
    guest.learn_memory();
    guest.read_here();
    let (code, mut zones) = (Code::new(&request), Zones::new(&request).unwrap());
    let mut core = Core::new(0, true);
    core.task = 1;
    let mut begin = |a0: u64, id: u64, core: &mut Core, guest: &mut Guest<Fake>, ledger: &mut Ledger<Books>| {
        guest.registers().unwrap().set("sp", 0x8000 - 16 * id);
        guest.registers().unwrap().set("a0", a0);
        zones.begin_call(core, (POLL, id), guest, &code, ledger)
    };
    assert_eq!(begin(TASK, 1, &mut core, &mut guest, &mut ledger), Some(Happened::Begun { name: 2 }));
    ledger.add(CLOCK, 0, 10);
    // Another task executes, which belongs to the call's time and not to its own instructions.
    core.advance(&mut ledger);
    core.task = 2;
    ledger.add(CLOCK, 0, 100);
    core.advance(&mut ledger);
    core.task = 1;
    ledger.add(CLOCK, 0, 5);
    assert_eq!(Zones::end_call(&mut core, (1, true), &mut ledger), Some(Happened::Ended { name: 2 }));
    // A text without an end, and one where there is no memory.
    for (argument, id) in [(TASK + 24, 2), (0x10, 3)] {
        assert_eq!(begin(argument, id, &mut core, &mut guest, &mut ledger), Some(Happened::Begun { name: 1 }));
    }
    assert_eq!(Zones::end_call(&mut core, (2, false), &mut ledger), None);
    assert_eq!(Zones::end_call(&mut core, (2, true), &mut ledger), None, "it is over");
    let definitions = ledger.records().definitions();
    let names: Vec<&String> = definitions
        .iter()
        .filter_map(|definition| match definition {
            Definition::ZoneName { text } => Some(text),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["ab.c"]);
    let slot = definitions.iter().find_map(|definition| match definition {
        Definition::Row { slot, row: Row::Zone { name: 2, .. } } => Some(*slot),
        _ => None,
    });
    let of = |counter: ZoneCounter| ledger.get(slot.unwrap() + counter as u32, 0);
    let found = [ZoneCounter::Count, ZoneCounter::Sum, ZoneCounter::Elapsed].map(of);
    assert_eq!(found, [1, 15, 115]);
}
