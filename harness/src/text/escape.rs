// SPDX-License-Identifier: MIT OR Apache-2.0
//! Escapes of texts that are typed on the console, in `--input`'s syntax.

use crate::error::InputError;

/// Reads a text with the escapes `\n \r \t \e \0 \xNN \: \\`.
///
/// # Errors
/// With the reason why it is wrong.
pub(crate) fn unescape(text: &str) -> Result<Vec<u8>, InputError> {
    let error = |what: String| Err(InputError::new(what));
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

/// Escapes a text as [`unescape`] reads it.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => text += "\\n",
                '\r' => text += "\\r",
                '\t' => text += "\\t",
                '\u{1b}' => text += "\\e",
                ':' => text += "\\:",
                '\\' => text += "\\\\",
                control if (control as u32) < 0x20 || control as u32 == 0x7f => {
                    text += &format!("\\x{:02x}", control as u32);
                }
                other => text.push(other),
            }
        }
        for byte in chunk.invalid() {
            text += &format!("\\x{byte:02x}");
        }
    }
    text
}
