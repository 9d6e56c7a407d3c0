//! The debugger's server, without a machine: a run of 200 instructions that is made up, packets as GDB sends them, and
//! GDB itself.

#[path = "../common/images.rs"]
#[allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
mod images;

mod client;
mod fake;
mod gdb;
mod protocol;
mod tasks;
