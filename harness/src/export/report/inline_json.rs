//! Writer of JSON inside an HTML element; also measures the JSON's size.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;
use serde_json::Serializer;

use crate::text::markup::PageJson;

/// Writes a value as JSON that is safe inside the page.
///
/// # Errors
/// Errors of `out`.
pub(super) fn write(value: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    // Converted to an error of `out`, by which a closed pipe is recognised.
    let mut json = Serializer::with_formatter(out, PageJson);
    value.serialize(&mut json).map_err(io::Error::from)?;
    Ok(())
}

/// Size of a value's JSON in the page, in bytes.
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
