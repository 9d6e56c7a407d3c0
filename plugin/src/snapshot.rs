// SPDX-License-Identifier: GPL-2.0-or-later
//! Copies of guest memory at moments that only the plugin can catch: the in-target table when the window opens, and
//! when the run ends.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use engine::guest::MAX_READ_BYTES;
use wire::request::Request;

use crate::qemu::{Guest, descriptor};

/// Memory is read in pieces, none of which crosses a multiple of this. So the range may span two neighbouring
/// memories, and each piece lies in one page of a guest that has pages.
const PIECE_BYTES: u64 = 4096;
const _: () = assert!(PIECE_BYTES as usize <= MAX_READ_BYTES);

/// Range of memory that harness asked for.
pub(crate) struct Snapshot {
    range: Range<u64>,
    directory: PathBuf,
}

impl Snapshot {
    /// The range to be copied into files of this directory; None: no range.
    pub(crate) fn new(request: &Request, directory: &str) -> Option<Snapshot> {
        let range = request.measure()?.snapshot.clone()?;
        Some(Snapshot { range, directory: directory.into() })
    }

    /// Copies the memory into a file of that name; writes no file if some of it cannot be read without side effects.
    pub(crate) fn take(&self, name: &str, guest: &mut Guest) -> io::Result<()> {
        let Some(bytes) = self.read(guest) else { return Ok(()) };
        descriptor::with_own(|| fs::write(self.directory.join(name), bytes))
    }

    fn read(&self, guest: &mut Guest) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut at = self.range.start;
        while at < self.range.end {
            let piece = (PIECE_BYTES - at % PIECE_BYTES).min(self.range.end - at);
            bytes.extend(guest.memory(at, piece as usize)?);
            at += piece;
        }
        Some(bytes)
    }
}
