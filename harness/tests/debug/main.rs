//! Time travel: the run put at any of its instructions ([`places`]); and the debugger's server without a machine: a run of
//! 200 instructions that is made up, packets as GDB sends them, and GDB itself; and what goes wrong around it
//! ([`hostile`]).

#[path = "../common/mod.rs"]
mod common;

mod client;
mod command;
mod fake;
mod find;
mod follow;
mod gdb;
mod hostile;
mod places;
mod profiles;
mod protocol;
mod tasks;
