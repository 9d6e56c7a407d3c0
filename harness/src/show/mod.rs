//! The terminal's tables.

pub mod annotation;
pub mod bins;
pub mod callers;
pub mod diff;
pub mod machines;
pub mod names;
pub mod next;
pub mod overview;
pub mod spans;
pub mod summary;
pub mod tasks;
