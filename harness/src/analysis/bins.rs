// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address bins: instructions and samples of each. Bins need only the program counter, not a function.

use std::collections::BTreeMap;

use crate::analysis::cycles;
use crate::profile::Profile;

/// Range of addresses with its counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// First address.
    pub start: u64,
    /// Instructions executed in the bin.
    pub insns: u64,
    /// Cycles of these instructions, if known.
    pub cycles: Option<u64>,
    /// Samples taken in the bin.
    pub samples: u64,
    /// Address of the bin's most executed instruction, the first of equal ones.
    pub hottest: u64,
}

/// Returns all bins with executed instructions or samples, by address; `bin_bytes` is a power of two.
pub fn bins(profile: &Profile, bin_bytes: u64) -> Vec<Bin> {
    let mut bins: BTreeMap<u64, (Bin, u64)> = BTreeMap::new();
    let start = |address: u64| address & !(bin_bytes - 1);
    // All vCPUs together, by address.
    let cycles = cycles::by_pc(profile);
    let none = cycles.as_ref().map(|_| 0);
    for (pc, count) in profile.insns() {
        let new = Bin { start: start(pc), hottest: pc, cycles: none, ..Bin::default() };
        let (bin, most) = bins.entry(new.start).or_insert((new, 0));
        bin.insns += count;
        let of_pc = cycles.as_ref().map(|cycles| cycles.get(&pc).copied().unwrap_or(0));
        bin.cycles = bin.cycles.zip(of_pc).map(|(sum, cycles)| sum + cycles);
        if count > *most {
            (bin.hottest, *most) = (pc, count);
        }
    }
    for (pc, samples) in profile.samples_by_pc() {
        let new = Bin { start: start(pc), hottest: pc, cycles: none, ..Bin::default() };
        bins.entry(new.start).or_insert((new, 0)).0.samples += samples;
    }
    bins.into_values().map(|(bin, _)| bin).collect()
}
