// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writer of JSON inside an HTML element; also measures the JSON's size.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;
use serde_json::Serializer;

use crate::text::markup::PageJson;

/// Mark of a page's data.
pub(crate) const DATA: &str = "{data}";

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

/// Writes a page with `texts` in place of its marks, each mark once and in this order, and `data` as JSON in place of the
/// mark [`DATA`].
///
/// # Errors
/// Errors of `out`.
pub(crate) fn fill(page: &str, texts: &[(&str, &[&str])], data: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    let mut rest = page;
    for (mark, texts) in texts {
        let Some((before, after)) = rest.split_once(mark) else { continue };
        out.write_all(before.as_bytes())?;
        if *mark == DATA {
            write(data, out)?;
        }
        texts.iter().try_for_each(|text| out.write_all(text.as_bytes()))?;
        rest = after;
    }
    Ok(out.write_all(rest.as_bytes())?)
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
