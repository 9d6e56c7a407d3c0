// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time of the code that executes: its instructions, and the cycles that they took, where those are counted.

use std::ops::{Add, AddAssign, Sub};

/// A moment, or a length of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Instructions.
    pub insns: u64,
    /// Cycles of these instructions; 0: they are not counted.
    pub cycles: u64,
}

impl Time {
    /// Time since another moment, which may be a later one: an instruction that is to start again is taken back.
    pub fn since(self, before: Time) -> Time {
        Time { insns: self.insns.saturating_sub(before.insns), cycles: self.cycles.saturating_sub(before.cycles) }
    }
}

impl Add for Time {
    type Output = Time;

    fn add(self, other: Time) -> Time {
        Time { insns: self.insns + other.insns, cycles: self.cycles + other.cycles }
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

impl Sub for Time {
    type Output = Time;

    fn sub(self, other: Time) -> Time {
        Time { insns: self.insns - other.insns, cycles: self.cycles - other.cycles }
    }
}
