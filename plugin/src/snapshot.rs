//! A copy of guest memory at a moment that only the plugin can catch: the in-target table as the window
//! opens, and as the run ends.

use std::fs;
use std::io;
use std::path::Path;

use crate::state::State;

/// Memory is read in pieces that do not cross a multiple of this, so that two neighbouring memories of
/// the machine do as well as one, and every piece lies in one page of a guest that has pages.
const PIECE_BYTES: u64 = 4096;

impl State {
    /// Copies the memory that the harness asked for into a file of that name. None is left where some of
    /// it cannot be read without side effects.
    pub(crate) fn take_snapshot(&mut self, name: &str) -> io::Result<()> {
        let Some(bytes) = self.snapshot() else { return Ok(()) };
        fs::write(Path::new(&self.args.dir).join(name), bytes)
    }

    /// Copies the counters as they are before the window opens and clears them.
    pub(crate) fn keep_counters(&self) -> io::Result<()> {
        let file = |name| Path::new(&self.args.dir).join(name);
        fs::copy(file("counters"), file(wire::COUNTERS_OPEN)).map(drop)
    }

    fn snapshot(&mut self) -> Option<Vec<u8>> {
        let range = self.args.snapshot.clone()?;
        let mut bytes = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let piece = (PIECE_BYTES - at % PIECE_BYTES).min(range.end - at);
            bytes.extend(self.memory(at, piece as usize)?);
            at += piece;
        }
        Some(bytes)
    }
}
