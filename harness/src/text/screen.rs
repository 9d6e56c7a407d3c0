// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows the firmware's console on a terminal. Colours, line ends and tabs are passed on. All other characters that a
//! terminal would obey are shown escaped (`\x1b`, `\u{202e}`), so that firmware can neither move the cursor nor set a
//! title nor hide text.

use std::io::{self, Write};
use std::str;

use crate::text::printable::is_command;

/// Maximum length of an escape sequence that can be a colour.
const MAX_COLOR_BYTES: usize = 40;

/// Sequence that ends all colours.
const RESET: &[u8] = b"\x1b[0m";

/// Writer that passes the console's bytes on to a terminal. A sequence that one write begins waits for its rest in the
/// next write.
#[derive(Debug)]
pub struct Screen<W: Write> {
    out: W,
    /// Incomplete character or colour sequence at the end of the last write.
    begun: Vec<u8>,
    /// Whether a colour is still set.
    is_colored: bool,
}

/// First piece of some bytes.
enum Piece {
    /// Number of bytes to show unchanged.
    Shown(usize),
    /// Number of bytes that set a colour.
    Color(usize),
    /// Number of bytes to show as this text.
    Escaped(usize, String),
    /// Incomplete beginning of a piece.
    Begun,
}

fn piece(bytes: &[u8]) -> Piece {
    let byte = bytes[0];
    match byte {
        b'\r' | b'\n' | b'\t' | b' '..=b'~' => return Piece::Shown(1),
        0x1b => return color(bytes),
        0..=0x7f => return Piece::Escaped(1, escaped(byte)),
        _ => {}
    }
    let one = &bytes[..bytes.len().min(4)];
    let valid = match str::from_utf8(one) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => str::from_utf8(&one[..error.valid_up_to()]).unwrap_or_default(),
        // The rest of the character may come with the next write.
        Err(error) if error.error_len().is_none() => return Piece::Begun,
        Err(_) => return Piece::Escaped(1, escaped(byte)),
    };
    match valid.chars().next() {
        Some(character) if is_command(character) => {
            Piece::Escaped(character.len_utf8(), character.escape_unicode().to_string())
        }
        Some(character) => Piece::Shown(character.len_utf8()),
        None => Piece::Escaped(1, escaped(byte)),
    }
}

/// Recognises `ESC [ numbers m`, which sets colours (ECMA-48 8.3.117).
fn color(bytes: &[u8]) -> Piece {
    let not_one = || Piece::Escaped(1, escaped(bytes[0]));
    match bytes.get(1) {
        None => return Piece::Begun,
        Some(b'[') => {}
        Some(_) => return not_one(),
    }
    match bytes.iter().skip(2).position(|byte| !matches!(byte, b'0'..=b'9' | b';' | b':')) {
        Some(digits) if digits <= MAX_COLOR_BYTES && bytes[2 + digits] == b'm' => Piece::Color(digits + 3),
        Some(_) => not_one(),
        None if bytes.len() > MAX_COLOR_BYTES => not_one(),
        None => Piece::Begun,
    }
}

fn escaped(byte: u8) -> String {
    format!("\\x{byte:02x}")
}

impl<W: Write> Screen<W> {
    /// Wraps `out`, the terminal.
    pub fn new(out: W) -> Screen<W> {
        Screen { out, begun: Vec::new(), is_colored: false }
    }

    /// Shows all whole pieces and, at the end, an incomplete one, too.
    fn show(&mut self, is_end: bool) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.begun);
        let mut shown = Vec::with_capacity(bytes.len());
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let used = match piece(rest) {
                Piece::Shown(used) => {
                    shown.extend_from_slice(&rest[..used]);
                    used
                }
                Piece::Color(used) => {
                    shown.extend_from_slice(&rest[..used]);
                    self.is_colored = !matches!(&rest[..used], b"\x1b[m" | b"\x1b[0m");
                    used
                }
                Piece::Escaped(used, text) => {
                    shown.extend_from_slice(text.as_bytes());
                    used
                }
                Piece::Begun if is_end => {
                    shown.extend_from_slice(escaped(rest[0]).as_bytes());
                    1
                }
                Piece::Begun => break,
            };
            rest = &rest[used..];
        }
        self.begun = rest.to_vec();
        if is_end && std::mem::take(&mut self.is_colored) {
            shown.extend_from_slice(RESET);
        }
        self.out.write_all(&shown)
    }
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        self.show(false)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        // Earlier errors have been reported already.
        let _ = self.show(true).and_then(|()| self.out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output for these bytes, written in pieces of this size.
    fn shown(bytes: &[u8], at_a_time: usize) -> String {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out);
        bytes.chunks(at_a_time).for_each(|chunk| screen.write_all(chunk).unwrap());
        drop(screen);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn colours_and_lines_pass_and_all_else_is_shown_escaped() {
        for (console, screen) in [
            ("größe\t寸法\r\n", "größe\t寸法\r\n"),
            ("\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n"),
            ("\x1b[38;5;8mgrey", "\x1b[38;5;8mgrey\x1b[0m"),
            ("\x1b[2J\x1b[H", "\\x1b[2J\\x1b[H"),
            ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
            ("a\x08b\0c\x7f", "a\\x08b\\x00c\\x7f"),
            ("\u{202e}evil\u{9b}1m", "\\u{202e}evil\\u{9b}1m"),
            ("\x1b[1;", "\\x1b[1;"),
            ("\x1b", "\\x1b"),
        ] {
            for at_a_time in [1, 2, 3, 1000] {
                assert_eq!(shown(console.as_bytes(), at_a_time), screen, "{console:?} by {at_a_time}");
            }
        }
        for at_a_time in [1, 3] {
            assert_eq!(shown(b"\xff\xc3(\xe2\x82", at_a_time), "\\xff\\xc3(\\xe2\\x82");
        }
        assert_eq!(shown(&[&b"\x1b["[..], &[b'1'; 100], b"m"].concat(), 7).get(..5), Some("\\x1b["));
    }
}
