// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables on the terminal.

pub mod annotation;
pub mod bins;
pub mod callers;
pub mod coverage;
pub mod diff;
pub mod heap;
pub mod listing;
pub mod machines;
pub mod names;
pub mod next;
pub mod overview;
pub mod part;
pub mod peripherals;
pub mod size;
pub mod spans;
pub mod stack;
pub mod summary;
pub mod table_size;
pub mod tally;
pub mod task_states;
pub mod tasks;
pub mod zone;
