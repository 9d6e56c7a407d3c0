//! Text for XML and HTML: what a name holds must not become markup.

use std::io::{self, Write};

use serde_json::ser::Formatter;

use crate::text::terminal::{is_command, printable};

/// Text as it may stand between tags.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Text for a writer of XML, which escapes markup itself: one line that any reader may show.
pub fn line(text: &str) -> String {
    // XML has no such characters at all.
    printable(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// A name for a picture: one line that any reader of XML may show, in the direction in which it is written.
pub fn shown(name: &str) -> String {
    let is_illegal = |character: char| is_command(character) || matches!(character, '\u{fffe}' | '\u{ffff}');
    name.trim().chars().map(|character| if is_illegal(character) { '?' } else { character }).collect()
}

/// JSON that may stand in a page: no `<` is left in its strings, so that no name ends the element that it is in, and
/// nothing that a reader of the page's source would not see. The strings are the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageJson;

impl Formatter for PageJson {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(|character| character == '<' || is_command(character)) {
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
