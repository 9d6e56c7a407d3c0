// SPDX-License-Identifier: MIT OR Apache-2.0
//! Owners of addresses: a function, the boot ROM, or a range of code without a name.

use std::fmt;
use std::ops::RangeInclusive;

use crate::machine;
use crate::profile::{Function, Profile};
use crate::text::number::Hex;

/// Name of RISC-V `virt`'s boot ROM, which runs before the firmware.
pub const BOOT_ROM: &str = "[boot rom]";

/// Addresses of the boot ROM of a profile's machine, if it has one that executes.
pub fn boot_rom(profile: &Profile) -> Option<RangeInclusive<u64>> {
    machine::find(&profile.facts.machine, &profile.facts.isa)?.boot_rom.clone()
}

/// Address that stands for a row of the table of functions: its first address, or the ROM's for the boot ROM's row,
/// which has none.
pub fn address_of(profile: &Profile, start: Option<u64>) -> u64 {
    start.or_else(|| Some(*boot_rom(profile)?.start())).unwrap_or(0)
}

/// Minimum width of the ranges for code without a name, so that a page of such code makes only a few rows.
const MIN_RANGE_BYTES: u64 = 256;

/// Function or other code that an instruction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// A function with a name.
    Function(&'a Function),
    /// The machine's boot ROM.
    BootRom,
    /// Code without a name: the part of an aligned range of addresses between functions.
    Range {
        /// First address.
        start: u64,
        /// Last address.
        last: u64,
    },
}

impl<'a> Owner<'a> {
    /// Owner of an address.
    pub fn of(profile: &'a Profile, address: u64) -> Owner<'a> {
        if let Some(function) = profile.names.function_at(address) {
            return Owner::Function(function);
        }
        if boot_rom(profile).is_some_and(|addresses| addresses.contains(&address)) {
            return Owner::BootRom;
        }
        let range_bytes = profile.facts.bin_bytes.max(MIN_RANGE_BYTES);
        let start = address & !(range_bytes - 1);
        let last = start + (range_bytes - 1);
        // Ranges are cut at functions, so that each owner is identified by its first address.
        let functions = &profile.names.functions;
        let after = functions.partition_point(|function| function.start <= address);
        let end_before = after.checked_sub(1).map(|index| &functions[index]);
        let end_before = end_before.map_or(0, |function| function.start.saturating_add(function.size_bytes));
        let next = functions.get(after).map_or(u64::MAX, |function| function.start - 1);
        Owner::Range { start: start.max(end_before), last: last.min(next) }
    }

    /// First address, unless it is the boot ROM.
    pub fn start(self) -> Option<u64> {
        match self {
            Owner::Function(function) => Some(function.start),
            Owner::BootRom => None,
            Owner::Range { start, .. } => Some(start),
        }
    }

    /// Key of the owner, in the order of [`Owner`] and then of addresses.
    pub(crate) fn key(self) -> (u8, u64) {
        match self {
            Owner::Function(function) => (0, function.start),
            Owner::BootRom => (1, 0),
            Owner::Range { start, .. } => (2, start),
        }
    }
}

/// Name of a span between two functions, or between the instances of generics.
pub fn between(profile: &Profile, from: u64, until: u64) -> String {
    let generic = profile.facts.generic_spans.iter().find(|span| (span.from, span.until) == (from, until));
    let plain = || format!("{}..{}", Owner::of(profile, from), Owner::of(profile, until));
    generic.map_or_else(plain, |span| span.name.clone())
}

/// Displays its name: the function's, or a name in square brackets.
impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Function(function) => f.write_str(&function.name),
            Owner::BootRom => f.write_str(BOOT_ROM),
            Owner::Range { start, last } => write!(f, "[{}..{}]", Hex(*start), Hex(*last)),
        }
    }
}
