// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time by cycles: how far the machine's clock, which QEMU moves by the same time with each instruction, has to be ahead of
//! the instructions so that it shows the time of their cycles.
//!
//! The clock is moved only where control has gone elsewhere than to the next instruction, or could have. These places are the
//! same however QEMU divides the code into blocks, so that a run that is debugged, or measured in another way, has the same
//! time at each instruction. Between them each instruction takes its share.

use wire::request;

use crate::block::Blocks;

/// Nanoseconds in a second.
const NS_PER_S: u128 = 1_000_000_000;

/// Time by cycles.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    rate: request::Pace,
    /// Shares of an instruction by which the clock is ahead.
    ahead: u64,
}

impl Pace {
    /// Time from reset on.
    pub fn new(rate: request::Pace) -> Pace {
        Pace { rate, ahead: 0 }
    }

    /// Moves on to the time of so many cycles of the run, after so many of its instructions. Returns by how many shares of an
    /// instruction the clock is to be moved. Time never goes back; what is less than a share is left to the next time.
    pub fn move_on(&mut self, cycles: u64, insns: u64) -> u64 {
        let ns = u128::from(cycles) * NS_PER_S / u128::from(self.rate.hz);
        let shares = u64::try_from(ns >> self.rate.insn_shift).unwrap_or(u64::MAX);
        let ahead = shares.saturating_sub(insns).max(self.ahead);
        let moved = ahead - self.ahead;
        self.ahead = ahead;
        moved
    }

    /// Binary logarithm of an instruction's share, in ns.
    pub fn insn_shift(&self) -> u8 {
        self.rate.insn_shift
    }

    /// Nanoseconds by which the clock is ahead of the instructions.
    pub fn ahead_ns(&self) -> u64 {
        self.ahead << self.rate.insn_shift
    }

    /// Time after so many instructions, of the block that executes or the one before, in nanoseconds.
    pub fn ns(&self, insns: u64) -> u64 {
        (insns << self.rate.insn_shift) + self.ahead_ns()
    }
}

/// Whether control turns between two blocks. `may_jump`: the last instruction that started may lead elsewhere than to the one
/// behind it.
pub(crate) fn is_turn(may_jump: bool, behind_pc: u64, next_pc: u64) -> bool {
    may_jump || next_pc != behind_pc
}

/// Turns of control between blocks, where nothing else follows how they go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    last: Option<Begun>,
}

/// A block that has begun.
#[derive(Clone, Copy, Debug)]
struct Begun {
    block: usize,
    /// Whether its last instruction may lead elsewhere.
    may_jump: bool,
    /// Instructions of the run before it.
    since_insns: u64,
}

impl Turns {
    /// Begins a block, after so many instructions of the run; `may_jump`: its last one may lead elsewhere. Returns whether control
    /// has turned there.
    pub fn begin(&mut self, block: usize, may_jump: bool, insns: u64, blocks: &Blocks) -> bool {
        let pc = blocks.get(block).pc;
        let last = self.last.replace(Begun { block, may_jump, since_insns: insns });
        last.is_some_and(|last| {
            let block = blocks.get(last.block);
            let started = insns.saturating_sub(last.since_insns).min(block.insns());
            is_turn(last.may_jump && started == block.insns(), block.pc_of(started), pc)
        })
    }

    /// Takes back the start of an instruction before the block that has begun: it starts again.
    pub fn unstart(&mut self) {
        if let Some(last) = &mut self.last {
            last.since_insns = last.since_insns.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

    #[test]
    fn the_clock_has_the_time_of_the_cycles_to_a_share_of_an_instruction_and_never_goes_back() {
        // A cycle takes 62.5 ns, and an instruction's share is 32 ns.
        let rate = request::Pace::of(16_000_000).unwrap();
        assert_eq!(rate.insn_shift, 5);
        let mut pace = Pace::new(rate);
        let (mut cycles, mut moved) = (0, 0);
        for insns in 1..1000 {
            cycles += 1 + insns % 3;
            moved += pace.move_on(cycles, insns);
            let now_ns = (insns + moved) * 32;
            let right_ns = cycles * 125 / 2;
            assert!((now_ns..now_ns + 32).contains(&right_ns), "{insns}");
            assert_eq!(pace.ahead_ns(), moved * 32);
        }
        assert_eq!(pace.move_on(cycles, 1001), 0, "fewer cycles than were thought");
        assert_eq!(pace.move_on(cycles, 999), 0);
        assert_eq!(pace.ahead_ns(), moved * 32);
        assert_eq!(pace.ns(1000), (1000 + moved) * 32);
    }

    #[test]
    fn control_turns_behind_a_jump_that_has_started_and_where_the_next_block_is_elsewhere() {
        let mut blocks = Blocks::default();
        let mut block = |pc, sizes: &[u8]| {
            // Blocks are told apart by their counters.
            let segments = [(pc as u32, sizes.len() as u32)].into();
            blocks.number(Block { pc, function: None, sizes: sizes.into(), segments, exits: Box::default() })
        };
        let (first, behind, within, handler) =
            (block(0x10, &[2, 4, 2]), block(0x18, &[2]), block(0x16, &[2]), block(0x40, &[2, 2]));
        let turns = |path: &[(usize, bool, u64)]| {
            let (mut turns, mut insns) = (Turns::default(), 0);
            let begin = |&(block, may_jump, started): &(usize, bool, u64)| {
                let is_turn = turns.begin(block, may_jump, insns, &blocks);
                insns += started;
                is_turn
            };
            path.iter().map(begin).collect::<Vec<_>>()
        };
        assert_eq!(turns(&[(first, false, 3), (behind, false, 1)]), [false; 2], "straight on");
        assert_eq!(turns(&[(first, true, 3), (behind, false, 1)]), [false, true], "a branch that is not taken");
        assert_eq!(
            turns(&[(first, true, 2), (within, true, 1), (behind, false, 1)]),
            [false, false, true],
            "left early"
        );
        assert_eq!(turns(&[(first, true, 3), (first, true, 3)]), [false, true], "a loop");
        assert_eq!(turns(&[(first, false, 2), (handler, true, 0), (handler, true, 2)]), [false, true, false]);
        // The last instruction before the handler starts again: so the handler's block has all of its own.
        let mut turns = Turns::default();
        turns.begin(first, false, 0, &blocks);
        assert!(turns.begin(handler, false, 2, &blocks));
        turns.unstart();
        assert!(!turns.begin(block_behind(&mut blocks), false, 3, &blocks), "it is the one behind the handler's two");
    }

    fn block_behind(blocks: &mut Blocks) -> usize {
        let segments = [(0x44, 1)].into();
        blocks.number(Block { pc: 0x44, function: None, sizes: [2].into(), segments, exits: Box::default() })
    }
}
