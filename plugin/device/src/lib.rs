//! The register blocks of a chip: what the rules of its chip file ([`wire::chip`]) make of each access.
//!
//! Nothing in here knows a chip, nor QEMU: time, interrupt lines, memory and the console are a [`Host`]'s. All that happens
//! depends on the accesses and on the host's time alone, which is that of the instructions: the same bytes every run.
//!
//! | | |
//! |---|---|
//! | [`Device`] | accesses, rules, what is due later, interrupt lines |
//! | `counter` | a counter's value and crossings, computed from the time that has passed |
//! | `clock` | frequencies, from the firmware's own settings |
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

mod clock;
mod counter;
mod device;

pub use device::{Access, Device, Host};

/// Nanoseconds of a second.
const NS_PER_S: u128 = 1_000_000_000;
