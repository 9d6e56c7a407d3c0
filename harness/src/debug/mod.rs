//! Time travel: a run repeats to the instruction, so a debugger can be put at any instruction of it.

#[cfg(test)]
pub(crate) mod fake;
pub mod find;
mod launch;
pub mod monitor;
pub mod place;
mod pool;
pub mod session;
pub mod threads;
pub mod travel;
mod vehicle;
