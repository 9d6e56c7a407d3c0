// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles of an AVR beyond the usual ones: taken branches, skipped instructions, halts for the EEPROM, interrupts, also out of
//! sleep.

use std::collections::BTreeMap;

use decode::Isa as Decoded;
use engine::block::Block;
use engine::cycles::{Cycles, EECR};
use engine::guest::Guest;
use engine::ledger::Ledger;
use engine::skip::Skips;
use engine::time::Time;
use wire::counters::CLOCK;
use wire::definition::Definition;
use wire::request::{Isa, Measure};

use crate::fake::{Books, Fake, guest, ledger, request};

fn bytes(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Skips one after the other, in the middle of a block.
fn skips(words: &[u16]) -> Skips {
    words.iter().fold(Skips::default(), |skips, &word| skips.after(&bytes(&[word])))
}

struct Run {
    cycles: Cycles,
    guest: Guest<Fake>,
    ledger: Ledger<Books>,
}

impl Run {
    fn new() -> Run {
        let mut fake = Fake::default();
        for register in (0..32).map(|number| format!("r{number}")).chain(["sp".to_owned(), "sreg".to_owned()]) {
            fake.set(&register, 0);
        }
        let measure = Measure { has_cycles: true, ..Measure::default() };
        let mut ledger = ledger(1);
        let cycles = Cycles::new(&mut ledger);
        Run { cycles, guest: guest(&request(Isa::AvrPc16, None, measure), fake), ledger }
    }

    /// Translates an instruction of one or two words. Returns whether its cycles depend on what it finds.
    fn plan(&mut self, pc: u64, words: &[u16], after_skip: bool) -> bool {
        self.cycles.plan(Decoded::AvrPc16, pc, &bytes(words), after_skip)
    }

    fn set(&mut self, register: &str, value: u64) {
        self.guest.registers().unwrap().set(register, value);
    }

    fn start(&mut self, pc: u64) {
        self.cycles.start(0, pc, false, None, &mut self.guest, &mut self.ledger);
    }

    /// Starts an instruction that comes after skips. `ports`: values that the devices have.
    fn start_after(&mut self, pc: u64, skips: &Skips, ports: &[u8]) {
        self.start_in(true, pc, skips, ports);
    }

    /// Does so in a block whose first instruction is skipped or not.
    fn start_in(&mut self, is_block_skipped: bool, pc: u64, skips: &Skips, ports: &[u8]) {
        let is_skipped = skips.skip(is_block_skipped, ports.iter().copied(), &mut self.guest);
        self.cycles.start(0, pc, is_skipped, None, &mut self.guest, &mut self.ledger);
    }

    /// An interrupt after so many instructions, with an address of so many bytes on the stack.
    fn interrupt(&mut self, insns: u64, pc_bytes: u64) {
        self.cycles.interrupt(0x2c, insns, pc_bytes);
        self.cycles.enter(0, &mut self.ledger);
        // It is entered once.
        self.cycles.enter(0, &mut self.ledger);
    }

    /// Cycles beyond the usual ones by address and number, with the times.
    fn counted(&self) -> BTreeMap<(u64, i64), u64> {
        let definitions = self.ledger.records().definitions();
        let counted = definitions.iter().filter_map(|definition| match *definition {
            Definition::Slower { slot, pc, cycles, .. } => Some(((pc, cycles), self.ledger.get(slot, 0))),
            _ => None,
        });
        counted.collect()
    }
}

#[test]
fn a_branch_takes_a_cycle_more_if_it_is_taken() {
    let mut run = Run::new();
    // brne: taken while Z, bit 1, is clear. breq: while it is set.
    assert!(run.plan(0x10, &[0xf7f1], false) && run.plan(0x12, &[0xf009], false));
    for status in [0, 2, 0xfd, 0] {
        run.set("sreg", status);
        run.start(0x10);
        run.start(0x12);
    }
    assert_eq!(run.counted(), BTreeMap::from([((0x10, 1), 3), ((0x12, 1), 1)]));
}

#[test]
fn a_skipped_instruction_takes_a_cycle_for_each_of_its_words() {
    let mut run = Run::new();
    // sbrc r24, 3; call. The call takes four cycles, and two if it is skipped.
    let sbrc = skips(&[0xfd83]);
    assert!(run.plan(0x22, &[0x940e, 0x100], true));
    for value in [0, 8, 0xf7, 0xff, 0] {
        run.set("r24", value);
        run.start_after(0x22, &sbrc, &[]);
    }
    // A jump to it skips nothing; where it begins a block, the same code comes with a skip before it and without.
    run.start(0x22);
    run.start_after(0x22, &Skips::at_block(true), &[]);
    run.start_in(false, 0x22, &Skips::at_block(true), &[]);
    run.start_after(0x22, &Skips::at_block(false), &[]);
    // Whichever of the two is translated last.
    assert!(run.plan(0x22, &[0x940e, 0x100], false));
    assert_eq!(run.counted(), BTreeMap::from([((0x22, -2), 4)]));
    assert!(!run.plan(0x30, &[0x9508], false), "ret that nothing skips always takes four");
    assert!(!run.plan(0x30, &[0x9100, 0x100], true), "lds takes two, skipped or not");
    assert!(!run.plan(0x32, &[0x95e8], false), "spm, whose cycles are not known");
    assert!(run.plan(0x34, &[0x95e8], true));
    run.start(0x34);
    run.start_after(0x34, &Skips::at_block(true), &[]);
    assert_eq!(run.counted()[&(0x34, 1)], 1, "a skipped spm takes one");
}

#[test]
fn what_is_skipped_neither_branches_nor_skips() {
    let mut run = Run::new();
    // cpse r1, r2; brne. cpse r1, r2; sbrs r3, 0; adiw.
    let (cpse, both) = (skips(&[0x1012]), skips(&[0x1012, 0xfe30]));
    run.plan(0x42, &[0xf7f1], true);
    run.plan(0x54, &[0x9601], true);
    for (equal, bit) in [(true, 1), (true, 0), (false, 1), (false, 0)] {
        run.set("r1", u64::from(equal));
        run.set("r2", 1);
        run.set("r3", bit);
        run.start_after(0x42, &cpse, &[]);
        run.start_after(0x54, &both, &[]);
    }
    // adiw is skipped once: the skip before it executes twice, with the bit set once.
    assert_eq!(run.counted(), BTreeMap::from([((0x42, 1), 2), ((0x54, -1), 1)]));
    // The instruction behind the skips ends them.
    assert!(both.after(&bytes(&[0x9601])).are_none() && !cpse.are_none() && !Skips::at_block(true).are_none());
}

#[test]
fn a_ports_bit_decides_as_the_device_has_it() {
    let mut run = Run::new();
    // sbis 0x16, 1 (TIFR1); sbic 0x03, 0 (PINB); rjmp.
    let (sbis, both) = (skips(&[0x9bb1]), skips(&[0x9bb1, 0x9918]));
    run.plan(0x62, &[0xcffe], true);
    assert_eq!(sbis.ports().collect::<Vec<_>>(), [(0x80_0036, 1)]);
    assert_eq!(both.ports().collect::<Vec<_>>(), [(0x80_0036, 2), (0x80_0023, 1)]);
    for value in [0, 0xfd, 2] {
        run.start_after(0x62, &sbis, &[value]);
        run.start_after(0x62, &both, &[value, 0]);
    }
    assert_eq!(run.counted(), BTreeMap::from([((0x62, -1), 3)]));
}

#[test]
fn the_processor_halts_for_the_eeprom() {
    let mut run = Run::new();
    // sbi EECR, EERE; sbi EECR, EEPE; out EECR, r24; out EEDR, r24; sbi EEDR, 0.
    for (pc, word) in [(0x100, 0x9af8), (0x104, 0x9af9), (0x108, 0xbb8f)] {
        assert!(run.plan(pc, &[word], false) && run.cycles.at(pc).unwrap().needs_eeprom(), "{word:x}");
    }
    assert!(!run.plan(0x200, &[0xbd80], false) && !run.plan(0x204, &[0x9af0], false));
    // sts EECR, r25; st Z, r25; std Y+5, r25; st -X, r25; sts EEDR, r25; ld r25, Z.
    for (pc, words) in [(0x300, &[0x9390, 0x3f][..]), (0x304, &[0x8390]), (0x306, &[0x839d]), (0x308, &[0x939e])] {
        assert!(run.cycles.plan_store(pc, &bytes(words)));
    }
    assert!(
        run.cycles.plan_store(0x400, &bytes(&[0x9390, 0x40])) && !run.cycles.plan_store(0x404, &bytes(&[0x8190]))
    );
    for (register, value) in [("r24", 1), ("r25", 2), ("r26", 0x40), ("r28", 0x3a), ("r30", 0x3f)] {
        run.set(register, value);
    }
    let to_eeprom = |run: &mut Run, pc| run.cycles.is_to_eeprom(pc, &mut run.guest);
    assert!(!to_eeprom(&mut run, 0x400) && !to_eeprom(&mut run, 0x404));
    assert_eq!(EECR, 0x80_003f);
    // Ready; a write is allowed; a write is under way.
    for control in [0, 4, 2] {
        for pc in [0x100, 0x104, 0x108] {
            run.cycles.start(0, pc, false, Some(control), &mut run.guest, &mut run.ledger);
        }
        for pc in [0x300, 0x304, 0x306, 0x308] {
            assert!(to_eeprom(&mut run, pc), "{pc:x}");
            run.cycles.store(0, pc, control, &mut run.guest, &mut run.ledger);
        }
    }
    let reads = [((0x100, 4), 2), ((0x108, 4), 2)];
    let writes = [0x104, 0x300, 0x304, 0x306, 0x308].map(|pc| ((pc, 2), 1));
    assert_eq!(run.counted(), BTreeMap::from_iter(reads.into_iter().chain(writes)));
}

#[test]
fn an_interrupt_takes_four_cycles_and_eight_out_of_sleep() {
    let mut run = Run::new();
    run.interrupt(100, 2);
    run.cycles.sleep(200);
    run.interrupt(200, 2);
    run.cycles.sleep(300);
    // An instruction after the sleep came first.
    run.interrupt(301, 2);
    run.interrupt(400, 3);
    assert_eq!(run.counted(), BTreeMap::from([((0x2c, 4), 2), ((0x2c, 8), 1), ((0x2c, 5), 1)]));
    assert_eq!(run.ledger.time(0).cycles, 2 * 4 + 8 + 5, "the clock has them, too");
}

/// A block of lds (two words, two cycles), nop, brne, which starts and is taken: what an event at each of its instructions
/// leaves of its cycles, and what comes back.
#[test]
fn what_came_after_an_event_is_taken_back_and_comes_back() {
    let mut run = Run::new();
    let code: [(u64, &[u16]); 3] = [(0x10, &[0x9180, 0x100]), (0x14, &[0x0000]), (0x16, &[0xf7d1])];
    for (pc, words) in code {
        run.plan(pc, words, false);
    }
    assert_eq!([0x10, 0x14, 0x16, 0x18].map(|pc| run.cycles.usual(pc)), [2, 1, 1, 0]);
    let sizes = [4, 2, 2].into();
    let block = Block { pc: 0x10, function: None, sizes, segments: Box::new([]), exits: Box::new([]) };
    // Generated code adds the usual cycles as the block starts.
    run.ledger.set(CLOCK, 0, 3);
    run.ledger.add_cycles(0, 4);
    run.start(0x16);
    let all = (run.ledger.time(0), run.counted());
    assert_eq!(all, (Time { insns: 3, cycles: 5 }, BTreeMap::from([((0x16, 1), 1)])));
    for (index, cycles, taken) in [(0, 2, 0), (1, 3, 0), (2, 5, 1)] {
        let taken_back = run.cycles.take_back(0, &block, (index, 2 - index), index + 1, &run.ledger);
        assert_eq!(run.ledger.time(0).cycles, cycles, "{index}");
        assert_eq!(run.counted()[&(0x16, 1)], taken, "{index}");
        taken_back.restore(0, &run.ledger);
        assert_eq!((run.ledger.time(0), run.counted()), all);
    }
    // The block was left behind its first instruction, which starts again.
    run.cycles.amend(0, &block, 1, &run.ledger);
    assert_eq!(run.ledger.time(0).cycles, 5 - 2);
    run.cycles.unstart(0, 0x10, &run.ledger);
    assert_eq!(run.ledger.time(0).cycles, 5 - 2 - 2);
    // What was counted before the window is none of it.
    run.cycles.restart();
    run.cycles.take_back(0, &block, (2, 0), 0, &run.ledger);
    assert_eq!(run.counted()[&(0x16, 1)], 1);
}
