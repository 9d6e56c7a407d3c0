//! Time travel: a run repeats to the instruction, so a debugger can be put at any instruction of it.

mod launch;
mod pool;
pub mod session;
pub mod travel;
mod vehicle;
