//! Time travel: a run repeats to the instruction, so a debugger can be put at any instruction of it.

pub mod description;
mod launch;
mod packet;
mod pool;
pub mod server;
pub mod session;
pub mod socket;
pub mod thread;
pub mod travel;
mod vehicle;
