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
