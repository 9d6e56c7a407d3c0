// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user's choices for an export, in one value that every format gets.

use std::num::NonZeroU32;

use crate::analysis::stacks::View;
use crate::profile::Profile;

/// Options for formats that leave a choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Arrangement of stacks.
    pub view: View,
    /// Instructions per second, for formats with seconds; None: the machine's virtual clock.
    pub clock_hz: Option<NonZeroU32>,
    /// Whether to separate phases, in formats that can separate them.
    pub by_phase: bool,
    /// Whether folded stacks have cycles instead of instructions.
    pub in_cycles: bool,
}

impl Settings {
    /// Nanoseconds since the window opened, after a number of instructions; `beyond_ns`: time of the machine's clock beyond
    /// theirs. If `clock_hz` is set, that does not count.
    pub(super) fn at_ns(&self, profile: &Profile, insns: u64, beyond_ns: u64) -> u64 {
        let beyond_ns = if self.clock_hz.is_some() { 0 } else { beyond_ns };
        self.ns(profile, insns).saturating_add(beyond_ns)
    }

    /// Nanoseconds that a number of instructions of a profile take.
    pub(super) fn ns(&self, profile: &Profile, insns: u64) -> u64 {
        let ns = match self.clock_hz {
            Some(hz) => u128::from(insns) * 1_000_000_000 / u128::from(hz.get()),
            None => profile.facts.insns_ns(insns),
        };
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}
