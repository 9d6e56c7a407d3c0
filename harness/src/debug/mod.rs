//! Time travel: a run repeats to the instruction, so a debugger can be put at any instruction of it.

#[cfg(test)]
pub(crate) mod fake;
pub mod find;
pub mod monitor;
pub mod place;
pub mod threads;
pub mod travel;
