// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles as a number with the interval that holds the truth. Where the number is proved, the interval has no width.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// Number of cycles, and the interval around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cycles {
    /// Fewest cycles that are possible.
    pub least: u64,
    /// Cycles that are most likely.
    pub nominal: u64,
    /// Most cycles that are possible.
    pub most: u64,
}

impl Cycles {
    /// A number that is proved.
    pub const fn exact(cycles: u64) -> Cycles {
        Cycles { least: cycles, nominal: cycles, most: cycles }
    }

    /// A number between two others.
    pub const fn between(least: u64, nominal: u64, most: u64) -> Cycles {
        Cycles { least, nominal, most }
    }

    /// Whether the number is proved.
    pub fn is_exact(&self) -> bool {
        self.least == self.most
    }

    /// The same, raised to a number that is proved where it is below.
    pub fn at_least(self, cycles: u64) -> Cycles {
        Cycles { least: self.least.max(cycles), nominal: self.nominal.max(cycles), most: self.most.max(cycles) }
    }
}

impl Add for Cycles {
    type Output = Cycles;

    fn add(self, other: Cycles) -> Cycles {
        Cycles {
            least: self.least + other.least,
            nominal: self.nominal + other.nominal,
            most: self.most + other.most,
        }
    }
}

impl AddAssign for Cycles {
    fn add_assign(&mut self, other: Cycles) {
        *self = *self + other;
    }
}

impl Sum for Cycles {
    fn sum<I: Iterator<Item = Cycles>>(cycles: I) -> Cycles {
        cycles.fold(Cycles::default(), Add::add)
    }
}
