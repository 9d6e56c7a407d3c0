// SPDX-License-Identifier: MIT OR Apache-2.0
//! In-target table: the counts that firmware makes itself by linking `targets/mcount/`.
//!
//! A constant [`Header`] in the image gives the table's place in RAM, so no symbols are needed. The memory is copied
//! when the window opens and when the run ends (see [`wire::SNAPSHOT_END`]), and decoded into a [`Table`], which
//! [`crate::profile::InTarget`] keeps.

mod header;
mod table;

pub use header::{Found, Header, find};
pub use table::Malformed;

/// Reader of little-endian numbers, one after the other. Bytes beyond the end read as zero: lengths are checked
/// before a reader is made.
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
