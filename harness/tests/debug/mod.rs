// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time travel: the run put at any of its instructions ([`places`]); the debugger's server without a machine, by an
//! artificial run of 200 instructions, with packets as GDB sends them and with GDB itself; and failures around it
//! ([`hostile`]).

mod avr;
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
