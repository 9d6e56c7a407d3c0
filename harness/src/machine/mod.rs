//! Which emulated machine runs an image: the table of machines, and the rule that picks one.
//!
//! All load segments (where they are loaded and where they run, zero-initialised memory included), the
//! initial stack pointer and the first instruction must lie in the machine's memory. Among the machines
//! that fit, the processor decides, then the table's order. The choice, the machines that would have
//! done too and those that would not are all kept, with the reason, to be shown.

mod choice;
mod placement;
mod processor;
mod table;

pub use choice::{Choice, chips_for, choose, choose_chip};
pub use processor::riscv_extensions;
pub use table::{Core, LoadOption, MACHINES, Machine, MemoryKind, Region, emulators, find};
