// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts that are typed on the firmware's console, and their times.

use serde::{Deserialize, Serialize};

use crate::error::InputError;
use crate::text::number::parse_insns;

/// A text that is typed on the firmware's console.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Instruction or prompt at which it begins.
    pub when: When,
    /// Typed bytes, not empty.
    pub bytes: Vec<u8>,
}

/// Start of a text; the texts before it come first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// Start after this number of instructions from reset.
    At(u64),
    /// Start once the firmware has printed this prompt, not empty, after the prompt of the text before.
    After(String),
}

impl Input {
    /// Reads `1M:go\n`.
    ///
    /// # Errors
    /// With the reason why the argument is wrong.
    pub fn at(typed: &str) -> Result<Input, InputError> {
        let option = "--input";
        let Some((at, text)) = typed.split_once(':') else {
            return Err(InputError::new(format!(
                "{option} {typed}: no ':'; write the instruction at which it is typed and the text, as 1M:go\\n \
                 (--input-after waits for a prompt instead)"
            )));
        };
        let at =
            parse_insns(option, at).map_err(|error| InputError::new(format!("{error} (in {option} {typed})")))?;
        Ok(Input { when: When::At(at), bytes: text_bytes(option, typed, text)? })
    }

    /// Reads `login\: :root\n`.
    ///
    /// # Errors
    /// With the reason why the argument is wrong.
    pub fn after(typed: &str) -> Result<Input, InputError> {
        let option = "--input-after";
        let error = |what: &str| InputError::new(format!("{option} {typed}: {what}"));
        let mut colons = Vec::new();
        let mut escaped = false;
        for (at, c) in typed.char_indices() {
            if c == ':' && !escaped {
                colons.push(at);
            }
            escaped = c == '\\' && !escaped;
        }
        let &[colon] = &colons[..] else {
            return Err(error(match colons[..] {
                [] => "no ':'; write the prompt and the text, as 'prompt> :go\\n'",
                _ => "more than one ':' between prompt and text; write those that belong to them as \\:",
            }));
        };
        let prompt = text_bytes(option, typed, &typed[..colon])?;
        let prompt = String::from_utf8(prompt).map_err(|_| error("the prompt is not text"))?;
        Ok(Input { when: When::After(prompt), bytes: text_bytes(option, typed, &typed[colon + 1..])? })
    }

    /// Converts the text for the plugin.
    pub fn step(&self) -> wire::input::Step {
        let when = match &self.when {
            When::At(insns) => wire::input::When::At(*insns),
            When::After(prompt) => wire::input::When::After(prompt.clone().into_bytes()),
        };
        wire::input::Step { when, bytes: self.bytes.clone() }
    }

    /// Refuses a list whose texts cannot be typed at their instructions.
    ///
    /// # Errors
    /// With the instruction that has passed before the text's turn.
    pub fn check(list: &[Input]) -> Result<(), InputError> {
        let mut last = 0;
        for input in list {
            if let When::At(insns) = input.when {
                if insns < last {
                    return Err(InputError::new(format!(
                        "input at instruction {insns} comes after input at instruction {last}; \
                         they are typed in the order in which they are given"
                    )));
                }
                last = insns;
            }
        }
        Ok(())
    }
}

/// Reads a text with escapes.
fn text_bytes(option: &str, typed: &str, text: &str) -> Result<Vec<u8>, InputError> {
    let error = |what: String| Err(InputError::new(format!("{option} {typed}: {what}")));
    let mut bytes = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        bytes.push(match rest.next() {
            Some('n') => b'\n',
            Some('r') => b'\r',
            Some('t') => b'\t',
            Some('e') => 0x1b,
            Some('0') => 0,
            Some('\\') => b'\\',
            Some(':') => b':',
            Some('x') => {
                let digits: String = rest.by_ref().take(2).collect();
                let both = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                match u8::from_str_radix(&digits, 16) {
                    Ok(byte) if both => byte,
                    _ => return error(format!("\\x{digits} is not a byte; write two hex digits, as \\x1b")),
                }
            }
            other => {
                let escape = other.map(String::from).unwrap_or_default();
                return error(format!("unknown escape \\{escape}; there are \\n \\r \\t \\e \\0 \\xNN \\: and \\\\"));
            }
        });
    }
    match bytes.len() {
        0 => error("there is nothing on one side of the ':'".to_owned()),
        len if len > wire::input::MAX_BYTES => error(format!("longer than {} bytes", wire::input::MAX_BYTES)),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_read_as_people_write_it() {
        let at = |insns, bytes: &[u8]| Ok(Input { when: When::At(insns), bytes: bytes.to_vec() });
        assert_eq!(Input::at(r"1.5M:go\n"), at(1_500_000, b"go\n"));
        assert_eq!(Input::at(r"7:set time 12:30\r\n"), at(7, b"set time 12:30\r\n"));
        assert_eq!(Input::at(r"7:\0\t\e[A\x7f\xff\\n"), at(7, b"\0\t\x1b[A\x7f\xff\\n"));
        assert_eq!(Input::at("7:ä"), at(7, "ä".as_bytes()));
        let after =
            |prompt: &str, bytes: &[u8]| Ok(Input { when: When::After(prompt.to_owned()), bytes: bytes.to_vec() });
        assert_eq!(Input::after(r"prompt> :x\n"), after("prompt> ", b"x\n"));
        assert_eq!(Input::after(r"login\: :root\:\\\n"), after("login: ", b"root:\\\n"));
        assert_eq!(Input::after(r"\\:x"), after("\\", b"x"));
        assert_eq!(Input::after("größe?:1"), after("größe?", b"1"));
    }
}
