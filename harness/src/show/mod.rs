//! Tables on the terminal.

pub mod annotation;
pub mod bins;
pub mod callers;
pub mod diff;
pub mod heap;
pub mod listing;
pub mod machines;
pub mod names;
pub mod next;
pub mod overview;
pub mod part;
pub mod spans;
pub mod summary;
pub mod tally;
pub mod tasks;
pub mod zone;
