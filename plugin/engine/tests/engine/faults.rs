// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the report of the last exception says which one it was, since when, and how often it came, and is made
//! only if nothing but its handler has executed since.

use engine::code::Code;
use engine::follow::fault::LastException;
use engine::guest::{Context, Guest, Taken};
use engine::ledger::Ledger;
use wire::control::Word;
use wire::counters::{CLOCK, FAULTED};
use wire::request::{Isa, Measure, Request};

use crate::fake::{Books, Fake, guest, ledger, only, request};

const HANDLER: u64 = 0x100;
const OTHER: u64 = 0x200;
const SP: u64 = 0x2000_0800;

struct Run {
    last: LastException,
    guest: Guest<Fake>,
    code: Code,
    ledger: Ledger<Books>,
}

impl Run {
    /// A run of a processor whose memory has two handlers; the first one only jumps to itself, if it `stays`.
    fn new(isa: Isa, stays: bool) -> Run {
        let measure = Measure { functions: vec![HANDLER..OTHER, OTHER..OTHER + 0x100], ..Measure::default() };
        let request = Request { memory: only(0..0x400), ..request(isa, None, measure) };
        let mut fake = Fake { memory: vec![(0, vec![0; 0x400])], ..Fake::riscv(HANDLER) };
        ["xpsr", "primask", "faultmask", "basepri", "mtval"].iter().for_each(|name| fake.set(name, 0));
        let jump = match isa {
            Isa::ThumbV7m => 0xe7fe,
            _ => 0x0000_006f,
        };
        fake.store(HANDLER, if stays { jump } else { 0x13 });
        let guest = guest(&request, fake);
        Run { last: LastException::default(), guest, code: Code::new(&request), ledger: ledger(1) }
    }

    fn arm() -> Run {
        Run::new(Isa::ThumbV7m, false)
    }

    fn riscv() -> Run {
        Run::new(Isa::Riscv32, false)
    }

    fn after(&mut self, insns: u64) -> &mut Run {
        self.ledger.add(CLOCK, 0, insns);
        self
    }

    /// Takes an exception of code at `pc`; `below`: what the processor says that it interrupts.
    fn take(&mut self, number: u64, handler: u64, (pc, sp): (u64, u64), below: Option<u64>) -> bool {
        self.guest.registers().unwrap().set("xpsr", number);
        let context = Context { pc, sp: sp + 32, return_addr: 0, second_return_addr: 0, frame_pointer: 0 };
        let taken = Taken { number, handler, entry_sp: sp, saved_sp: sp, interrupted: Some(context), below };
        self.last.enter(0, &taken, &mut self.guest, &self.code, &self.ledger)
    }

    fn may_return(&mut self) {
        self.last.may_return(0, &self.ledger);
    }

    /// Reported exception: number, handler, place, since when, and how often.
    fn reported(&self) -> Option<[u64; 5]> {
        let words = [
            Word::ExceptionNumber,
            Word::ExceptionHandler,
            Word::ExceptionPc,
            Word::ExceptionSince,
            Word::ExceptionTimes,
        ];
        let reported = words.map(|word| self.ledger.records().word(word));
        self.ledger.records().forget_words();
        reported[0].map(|_| reported.map(Option::unwrap))
    }

    fn note(&mut self, has_left: bool) -> Option<[u64; 5]> {
        self.last.note(0, has_left, &mut self.guest, &self.ledger);
        self.reported()
    }

    fn unasked(&mut self, by_jump: bool) -> Option<[u64; 5]> {
        self.last.note_unasked(0, by_jump, &self.ledger);
        self.reported()
    }
}

#[test]
fn fault_is_reported_while_its_handler_executes() {
    let mut run = Run::arm();
    assert_eq!(run.note(false), None);
    assert!(run.after(50).take(3, HANDLER, (0x42, SP), Some(0)));
    assert_eq!(run.last.handler(), Some((HANDLER, SP)));
    assert_eq!(run.ledger.get(FAULTED, 0), 1);
    run.after(100);
    let reported = Some([3, HANDLER, 0x42, 50, 1]);
    assert_eq!(run.note(false), reported);
    // The stack says that it was left by a jump, or the processor that it executes something else.
    assert_eq!(run.note(true), None);
    run.guest.registers().unwrap().set("xpsr", 0);
    assert_eq!(run.note(false), None);
    // Only the instruction that it returned to has started.
    run.may_return();
    run.after(1);
    assert_eq!(run.note(false), reported);
    run.after(1);
    assert_eq!(run.note(false), None);
}

#[test]
fn registers_of_a_fault_are_those_of_its_first_time() {
    let mut run = Run::riscv();
    run.guest.registers().unwrap().set("mtval", 0x1111);
    run.take(5, HANDLER, (0x42, SP), None);
    run.guest.registers().unwrap().set("mtval", 0x2222);
    run.take(5, HANDLER, (HANDLER + 8, SP - 16), None);
    run.last.note(0, false, &mut run.guest, &run.ledger);
    assert_eq!(run.ledger.records().word(Word::FaultValue), Some(0x1111));
    assert_eq!(run.ledger.records().word(Word::Fault), Some(1));
    assert_eq!(run.reported(), Some([5, HANDLER, 0x42, 0, 2]));
}

#[test]
fn fault_that_comes_again_is_counted() {
    // Its handler returns to the instruction that faults.
    let mut run = Run::arm();
    run.take(3, HANDLER, (0x42, SP), Some(0));
    for _ in 0..3 {
        run.after(10).may_return();
        run.after(1).take(3, HANDLER, (0x42, SP), Some(0));
    }
    assert_eq!(run.note(false), Some([3, HANDLER, 0x42, 0, 4]));
    // It goes on elsewhere, and faults there: another one.
    run.after(10).may_return();
    run.after(1).take(3, HANDLER, (0x44, SP), Some(0));
    assert_eq!(run.note(false), Some([3, HANDLER, 0x44, 44, 1]));
    // Later, at the same place.
    run.after(10).may_return();
    run.after(2).take(3, HANDLER, (0x44, SP), Some(0));
    assert_eq!(run.note(false), Some([3, HANDLER, 0x44, 56, 1]));
    // In its own handler, of which the processor says so.
    run.after(5).take(4, OTHER, (HANDLER + 4, SP - 32), Some(3));
    assert_eq!(run.note(false), Some([3, HANDLER, 0x44, 56, 2]));
    run.after(5).take(5, OTHER, (0x50, SP - 64), Some(0));
    assert_eq!(run.note(false), Some([5, OTHER, 0x50, 66, 1]));
}

#[test]
fn fault_within_a_handler_is_recognised_where_the_processor_does_not_tell() {
    // In the handler's function; deeper in the stack; the same one.
    for (pc, sp) in [(HANDLER + 8, SP + 16), (0x42, SP - 16), (0x40, SP)] {
        let mut run = Run::riscv();
        run.take(5, HANDLER, (0x40, SP), None);
        // Later than a loop at its start would have come back.
        run.after(20).take(5, HANDLER, (pc, sp), None);
        assert_eq!(run.note(false).map(|[.., times]| times), Some(2), "{pc:x}");
    }
    // The handler was left by a jump to code elsewhere, or may have returned.
    for returns in [false, true] {
        let mut run = Run::riscv();
        run.take(5, HANDLER, (0x40, SP), None);
        if returns {
            run.after(10).may_return();
        }
        let (pc, sp) = if returns { (HANDLER + 8, SP - 16) } else { (0x42, SP + 16) };
        run.after(10).take(5, HANDLER, (pc, sp), None);
        assert_eq!(run.note(false).map(|[.., times]| times), Some(1));
    }
    // An interrupt is never a repetition.
    let mut run = Run::riscv();
    run.take(5, HANDLER, (0x40, SP), None);
    run.take(1 << 63 | 7, HANDLER, (0x40, SP - 16), None);
    assert_eq!((run.ledger.get(FAULTED, 0), run.note(false)), (0, Some([1 << 63 | 7, HANDLER, 0x40, 0, 1])));
    // Nor is a fault within an interrupt.
    run.take(5, HANDLER, (0x40, SP - 32), None);
    assert_eq!(run.note(false).map(|[.., times]| times), Some(1));
}

#[test]
fn handler_that_jumps_to_itself_is_entered_once() {
    for isa in [Isa::ThumbV7m, Isa::Riscv32] {
        let mut run = Run::new(isa, true);
        assert!(run.take(5, HANDLER, (0x40, SP), Some(0)));
        assert!((0..5).all(|_| !run.after(1).take(5, HANDLER, (0x40, SP), Some(0))), "{isa:?}");
        assert_eq!(run.note(false), Some([5, HANDLER, 0x40, 0, 1]));
        assert_eq!(run.unasked(false), Some([5, HANDLER, 0x40, 0, 1]));
    }
    // A longer loop leads back to the start, where an exception may just have come.
    let mut run = Run::arm();
    run.take(3, HANDLER, (0x40, SP), Some(0));
    assert!(run.after(10).take(3, HANDLER, (0x40, SP), Some(0)));
    // What comes after a return, after a long time, or to its own first instruction is another one.
    let mut run = Run::new(Isa::ThumbV7m, true);
    run.take(3, HANDLER, (HANDLER, SP), Some(3));
    assert!(run.after(1).take(3, HANDLER, (HANDLER, SP), Some(3)));
    let mut run = Run::new(Isa::ThumbV7m, true);
    run.take(3, HANDLER, (0x40, SP), Some(0));
    assert!(run.after(17).take(3, HANDLER, (0x40, SP), Some(0)));
    run.may_return();
    assert!(run.after(1).take(3, HANDLER, (0x40, SP), Some(0)));
}

#[test]
fn host_that_ends_the_run_gets_only_certain_faults() {
    // Nothing says that the handler still executes, unless returns are noticed.
    let mut run = Run::arm();
    assert_eq!(run.unasked(true), None);
    run.take(3, HANDLER, (0x40, SP), Some(0));
    run.after(100);
    assert_eq!(run.unasked(false), None);
    assert_eq!(run.unasked(true), Some([3, HANDLER, 0x40, 0, 1]));
    // It has just returned.
    run.may_return();
    assert_eq!(run.unasked(false), Some([3, HANDLER, 0x40, 0, 1]));
    run.after(2);
    assert_eq!(run.unasked(true), None);
    // It comes again every 10 instructions, and has not been gone for longer than usual.
    let mut run = Run::arm();
    run.take(3, HANDLER, (0x40, SP), Some(0));
    for _ in 0..4 {
        run.after(9).may_return();
        run.after(1).take(3, HANDLER, (0x40, SP), Some(0));
    }
    run.after(20);
    assert_eq!(run.unasked(false), Some([3, HANDLER, 0x40, 0, 5]));
    run.after(1);
    assert_eq!(run.unasked(false), None);
    // Interrupts end somewhen.
    let mut run = Run::arm();
    run.take(20, HANDLER, (0x40, SP), Some(0));
    assert_eq!(run.unasked(true), None);
}

#[test]
fn endless_handler_that_can_be_interrupted_yields() {
    for (number, enabled, yields) in [(1 << 63 | 7, 0x80, 1), (1 << 63 | 7, 0, 0), (5, 0x80, 0)] {
        let mut run = Run::riscv();
        run.guest.registers().unwrap().set("mie", enabled);
        run.guest.registers().unwrap().set("mstatus", 1 << 3);
        run.take(number, HANDLER, (0x40, SP), None);
        run.last.note(0, false, &mut run.guest, &run.ledger);
        assert_eq!(run.ledger.records().word(Word::ExceptionYields), Some(yields));
    }
    // Traps lead elsewhere meanwhile.
    let mut run = Run::riscv();
    run.take(5, HANDLER, (0x40, SP), None);
    run.guest.registers().unwrap().set("mtvec", OTHER);
    assert_eq!(run.note(false), None);
}

#[test]
fn window_that_opens_in_a_handler_counts_from_there() {
    let mut run = Run::arm();
    run.last.restart();
    run.take(3, HANDLER, (0x40, SP), Some(0));
    run.after(10).may_return();
    run.after(1).take(3, HANDLER, (0x40, SP), Some(0));
    run.after(5).may_return();
    run.last.restart();
    run.ledger.set(CLOCK, 0, 0);
    assert_eq!(run.note(false), Some([3, HANDLER, 0x40, 0, 1]));
}
