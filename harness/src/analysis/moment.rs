// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moments of a timeline by the firmware's clocks: instructions, and the time that they, sleep and cycles take. Whatever says
//! when something was, or how long it took, asks here.

use std::ops::{AddAssign, Sub};

use wire::timeline::{Event, What};

use crate::profile::Profile;

/// A moment since the window opened, or the length between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Instructions that have started.
    pub insns: u64,
    /// Nanoseconds of the firmware's clock, asleep or awake.
    pub ns: u64,
    /// Part of that asleep, in nanoseconds.
    pub slept_ns: u64,
}

impl Moment {
    /// Length since an earlier moment without the time asleep.
    pub fn awake_since(self, earlier: Moment) -> Moment {
        let length = self - earlier;
        Moment { ns: length.ns.saturating_sub(length.slept_ns), slept_ns: 0, ..length }
    }
}

impl AddAssign for Moment {
    fn add_assign(&mut self, other: Moment) {
        self.insns = self.insns.saturating_add(other.insns);
        self.ns = self.ns.saturating_add(other.ns);
        self.slept_ns = self.slept_ns.saturating_add(other.slept_ns);
    }
}

impl Sub for Moment {
    type Output = Moment;

    fn sub(self, earlier: Moment) -> Moment {
        Moment {
            insns: self.insns.saturating_sub(earlier.insns),
            ns: self.ns.saturating_sub(earlier.ns),
            slept_ns: self.slept_ns.saturating_sub(earlier.slept_ns),
        }
    }
}

/// Clock that follows a timeline's events.
#[derive(Clone, Copy, Debug)]
pub struct Clock<'a> {
    profile: &'a Profile,
    slept_ns: u64,
    /// Time by which the machine's clock was moved on for cycles.
    ahead_ns: u64,
}

impl<'a> Clock<'a> {
    /// The clock as the window opens.
    pub fn new(profile: &'a Profile) -> Clock<'a> {
        Clock { profile, slept_ns: 0, ahead_ns: 0 }
    }

    /// Moves on by an event.
    pub fn pass(&mut self, event: &Event) {
        match event.what {
            What::Slept { ns } => self.slept_ns = self.slept_ns.saturating_add(ns),
            What::Ahead { ns } => self.ahead_ns = self.ahead_ns.saturating_add(ns),
            _ => {}
        }
    }

    /// Time beyond that of the instructions.
    pub fn beyond_ns(&self) -> u64 {
        self.slept_ns.saturating_add(self.ahead_ns)
    }

    /// Moment at which a number of instructions have started.
    pub fn at(&self, insns: u64) -> Moment {
        let ns = self.profile.facts.insns_ns(insns) + u128::from(self.beyond_ns());
        Moment { insns, ns: u64::try_from(ns).unwrap_or(u64::MAX), slept_ns: self.slept_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing;

    #[test]
    fn time_is_that_of_instructions_sleep_and_cycles() {
        let mut profile = testing::empty();
        profile.facts.icount_shift = 5;
        let mut clock = Clock::new(&profile);
        let began = clock.at(10);
        assert_eq!(began, Moment { insns: 10, ns: 320, slept_ns: 0 });
        for what in [What::Slept { ns: 1000 }, What::Ahead { ns: 7 }, What::Left] {
            clock.pass(&Event { vcpu: 0, at_insns: 12, what });
        }
        let ended = clock.at(12);
        assert_eq!(ended - began, Moment { insns: 2, ns: 64 + 1000 + 7, slept_ns: 1000 });
        assert_eq!(ended.awake_since(began), Moment { insns: 2, ns: 64 + 7, slept_ns: 0 });
        assert_eq!(clock.beyond_ns(), 1007);
        profile.facts.icount_shift = 63;
        assert_eq!(Clock::new(&profile).at(u64::MAX).ns, u64::MAX);
    }
}
