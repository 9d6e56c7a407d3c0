// SPDX-License-Identifier: GPL-2.0-or-later
//! Ranges of the firmware's output that are standard error, for a terminal that shows them in another colour. A range
//! is written before its bytes, so that a reader who finds the bytes finds the range.

use std::fs::{self, File};
use std::io::Write;

use engine::marks::printed;
use wire::errors::{FILE_ENDING, Range};
use wire::request::Request;

/// File of the ranges, and path of the console's file.
pub(crate) struct Errors {
    file: File,
    console: String,
}

impl Errors {
    /// Opens the file of ranges; None: harness did not create the file.
    pub(crate) fn open(request: &Request) -> Option<Errors> {
        let file = File::options().append(true).open(format!("{}{FILE_ENDING}", request.console)).ok()?;
        Some(Errors { file, console: printed(request) })
    }

    /// Marks the next `bytes` of output as standard error.
    pub(crate) fn mark(&mut self, bytes: u64) {
        let begin = fs::metadata(&self.console).map_or(0, |metadata| metadata.len());
        // If this fails, the bytes are shown like standard output.
        let _ = self.file.write_all(&Range { begin, bytes }.to_bytes());
    }
}
