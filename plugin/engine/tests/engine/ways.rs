// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counted ways of branches and jumps: the block that the way leads to finds the branch's number, and so does the handler
//! of a trap that comes in between.

use engine::code::Code;
use engine::guest::Guest;
use engine::ledger::Ledger;
use engine::transfer::{Site, SiteKind, Transfers};
use wire::counters::LAST;
use wire::definition::Definition;
use wire::request::{Isa, Measure, Way};

use crate::fake::{Books, Fake, execute, guest, ledger, request};

const FUNCTION: u64 = 0x1000;
const HANDLER: u64 = 0x3000;
const TAKEN: Way = Way { site: 0x1010, next: 0x1014, target: 0x1100, is_taken: true };
const NOT_TAKEN: Way = Way { site: 0x1020, next: 0x1024, target: 0x1100, is_taken: false };

struct Run {
    transfers: Transfers,
    code: Code,
    guest: Guest<Fake>,
    ledger: Ledger<Books>,
}

impl Run {
    fn new() -> Run {
        let fake = Fake::riscv(HANDLER);
        let functions = vec![FUNCTION..0x2000, HANDLER..0x3100];
        let (ways, landings) = (vec![TAKEN, NOT_TAKEN], vec![0x1040..0x1060, 0x1080..0x1081]);
        let measure = Measure { functions, ways, landings, ..Measure::default() };
        let transfers = Transfers::new(&measure);
        let request = request(Isa::Riscv64, None, measure);
        let (code, guest) = (Code::new(&request), guest(&request, fake));
        Run { transfers, code, guest, ledger: ledger(1) }
    }

    /// The branch, then a block at `pc` with the callbacks that it has been translated with.
    fn go(&mut self, way: Way, pc: u64) {
        let site = self.transfers.counted_branch(way.site, &self.code).unwrap();
        self.leave(site, pc);
    }

    /// A jump through register 15, which keeps its value, or one whose target cannot be read.
    fn jump(&mut self, is_known: bool, target: u64, pc: u64) {
        let kind = match is_known {
            true => SiteKind::Register { reg: 15, offset: 0, call: false, conditional: false },
            false => SiteKind::Unknown { call: false, conditional: false },
        };
        self.guest.registers().unwrap().set("a5", target);
        self.leave(Site { pc: 0x1030, next: 0x1034, function: Some(FUNCTION), kind }, pc);
    }

    fn leave(&mut self, site: Site, pc: u64) {
        let number = self.transfers.number(&site);
        site.steps(number).for_each(|step| execute(step, 0, &self.ledger));
        let last = self.ledger.get(LAST, 0);
        for (number, slot) in self.transfers.counted_to(pc, &self.code, &mut self.ledger) {
            if number == last {
                self.ledger.add(slot, 0, 1);
            }
        }
        if self.transfers.is_landing(pc, &self.code) {
            self.transfers.land(0, pc, &mut self.ledger);
        }
        if self.code.is_entry(pc) {
            self.transfers.resolve(0, pc, false, &mut self.guest, &mut self.code, &mut self.ledger);
        }
        self.ledger.set(LAST, 0, 0);
    }

    fn trap(&mut self, way: Way, returns_to: u64) {
        self.guest.registers().unwrap().set("mepc", returns_to);
        self.go(way, HANDLER);
    }

    /// Counts by site and target.
    fn counts(&self) -> Vec<(u64, u64, u64)> {
        let definitions = self.ledger.records().definitions();
        let ways = definitions.iter().filter_map(|definition| match *definition {
            Definition::Edge { slot, site, target } => Some((site, target, self.ledger.get(slot, 0))),
            _ => None,
        });
        let mut ways: Vec<_> = ways.collect();
        ways.sort();
        ways
    }
}

#[test]
fn a_counted_way_is_counted_and_the_other_is_not() {
    let mut run = Run::new();
    for pc in [0x1100, 0x1014, 0x1100] {
        run.go(TAKEN, pc);
    }
    // The other branch leads to the same place by its other way.
    for pc in [0x1100, 0x1024] {
        run.go(NOT_TAKEN, pc);
    }
    assert_eq!(run.counts(), [(0x1010, 0x1100, 2), (0x1020, 0x1024, 1)]);
}

#[test]
fn a_way_that_a_trap_interrupts_is_counted_once() {
    let mut run = Run::new();
    // The counters are defined when the places are translated.
    run.go(TAKEN, 0x1014);
    run.trap(TAKEN, 0x1100);
    run.trap(TAKEN, 0x1014);
    run.trap(NOT_TAKEN, 0x1024);
    run.trap(NOT_TAKEN, 0x1100);
    // The trap's return was changed.
    run.trap(TAKEN, 0x5000);
    assert_eq!(run.counts(), [(0x1010, 0x1100, 1), (0x1020, 0x1024, 1)]);
    assert_eq!(run.transfers.counted_branch(0x1030, &run.code), None);
}

#[test]
fn a_jump_is_counted_where_it_lands_also_after_a_trap() {
    let mut run = Run::new();
    for is_known in [true, false] {
        for pc in [0x1040, 0x1040, 0x105c, 0x1060, 0x1080, 0x1084] {
            run.jump(is_known, pc, pc);
        }
        // A trap comes first, and returns to where the jump led.
        for to in [0x1040, 0x1084] {
            run.guest.registers().unwrap().set("mepc", to);
            run.jump(is_known, to, HANDLER);
        }
    }
    // Branches that lead to a landing are none.
    run.go(Way { target: 0x1040, ..TAKEN }, 0x1040);
    assert_eq!(run.counts(), [(0x1030, 0x1040, 6), (0x1030, 0x105c, 2), (0x1030, 0x1080, 2)]);
}

#[test]
fn a_conditional_jump_and_a_call_do_not_land() {
    let mut run = Run::new();
    let kinds = [(true, false), (false, true)];
    for (call, conditional) in kinds {
        let kind = SiteKind::Unknown { call, conditional };
        run.leave(Site { pc: 0x1030, next: 0x1034, function: Some(FUNCTION), kind }, 0x1040);
    }
    assert_eq!(run.counts(), []);
    assert!(!run.transfers.is_landing(FUNCTION, &run.code));
}
