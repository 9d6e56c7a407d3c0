// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories of a run: its private workspace, the output directory, and the deadline for writing it.

pub mod deadline;
pub mod directory;
pub mod staging;
pub mod workspace;
