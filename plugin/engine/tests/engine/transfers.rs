// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a transfer through a register is counted with the target and the return address that it had, although an
//! exception may come before its target, and although the instruction may have fallen through.

use engine::code::Code;
use engine::guest::Guest;
use engine::ledger::Ledger;
use engine::transfer::{Site, SiteKind, Transfers};
use wire::control::Word;
use wire::counters::LAST;
use wire::definition::{Definition, TransferKind};
use wire::request::{Isa, Measure, Request};
use wire::unwind::{Base, Row, Rule, Saved};

use crate::fake::{Books, Fake, execute, guest, ledger, only, request};

const FUNCTION: u64 = 0x1000;
const CALLED: u64 = 0x1100;
const RESTORE: u64 = 0x1200;
const HANDLER: u64 = 0x3000;
const SITE: u64 = FUNCTION + 0x10;
const NEXT: u64 = FUNCTION + 0x14;
const STACK: u64 = 0x2000_0000;
/// Return address of the function with the site.
const RETURN: u64 = 0x5000;
const REGISTER: u8 = 15;

struct Run {
    transfers: Transfers,
    code: Code,
    guest: Guest<Fake>,
    ledger: Ledger<Books>,
}

/// Site, target, return address and kind of an arc, with its count.
type Counted = (u64, u64, Option<u64>, TransferKind, u64);

impl Run {
    fn new() -> Run {
        let functions = vec![FUNCTION..CALLED, CALLED..RESTORE, RESTORE..RESTORE + 0x100, HANDLER..0x3100];
        let rule = Rule {
            base: Base::StackPointer,
            cfa_offset_bytes: 16,
            return_addr: Saved::AtCfa(-4),
            frame_pointer: Saved::Register,
        };
        let unwind = vec![Row { pc: RESTORE, rule: Some(rule) }, Row { pc: RESTORE + 0x100, rule: None }];
        let measure = Measure { functions, unwind, ..Measure::default() };
        let transfers = Transfers::new(&measure);
        let memory = only(STACK..STACK + 0x100);
        let request = Request { memory, ..request(Isa::Riscv32, None, measure) };
        let mut fake = Fake { memory: vec![(STACK, vec![0; 0x100])], ..Fake::riscv(HANDLER) };
        for (name, value) in [("sp", STACK), ("ra", RETURN), ("a5", CALLED)] {
            fake.set(name, value);
        }
        fake.store(STACK + 12, 0x6000);
        let (code, guest) = (Code::new(&request), guest(&request, fake));
        Run { transfers, code, guest, ledger: ledger(1) }
    }

    fn set(&mut self, name: &str, value: u64) {
        self.guest.registers().unwrap().set(name, value);
    }

    /// The instruction executes; then the block at `pc` is the first one.
    fn go(&mut self, kind: SiteKind, pc: u64, is_sure: bool) {
        let site = Site { pc: SITE, next: NEXT, function: Some(FUNCTION), kind };
        let number = self.transfers.number(&site);
        site.steps(number).for_each(|step| execute(step, 0, &self.ledger));
        let Run { transfers, code, guest, ledger } = self;
        transfers.resolve(0, pc, is_sure, guest, code, ledger);
        ledger.set(LAST, 0, 0);
    }

    /// An exception comes before the target.
    fn interrupted(&mut self, kind: SiteKind, target: u64) {
        self.set("mepc", target);
        self.go(kind, HANDLER, false);
    }

    fn counted(&self) -> Vec<Counted> {
        let definitions = self.ledger.records().definitions();
        let arcs = definitions.iter().filter_map(|definition| match *definition {
            Definition::Arc { slot, site, target, return_addr, kind } => {
                Some((site, target, return_addr, kind, self.ledger.get(slot, 0)))
            }
            _ => None,
        });
        arcs.collect()
    }
}

fn register(call: bool, conditional: bool) -> SiteKind {
    SiteKind::Register { reg: REGISTER, offset: 0, call, conditional }
}

fn unknown(call: bool, conditional: bool) -> SiteKind {
    SiteKind::Unknown { call, conditional }
}

#[test]
fn call_and_tail_call_have_their_targets_and_return_addresses() {
    use TransferKind::{Call, Jump};
    for (kind, target, expected) in [
        (register(true, false), CALLED, Some((Some(NEXT), Call))),
        (unknown(true, false), CALLED, Some((Some(NEXT), Call))),
        (SiteKind::Branch { target: CALLED, call: true }, CALLED, Some((Some(NEXT), Call))),
        (register(false, false), CALLED, Some((Some(RETURN), Jump))),
        (unknown(false, false), CALLED, Some((Some(RETURN), Jump))),
        (SiteKind::Jump { target: CALLED }, CALLED, Some((Some(RETURN), Jump))),
        // The common end of functions has their return address on the stack.
        (SiteKind::Jump { target: RESTORE }, RESTORE, Some((Some(0x6000), Jump))),
        // A jump to the function's own start is a loop, and one into another function's middle a switch.
        (SiteKind::Jump { target: FUNCTION }, FUNCTION, Some((None, Jump))),
        (unknown(false, false), CALLED + 8, None),
        (unknown(false, false), FUNCTION + 8, None),
        // A call may go anywhere.
        (unknown(true, false), CALLED + 8, Some((Some(NEXT), Call))),
        // It falls through.
        (SiteKind::Branch { target: CALLED, call: true }, NEXT, None),
        (register(true, true), NEXT, None),
        (unknown(true, true), NEXT, None),
    ] {
        for is_interrupted in [false, true] {
            let mut run = Run::new();
            run.set("a5", target);
            let what = format!("{kind:?} {target:x} {is_interrupted}");
            if is_interrupted {
                run.interrupted(kind, target);
                // Jumps within a function are not followed at all.
                assert_eq!(run.ledger.records().word(Word::Interrupted), Some(1), "{what}");
            } else {
                run.go(kind, target, false);
            }
            // An exception's frame has the register, not the stack.
            let expected = expected.map(|(return_addr, kind)| {
                let is_on_stack = return_addr == Some(0x6000) && is_interrupted;
                (SITE, target, if is_on_stack { Some(RETURN) } else { return_addr }, kind, 1)
            });
            assert_eq!(run.counted(), Vec::from_iter(expected), "{what}");
            assert_eq!(run.ledger.records().word(Word::Unresolved), None, "{what}");
            let has_led = run.transfers.has_led_to(target);
            assert_eq!(has_led, expected.is_some(), "{what}");
        }
    }
}

#[test]
fn target_that_the_exception_hides_is_counted_as_unresolved() {
    for kind in
        [register(true, false), SiteKind::Branch { target: CALLED, call: true }, SiteKind::Jump { target: CALLED }]
    {
        let mut run = Run::new();
        // The first instruction of another handler was interrupted.
        run.interrupted(kind, HANDLER + 4);
        assert_eq!((run.counted(), run.ledger.records().word(Word::Unresolved)), (vec![], Some(1)), "{kind:?}");
        run.transfers.restart(&run.ledger);
        assert_eq!(run.ledger.records().word(Word::Unresolved), Some(0));
    }
}

#[test]
fn target_that_is_neither_the_register_nor_a_handler_is_the_target() {
    // The jump has overwritten its own register.
    let mut run = Run::new();
    run.set("a5", 0x7777);
    run.go(register(true, false), CALLED, false);
    run.go(register(true, false), CALLED, true);
    assert_eq!(run.counted(), [(SITE, CALLED, Some(NEXT), TransferKind::Call, 2)]);
    // On Arm, it is an exception's return by a target from memory.
    let measure = Measure { functions: vec![FUNCTION..CALLED, CALLED..RESTORE], ..Measure::default() };
    let mut fake = Fake::default();
    ["r3", "lr", "sp", "xpsr", "r7"].iter().for_each(|name| fake.set(name, 0));
    let arm = request(Isa::ThumbV7m, None, measure.clone());
    let mut run = Run {
        transfers: Transfers::new(&measure),
        code: Code::new(&arm),
        guest: guest(&arm, fake),
        ledger: ledger(1),
    };
    run.go(SiteKind::Register { reg: 3, offset: 0, call: true, conditional: false }, CALLED, false);
    assert_eq!(run.counted(), []);
    // Nor is a jump to an EXC_RETURN value a transfer.
    for (value, left) in [(0xffff_fff9, 0), (0x1101, 77)] {
        run.ledger.set(LAST, 0, 77);
        run.set("r3", value);
        run.transfers.jump_by_register(0, 3, &mut run.guest, &run.ledger);
        assert_eq!(run.ledger.get(LAST, 0), left);
    }
}

#[test]
fn exception_that_was_asked_for_is_a_call() {
    let mut run = Run::new();
    run.transfers.asked(0, (CALLED, NEXT, 4), &mut run.ledger);
    run.transfers.asked(0, (CALLED, NEXT, 4), &mut run.ledger);
    assert_eq!(run.counted(), [(SITE, CALLED, Some(NEXT), TransferKind::Call, 2)]);
}

#[test]
fn block_is_translated_for_the_call_that_arrives() {
    let mut run = Run::new();
    let site = |kind| Site { pc: SITE, next: NEXT, function: Some(FUNCTION), kind };
    for (kind, pc, arrives) in [
        (register(true, false), CALLED, true),
        (unknown(true, true), CALLED, true),
        (unknown(true, true), NEXT, false),
        (register(false, false), CALLED, false),
        (SiteKind::Branch { target: CALLED, call: true }, CALLED, false),
    ] {
        let number = run.transfers.number(&site(kind));
        run.ledger.set(LAST, 0, number);
        let found = run.transfers.arriving_call(0, pc, &mut run.ledger).map(|(number, _)| number);
        assert_eq!(found, arrives.then_some(number), "{kind:?}");
        assert_eq!(site(kind).needs_alarm(), kind != register(false, false));
    }
    run.ledger.set(LAST, 0, 0);
    assert!(run.transfers.arriving_call(0, CALLED, &mut run.ledger).is_none());
    // A call without a number in the cell leads nowhere.
    let before = run.counted();
    run.transfers.resolve(0, CALLED, false, &mut run.guest, &mut run.code, &mut run.ledger);
    assert_eq!(run.counted(), before);
    assert!(!site(SiteKind::Jump { target: CALLED }).needs_alarm());
}
