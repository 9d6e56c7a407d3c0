//! Callbacks.

pub(crate) mod end;
