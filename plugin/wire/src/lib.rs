// SPDX-License-Identifier: MIT OR Apache-2.0
//! Record format that the QEMU plugin writes and harness reads.
//!
//! The two sides of a GPL boundary share only this crate. So it has no dependencies, knows nothing of QEMU or ELF,
//! and checks every record when it is written *and* when it is read.
//!
//! Records are tables of their fields (`record`), and every file that grows is a stream of them ([`stream`]): one
//! encoder, one decoder, and one check that both use to decide whether an item may come next.
//!
//! A run leaves four to nine files in one directory. All are memory maps of the plugin, so they are complete up to the
//! moment at which QEMU ends (by its own exit, an abort, SIGKILL):
//!
//! | file | module | holds |
//! |---|---|---|
//! | `control` | [`control`] | one page: versions, progress, how the run ended |
//! | `counters` | [`counters`] | u64 counters, per vCPU |
//! | `definitions` | [`definition`] | meaning of the counters (code segments, arcs, tasks, call paths, spans), stacks, notes |
//! | `samples` | [`sample`] | the samples in time order, delta-coded |
//! | `heap` | [`heap`] | allocations and frees, if requested |
//! | `timeline` | [`timeline`] | all events with their instructions, if requested |
//! | `slices` | [`slice`] | growth of the counters between the cuts of the run, if it is cut |
//! | `unmodelled` | [`chip`] | accesses that the chip file does not model, if there is one |
//! | `accesses` | [`chip`] | all accesses of registers, if there is a chip file |
//!
//! Beside them are harness's orders to the plugin ([`request`], which contains the [`unwind`] table and the console's
//! [`input`]), harness's later report of the machine's memory ([`memory`]), and the plugin's [`refusal`] to start.
//!
//! If harness asks for a range of the guest's memory, there are up to three more files. If such a file is absent or
//! short, the memory could not be copied:
//!
//! | file | name | holds |
//! |---|---|---|
//! | `snapshot-open` | [`SNAPSHOT_OPEN`] | that memory when the window opened, unless it opened at reset |
//! | `counters-open` | [`COUNTERS_OPEN`] | the counters at that moment, before they were cleared |
//! | `snapshot-end` | [`SNAPSHOT_END`] | that memory when the run ended |
//!
//! If the length of the window is known, `counters-half` ([`COUNTERS_HALF`]) has the counters as they were in the
//! middle of the window.
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

pub mod api;
pub mod can;
pub mod chip;
pub mod control;
pub mod core;
pub mod counters;
pub mod debug;
pub mod definition;
pub mod errors;
pub mod heap;
pub mod input;
pub mod memory;
mod record;
pub mod refusal;
pub mod request;
pub mod sample;
pub mod slice;
pub mod stream;
pub mod timeline;
pub mod trick;
pub mod unwind;
pub mod varint;
pub mod zone;

/// First eight bytes of the control page.
pub const MAGIC: u64 = u64::from_le_bytes(*b"fwprof\r\n");

/// Changes whenever any byte of any of these files changes its meaning.
pub const VERSION: u64 = 28;

/// Name of the file with the guest's memory as the window opened.
pub const SNAPSHOT_OPEN: &str = "snapshot-open";

/// Name of the file with the counters as the window opened.
pub const COUNTERS_OPEN: &str = "counters-open";

/// Name of the file with the counters when half of the window was over.
pub const COUNTERS_HALF: &str = "counters-half";

/// Name of the file with the guest's memory as the run ended.
pub const SNAPSHOT_END: &str = "snapshot-end";

/// Error: bytes are not the record that should be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Name of the record that was read or written.
    pub what: &'static str,
    /// Byte offset at which the record starts; in a stream, the offset of its item.
    pub offset: usize,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed {} at byte {}", self.what, self.offset)
    }
}

impl std::error::Error for Malformed {}
