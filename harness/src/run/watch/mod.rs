// SPDX-License-Identifier: MIT OR Apache-2.0
//! Supervision of a run: its progress, how it ends, and detection of runs that stand still.

pub(in crate::run) mod ending;
pub mod errors;
pub mod execution;
pub mod interrupt;
pub(in crate::run) mod no_progress;
pub mod progress;
pub(in crate::run) mod stillness;
pub mod tail;
