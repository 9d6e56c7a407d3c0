//! The record format that the QEMU plugin writes and the harness reads.
//!
//! Both sides of a GPL boundary share this crate and nothing else, so it has no dependencies, knows
//! nothing of QEMU or ELF, and checks every record when it is written *and* when it is read.
//!
//! A run leaves four to six files in one directory. All are memory maps of the plugin, so whatever ends
//! QEMU (its own exit, an abort, SIGKILL) leaves them complete up to that moment:
//!
//! | file | module | holds |
//! |---|---|---|
//! | `control` | [`control`] | one page: versions, progress, how the run ended |
//! | `counters` | [`counters`] | u64 counters, per vCPU |
//! | `definitions` | [`definition`] | what counters count (code segments, arcs, tasks, call paths, spans), stacks, notes |
//! | `samples` | [`sample`] | the samples in time order, delta-coded |
//! | `heap` | [`heap`] | what was allocated and freed, where that was asked for |
//! | `timeline` | [`timeline`] | what happened at which instruction, where that was asked for |
//! | `unmodelled` | [`chip`] | accesses that nothing in the chip file models, where there is one |
//!
//! Next to them lies what the harness asks of the plugin ([`request`], with the [`unwind`] table and the console's
//! [`input`] in it), what it says later of the machine ([`memory`]), and what the plugin refuses ([`refusal`]).
//!
//! Where the harness asked for a range of the guest's memory there are up to three more. One that is
//! absent or short could not be copied:
//!
//! | file | name | holds |
//! |---|---|---|
//! | `snapshot-open` | [`SNAPSHOT_OPEN`] | that memory as the window opened, where that was not at reset |
//! | `counters-open` | [`COUNTERS_OPEN`] | the counters then, before they were cleared |
//! | `snapshot-end` | [`SNAPSHOT_END`] | that memory as the run ended |
#![forbid(unsafe_code)]

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
pub mod refusal;
pub mod request;
pub mod sample;
pub mod slice;
pub mod timeline;
pub mod unwind;
mod varint;
pub mod zone;

/// First eight bytes of the control page.
pub const MAGIC: u64 = u64::from_le_bytes(*b"fwprof\r\n");

/// Changes whenever any byte of any of these files changes its meaning.
pub const VERSION: u64 = 11;

/// Name of the file with the guest's memory as the window opened.
pub const SNAPSHOT_OPEN: &str = "snapshot-open";

/// Name of the file with the counters as the window opened.
pub const COUNTERS_OPEN: &str = "counters-open";

/// Name of the file with the guest's memory as the run ended.
pub const SNAPSHOT_END: &str = "snapshot-end";

/// What is wrong with bytes that should have been a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What was being read or written.
    pub what: &'static str,
    /// Byte offset in the stream at which it starts.
    pub offset: usize,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed {} at byte {}", self.what, self.offset)
    }
}

impl std::error::Error for Malformed {}
