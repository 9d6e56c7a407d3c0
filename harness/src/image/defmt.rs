// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes defmt's log frames (<https://defmt.ferrous-systems.com>). The firmware prints numbers; their strings are
//! in the ELF. Each frame becomes a line with level and place, as in probe-rs.
//!
//! A frame ends with a zero byte, and another zero comes before the first frame. Bytes printed before that zero are
//! text. After that, lines before a frame count as text if the bytes are a frame only without them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::{fmt, fs};

use defmt_decoder::log::format::{Formatter, FormatterConfig, FormatterFormat};
use defmt_decoder::{DecodeError, Encoding, Location, Table};

/// Longest frame. This bounds the memory if a firmware never ends a frame.
const MAX_FRAME_BYTES: usize = 64 << 10;

/// Number of bytes shown of a sequence that is not a frame.
const MAX_SHOWN_BYTES: usize = 16;

/// Decoder of a defmt firmware's output into text, piece by piece.
pub struct Decoder {
    table: Table,
    locations: BTreeMap<u64, Location>,
    formatter: Formatter,
    /// Bytes since the last zero.
    pending: Vec<u8>,
    /// Whether a zero has been printed: frames follow from here on.
    has_begun: bool,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("pending", &self.pending).finish_non_exhaustive()
    }
}

impl Decoder {
    /// Makes the decoder of an ELF's frames; None: the firmware does not log by defmt, or the file does not exist.
    ///
    /// # Errors
    /// When the firmware's frames cannot be decoded, with the reason.
    pub fn of(elf: &Path, has_colors: bool) -> Result<Option<Decoder>, String> {
        let Ok(elf) = fs::read(elf) else { return Ok(None) };
        colored::control::set_override(has_colors);
        catch_unwind(|| Decoder::read(&elf)).unwrap_or_else(|_| Err("its table is malformed".to_owned()))
    }

    fn read(elf: &[u8]) -> Result<Option<Decoder>, String> {
        let Ok(file) = object::File::parse(elf) else { return Ok(None) };
        if object::Object::section_by_name(&file, ".defmt").is_none() {
            return Ok(None);
        }
        let Some(table) = Table::parse(elf).map_err(|error| format!("{error:#}"))? else { return Ok(None) };
        if table.encoding() != Encoding::Rzcobs {
            return Err("its encoding (raw) has no frames".to_owned());
        }
        // Without debug information there are no locations. An incomplete set counts as none, as in probe-rs.
        let locations = table.get_locations(elf).unwrap_or_default();
        let is_complete = table.indices().all(|index| locations.contains_key(&(index as u64)));
        let locations = if is_complete { locations } else { BTreeMap::new() };
        let config = FormatterConfig {
            format: FormatterFormat::OneLine { with_location: !locations.is_empty() },
            is_timestamp_available: table.has_timestamp(),
        };
        let formatter = Formatter::new(config);
        Ok(Some(Decoder { table, locations, formatter, pending: Vec::new(), has_begun: false }))
    }

    /// Takes printed bytes, and appends their text to `out`.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while let Some(end) = bytes.iter().position(|&byte| byte == 0) {
            self.keep(&bytes[..end], out);
            bytes = &bytes[end + 1..];
            let chunk = std::mem::take(&mut self.pending);
            if self.has_begun {
                self.say(&chunk, out)
            } else {
                out.extend(chunk)
            }
            self.has_begun = true;
        }
        if !self.has_begun {
            out.extend(bytes);
            return;
        }
        self.keep(bytes, out);
    }

    /// Keeps bytes before a zero, up to the length of a frame. The output does not depend on how the bytes are split
    /// into pieces.
    fn keep(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while self.has_begun && self.pending.len() + bytes.len() >= MAX_FRAME_BYTES {
            let (piece, rest) = bytes.split_at(MAX_FRAME_BYTES - self.pending.len());
            self.pending.extend(piece);
            self.finish(out);
            bytes = rest;
        }
        self.pending.extend(bytes);
    }

    /// Appends the remaining bytes: text, or a frame without end.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let rest = std::mem::take(&mut self.pending);
        if is_text(&rest) { out.extend(rest) } else { say_undecoded(&rest, out) }
    }

    /// Appends a piece that ended with a zero: a frame, perhaps after lines of text.
    fn say(&self, chunk: &[u8], out: &mut Vec<u8>) {
        let starts = chunk.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        for start in std::iter::once(0).chain(starts) {
            let (text, frame) = chunk.split_at(start);
            if !is_text(text) {
                break;
            }
            if frame.is_empty() {
                out.extend(text);
                return;
            }
            if let Some(line) = self.frame(frame) {
                out.extend(text);
                out.extend(line.as_bytes());
                out.push(b'\n');
                return;
            }
        }
        if is_text(chunk) { out.extend(chunk) } else { say_undecoded(chunk, out) }
    }

    /// Returns the line of a frame; None: the bytes are not a frame.
    fn frame(&self, frame: &[u8]) -> Option<String> {
        let decode = || {
            let mut stream = self.table.new_stream_decoder();
            stream.received(frame);
            stream.received(&[0]);
            let frame = stream.decode()?;
            let location = self.locations.get(&frame.index());
            let file = location.map(|location| location.file.to_string_lossy().into_owned());
            let line = location.and_then(|location| u32::try_from(location.line).ok());
            let module = location.map(|location| location.module.as_str());
            Ok::<_, DecodeError>(self.formatter.format_frame(frame, file.as_deref(), line, module))
        };
        // The firmware controls the decoded bytes, so a panic of the decoder is caught.
        catch_unwind(AssertUnwindSafe(decode)).ok()?.ok()
    }
}

/// Whether a firmware could have printed these bytes as plain text.
fn is_text(bytes: &[u8]) -> bool {
    let is_shown = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t' | '\x1b');
    str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_shown))
}

/// Appends a line about bytes that could not be decoded.
fn say_undecoded(bytes: &[u8], out: &mut Vec<u8>) {
    let mut line = format!("[{} bytes are no defmt frame:", bytes.len());
    for byte in bytes.iter().take(MAX_SHOWN_BYTES) {
        let _ = write!(line, " {byte:02x}");
    }
    line.push_str(if bytes.len() > MAX_SHOWN_BYTES { " ...]\n" } else { "]\n" });
    out.extend(line.as_bytes());
}
