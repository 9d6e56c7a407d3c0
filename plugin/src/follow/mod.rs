//! Who executes: exceptions, tasks, calls.

pub(crate) mod exception;
pub(crate) mod span;
pub(crate) mod task;
pub(crate) mod tree;
