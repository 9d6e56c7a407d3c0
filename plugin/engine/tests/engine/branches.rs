// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ways of branches: where the next instruction is, or where a trap's return goes, if that came first.

use std::collections::BTreeMap;

use engine::branches::{Branch, Branches};
use engine::guest::Guest;
use engine::ledger::Ledger;
use wire::definition::Definition;
use wire::request::{Isa, Measure};

use crate::fake::{Books, Fake, guest, ledger, request};

const HANDLER: u64 = 0x3000;
const CONDITIONAL: Branch = Branch { site: 0x1000, next: 0x1004, target: Some(0x1100) };
const TABLE: Branch = Branch { site: 0x2000, next: 0x2004, target: None };

struct Run {
    branches: Branches,
    guest: Guest<Fake>,
    ledger: Ledger<Books>,
}

impl Run {
    fn new() -> Run {
        let fake = Fake::riscv(HANDLER);
        let guest = guest(&request(Isa::Riscv64, None, Measure::default()), fake);
        Run { branches: Branches::default(), guest, ledger: ledger(1) }
    }

    /// The branch, then the first instruction after it.
    fn go(&mut self, branch: Branch, pc: u64) {
        let number = self.branches.number(branch);
        self.branches.leave(0, number);
        self.arrive(pc);
    }

    fn arrive(&mut self, pc: u64) {
        self.branches.arrive(0, pc, &mut self.guest, &mut self.ledger);
    }

    /// A trap whose return goes to this address.
    fn trap(&mut self, branch: Branch, returns_to: u64) {
        self.guest.registers().unwrap().set("mepc", returns_to);
        self.go(branch, HANDLER);
    }

    /// Ways by site and target.
    fn ways(&self) -> BTreeMap<(u64, u64), u64> {
        let definitions = self.ledger.records().definitions();
        let ways = definitions.iter().filter_map(|definition| match *definition {
            Definition::Edge { slot, site, target } => Some(((site, target), self.ledger.get(slot, 0))),
            _ => None,
        });
        ways.collect()
    }
}

#[test]
fn each_way_is_counted_also_where_a_trap_comes_first() {
    let mut run = Run::new();
    run.go(CONDITIONAL, 0x1100);
    run.go(CONDITIONAL, 0x1004);
    run.go(CONDITIONAL, 0x1004);
    // Instructions after that are nobody's targets.
    run.arrive(0x1008);
    run.trap(CONDITIONAL, 0x1100);
    run.go(TABLE, 0x2100);
    run.trap(TABLE, 0x2200);
    run.go(TABLE, 0x2004);
    let conditional = [((0x1000, 0x1004), 2), ((0x1000, 0x1100), 2)];
    let table = [((0x2000, 0x2004), 1), ((0x2000, 0x2100), 1), ((0x2000, 0x2200), 1)];
    assert_eq!(run.ways(), conditional.into_iter().chain(table).collect());
}

#[test]
fn what_leads_elsewhere_and_what_came_before_the_window_is_not_counted() {
    let mut run = Run::new();
    // The trap's return was changed.
    run.trap(CONDITIONAL, 0x5000);
    let number = run.branches.number(CONDITIONAL);
    run.branches.leave(0, number);
    run.branches.restart();
    run.arrive(0x1100);
    assert_eq!(run.ways(), BTreeMap::new());
}
