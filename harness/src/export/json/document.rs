// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writer and schema of the documents that commands print with `--json`.

use std::io::{self, Write};

use anyhow::Result;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;

/// Writes a document, a value per line, for people and programs.
///
/// # Errors
/// Errors of `out`, by which a closed pipe is recognised.
pub fn write(document: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, document).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Writes a document in one line, for programs.
///
/// # Errors
/// Errors of `out`, by which a closed pipe is recognised.
pub fn write_line(document: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    serde_json::to_writer(&mut *out, document).map_err(io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}

/// JSON Schema of a document.
///
/// # Errors
/// No known errors.
pub fn schema<T: JsonSchema>() -> Result<String> {
    Ok(serde_json::to_string_pretty(&schema_for!(T))? + "\n")
}
