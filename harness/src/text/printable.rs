// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the firmware's text harmless: names and source lines must neither command a terminal nor break its columns.

use std::borrow::Cow;

use crate::text::columns::columns;

/// Replacement for a character that is not shown.
const HIDDEN: char = '\u{fffd}';

/// Whether a character is not shown, and instead commands the terminal or changes the direction of text.
pub fn is_command(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            // Invisible characters, and characters that change the direction of others. The joiners U+200C and U+200D
            // belong to letters, so they are allowed.
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
                // Noncharacters, which no text has; `tone` marks lines with some of them.
                | '\u{fdd0}'..='\u{fdef}'
        )
}

/// Cleans one line of text: characters that a terminal would not show are replaced.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_command) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|character| if is_command(character) { HIDDEN } else { character }).collect())
}

/// Formats a source line: printable, with its tabs as spaces up to the next multiple of 8 columns.
pub fn source(text: &str) -> String {
    let mut line = String::new();
    for (index, part) in text.split('\t').enumerate() {
        if index > 0 {
            let columns = columns(&line);
            line.extend(std::iter::repeat_n(' ', 8 - columns % 8));
        }
        line += &printable(part);
    }
    line
}
