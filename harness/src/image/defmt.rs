//! defmt's log frames in words (<https://defmt.ferrous-systems.com>). The firmware prints numbers; the strings that
//! they stand for are in the ELF. Each frame is a line with level and place, as probe-rs prints it.
//!
//! A frame ends with a zero byte, and one comes before the first. So text that was printed before is text; of what
//! comes between frames, lines are taken for text where only so the rest is a frame.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::{fmt, fs};

use defmt_decoder::log::format::{Formatter, FormatterConfig, FormatterFormat};
use defmt_decoder::{DecodeError, Encoding, Location, Table};

/// More than any frame has. It bounds what is kept of a firmware that ends none.
const MAX_FRAME_BYTES: usize = 64 << 10;

/// Bytes of what is no frame that are shown.
const MAX_SHOWN_BYTES: usize = 16;

/// Turns what a firmware with defmt prints into text, as it comes.
pub struct Decoder {
    table: Table,
    locations: BTreeMap<u64, Location>,
    formatter: Formatter,
    /// Since the last zero.
    pending: Vec<u8>,
    /// A zero has been printed: from here on there are frames.
    has_begun: bool,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("pending", &self.pending).finish_non_exhaustive()
    }
}

impl Decoder {
    /// The decoder of an ELF's frames; None: it logs nothing by defmt, or there is no such file.
    ///
    /// # Errors
    /// Where its frames cannot be decoded, saying why.
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
        // Without debug information there are none, and half of them are none, as probe-rs has it.
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

    /// Takes what was printed, and adds what it says to `out`.
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

    /// Keeps bytes in front of a zero, as many as a frame can have. The pieces are the same however they come.
    fn keep(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while self.has_begun && self.pending.len() + bytes.len() >= MAX_FRAME_BYTES {
            let (piece, rest) = bytes.split_at(MAX_FRAME_BYTES - self.pending.len());
            self.pending.extend(piece);
            self.finish(out);
            bytes = rest;
        }
        self.pending.extend(bytes);
    }

    /// Adds what is left: text, or a frame that was not ended.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let rest = std::mem::take(&mut self.pending);
        if is_text(&rest) { out.extend(rest) } else { say_undecoded(&rest, out) }
    }

    /// What stands before a zero: a frame, maybe after lines of text.
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

    /// The line that a frame says; None: it is none.
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
        // It is the firmware that says what is decoded.
        catch_unwind(AssertUnwindSafe(decode)).ok()?.ok()
    }
}

/// Whether a text is one that a firmware would print as such.
fn is_text(bytes: &[u8]) -> bool {
    let is_shown = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t' | '\x1b');
    str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_shown))
}

/// Says that there is something that cannot be said.
fn say_undecoded(bytes: &[u8], out: &mut Vec<u8>) {
    let mut line = format!("[{} bytes are no defmt frame:", bytes.len());
    for byte in bytes.iter().take(MAX_SHOWN_BYTES) {
        let _ = write!(line, " {byte:02x}");
    }
    line.push_str(if bytes.len() > MAX_SHOWN_BYTES { " ...]\n" } else { "]\n" });
    out.extend(line.as_bytes());
}
