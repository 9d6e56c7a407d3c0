//! Record format that the QEMU plugin writes and the harness reads.
//!
//! This crate is all that the two sides of a GPL boundary share. So it has no dependencies, knows nothing of QEMU or
//! ELF, and checks every record when it is written *and* when it is read.
//!
//! Records are tables of their fields (`record`), and every file that grows is a stream of them ([`stream`]): one encoder,
//! one decoder, and one check of what may come next that both ask.
//!
//! A run leaves four to eight files in one directory. All are memory maps of the plugin, so they are complete up to the
//! moment at which QEMU ends (by its own exit, an abort, SIGKILL):
//!
//! | file | module | holds |
//! |---|---|---|
//! | `control` | [`control`] | one page: versions, progress, how the run ended |
//! | `counters` | [`counters`] | u64 counters, per vCPU |
//! | `definitions` | [`definition`] | what counters count (code segments, arcs, tasks, call paths, spans), stacks, notes |
//! | `samples` | [`sample`] | the samples in time order, delta-coded |
//! | `heap` | [`heap`] | what was allocated and freed, where that was asked for |
//! | `timeline` | [`timeline`] | what happened at which instruction, where that was asked for |
//! | `slices` | [`slice`] | what the counters grew by between the cuts of the run, where it is cut |
//! | `unmodelled` | [`chip`] | accesses that nothing in the chip file models, where there is one |
//!
//! Beside them lie the harness's orders to the plugin ([`request`], with the [`unwind`] table and the console's
//! [`input`] in it), its later report of the machine's memory ([`memory`]), and the plugin's [`refusal`] to start.
//!
//! When the harness asked for a range of the guest's memory there are up to three more files. If such a file is
//! absent or short, the memory could not be copied:
//!
//! | file | name | holds |
//! |---|---|---|
//! | `snapshot-open` | [`SNAPSHOT_OPEN`] | that memory as the window opened, where that was not at reset |
//! | `counters-open` | [`COUNTERS_OPEN`] | the counters then, before they were cleared |
//! | `snapshot-end` | [`SNAPSHOT_END`] | that memory as the run ended |
//!
//! Where it is known how long the window is, `counters-half` ([`COUNTERS_HALF`]) has the counters as they were when half of
//! it was over.
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

pub mod api;
pub mod chip;
pub mod control;
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
pub const VERSION: u64 = 16;

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
    /// Byte offset at which it starts; in a stream that of its item.
    pub offset: usize,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed {} at byte {}", self.what, self.offset)
    }
}

impl std::error::Error for Malformed {}
