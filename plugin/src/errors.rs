//! Which bytes of what the firmware prints are its standard error, for a terminal that shows them apart. A range is
//! written before its bytes are: whoever finds the bytes finds the range.

use std::fs::{self, File};
use std::io::Write;

use engine::marks::printed;
use wire::errors::{FILE_ENDING, Range};
use wire::request::Request;

/// The ranges' file, and the console's, by name.
pub(crate) struct Errors {
    file: File,
    console: String,
}

impl Errors {
    /// Opens the file, which the harness has made where it wants to know.
    pub(crate) fn open(request: &Request) -> Option<Errors> {
        let file = File::options().append(true).open(format!("{}{FILE_ENDING}", request.console)).ok()?;
        Some(Errors { file, console: printed(request) })
    }

    /// So many bytes of standard error are about to be printed.
    pub(crate) fn mark(&mut self, bytes: u64) {
        let begin = fs::metadata(&self.console).map_or(0, |metadata| metadata.len());
        // What is not marked is shown like the rest.
        let _ = self.file.write_all(&Range { begin, bytes }.to_bytes());
    }
}
