// SPDX-License-Identifier: MIT OR Apache-2.0
//! The door through which every export and every result on standard output goes. A CI job that prints it must not find a
//! command in it: `::error::…` at the start of a line ([`super::github`]), `##[…]` and the like anywhere
//! ([`super::bracket`]). Names come from the firmware.
//!
//! A file and standard output get the same bytes, since a job may print the file later.

use std::io::{self, Write};

use crate::text::bracket::Brackets;

/// Syntax of a text, which decides how a command in it is disarmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// JSON: the bracket can only be in a string, and gets an escape there. The decoded value is the same.
    Json,
    /// Lines of text: a space is put into the command.
    Lines,
    /// HTML and XML: the bracket gets an entity, so the shown text is the same. Lines begin with what harness wrote.
    Markup,
    /// Commands for a job, with texts that are escaped for them: unchanged.
    Commands,
    /// No text: unchanged.
    Binary,
}

/// Start of a line, as far as it has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Only white space, which a runner skips.
    Blank,
    /// White space and a colon.
    Colon,
    /// Other text.
    Over,
}

/// Writer that passes text on without commands, however it is cut into pieces.
#[derive(Debug)]
pub struct Disarmed<W> {
    out: W,
    syntax: Syntax,
    start: Start,
    brackets: Brackets,
}

impl<W: Write> Disarmed<W> {
    /// Wraps `out`, which gets text of this syntax.
    pub fn new(out: W, syntax: Syntax) -> Disarmed<W> {
        Disarmed { out, syntax, start: Start::Blank, brackets: Brackets::default() }
    }

    /// Text to write instead of a byte that would complete a command; None: it completes none.
    fn instead(&mut self, byte: u8) -> Option<&'static [u8]> {
        let is_bracket = self.brackets.push(byte);
        let is_second_colon = byte == b':' && self.start == Start::Colon;
        self.start = match (byte, self.start) {
            (b'\n' | b'\r', _) => Start::Blank,
            (b':', Start::Blank) => Start::Colon,
            // A runner skips white space of any script.
            (_, Start::Blank) if byte.is_ascii_whitespace() || byte >= 0x80 || byte == 0x0b => Start::Blank,
            _ => Start::Over,
        };
        match self.syntax {
            Syntax::Json if is_bracket => Some(b"\\u005b"),
            Syntax::Markup if is_bracket => Some(b"&#91;"),
            Syntax::Lines if is_bracket => Some(b" ["),
            Syntax::Lines if is_second_colon => Some(b" :"),
            _ => None,
        }
    }
}

impl<W: Write> Write for Disarmed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if matches!(self.syntax, Syntax::Binary | Syntax::Commands) {
            return self.out.write(bytes);
        }
        let mut from = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if let Some(other) = self.instead(byte) {
                self.out.write_all(&bytes[from..at])?;
                self.out.write_all(other)?;
                from = at + 1;
            }
        }
        self.out.write_all(&bytes[from..])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::bracket::has_command;

    fn written(syntax: Syntax, pieces: &[&str]) -> String {
        let mut out = Disarmed::new(Vec::new(), syntax);
        pieces.iter().for_each(|piece| out.write_all(piece.as_bytes()).unwrap());
        String::from_utf8(out.out).unwrap()
    }

    #[test]
    fn a_command_is_disarmed_however_it_is_cut() {
        let text = "a::b\n::error::x\n \u{a0} ::add-mask::y\r::z\nx###[set]y #[z] ##[\n:a::##vso[b]\n##TeamCity[c";
        let expected =
            "a::b\n: :error::x\n \u{a0} : :add-mask::y\r: :z\nx### [set]y #[z] ## [\n:a::##vso [b]\n##TeamCity [c";
        assert_eq!(written(Syntax::Lines, &[text]), expected);
        let letters: Vec<String> = text.chars().map(|letter| letter.to_string()).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(written(Syntax::Lines, &letters), expected);
        assert_eq!(written(Syntax::Binary, &[text]), text);
    }

    #[test]
    fn json_and_markup_mean_the_same() {
        let name = "::x ##[error]y ###[z] ##vso[a] ##teamcity[b]";
        let json = serde_json::to_string(name).unwrap();
        let disarmed = written(Syntax::Json, &[&json]);
        assert!(!has_command(&disarmed), "{disarmed}");
        assert_eq!(serde_json::from_str::<String>(&disarmed).unwrap(), name);
        assert_eq!(written(Syntax::Markup, &["<a>##[x]##vso[y]</a>"]), "<a>##&#91;x]##vso&#91;y]</a>");
    }
}
