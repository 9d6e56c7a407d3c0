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

/// What the names of the directories begin with that runs of a debugger work in. What was left by debuggers that were
/// killed is removed by the next.
pub(crate) const WORKSHOP: &str = "harness-debug-";
