// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promises of the firmware's own events at their edges: marks and phases, ends of scopes, and zones that are left;
//! of calls of functions with loops, and of what is printed.

use std::fs;

use engine::calls::Calls;
use engine::code::Code;
use engine::console::Console;
use engine::follow::context::Core;
use engine::follow::zone::{Happened, Zones};
use engine::guest::Guest;
use engine::ledger::Ledger;
use engine::marks::printed;
use wire::counters::CLOCK;
use wire::definition::Definition;
use wire::request::{Isa, Measure, Poll, Request};
use wire::stream::StreamFile;
use wire::timeline::{Decoder, Wanted, What};
use wire::zone::{Call, Event, EventKind, MarkCounter, Row, ZoneCounter};

use crate::fake::{Books, Fake, guest, ledger, request};
use crate::shadow::exception;

const FUNCTION: u64 = 0x1000;
const OTHER: u64 = 0x1100;

struct Run {
    guest: Guest<Fake>,
    code: Code,
    ledger: Ledger<Books>,
    zones: Zones,
    cores: Vec<Core>,
}

impl Run {
    /// A run with these events at consecutive addresses of a function, or of another one.
    fn new(events: &[(u64, EventKind, u32)], measure: Measure) -> Run {
        let events = events.iter().map(|&(address, kind, name)| Event { address, kind, name }).collect();
        let functions = vec![FUNCTION..OTHER, OTHER..OTHER + 0x100];
        let request = request(Isa::Riscv32, None, Measure { events, functions, ..measure });
        let mut fake = Fake::default();
        ["sp", "a0"].into_iter().for_each(|name| fake.set(name, 0));
        Run {
            guest: guest(&request, fake),
            code: Code::new(&request),
            ledger: ledger(2),
            zones: Zones::new(&request).unwrap(),
            cores: vec![Core::new(0, true), Core::new(1, true)],
        }
    }

    fn at(&mut self, pc: u64, sp: u64) -> Option<Happened> {
        self.on(0, pc, sp)
    }

    fn on(&mut self, vcpu: u32, pc: u64, sp: u64) -> Option<Happened> {
        assert!(self.zones.is_event(pc));
        self.guest.registers().unwrap().set("sp", sp);
        self.ledger.add(CLOCK, vcpu, 10);
        let Run { guest, code, ledger, zones, cores } = self;
        zones.at(cores, vcpu, pc, guest, code, ledger)
    }

    fn row(&self, wanted: &Row) -> u32 {
        let slot = self.ledger.records().definitions().into_iter().find_map(|definition| match definition {
            Definition::Row { slot, row } if row == *wanted => Some(slot),
            _ => None,
        });
        slot.unwrap()
    }

    fn zone(&self, name: u32, counter: ZoneCounter) -> u64 {
        let context = Core::new(0, true).zone_context();
        self.ledger.get(self.row(&Row::Zone { name, context }) + counter as u32, 0)
    }
}

#[test]
fn mark_keeps_its_extremes_and_its_last_value() {
    let kind = EventKind::Register { register: 10 };
    let mut run = Run::new(&[(FUNCTION, kind, 1), (OTHER, EventKind::Constant { value: -7 }, 2)], Measure::default());
    let values = [5, -3, 1000, -2];
    for value in values {
        run.guest.registers().unwrap().set("a0", value as u32 as u64);
        assert_eq!(run.at(FUNCTION, 0), Some(Happened::Mark { name: 1, value: value.into() }));
    }
    assert_eq!(run.on(1, OTHER, 0), Some(Happened::Mark { name: 2, value: -7 }));
    let slot = run.row(&Row::Mark { name: 1 });
    let get = |counter: MarkCounter| run.ledger.get(slot + counter as u32, 0);
    assert_eq!((get(MarkCounter::Count), get(MarkCounter::Sum) as i64), (4, 1000));
    let value = |above_lowest: u64| (above_lowest ^ 1 << 63) as i64;
    assert_eq!((value(get(MarkCounter::Max)), value(!get(MarkCounter::MinComplement))), (1000, -3));
    // The last value is everybody's.
    assert_eq!([0, 1].map(|vcpu| run.ledger.get(slot + MarkCounter::Last as u32, vcpu) as i64), [-2, -2]);
    let slot = run.row(&Row::Mark { name: 2 });
    assert_eq!([0, 1].map(|vcpu| run.ledger.get(slot + MarkCounter::Count as u32, vcpu)), [0, 1]);
}

#[test]
fn phase_begins_and_bytes_are_a_value() {
    let bytes = EventKind::Bytes { register: 10, bytes: 1, is_signed: true };
    let mut run = Run::new(&[(FUNCTION, EventKind::Phase, 3), (OTHER, bytes, 4)], Measure::default());
    assert_eq!(run.at(FUNCTION, 0), Some(Happened::Phase { name: 3 }));
    run.guest.registers().unwrap().set("a0", 0x1ff);
    assert_eq!(run.at(OTHER, 0), Some(Happened::Mark { name: 4, value: -1 }));
}

const ENTER: u64 = FUNCTION;
const LEAVE: u64 = FUNCTION + 4;
const LEAVE_ANY: u64 = FUNCTION + 8;
const OTHERS_LEAVE: u64 = OTHER + 4;
const BEGIN: u64 = FUNCTION + 12;
const END: u64 = FUNCTION + 16;
const OTHERS_ENTER: u64 = OTHER;

fn scopes() -> Run {
    let events = [
        (ENTER, EventKind::Enter { scope: 7 }, 1),
        (LEAVE, EventKind::Leave { scope: 7 }, 1),
        (LEAVE_ANY, EventKind::Leave { scope: 0 }, 0),
        (BEGIN, EventKind::Begin, 2),
        (END, EventKind::End, 2),
        (OTHERS_ENTER, EventKind::Enter { scope: 8 }, 3),
        (OTHERS_LEAVE, EventKind::Leave { scope: 8 }, 0),
    ];
    Run::new(&events, Measure::default())
}

#[test]
fn scope_ends_at_its_own_end() {
    // The same scope in two calls of a recursive function: each ends its own.
    let mut run = scopes();
    run.at(ENTER, 0x200);
    run.at(ENTER, 0x100);
    assert_eq!(run.at(LEAVE, 0x100), Some(Happened::Ended { name: 1 }));
    assert_eq!(run.at(LEAVE, 0x200), Some(Happened::Ended { name: 1 }));
    assert_eq!((run.zone(1, ZoneCounter::Count), run.zone(1, ZoneCounter::Recursive)), (2, 1));
    // The inner one took 10 instructions, and the outer one 30; those of both count once.
    assert_eq!((run.zone(1, ZoneCounter::Sum), run.zone(1, ZoneCounter::Total)), (40, 30));
    // An exception has led out of the inner call.
    run.at(ENTER, 0x200);
    run.at(ENTER, 0x100);
    assert_eq!(run.at(LEAVE, 0x200), Some(Happened::Ended { name: 1 }));
    assert_eq!(run.zone(1, ZoneCounter::Left), 1);
    // An end without a name is that of a zone of the same function.
    run.at(ENTER, 0x200);
    run.at(OTHERS_ENTER, 0x100);
    assert_eq!(run.at(LEAVE_ANY, 0x200), Some(Happened::Ended { name: 1 }));
    assert_eq!(run.at(LEAVE_ANY, 0x200), None);
    // One with a number alone ends that scope.
    run.at(OTHERS_ENTER, 0x100);
    assert_eq!(run.at(OTHERS_LEAVE, 0x100), Some(Happened::Ended { name: 3 }));
    // Neither ends a zone that is not a scope, nor does its end end a scope.
    run.at(BEGIN, 0x200);
    assert_eq!((run.at(LEAVE_ANY, 0x200), run.at(LEAVE, 0x200)), (None, None));
    assert_eq!(run.at(END, 0x200), Some(Happened::Ended { name: 2 }));
    run.at(ENTER, 0x200);
    assert_eq!(run.at(END, 0x200), None);
    assert_eq!((run.zone(2, ZoneCounter::Orphans), run.zone(1, ZoneCounter::Orphans)), (1, 1));
}

#[test]
fn zone_whose_code_begins_again_was_left() {
    let mut run = scopes();
    run.at(BEGIN, 0x200);
    run.at(BEGIN, 0x200);
    assert_eq!(run.zone(2, ZoneCounter::Left), 1);
    // A deeper one is within it.
    run.at(BEGIN, 0x100);
    assert_eq!((run.zone(2, ZoneCounter::Left), run.zone(2, ZoneCounter::Open)), (1, 2));
    // A scope of a function whose frame is gone has ended without an event.
    let mut run = scopes();
    run.at(ENTER, 0x100);
    run.at(OTHERS_ENTER, 0x200);
    assert_eq!(run.zone(1, ZoneCounter::Left), 1);
    run.at(OTHERS_LEAVE, 0x200);
    // One of the same function goes on: it may have moved its stack.
    run.at(ENTER, 0x100);
    run.at(BEGIN, 0x200);
    assert_eq!(run.zone(1, ZoneCounter::Left), 1);
}

#[test]
fn end_in_another_context_is_foreign() {
    let mut run = scopes();
    run.at(BEGIN, 0x200);
    run.cores[0].exceptions.push(exception(20, 0x100, 0));
    assert_eq!(run.at(END, 0x100), None);
    let context = run.cores[0].zone_context();
    let slot = run.row(&Row::Zone { name: 2, context });
    assert_eq!(
        [ZoneCounter::Orphans, ZoneCounter::Foreign].map(|counter| run.ledger.get(slot + counter as u32, 0)),
        [1, 1]
    );
    run.cores[0].exceptions.clear();
    assert_eq!(run.at(END, 0x200), Some(Happened::Ended { name: 2 }));
    assert_eq!((run.at(END, 0x200), run.zone(2, ZoneCounter::Foreign)), (None, 0));
}

#[test]
fn zone_has_its_cycles_and_begins_anew_with_the_window() {
    let mut run = scopes();
    run.ledger.keep_cycles();
    run.at(BEGIN, 0x200);
    run.ledger.add_cycles(0, 25);
    run.at(END, 0x200);
    run.at(BEGIN, 0x200);
    run.ledger.add_cycles(0, 15);
    run.at(END, 0x200);
    let get = |counter| run.zone(2, counter);
    assert_eq!((get(ZoneCounter::SumCycles), get(ZoneCounter::MaxCycles)), (40, 25));
    assert_eq!(!get(ZoneCounter::MinCyclesComplement), 15);
    assert_eq!(
        (get(ZoneCounter::OwnCycles), get(ZoneCounter::TotalCycles), get(ZoneCounter::ElapsedCycles)),
        (40, 40, 40)
    );
    // One that the window opens in is not counted as it ends, or as it is left.
    for ends in [true, false] {
        run.at(BEGIN, 0x200);
        run.cores[0].restart();
        let before = [ZoneCounter::Count, ZoneCounter::Left].map(|counter| run.zone(2, counter));
        if ends {
            assert_eq!(run.at(END, 0x200), Some(Happened::Ended { name: 2 }));
        } else {
            run.at(BEGIN, 0x200);
        }
        assert_eq!([ZoneCounter::Count, ZoneCounter::Left].map(|counter| run.zone(2, counter)), before);
    }
}

#[test]
fn zones_of_polled_tasks_have_no_stack_of_their_own() {
    let events = [(BEGIN, EventKind::Begin, 2), (END, EventKind::End, 2)];
    let polls = vec![Poll { entry: OTHER, name: "blink".to_owned() }];
    let mut run = Run::new(&events, Measure { polls, ..Measure::default() });
    run.cores[0].task = 1;
    run.at(BEGIN, 0x100);
    // The next poll of the task may be on any stack.
    run.at(BEGIN, 0x200);
    assert_eq!(
        (run.at(END, 0x300), run.at(END, 0x300)),
        (Some(Happened::Ended { name: 2 }), Some(Happened::Ended { name: 2 }))
    );
}

const CALLED: u64 = 0x2000;

/// Calls of one function that the timeline shows, and of one that is a zone.
fn calls() -> (Calls, Guest<Fake>, Code, Ledger<Books>, Core) {
    let wanted = Wanted { functions: vec![CALLED], waits: None };
    let zone_calls = vec![Call { entry: OTHER, name: 1, texts: Vec::new() }];
    let functions = vec![FUNCTION..OTHER, OTHER..OTHER + 0x100, CALLED..CALLED + 0x100];
    let measure = Measure { timeline: Some(wanted), zone_calls, zone_names: 1, functions, ..Measure::default() };
    let request = request(Isa::Riscv32, None, measure);
    let mut fake = Fake::default();
    ["sp", "ra", "fp", "t0"].into_iter().for_each(|name| fake.set(name, 0));
    let mut ledger = ledger(1);
    ledger.keep_calls();
    ledger.open_timeline();
    (Calls::new(&request).unwrap(), guest(&request, fake), Code::new(&request), ledger, Core::new(0, true))
}

fn events(ledger: &Ledger<Books>) -> Vec<What> {
    Decoder::new(ledger.records().stream(StreamFile::Timeline)).map(|event| event.unwrap().what).collect()
}

#[test]
fn turn_of_a_functions_loop_is_no_call() {
    let (mut calls, mut guest, code, mut ledger, core) = calls();
    assert!(calls.begins_at(CALLED) && !calls.begins_at(FUNCTION));
    let arc = ledger.define(|slot| Definition::Arc {
        slot,
        site: FUNCTION,
        target: CALLED,
        return_addr: Some(FUNCTION + 4),
        kind: wire::definition::TransferKind::Call,
    });
    let enter = |calls: &mut Calls, guest: &mut Guest<Fake>, ledger: &mut Ledger<Books>| {
        ledger.add(CLOCK, 0, 10);
        guest.registers().unwrap().set("sp", 0x100);
        guest.registers().unwrap().set("ra", FUNCTION + 4);
        calls.enter(CALLED, &core, guest, &code, ledger).zone
    };
    ledger.add(arc, 0, 1);
    enter(&mut calls, &mut guest, &mut ledger);
    // The code with the jump is translated while the call is under way.
    calls.loops_to(CALLED, &ledger);
    calls.loops_to(FUNCTION, &ledger);
    (0..3).for_each(|_| assert_eq!(enter(&mut calls, &mut guest, &mut ledger), None));
    assert_eq!(events(&ledger), [What::Called { function: 0 }]);
    // The counts say that it was called again: the first call was left.
    ledger.add(arc, 0, 1);
    enter(&mut calls, &mut guest, &mut ledger);
    assert_eq!(events(&ledger)[1..], [What::Unwound { function: 0 }, What::Called { function: 0 }]);
    // Nobody asks for functions that are not chosen.
    assert!(calls.enter(FUNCTION, &core, &mut guest, &code, &mut ledger).zone.is_none());
}

#[test]
fn call_that_is_a_zone_ends_in_the_window_too() {
    let (mut calls, mut guest, code, mut ledger, core) = calls();
    let mut enter = |pc: u64, sp: u64, calls: &mut Calls, ledger: &mut Ledger<Books>| {
        ledger.add(CLOCK, 0, 10);
        guest.registers().unwrap().set("sp", sp);
        guest.registers().unwrap().set("ra", pc + 0x10);
        calls.enter(pc, &core, &mut guest, &code, ledger).zone
    };
    assert_eq!(enter(CALLED, 0x200, &mut calls, &mut ledger), None);
    let id = enter(OTHER, 0x100, &mut calls, &mut ledger).unwrap();
    calls.restart(&ledger);
    let before = events(&ledger).len();
    guest.registers().unwrap().set("sp", 0x100);
    let over = calls.leave(OTHER + 0x10, &core, &mut guest, &mut ledger);
    assert_eq!(over.iter().map(|over| (over.id, over.has_returned)).collect::<Vec<_>>(), [(id, true)]);
    // The other one began before the window, which has no event of its end.
    guest.registers().unwrap().set("sp", 0x200);
    assert!(calls.leave(CALLED + 0x10, &core, &mut guest, &mut ledger).is_empty());
    assert_eq!(events(&ledger).len(), before);
}

#[test]
fn output_is_on_the_timeline_from_the_window_on() {
    let console = std::env::temp_dir().join(format!("engine-console-{}", std::process::id()));
    let timeline = Some(Wanted { functions: Vec::new(), waits: None });
    let console = console.to_str().unwrap().to_owned();
    let request = Request { console, ..request(Isa::Riscv32, None, Measure { timeline, ..Measure::default() }) };
    let path = printed(&request);
    assert!(Console::open(&request).is_err());
    fs::write(&path, "before").unwrap();
    let mut opened = Console::open(&request).unwrap().unwrap();
    let mut ledger = ledger(1);
    ledger.open_timeline();
    opened.restart();
    opened.look(0, &mut ledger);
    fs::write(&path, "before, and after").unwrap();
    opened.look(0, &mut ledger);
    opened.look(0, &mut ledger);
    fs::remove_file(&path).unwrap();
    assert_eq!(events(&ledger), [What::Printed { bytes: 11 }]);
    // Without a timeline nobody looks.
    let nothing = Request { purpose: wire::request::Purpose::Measure(Box::default()), ..request };
    assert!(Console::open(&nothing).unwrap().is_none());
}
