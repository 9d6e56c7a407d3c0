// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles of Cortex-M's exceptions by the modes in which code was translated: an entry belongs to the handler that begins, a return
//! to the one that ends, and what is not known widens the interval.

use std::collections::BTreeMap;

use engine::ledger::Ledger;
use engine::passage::{Mode, Passages};
use pipeline::model::Insn;
use wire::core::{CLASSES, Core, Cortex};
use wire::definition::Definition;

use crate::fake::{Books, ledger};

const NOP: u16 = 0xbf00;
const BX_LR: u16 = 0x4770;
const B: u16 = 0xe7fe;
const BLX_R3: u16 = 0x4798;

const THREAD: u64 = 0x100;
const HANDLER: u64 = 0x200;
const OTHER: u64 = 0x300;

const VECTOR: Mode = Mode::Handler { is_vector: true, leads_to: None };

struct Run {
    passages: Passages,
    ledger: Ledger<Books>,
    insns: u64,
}

impl Run {
    fn of(cortex: Cortex) -> Run {
        let core = Core { cortex: Some(cortex), cycles: vec![None; CLASSES], ..Core::default() };
        let mut ledger = ledger(1);
        let passages = Passages::new(&core, 1, &mut ledger);
        Run { passages, ledger, insns: 0 }
    }

    /// Goes through blocks of two instructions, of which so many start.
    fn through(mut self, path: &[(u64, [u16; 2], Mode, u64)]) -> BTreeMap<u64, [u64; 3]> {
        for &(pc, code, mode, started) in path {
            let insns = code.iter().map(|code| self.passages.decode(&code.to_le_bytes())).collect::<Vec<Insn>>();
            let number = self.passages.code(pc, insns, mode);
            self.passages.begin(0, number, self.insns, &mut self.ledger);
            self.insns += started;
        }
        self.passages.end(0, self.insns, &mut self.ledger);
        let sums = self.sums();
        let clock: u64 = sums.values().map(|[_, nominal, _]| nominal).sum();
        assert_eq!((self.ledger.time(0).cycles, self.passages.run_cycles()), (clock, clock));
        sums
    }

    /// Least, nominal and most cycles by address.
    fn sums(&self) -> BTreeMap<u64, [u64; 3]> {
        let mut sums = BTreeMap::new();
        let mut add = |pc, times: u64, cycles: u64, fewer: u64, more: u64| {
            let sum: &mut [u64; 3] = sums.entry(pc).or_default();
            for (sum, each) in sum.iter_mut().zip([cycles - fewer, cycles, cycles + more]) {
                *sum += times * each;
            }
        };
        for definition in self.ledger.records().definitions() {
            match definition {
                Definition::Slower { slot, pc, cycles, doubt } => {
                    add(pc, self.ledger.get(slot, 0), cycles as u64, doubt.fewer, doubt.more);
                }
                Definition::Passage { slot, mut pc, sizes, cycles, doubts } => {
                    let times = self.ledger.get(slot, 0);
                    for (index, (size, cycles)) in sizes.into_iter().zip(cycles).enumerate() {
                        let (fewer, more) = doubts.get(index).map_or((0, 0), |doubt| (doubt.fewer, doubt.more));
                        add(pc, times, cycles, fewer, more);
                        pc += u64::from(size);
                    }
                }
                _ => {}
            }
        }
        sums
    }
}

/// A thread's loop, once, and the handler that comes behind it, three times.
fn interrupted(times: usize) -> Vec<(u64, [u16; 2], Mode, u64)> {
    let round = [(THREAD, [NOP, B], Mode::Thread, 2), (HANDLER, [NOP, BX_LR], VECTOR, 2)];
    std::iter::repeat_n(round, times).flatten().chain([(THREAD, [NOP, B], Mode::Thread, 2)]).collect()
}

#[test]
fn an_entry_belongs_to_the_handler_and_a_return_to_its_last_instruction() {
    let once = Run::of(Cortex::M3).through(&interrupted(1));
    // Entry, and the cycles until the first word of the handler executes.
    assert_eq!(once[&HANDLER], [6 + 1, 12 + 1, 12 + 1]);
    assert_eq!(once[&(HANDLER + 2)], [8 + 1, 10 + 1, 12 + 1]);
    // Remembered passages have the same.
    let often = Run::of(Cortex::M3).through(&interrupted(5));
    for pc in [HANDLER, HANDLER + 2] {
        assert_eq!(often[&pc], once[&pc].map(|cycles| 5 * cycles), "{pc:#x}");
    }
    // Found at the beginning of a block, of which nothing starts, it is the same.
    let mut path = interrupted(1);
    path.insert(1, (THREAD, [NOP, B], Mode::Thread, 0));
    assert_eq!(Run::of(Cortex::M3).through(&path)[&HANDLER], once[&HANDLER]);
    // FPU's registers may be stored, and loaded again.
    let float = Run::of(Cortex::M4).through(&interrupted(1));
    assert_eq!((float[&HANDLER][2], float[&(HANDLER + 2)][2]), (29 + 1, 29 + 1));
}

#[test]
fn a_handler_behind_or_within_another_is_between_both() {
    let chained = |leads_to, started| {
        [
            (THREAD, [NOP, B], Mode::Thread, 2),
            (HANDLER, [NOP, BX_LR], Mode::Handler { is_vector: true, leads_to }, started),
            (OTHER, [NOP, BX_LR], VECTOR, 2),
            (THREAD, [NOP, B], Mode::Thread, 2),
        ]
    };
    let followed = Run::of(Cortex::M3).through(&chained(None, 2));
    // Six if it follows a return, which is most likely; the entry and a later return if it has preempted.
    assert_eq!(followed[&OTHER], [6 + 1, 6 + 1, 12 + 11 + 1]);
    assert_eq!(followed[&(HANDLER + 2)][1], 1, "it has not returned");
    let mut path = chained(None, 2);
    path[1].1[1] = NOP;
    let nested = Run::of(Cortex::M3).through(&path);
    assert_eq!(nested[&OTHER], [6 + 1, 12 + 9 + 1, 12 + 11 + 1]);
    // A call through a register takes nothing more, if it is one.
    path[1].1[1] = BLX_R3;
    assert_eq!(Run::of(Cortex::M3).through(&path)[&OTHER], [1 + 1, 1 + 1, 12 + 11 + 1]);
    // In the middle of the first handler, whatever its last instruction says.
    let within = Run::of(Cortex::M3).through(&chained(Some(OTHER), 1));
    assert_eq!(within[&OTHER], nested[&OTHER]);
    // A jump, branch or call that the code names makes none.
    let jumped = Run::of(Cortex::M3).through(&chained(Some(OTHER), 2));
    assert_eq!(jumped[&OTHER], [1; 3]);
    // Nor is code that no vector names.
    let mut path = chained(None, 2);
    path[2].2 = Mode::Handler { is_vector: false, leads_to: None };
    assert_eq!(Run::of(Cortex::M3).through(&path)[&OTHER], [1; 3]);
}
