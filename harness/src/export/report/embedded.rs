//! JSON as it may stand inside an element of HTML, and how many bytes that takes.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

/// Writes a value as JSON that may stand in the page.
///
/// # Errors
/// What `out` reports.
pub(super) fn write(value: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    // As an error of `out`, which a closed pipe is known by.
    serde_json::to_writer(WithoutMarkup(out), value).map_err(io::Error::from)?;
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

/// JSON without `<`, which only occurs in its strings: the HTML parser finds neither the end of the element
/// nor a comment in it.
struct WithoutMarkup<W>(W);

impl<W: Write> Write for WithoutMarkup<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for (index, piece) in bytes.split(|&byte| byte == b'<').enumerate() {
            if index > 0 {
                self.0.write_all(b"\\u003c")?;
            }
            self.0.write_all(piece)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
