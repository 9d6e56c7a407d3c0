//! One run of one image in the emulator, from its plan to what it left.

mod bundle;
pub mod command_line;
pub mod cores;
pub mod deadline;
pub mod directory;
pub mod emulator;
mod ending;
pub mod execution;
mod fault;
pub mod launcher;
pub mod making;
pub mod memory;
pub mod monitor;
mod only;
pub mod options;
pub mod plan;
pub mod process;
pub mod progress;
pub mod records;
pub mod request;
pub mod semihosting;
pub mod start;
mod stillness;
pub mod tail;
pub mod walls;
pub mod workspace;
