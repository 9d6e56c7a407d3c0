// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machine for an image: the table of emulated machines, and the rule that picks one.
//!
//! All load segments, the initial stack pointer and the first instruction must lie in the machine's memory. Segments
//! count with their load address and their run address, zero-initialised memory included. Among the machines that
//! fit, the processor decides, then the table's order. The other machines, fitting or not, are kept with the reason,
//! to be shown.

mod choice;
mod placement;
mod processor;
mod table;

pub use choice::{Choice, chips_for, choose, choose_chip, fit_chip};
pub use processor::riscv_extensions;
pub use table::{Core, LoadOption, MACHINES, Machine, MemoryKind, Region, emulators, find};
