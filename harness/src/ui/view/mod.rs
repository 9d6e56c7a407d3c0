// SPDX-License-Identifier: MIT OR Apache-2.0
//! The views: each fills a table from the runs.

pub(super) mod bins;
pub(super) mod callers;
pub(super) mod change;
pub(super) mod code;
pub(super) mod functions;
pub(super) mod tasks;
pub(super) mod time;
