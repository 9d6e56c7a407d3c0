// SPDX-License-Identifier: MIT OR Apache-2.0
//! The register blocks of a chip: the effects of each access, by the rules of its chip file ([`wire::chip`]).
//!
//! The crate is independent of any chip and of QEMU: a [`Host`] provides time, interrupt lines, memory and the
//! console. All effects depend only on the accesses and on the host's time, which follows from the instructions. So
//! every run is the same.
//!
//! | | |
//! |---|---|
//! | [`Device`] | accesses, rules, delayed effects, interrupt lines |
//! | `counter` | a counter's value and crossings, computed from the time that has passed |
//! | `channel` | channels of DMA controllers that are switched on |
//! | `array` | memories behind an address register |
//! | `can` | the bus of a CAN controller |
//! | `part` | parts outside, on the chip's buses |
//! | `clock` | frequencies, from the firmware's own settings |
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

mod array;
mod can;
mod channel;
mod clock;
mod counter;
mod device;
mod part;

pub use device::{Access, Device, Host};

/// Nanoseconds of a second.
const NS_PER_S: u128 = 1_000_000_000;
