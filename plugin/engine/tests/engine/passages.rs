// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles by passages through blocks: whatever path is taken, and wherever blocks are left, they are those of stepping each
//! instruction.

use std::collections::BTreeMap;

use engine::ledger::Ledger;
use engine::passage::{Mode, Passages};
use pipeline::{Class, Insn, State, model};
use proptest::prelude::*;
use wire::core::{CLASSES, Core, Queue};
use wire::definition::Definition;
use wire::request::{Isa, Measure};

use crate::fake::{Books, Fake, config, guest, ledger, request};

const PC: u64 = 0x8000_0000;

/// nop, lw a0, add a2 a0 a0, c.nop, mul a2, div a2 a0 a1.
const PLAIN: [u32; 6] = [0x13, 0x0005_a503, 0x00a5_0633, 1, 0x02b5_0633, 0x02b5_4633];
/// bnez a0, c.bnez a0, jal, ret: to anywhere.
const JUMPS: [u32; 4] = [0x0005_1063, 0xe101, 0x0000_006f, 0x0000_8067];

fn core() -> Core {
    let mut cycles = vec![Some(1); CLASSES];
    cycles[Class::Divide as usize] = Some(19);
    cycles[Class::Multiply as usize] = Some(3);
    let queue = Some(Queue { words: 2, has_predictor: true });
    Core { cycles, is_compressed: true, load_use: 1, negative_dividend: 1, queue, ..Core::default() }
}

fn insn(code: u32) -> Insn {
    Insn::decode(&code.to_le_bytes())
}

/// A block: its address, and its instructions.
#[derive(Clone, Debug)]
struct Code {
    pc: u64,
    insns: Vec<Insn>,
}

impl Code {
    fn pc_of(&self, index: usize) -> u64 {
        self.pc + self.insns[..index].iter().map(|insn| u64::from(insn.len_bytes)).sum::<u64>()
    }
}

struct Run {
    passages: Passages,
    ledger: Ledger<Books>,
    insns: u64,
}

impl Run {
    fn new() -> Run {
        let mut ledger = ledger(1);
        let passages = Passages::new(&core(), 1, &mut ledger);
        Run { passages, ledger, insns: 0 }
    }

    /// Goes through a block, of whose instructions `started` start. Returns whether control has turned before it.
    fn go(&mut self, code: &Code, started: usize) -> bool {
        let number =
            self.passages.code(code.pc, code.insns.iter().cloned().map(model::Insn::Riscv).collect(), Mode::Thread);
        let is_turn = self.passages.begin(0, number, self.insns, &mut self.ledger);
        self.insns += started as u64;
        is_turn
    }

    /// Instructions and cycles of the run at each turn of a path.
    fn turns(mut self, path: &[(Code, usize)]) -> Vec<(u64, u64)> {
        let mut turns = Vec::new();
        for (code, started) in path {
            let insns = self.insns;
            if self.go(code, *started) {
                turns.push((insns, self.passages.run_cycles()));
            }
        }
        turns
    }

    fn end(&mut self) {
        self.passages.end(0, self.insns, &mut self.ledger);
    }

    fn clock(&self) -> u64 {
        self.ledger.time(0).cycles
    }

    /// Cycles by address, as harness adds them up.
    fn by_pc(&self) -> BTreeMap<u64, i64> {
        let mut sums = BTreeMap::new();
        for definition in self.ledger.records().definitions() {
            match definition {
                Definition::Slower { slot, pc, cycles, .. } => {
                    *sums.entry(pc).or_default() += self.ledger.get(slot, 0) as i64 * cycles;
                }
                Definition::Passage { slot, mut pc, sizes, cycles, .. } => {
                    for (size, cycles) in sizes.into_iter().zip(cycles) {
                        *sums.entry(pc).or_default() += self.ledger.get(slot, 0) as i64 * cycles as i64;
                        pc += u64::from(size);
                    }
                }
                _ => {}
            }
        }
        sums.retain(|_, sum| *sum != 0);
        sums
    }
}

/// The model: cycles, by address, of the first `insns` instructions of a path, one after the other.
fn stepped(path: &[(Code, usize)], insns: usize) -> BTreeMap<u64, i64> {
    let core = core();
    let steps: Vec<(u64, Insn)> = path
        .iter()
        .flat_map(|(code, started)| (0..*started).map(|index| (code.pc_of(index), code.insns[index].clone())))
        .collect();
    let mut sums = BTreeMap::new();
    let mut state = State::at_reset(&core, steps[0].0);
    state.wait(&core, steps[0].0, &steps[0].1);
    for (index, (pc, insn)) in steps.iter().enumerate().take(insns) {
        let next = steps.get(index + 1);
        let to = next.map_or(pc + u64::from(insn.len_bytes), |next| next.0);
        let cycles = state.execute(&core, *pc, insn, to) + next.map_or(0, |next| state.wait(&core, to, &next.1));
        *sums.entry(*pc).or_default() += cycles as i64;
    }
    sums
}

/// Blocks that do not overlap, and a path over them: block, and how many of its instructions start.
fn paths() -> impl Strategy<Value = Vec<(Code, usize)>> {
    let code = (prop::collection::vec(0..PLAIN.len(), 0..4), 0..JUMPS.len());
    (prop::collection::vec(code, 2..6), prop::collection::vec((any::<prop::sample::Index>(), 0..8_usize), 1..60))
        .prop_map(|(codes, path)| {
            let codes: Vec<Code> = codes
                .into_iter()
                .enumerate()
                .map(|(index, (plain, jump))| {
                    let insns = plain.into_iter().map(|at| insn(PLAIN[at])).chain([insn(JUMPS[jump])]).collect();
                    // Some begin in the middle of a word.
                    Code { pc: PC + 64 * index as u64 + 2 * (index as u64 % 2), insns }
                })
                .collect();
            let goes = path.into_iter().map(|(index, early)| {
                let code = codes[index.index(codes.len())].clone();
                // Most blocks are executed as a whole.
                let started = if early < code.insns.len() && early > 0 { early } else { code.insns.len() };
                (code, started)
            });
            goes.collect()
        })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn passages_take_what_stepping_each_instruction_takes(path in paths()) {
        let mut run = Run::new();
        for (code, started) in &path {
            run.go(code, *started);
        }
        run.end();
        let stepped = stepped(&path, usize::MAX);
        prop_assert_eq!(run.by_pc(), stepped.clone());
        prop_assert_eq!(run.clock() as i64, stepped.values().sum::<i64>(), "the clock has the same");
    }

    #[test]
    fn turns_and_their_cycles_do_not_depend_on_how_code_is_cut(path in paths(), cut in 1..4_usize) {
        // Each block in pieces, as QEMU may translate it.
        let mut pieces = Vec::new();
        for (code, started) in &path {
            for (index, insns) in code.insns.chunks(cut).enumerate().filter(|(index, _)| index * cut < *started) {
                let piece = Code { pc: code.pc_of(index * cut), insns: insns.to_vec() };
                pieces.push((piece, insns.len().min(started - index * cut)));
            }
        }
        let turns = Run::new().turns(&path);
        prop_assert_eq!(Run::new().turns(&pieces), turns.clone());
        // A turn is where an instruction ends that may jump, or where the next is not the one behind it.
        let mut steps = path.iter().flat_map(|(code, started)| (0..*started).map(move |at| (code, at))).peekable();
        let (mut expected, mut insns) = (Vec::new(), 0);
        while let Some((code, at)) = steps.next() {
            insns += 1;
            let Some((next, next_at)) = steps.peek() else { break };
            if code.insns[at].class.may_jump() || next.pc_of(*next_at) != code.pc_of(at + 1) {
                expected.push(insns);
            }
        }
        prop_assert_eq!(turns.iter().map(|(insns, _)| *insns).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_window_has_what_is_left_of_the_run(path in paths(), at in any::<prop::sample::Index>(), within in 0..4_usize) {
        let mut run = Run::new();
        let at = at.index(path.len());
        let mut before = Vec::new();
        for (index, (code, started)) in path.iter().enumerate() {
            run.go(code, *started);
            if index == at {
                // The window opens in the middle of this block, or before it.
                let within = within.min(*started);
                run.ledger.clear_counters();
                run.passages.restart(0, run.insns - *started as u64 + within as u64);
                before = path[..index].to_vec();
                before.push((code.clone(), within));
            }
        }
        run.end();
        // The last instruction before the window takes until the next one starts, which its own end does not tell.
        let mut whole = stepped(&path, usize::MAX);
        let taken = stepped(&path, before.iter().map(|(_, started)| started).sum());
        for (pc, cycles) in taken {
            *whole.get_mut(&pc).unwrap() -= cycles;
        }
        whole.retain(|_, sum| *sum != 0);
        prop_assert_eq!(run.by_pc(), whole);
    }

    #[test]
    fn cycles_that_are_taken_back_can_be_restored(path in paths(), over in 1..6_u64) {
        let mut run = Run::new();
        for (code, started) in &path {
            run.go(code, *started);
            let (clock, by_pc) = (run.clock(), run.by_pc());
            // The block has just begun: what is taken back is the end of the one before.
            let begun = run.insns - *started as u64;
            let kept = begun.saturating_sub(over);
            if let Some(taken) = run.passages.take_back(0, kept, &mut run.ledger) {
                prop_assert!(run.clock() < clock && run.by_pc() != by_pc);
                prop_assert_eq!(run.by_pc().values().sum::<i64>(), run.clock() as i64);
                taken.restore(0, &run.ledger);
            }
            prop_assert_eq!((run.clock(), run.by_pc()), (clock, by_pc));
        }
    }
}

#[test]
fn one_way_through_a_block_is_stepped_once() {
    let code = Code { pc: PC, insns: vec![insn(PLAIN[0]), insn(JUMPS[0])] };
    let mut run = Run::new();
    for _ in 0..100 {
        run.go(&code, 2);
    }
    run.end();
    let passages =
        run.ledger.records().definitions().into_iter().filter(|one| matches!(one, Definition::Passage { .. }));
    assert!(passages.count() < 5, "the predictor learns, and then nothing changes");
}

#[test]
fn a_block_of_which_nothing_starts_takes_nothing() {
    let code = Code { pc: PC, insns: vec![insn(PLAIN[0]), insn(JUMPS[0])] };
    let mut run = Run::new();
    for started in [2, 0, 2, 0, 0, 2] {
        run.go(&code, started);
    }
    run.end();
    assert_eq!(run.by_pc(), stepped(&vec![(code, 2); 3], usize::MAX));
    let is_sound = |one: &Definition| !matches!(one, Definition::Passage { sizes, .. } if sizes.is_empty());
    assert!(run.ledger.records().definitions().iter().all(is_sound));
}

#[test]
fn an_interrupt_before_a_block_has_its_entry_and_leaves_the_block_before_as_it_is() {
    // A compressed jump to the upper half of a word: the core has fetched no more than that half.
    let jumping = Code { pc: PC, insns: vec![insn(PLAIN[0]), insn(JUMPS[0])] };
    let compressed = Code { pc: PC + 66, insns: vec![insn(0x0001), insn(0x0001)] };
    let handler = Code { pc: PC + 128, insns: vec![insn(PLAIN[0]), insn(JUMPS[0])] };
    let mut run = Run::new();
    run.go(&jumping, 2);
    assert!(run.go(&compressed, 0), "the jump");
    let cycles = run.passages.run_cycles();
    // The block is looked for again, and then an interrupt comes first.
    assert!(!run.go(&compressed, 0) && !run.go(&handler, 2), "nothing has started");
    assert_eq!(run.passages.run_cycles(), cycles);
    let clock = run.clock();
    let taken = run.passages.take_back(0, 1, &mut run.ledger).expect("the jump is the last that started");
    assert!(run.clock() < clock);
    taken.restore(0, &run.ledger);
    assert!(run.go(&compressed, 2));
    run.end();
    let by_pc = run.by_pc();
    let entry = by_pc[&handler.pc] - by_pc[&jumping.pc];
    let call = core().cycles_of(Class::Call).unwrap() as i64;
    assert!((call..call + 4).contains(&entry), "{entry}: {by_pc:?}");
    assert_eq!(by_pc.values().sum::<i64>(), run.clock() as i64);
    assert_eq!(run.clock(), run.passages.run_cycles());
}

#[test]
fn operands_of_a_division_change_its_cycles() {
    let code = Code { pc: PC, insns: vec![insn(PLAIN[5]), insn(JUMPS[2])] };
    let mut fake = Fake::riscv(0);
    (0..32).for_each(|number| fake.set(&format!("x{number}"), 0));
    let mut guest = guest(&request(Isa::Riscv32, None, Measure::default()), fake);
    let mut run = Run::new();
    let [first, second] = [0, 1].map(|index| model::Insn::Riscv(code.insns[index].clone()));
    assert!(run.passages.plan(PC, &first) && !run.passages.plan(PC + 4, &second));
    for dividend in [7, 0xffff_fff9, 0, 0x8000_0000] {
        run.go(&code, 2);
        guest.registers().unwrap().set("a0", dividend);
        guest.registers().unwrap().set("x10", dividend);
        run.passages.divide(0, PC, &mut guest, &mut run.ledger);
        run.passages.divide(0, PC + 4, &mut guest, &mut run.ledger);
    }
    run.go(&code, 2);
    assert_eq!(run.by_pc()[&PC], 4 * 19 + 2, "two were negative");
    run.passages.divide(0, PC, &mut guest, &mut run.ledger);
    run.go(&code, 0);
    // The fifth division is taken back, with what its operands changed, and its jump.
    let (clock, by_pc) = (run.clock(), run.by_pc());
    assert_eq!(by_pc[&PC], 5 * 19 + 3);
    let taken = run.passages.take_back(0, 8, &mut run.ledger).expect("the block before is over");
    assert_eq!((clock - run.clock(), run.by_pc()[&PC]), (20 + 2, 4 * 19 + 2));
    taken.restore(0, &run.ledger);
    assert_eq!((run.clock(), run.by_pc()), (clock, by_pc));
    // What came before the window is none of it.
    run.passages.restart(0, 10);
    assert!(run.passages.take_back(0, 8, &mut run.ledger).is_none());
}
