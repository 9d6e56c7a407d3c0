//! The terminal's tables.

pub mod annotation;
pub mod bins;
pub mod spans;
pub mod summary;
pub mod tasks;
