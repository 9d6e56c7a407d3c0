// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine's clock, moved on so that it shows the time of the cycles.

use engine::pace::{self, Turns};
use wire::control::Word;
use wire::request;

use crate::qemu::{FoundClock, InsnClock};
use crate::records::Ledger;

/// Time by cycles, of the only vCPU.
pub(crate) struct Pace {
    pub(crate) time: pace::Pace,
    clock: Clock,
    /// Cycles of an AVR before the window opened.
    pub(crate) before_window: u64,
    /// Turns of an AVR's control.
    pub(crate) turns: Turns,
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
        Pace { time: pace::Pace::new(rate), clock: Clock::Sought, before_window: 0, turns: Turns::default() }
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
        let shift = self.time.insn_shift();
        let ns = shares << shift;
        ledger.move_ahead(vcpu, ns);
        (ns, clock.move_on(shares, shift, block_insns))
    }
}
