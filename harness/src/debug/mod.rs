// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time travel: a run repeats to the instruction, so a debugger can be put at any instruction of it.

pub mod again;
mod checkpoints;
mod crash;
pub mod description;
#[cfg(test)]
pub(crate) mod fake;
pub mod find;
pub mod firmware;
mod launch;
pub mod monitor;
mod packet;
pub mod place;
mod process;
pub mod server;
pub mod session;
pub mod socket;
pub mod thread;
pub mod threads;
pub mod travel;

/// Prefix of the working directories of a debugger's runs. The next debugger removes directories of killed debuggers.
pub(crate) const WORKSHOP: &str = "harness-debug-";
