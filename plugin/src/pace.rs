// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine's clock, moved on so that it shows the time of the cycles.

use engine::block::Blocks;
use engine::pace;
use wire::control::Word;
use wire::request;

use crate::qemu::{FoundClock, InsnClock};
use crate::records::Ledger;

/// Time by cycles, of the only vCPU.
pub(crate) struct Pace {
    time: pace::Pace,
    insn_shift: u8,
    clock: Clock,
    /// Cycles of an AVR before the window opened.
    pub(crate) before_window: u64,
    /// Block of an AVR that has begun last, and the instructions of the run before it.
    last: Option<(Begun, u64)>,
}

/// A block of an AVR that has begun.
#[derive(Clone, Copy)]
struct Begun {
    block: usize,
    /// Whether its last instruction may lead elsewhere than to the next.
    is_jump: bool,
}

/// QEMU's clock.
enum Clock {
    Sought,
    Found(InsnClock),
    /// Time stays that of the instructions.
    Unknown,
}

impl Pace {
    /// Time from reset on.
    pub(crate) fn new(rate: request::Pace) -> Pace {
        Pace {
            time: pace::Pace::new(rate),
            insn_shift: rate.insn_shift,
            clock: Clock::Sought,
            before_window: 0,
            last: None,
        }
    }

    /// Looks for QEMU's clock, at the start of the run's first block. Returns whether the block has to be left, and this done again.
    pub(crate) fn seek(&mut self, ledger: &Ledger) -> bool {
        if !matches!(self.clock, Clock::Sought) {
            return false;
        }
        self.clock = match InsnClock::find() {
            Some(FoundClock::Now(clock)) => Clock::Found(clock),
            Some(FoundClock::Later) => return true,
            None => Clock::Unknown,
        };
        ledger.say(Word::Paced, u64::from(matches!(self.clock, Clock::Found(_))));
        false
    }

    /// Nanoseconds by which the clock is ahead of the instructions.
    pub(crate) fn ahead_ns(&self) -> u64 {
        self.time.ahead_ns()
    }

    /// Begins a block, after so many instructions of the run. Returns whether control has turned there: the last instruction was a
    /// branch or jump, or something else has led elsewhere.
    pub(crate) fn begin_block(&mut self, block: usize, is_jump: bool, insns: u64, blocks: &Blocks) -> bool {
        let Some((last, since_insns)) = self.last.replace((Begun { block, is_jump }, insns)) else { return false };
        let (pc, last_block) = (blocks.get(block).pc, blocks.get(last.block));
        let started = insns.saturating_sub(since_insns).min(last_block.insns());
        (last.is_jump && started == last_block.insns()) || pc != last_block.pc_of(started)
    }

    /// Takes back the start of an instruction before the block that has begun: it starts again.
    pub(crate) fn unstart(&mut self) {
        if let Some((_, since_insns)) = &mut self.last {
            *since_insns = since_insns.saturating_sub(1);
        }
    }

    /// Moves the clock on to the time of so many cycles, after so many instructions of the run, at the start of a block of
    /// `block_insns`. Returns by how many nanoseconds, and whether the block has to be left before its first instruction, since a
    /// timer is due before its end.
    pub(crate) fn move_on(
        &mut self,
        cycles: u64,
        (insns, block_insns): (u64, u64),
        vcpu: u32,
        ledger: &mut Ledger,
    ) -> (u64, bool) {
        let Clock::Found(clock) = self.clock else { return (0, false) };
        let shares = self.time.move_on(cycles, insns);
        if shares == 0 {
            return (0, false);
        }
        let ns = shares << self.insn_shift;
        ledger.move_ahead(vcpu, ns);
        (ns, clock.move_on(shares, self.insn_shift, block_insns))
    }
}
