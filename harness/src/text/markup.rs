// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text for XML and HTML: escapes names so that they cannot become markup.

use std::io::{self, Write};

use serde_json::ser::Formatter;

use crate::text::printable::{is_command, printable};

/// Escapes text for use between tags.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Cleans text for an XML writer, which escapes markup itself: one line that any reader may show.
pub fn line(text: &str) -> String {
    // XML forbids these two characters.
    printable(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// Cleans a name for a picture: one line that any XML reader may show, with text direction unchanged.
pub fn shown(name: &str) -> String {
    let is_illegal = |character: char| is_command(character) || matches!(character, '\u{fffe}' | '\u{ffff}');
    name.trim().replace(is_illegal, "?")
}

/// JSON formatter for use inside a page. It escapes every `<` in strings, so that no name can end the enclosing
/// element, every `[` that could be part of a job's command, and every character that the page's source would not show. The decoded strings are unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageJson;

impl Formatter for PageJson {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        let mut before = ' ';
        while let Some(at) = rest.find(|character| {
            let is_escaped = character == '<' || is_command(character) || (before, character) == ('#', '[');
            before = character;
            is_escaped
        }) {
            let (plain, from) = rest.split_at(at);
            out.write_all(plain.as_bytes())?;
            let Some(character) = from.chars().next() else { break };
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = &from[character.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}
