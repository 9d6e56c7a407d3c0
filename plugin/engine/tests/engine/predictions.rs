// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a wrong prediction costs time, but no count is wrong. Several call sites call a function through a
//! register, and its block predicts its caller. Traps come in between, and the trap vector changes. Each arc's count
//! is the number of its calls, and each instruction is counted once.

use std::collections::BTreeMap;

use engine::block::{Block, Blocks, Count, Segment, counts};
use engine::clock::{self, Clock, Event, Suspect};
use engine::code::Code;
use engine::guest::Guest;
use engine::ledger::Ledger;
use engine::prediction::{Check, Prediction, Predictions};
use engine::transfer::{Site, SiteKind, Transfers};
use proptest::prelude::*;
use wire::counters::{CLOCK, DUE, FIRST_SITE, LAST, VECTOR_MOVES};
use wire::definition::Definition;
use wire::request::{Isa, Measure};

use crate::fake::{Books, Fake, config, execute, guest, ledger, request};

/// Two functions that call by register, one that calls directly, one that predicts its caller, another callee, a trap
/// handler, and code that changes the trap vector.
const CALLERS: [u64; 2] = [0x1000, 0x1100];
const DIRECT: u64 = 0x1200;
const POINTED: u64 = 0x2000;
const OTHER: u64 = 0x2100;
const HANDLER: u64 = 0x3000;
const MOVER: u64 = 0x3100;
const FUNCTION_BYTES: u64 = 0x100;

/// Number of `a5`.
const REGISTER: u8 = 15;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A call by register.
    Call { caller: usize, target: u64 },
    /// A call by register, with a trap before the target's first instruction.
    Trapped { caller: usize, target: u64 },
    /// A direct call of the predicting function.
    Direct,
    /// A trap in code that calls nothing.
    Trap,
    /// A change of the trap vector.
    Move { to: u64 },
    /// QEMU discards its translations.
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let target = prop_oneof![4 => Just(POINTED), 1 => Just(OTHER)];
    let step = prop_oneof![
        8 => (0..2usize, target.clone()).prop_map(|(caller, target)| Step::Call { caller, target }),
        2 => (0..2usize, target).prop_map(|(caller, target)| Step::Trapped { caller, target }),
        2 => Just(Step::Direct),
        1 => Just(Step::Trap),
        1 => prop_oneof![Just(HANDLER), Just(POINTED)].prop_map(|to| Step::Move { to }),
        1 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 1..150)
}

/// Counts of the arcs by call site and target, and the number of instructions.
type Outcome = (BTreeMap<(u64, u64), u64>, u64);

/// Number of instructions of the block at `pc`.
fn insns_of(pc: u64) -> u64 {
    if CALLERS.contains(&pc) { 3 } else { 2 }
}

fn naive(steps: &[Step]) -> Outcome {
    let (mut arcs, mut insns, mut vector) = (BTreeMap::new(), 0, HANDLER);
    for step in steps {
        match *step {
            Step::Call { caller, target } | Step::Trapped { caller, target } => {
                *arcs.entry((site_pc(CALLERS[caller]), target)).or_default() += 1;
                insns += insns_of(CALLERS[caller]) + insns_of(target);
                if matches!(step, Step::Trapped { .. }) {
                    insns += insns_of(vector);
                }
            }
            Step::Direct => insns += insns_of(DIRECT) + insns_of(POINTED),
            Step::Trap => insns += insns_of(DIRECT) + insns_of(vector),
            Step::Move { to } => {
                vector = to;
                insns += insns_of(MOVER);
            }
            Step::Flush => {}
        }
    }
    (arcs, insns)
}

/// Address of the call, the last instruction of the caller's block.
fn site_pc(caller: u64) -> u64 {
    caller + 4 * (insns_of(caller) - 1)
}

/// The plugin's counting parts, composed as in the plugin.
struct Plugin {
    ledger: Ledger<Books>,
    guest: Guest<Fake>,
    code: Code,
    blocks: Blocks,
    clock: Clock,
    transfers: Transfers,
    predictions: Predictions,
    /// Prediction that each block was translated with, by its address, and [`VECTOR_MOVES`] at the translation.
    translated: BTreeMap<u64, Option<(Prediction, u64)>>,
}

impl Plugin {
    fn new(period_insns: u64) -> Plugin {
        let starts = [CALLERS[0], CALLERS[1], DIRECT, POINTED, OTHER, HANDLER, MOVER];
        let measure = Measure {
            period_insns: Some(period_insns),
            functions: starts.iter().map(|&start| start..start + FUNCTION_BYTES).collect(),
            pointed: vec![POINTED],
            ..Measure::default()
        };
        let request = request(Isa::Riscv32, None, measure);
        let mut fake = Fake::default();
        for (name, value) in [("priv", 3), ("mtvec", HANDLER), ("mepc", 0), ("a5", 0), ("ra", 0)] {
            fake.set(name, value);
        }
        let mut clock = Clock::new(&request, 1);
        let ledger = ledger(1);
        clock.open_window(&ledger);
        Plugin {
            guest: guest(&request, fake),
            code: Code::new(&request),
            ledger,
            blocks: Blocks::default(),
            clock,
            transfers: Transfers::default(),
            predictions: Predictions::default(),
            translated: BTreeMap::new(),
        }
    }

    fn set(&mut self, name: &str, value: u64) {
        self.guest.registers().unwrap().set(name, value);
    }

    fn settle(&mut self) {
        clock::amend(0, &self.blocks, &mut self.ledger);
        while let Some(due) = self.clock.due(0, &self.ledger) {
            assert_eq!(due.event, Event::Sample);
        }
    }

    fn arrive(&mut self, pc: u64, is_sure: bool) {
        let Plugin { transfers, guest, code, ledger, .. } = self;
        transfers.resolve(0, pc, is_sure, guest, code, ledger);
        ledger.set(LAST, 0, 0);
    }

    /// Acts like the callback of a block at whose start an event may be due.
    fn begin(&mut self, number: usize, pc: u64, is_sure: bool) {
        self.settle();
        let called = clock::called(0, &self.ledger);
        if called.by_transfer {
            self.arrive(pc, is_sure);
        }
        let block_insns = self.blocks.get(number).insns();
        if called.for_event(block_insns) {
            let insns = self.ledger.insns(0);
            let reach = self.clock.is_in_reach(0, block_insns, &self.ledger);
            let suspect = reach.then(|| Suspect { block: number, index: 0, insns, stack: Vec::new() });
            self.clock.suspect(0, suspect, &self.ledger);
        } else {
            called.go_on(0, &self.ledger);
        }
    }

    fn told(&mut self, prediction: Prediction, pc: u64) {
        let is_epoch = self.guest.is_epoch(Some(prediction.epoch));
        self.arrive(pc, is_epoch);
        self.ledger.set(LAST, 0, prediction.site);
        self.predictions.is_told = !is_epoch;
    }

    fn check(&mut self, check: Check, prediction: Prediction, pc: u64) {
        match check {
            Check::Does(step) => execute(step, 0, &self.ledger),
            Check::Due { slot, least } if self.ledger.get(slot, 0) >= least => {
                prediction.uncount(0, &self.ledger);
                prediction.restore_clock(0, &self.ledger);
                let is_epoch = self.guest.is_epoch(Some(prediction.epoch));
                self.begin(prediction.block, pc, is_epoch);
                self.told(prediction, pc);
            }
            Check::Elsewhere { slot, value } if self.ledger.get(slot, 0) != value => {
                prediction.uncount(0, &self.ledger);
                self.told(prediction, pc);
            }
            Check::Unsure { slot, least } if self.ledger.get(slot, 0) >= least => {
                if !std::mem::take(&mut self.predictions.is_told) {
                    prediction.uncount(0, &self.ledger);
                    let is_epoch = self.guest.is_epoch(Some(prediction.epoch));
                    self.arrive(pc, is_epoch);
                }
            }
            Check::Due { .. } | Check::Elsewhere { .. } | Check::Unsure { .. } => {}
        }
    }

    fn translate(&mut self, number: usize, pc: u64) -> Option<(Prediction, u64)> {
        if let Some(&known) = self.translated.get(&pc) {
            return known;
        }
        let Plugin { guest, code, ledger, transfers, .. } = self;
        let mut predict = || {
            let epoch = code.is_pointed(pc).then(|| guest.epoch_without_exception(pc))??;
            let (site, slot) = transfers.arriving_call(0, pc, ledger)?;
            Some((Prediction { block: number, epoch, site, slot }, ledger.get(VECTOR_MOVES, 0)))
        };
        let prediction = predict();
        self.translated.insert(pc, prediction);
        prediction
    }

    /// Executes the block at an address; a caller's block ends with its call.
    fn execute(&mut self, pc: u64) {
        let sizes = vec![4; insns_of(pc) as usize].into_boxed_slice();
        let slot = self.ledger.segment(Segment { pc, sizes: sizes.clone(), transfer: None });
        let segments = [(slot, sizes.len() as u32)].into();
        let number = self.blocks.number(Block { pc, function: None, sizes, segments, exits: [].into() });
        let block_insns = insns_of(pc);
        match self.translate(number, pc) {
            Some((prediction, moves)) => {
                for check in prediction.at_events(block_insns).into_iter().chain(prediction.at_arrival(moves)) {
                    self.check(check, prediction, pc);
                }
            }
            None => {
                let epoch = self.guest.epoch_without_exception(pc);
                let is_sure = self.guest.is_epoch(epoch);
                if self.ledger.get(CLOCK, 0) >= DUE - block_insns {
                    self.begin(number, pc, is_sure);
                }
                let is_looked_at = self.code.is_entry(pc) || self.guest.may_be_handler(pc, true);
                if is_looked_at && self.ledger.get(LAST, 0) >= FIRST_SITE {
                    self.arrive(pc, is_sure);
                }
            }
        }
        let site = CALLERS.contains(&pc).then(|| Site {
            pc: site_pc(pc),
            next: site_pc(pc) + 4,
            function: Some(pc),
            kind: SiteKind::Register { reg: REGISTER, offset: 0, call: true, conditional: false },
        });
        for (_, count) in counts(number, self.blocks.get(number)) {
            assert!(matches!(count, Count::Segment { .. }));
            count.steps(true, site.is_some()).for_each(|step| execute(step, 0, &self.ledger));
        }
        if let Some(site) = site {
            let number = self.transfers.number(&site);
            site.steps(number).for_each(|step| execute(step, 0, &self.ledger));
        }
    }

    /// Executes the trap handler before the instruction at this address.
    fn trap(&mut self, before: u64) {
        self.set("mepc", before);
        let handler = self.guest.registers().unwrap().registers["mtvec"];
        self.execute(handler);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Call { caller, target } | Step::Trapped { caller, target } => {
                self.set("a5", target);
                self.execute(CALLERS[caller]);
                if matches!(step, Step::Trapped { .. }) {
                    self.trap(target);
                }
                self.execute(target);
            }
            Step::Direct => {
                self.set("a5", 0);
                self.execute(DIRECT);
                self.execute(POINTED);
            }
            Step::Trap => {
                self.set("a5", 0);
                self.execute(DIRECT);
                self.trap(DIRECT + 8);
            }
            Step::Move { to } => {
                self.execute(MOVER);
                self.set("mtvec", to);
                self.guest.vector_moves();
                self.ledger.add(VECTOR_MOVES, 0, 1);
            }
            Step::Flush => self.translated.clear(),
        }
    }

    fn outcome(mut self) -> Outcome {
        self.settle();
        let mut arcs = BTreeMap::new();
        for definition in self.ledger.records().definitions() {
            if let Definition::Arc { slot, site, target, .. } = definition {
                let total: &mut u64 = arcs.entry((site, target)).or_default();
                *total = total.wrapping_add(self.ledger.get(slot, 0));
            }
        }
        arcs.retain(|_, count| *count != 0);
        (arcs, self.ledger.insns(0))
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_wrong_prediction_costs_no_count(steps in steps(), period_insns in 1..60u64) {
        let mut plugin = Plugin::new(period_insns);
        steps.iter().for_each(|&step| plugin.step(step));
        prop_assert_eq!(plugin.outcome(), naive(&steps));
    }
}
