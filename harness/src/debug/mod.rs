//! Time travel: a run repeats to the instruction, so a debugger can be put at any instruction of it.

pub mod description;
#[cfg(test)]
pub(crate) mod fake;
pub mod find;
mod launch;
pub mod monitor;
mod packet;
pub mod place;
mod pool;
pub mod server;
pub mod session;
pub mod socket;
pub mod thread;
pub mod threads;
pub mod travel;
mod vehicle;
