// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that CI servers read from anywhere in a line of a job's log: `##[…]` of GitHub and Azure Pipelines, `##vso[…]`
//! of Azure Pipelines, `##teamcity[…]` of TeamCity.

use std::borrow::Cow;

/// Words between `##` and the bracket, in lower case.
const WORDS: [&[u8]; 3] = [b"", b"vso", b"teamcity"];

/// Length of the longest of [`WORDS`].
const LONGEST: usize = 8;

/// Finds the brackets that complete a command, byte by byte.
#[derive(Clone, Debug, Default)]
pub struct Brackets {
    /// Number of `#` directly before the word, 2 at most.
    hashes: u8,
    /// Letters after them, in lower case; one more than [`LONGEST`] if there are too many.
    word: Vec<u8>,
}

impl Brackets {
    /// Takes the next byte. Returns whether it is the bracket of a command.
    pub fn push(&mut self, byte: u8) -> bool {
        match byte {
            b'#' => {
                self.hashes = if self.word.is_empty() { (self.hashes + 1).min(2) } else { 1 };
                self.word.clear();
                return false;
            }
            letter if letter.is_ascii_alphabetic() && self.hashes == 2 => {
                if self.word.len() <= LONGEST {
                    self.word.push(letter.to_ascii_lowercase());
                }
                return false;
            }
            _ => {}
        }
        let is_command = byte == b'[' && self.hashes == 2 && WORDS.contains(&self.word.as_slice());
        self.hashes = 0;
        self.word.clear();
        is_command
    }
}

/// Whether a text has such a command.
pub fn has_command(text: &str) -> bool {
    let mut brackets = Brackets::default();
    text.bytes().any(|byte| brackets.push(byte))
}

/// Puts a space between the two `#` of each such command.
pub fn disarmed(text: &str) -> Cow<'_, str> {
    let mut brackets = Brackets::default();
    // The second `#` is the last one before the bracket.
    let ends = text.bytes().enumerate().filter(|&(_, byte)| brackets.push(byte)).map(|(at, _)| at);
    let cuts: Vec<usize> = ends.filter_map(|end| text[..end].rfind('#')).collect();
    if cuts.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut whole = String::with_capacity(text.len() + cuts.len());
    let mut from = 0;
    for cut in cuts {
        whole += &text[from..cut];
        whole.push(' ');
        from = cut;
    }
    Cow::Owned(whole + &text[from..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_each_server_are_found_anywhere_and_nothing_else_is() {
        for (text, expected) in [
            ("##[error]x", "# #[error]x"),
            ("a ##vso[task.setvariable]b", "a # #vso[task.setvariable]b"),
            ("\u{e9}##VSO[x]##TeamCity[y", "\u{e9}# #VSO[x]# #TeamCity[y"),
            ("####teamcity[z]", "### #teamcity[z]"),
            ("##vso##[z]", "##vso# #[z]"),
        ] {
            assert_eq!(disarmed(text), expected);
            assert!(has_command(text) && !has_command(expected), "{text}");
        }
        for text in ["#vso[x]", "## vso[x]", "##vso [x]", "##vsoteamcity[x]", "##vs#o[x]", "##", "[##"] {
            assert_eq!(disarmed(text), text);
            assert!(!has_command(text), "{text}");
        }
    }
}
