// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a context waits from a call of waiting code to that call's return, and other contexts in between do not.
//! Calls within each other, and those that are left, are counted apart.

use engine::follow::context::Core;
use engine::follow::exception::trap_return;
use engine::follow::waiting::Waiting;
use engine::guest::Guest;
use engine::ledger::Ledger;
use wire::counters::CLOCK;
use wire::definition::Definition;
use wire::request::{Isa, Measure};
use wire::zone::{Row, WaitingCall};

use crate::fake::{Books, Fake, guest, ledger, request};
use crate::shadow::exception;

/// Two calls, of which the second follows the first.
const CALLS: [WaitingCall; 2] = [WaitingCall { site: 0x100, next: 0x104 }, WaitingCall { site: 0x104, next: 0x108 }];

/// Beginning of other waiting code.
const CODE: u64 = 0x200;

const SP: u64 = 0x2000;

struct Trace {
    guest: Guest<Fake>,
    ledger: Ledger<Books>,
    waiting: Waiting,
    core: Core,
}

impl Trace {
    fn new() -> Trace {
        let measure = Measure { waiting_calls: CALLS.to_vec(), waiting_code: vec![CODE], ..Measure::default() };
        let request = request(Isa::Riscv32, None, measure);
        Trace {
            guest: guest(&request, Fake::default()),
            ledger: ledger(1),
            waiting: Waiting::new(&request).unwrap(),
            core: Core::new(0, true),
        }
    }

    /// Arrives at a call or a return after that many instructions.
    fn at(&mut self, insns: u64, pc: u64, sp: u64) {
        self.ledger.add(CLOCK, 0, insns);
        self.guest.registers().unwrap().set("sp", sp);
        assert!(self.waiting.is_event(pc));
        self.waiting.at(&mut self.core, pc, &mut self.guest, &mut self.ledger);
    }

    /// Instructions of waiting after `insns` more, and the calls that are not sure.
    fn end(mut self, insns: u64) -> (u64, u64) {
        self.ledger.add(CLOCK, 0, insns);
        self.core.advance(&mut self.ledger);
        let value = |wanted: Row| {
            let mut rows = self.ledger.records().definitions().into_iter();
            let slot = rows.find_map(|definition| match definition {
                Definition::Row { slot, row } if row == wanted => Some(slot),
                _ => None,
            });
            slot.map_or(0, |slot| self.ledger.get(slot, 0))
        };
        (value(Row::Waiting), value(Row::WaitingUnsure))
    }
}

#[test]
fn a_call_waits_until_it_returns_and_the_next_may_follow_at_once() {
    let mut trace = Trace::new();
    trace.at(5, 0x100, SP);
    trace.at(20, 0x104, SP);
    trace.at(300, 0x108, SP);
    assert_eq!(trace.end(7), (320, 0));
    let mut trace = Trace::new();
    trace.at(5, 0x100, SP);
    assert_eq!(trace.end(40), (40, 0), "the run ends within the call");
}

#[test]
fn an_interrupt_does_not_wait_and_may_wait_itself() {
    let mut trace = Trace::new();
    trace.at(5, 0x104, SP);
    trace.ledger.add(CLOCK, 0, 10);
    trace.core.advance(&mut trace.ledger);
    trace.core.exceptions.push(exception(16, SP - 64, trace.ledger.insns(0)));
    trace.at(100, 0x104, SP - 80);
    trace.at(1_000, 0x108, SP - 80);
    trace.ledger.add(CLOCK, 0, 200);
    trap_return(&mut trace.core, None, &mut trace.ledger);
    trace.at(20, 0x108, SP);
    assert_eq!(trace.end(7), (10 + 1_000 + 20, 0));
}

#[test]
fn a_call_within_a_call_and_one_that_is_left_are_not_sure() {
    let mut trace = Trace::new();
    trace.at(5, 0x104, SP);
    trace.at(10, 0x104, SP - 32);
    trace.at(20, 0x108, SP - 32);
    trace.at(40, 0x108, SP);
    assert_eq!(trace.end(7), (70, 1), "the outer call has it all");
    let mut trace = Trace::new();
    trace.at(5, 0x104, SP);
    trace.at(10, 0x104, SP + 16);
    trace.at(20, 0x108, SP + 16);
    assert_eq!(trace.end(7), (30, 1), "its frame is gone");
}

#[test]
fn waiting_code_within_a_call_counts_twice_and_the_number_is_not_sure() {
    let mut trace = Trace::new();
    trace.at(5, CODE, SP);
    trace.at(5, 0x100, SP);
    trace.at(20, CODE, SP - 4);
    trace.at(30, 0x104, SP);
    trace.at(40, 0x108, SP);
    assert_eq!(trace.end(7), (20 + 30 + 40, 1));
}
