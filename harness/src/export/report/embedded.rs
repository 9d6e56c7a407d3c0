//! JSON as it may stand inside an element of HTML, and how many bytes that takes.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;
use serde_json::Serializer;

use crate::text::markup::PageJson;

/// Writes a value as JSON that may stand in the page.
///
/// # Errors
/// What `out` reports.
pub(super) fn write(value: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    // As an error of `out`, which a closed pipe is known by.
    let mut json = Serializer::with_formatter(out, PageJson);
    value.serialize(&mut json).map_err(io::Error::from)?;
    Ok(())
}

/// Bytes of a value in the page.
pub(super) fn size_bytes(value: &impl Serialize) -> Result<usize> {
    let mut counter = Counter(0);
    write(value, &mut counter)?;
    Ok(counter.0)
}

struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
