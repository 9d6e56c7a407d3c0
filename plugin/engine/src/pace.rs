// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time by cycles: how far the machine's clock, which QEMU moves by the same time with each instruction, has to be ahead of
//! the instructions so that it shows the time of their cycles.
//!
//! The clock is moved only where control has gone elsewhere than to the next instruction, or could have. These places are the
//! same however QEMU divides the code into blocks, so that a run that is debugged, or measured in another way, has the same
//! time at each instruction. Between them each instruction takes its share.

use wire::request;

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

    /// Nanoseconds by which the clock is ahead of the instructions.
    pub fn ahead_ns(&self) -> u64 {
        self.ahead << self.rate.insn_shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
