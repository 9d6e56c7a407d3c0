// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a span has the length between its two ends, in instructions and in cycles, whichever instruments notice
//! the ends: instructions that mask interrupts, PendSV, and addresses of `--span`.

use engine::code::Code;
use engine::follow::Follow;
use engine::follow::exception::{enter, trap_return};
use engine::guest::{Guest, Taken};
use engine::ledger::Ledger;
use proptest::prelude::*;
use wire::counters::CLOCK;
use wire::definition::{Definition, SpanCounter, SpanKind};
use wire::request::{Isa, Measure, Request};
use wire::stream::StreamFile;
use wire::timeline::{Decoder, Wanted, What};

use crate::fake::{Books, Fake, config, guest, ledger, only, request};

const HANDLER: u64 = 0x100;

struct Run {
    follow: Follow,
    guest: Guest<Fake>,
    code: Code,
    ledger: Ledger<Books>,
}

/// Number of spans, and their instructions: of all, of the shortest and of the longest one.
type Counts = (u64, u64, u64, u64);

impl Run {
    fn new(isa: Isa, measure: Measure) -> Run {
        let request = Request { memory: only(0..0x400), ..request(isa, None, measure) };
        let mut ledger = ledger(1);
        ledger.keep_cycles();
        let follow = Follow::new(&request, 1, &mut ledger);
        let mut fake = Fake { memory: vec![(0, vec![0; 0x400])], ..Fake::riscv(HANDLER) };
        for name in ["xpsr", "lr", "primask", "faultmask", "basepri"] {
            fake.set(name, 0);
        }
        ledger.open_timeline();
        Run { follow, guest: guest(&request, fake), code: Code::new(&request), ledger }
    }

    fn exact(isa: Isa) -> Run {
        Run::new(isa, Measure { is_exact: true, ..Measure::default() })
    }

    /// Instructions execute, of two cycles each.
    fn after(&mut self, insns: u64) {
        self.ledger.add(CLOCK, 0, insns);
        self.ledger.add_cycles(0, 2 * insns as i64);
    }

    fn set(&mut self, name: &str, value: u64) {
        self.guest.registers().unwrap().set(name, value);
    }

    /// An instruction that may change the mask, and what it makes of it.
    fn mask(&mut self, pc: u64, is_masked: bool) {
        self.follow.masks().unwrap().mask_may_change(0, pc);
        self.after(1);
        self.set_mask(is_masked);
        self.follow.masks().unwrap().check_mask(0, &mut self.guest, &mut self.ledger);
    }

    fn set_mask(&mut self, is_masked: bool) {
        self.set("primask", is_masked.into());
        self.set("mstatus", if is_masked { 0 } else { 1 << 3 });
    }

    fn slot(&self, kind: SpanKind) -> Option<u32> {
        self.ledger.records().definitions().into_iter().find_map(|definition| match definition {
            Definition::Span { slot, kind: found } if found == kind => Some(slot),
            _ => None,
        })
    }

    fn counter(&self, kind: SpanKind, counter: SpanCounter) -> u64 {
        self.slot(kind).map_or(0, |slot| self.ledger.get(slot + counter as u32, 0))
    }

    fn counts(&self, kind: SpanKind) -> Counts {
        let get = |counter| self.counter(kind, counter);
        // Each instruction takes two cycles.
        assert_eq!(get(SpanCounter::SumCycles), 2 * get(SpanCounter::Sum));
        assert_eq!(get(SpanCounter::MaxCycles), 2 * get(SpanCounter::Max));
        let shortest = if get(SpanCounter::Count) == 0 { 0 } else { !get(SpanCounter::MinComplement) };
        (get(SpanCounter::Count), get(SpanCounter::Sum), shortest, get(SpanCounter::Max))
    }

    fn events(&self) -> Vec<What> {
        let events = Decoder::new(self.ledger.records().stream(StreamFile::Timeline));
        events.map(|event| event.unwrap().what).collect()
    }

    /// An exception comes, and its handler's first instruction.
    fn take(&mut self, number: u64) {
        let taken =
            Taken { number, handler: HANDLER, entry_sp: 0x300, saved_sp: 0x300, interrupted: None, below: None };
        let Run { follow, guest, code, ledger } = self;
        let Follow { cores, tree, .. } = follow;
        enter(&mut cores[0], tree.as_mut(), taken, guest, code, ledger);
        self.follow.masks().unwrap().handler_starts(0, number, &mut self.guest, &mut self.ledger);
    }
}

#[test]
fn masked_stretch_lasts_until_interrupts_are_unmasked() {
    // At reset, those of Arm are unmasked; those of RISC-V are masked, which is not a span.
    for (isa, first) in [(Isa::ThumbV7m, 1), (Isa::Riscv32, 0)] {
        let mut run = Run::exact(isa);
        run.mask(0x10, true);
        run.after(4);
        // Masking what is masked begins nothing.
        run.mask(0x14, true);
        run.mask(0x18, false);
        let expected = if first == 1 { (1, 6, 6, 6) } else { (0, 0, 0, 0) };
        assert_eq!(run.counts(SpanKind::Masked), expected, "{isa:?}");
        run.mask(0x20, true);
        run.after(9);
        run.mask(0x24, false);
        let expected = if first == 1 { (2, 16, 6, 10) } else { (1, 10, 10, 10) };
        assert_eq!(run.counts(SpanKind::Masked), expected);
        assert_eq!(run.counter(SpanKind::Masked, SpanCounter::LongestAt), 0x20);
        // No instruction has changed it.
        run.set_mask(true);
        run.follow.masks().unwrap().check_mask(0, &mut run.guest, &mut run.ledger);
        let both = |_| [What::Masked, What::Unmasked];
        assert_eq!(run.events(), (0..=first).flat_map(both).collect::<Vec<_>>());
        // One that the window opens in is not whole.
        run.mask(0x28, true);
        run.follow.restart(&run.ledger);
        run.mask(0x2c, false);
        assert_eq!(run.counts(SpanKind::Masked), expected);
    }
}

#[test]
fn return_of_an_arm_handler_unmasks_without_an_instruction_for_it() {
    let mut run = Run::exact(Isa::ThumbV7m);
    run.mask(0x10, true);
    run.after(4);
    run.set_mask(false);
    run.follow.masks().unwrap().check_mask(0, &mut run.guest, &mut run.ledger);
    assert_eq!(run.counts(SpanKind::Masked), (1, 4, 4, 4));
}

#[test]
fn trap_right_behind_an_instruction_does_not_hide_its_mask() {
    let mut run = Run::exact(Isa::Riscv32);
    run.mask(0x10, false);
    // It masks interrupts, and faults at the next instruction: MPIE is clear.
    run.follow.masks().unwrap().mask_may_change(0, 0x14);
    run.set("mstatus", 0x1800);
    run.take(5);
    run.after(6);
    // The handler leaves them masked, and its return is not their end.
    trap_return(&mut run.follow.cores[0], run.follow.tree.as_mut(), &mut run.ledger);
    run.after(5);
    run.mask(0x18, false);
    assert_eq!(run.counts(SpanKind::Masked), (1, 12, 12, 12));
    assert_eq!(run.counter(SpanKind::Masked, SpanCounter::LongestAt), 0x14);
    // A trap that masks by itself begins none, until its handler's return leaves them so.
    run.set("mstatus", 0x1880);
    run.take(5);
    run.after(7);
    trap_return(&mut run.follow.cores[0], run.follow.tree.as_mut(), &mut run.ledger);
    assert_eq!(run.counts(SpanKind::Masked).0, 1);
    assert_eq!(run.counts(SpanKind::Exception { number: 5 }), (2, 13, 6, 7));
    run.mask(0x1c, true);
    run.mask(0x20, false);
    assert_eq!(run.counts(SpanKind::Masked), (2, 13, 1, 12));
}

#[test]
fn latency_of_pendsv_begins_with_the_first_store() {
    let mut run = Run::exact(Isa::ThumbV7m);
    let pend = |run: &mut Run, is_pending, pc| {
        run.follow.masks().unwrap().pend(0, is_pending, pc, &run.ledger);
        run.follow.pend_switch(0, is_pending);
    };
    pend(&mut run, true, 0x10);
    run.after(5);
    pend(&mut run, true, 0x14);
    run.after(5);
    run.take(14);
    assert_eq!(run.counts(SpanKind::PendSv), (1, 10, 10, 10));
    assert_eq!(run.counter(SpanKind::PendSv, SpanCounter::LongestAt), 0x10);
    // One that is cleared has no latency, and other exceptions have none.
    pend(&mut run, true, 0x18);
    pend(&mut run, false, 0x1c);
    run.take(14);
    pend(&mut run, true, 0x20);
    run.take(15);
    assert_eq!(run.counts(SpanKind::PendSv).0, 1);
}

#[test]
fn timeline_without_the_tree_has_masks_and_no_counters() {
    let wanted = Wanted { functions: Vec::new(), waits: None };
    let mut run = Run::new(Isa::ThumbV7m, Measure { timeline: Some(wanted), ..Measure::default() });
    assert!(run.follow.masks_alone().is_some() && run.follow.has_contexts && run.follow.has_exceptions(false));
    run.mask(0x10, true);
    run.mask(0x14, false);
    assert_eq!((run.events(), run.slot(SpanKind::Masked)), (vec![What::Masked, What::Unmasked], None));
    // As the window opens in one, its end is none.
    run.mask(0x18, true);
    run.follow.restart(&run.ledger);
    run.mask(0x1c, false);
    assert_eq!(run.events().len(), 3);
    // With the tree, the tree has them; with neither, nobody.
    assert!(Run::exact(Isa::ThumbV7m).follow.masks_alone().is_none());
    let mut none = Run::new(Isa::ThumbV7m, Measure::default());
    assert!(none.follow.masks().is_none() && !none.follow.has_exceptions(false) && none.follow.has_exceptions(true));
}

proptest! {
    #![proptest_config(config())]

    /// Spans of two addresses: all that have begun end at once.
    #[test]
    fn spans_end_all_at_the_next_end(steps in prop::collection::vec((0..4_u64, 0..20_u64), 1..60)) {
        // The second is the first one once more, and the third begins where the others end.
        let spans = vec![(vec![0, 1], vec![2]), (vec![0, 1], vec![2]), (vec![2], vec![3])];
        let mut run = Run::new(Isa::Riscv32, Measure { spans, ..Measure::default() });
        let mut open: [Vec<u64>; 2] = Default::default();
        let mut expected = [(0, 0, u64::MAX, 0); 2];
        let mut now = 0;
        for (pc, insns) in steps {
            run.after(insns);
            now += insns;
            let bounds = run.follow.betweens.bounds(pc);
            prop_assert_eq!(bounds, (pc != 3, pc >= 2));
            run.follow.betweens.end(0, pc, &run.ledger);
            run.follow.betweens.begin(0, pc, &run.ledger);
            for (index, (ends, begins)) in [(pc == 2, pc < 2), (pc == 3, pc == 2)].into_iter().enumerate() {
                if ends {
                    for began in open[index].drain(..) {
                        let (count, sum, min, max) = expected[index];
                        let length = now - began;
                        expected[index] = (count + 1, sum + length, length.min(min), length.max(max));
                    }
                }
                if begins {
                    open[index].push(now);
                }
            }
        }
        for (index, kind) in [(0, SpanKind::Between { from: 0, until: 2 }), (1, SpanKind::Between { from: 2, until: 3 })] {
            let (count, sum, min, max) = expected[index];
            // What is asked for twice is counted twice.
            let twice = if index == 0 { 2 } else { 1 };
            let min = if count == 0 { 0 } else { min };
            prop_assert_eq!(run.counts(kind), (twice * count, twice * sum, min, max));
        }
        run.follow.restart(&run.ledger);
        let before = run.counts(SpanKind::Between { from: 0, until: 2 });
        run.follow.betweens.end(0, 2, &run.ledger);
        prop_assert_eq!(run.counts(SpanKind::Between { from: 0, until: 2 }), before);
    }
}
