//! The in-target table: what firmware that links `targets/mcount/` counted itself.
//!
//! A constant [`Header`] in the image says where in RAM the table is, so no symbols are needed. The memory
//! is copied when the window opens and when the run ends (see [`wire::SNAPSHOT_END`]), and read into a
//! [`Table`], which [`crate::profile::InTarget`] keeps.

mod header;
mod table;

pub use header::{Found, Header, find};
pub use table::Malformed;

/// Reads little-endian numbers one after the other. What is beyond the end reads as zero: lengths are
/// checked before one is made.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn number(&mut self, bytes: usize) -> u64 {
        let (now, rest) = self.bytes.split_at(bytes.min(self.bytes.len()));
        self.bytes = rest;
        now.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}
