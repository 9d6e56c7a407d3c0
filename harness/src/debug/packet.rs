// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of GDB's protocol that `gdbstub` does not handle: the first packet, which distinguishes a debugger from
//! other clients, and errors with a text, such as the error for a second debugger.

/// Longest first packet of a debugger, in bytes.
const MAX_GREETING_BYTES: usize = 4096;

/// Kind of a client's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::debug) enum Greeting {
    /// The beginning of a packet, or nothing.
    Begun,
    /// A packet, after any acknowledgements: the client is a debugger.
    Packet,
    /// Anything else.
    Other,
}

/// Classifies a client's first bytes.
pub(in crate::debug) fn greeting(said: &[u8]) -> Greeting {
    let is_between = |byte: &u8| b"+-\x03".contains(byte);
    let start = said.iter().position(|byte| !is_between(byte)).unwrap_or(said.len());
    let [b'$', rest @ ..] = &said[start..] else {
        let is_nothing = start == said.len() && said.len() <= MAX_GREETING_BYTES;
        return if is_nothing { Greeting::Begun } else { Greeting::Other };
    };
    let Some(end) = rest.iter().take(MAX_GREETING_BYTES + 1).position(|&byte| byte == b'#') else {
        return if rest.len() <= MAX_GREETING_BYTES { Greeting::Begun } else { Greeting::Other };
    };
    let (body, checksum) = (&rest[..end], &rest[end + 1..]);
    match checksum.get(..2) {
        None => Greeting::Begun,
        Some(digits) if digits.eq_ignore_ascii_case(format!("{:02x}", checksum_of(body)).as_bytes()) => {
            Greeting::Packet
        }
        Some(_) => Greeting::Other,
    }
}

fn checksum_of(body: &[u8]) -> u8 {
    body.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte))
}

/// A packet with its checksum.
pub(in crate::debug) fn packet(body: &str) -> String {
    format!("${body}#{:02x}", checksum_of(body.as_bytes()))
}

/// An error packet with a text, which GDB shows if it has no text of its own for the failed request.
pub(in crate::debug) fn error_packet(reason: &str) -> String {
    let is_plain = |c: char| c.is_ascii_graphic() && !"#$*}".contains(c);
    let plain: String = reason.chars().map(|c| if is_plain(c) { c } else { ' ' }).collect();
    packet(&format!("E.{plain}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_words_is_one_packet_whatever_the_words() {
        assert_eq!(error_packet("no"), "$E.no#50");
        assert_eq!(error_packet("a$b#c*d}e\n\u{e9}"), packet("E.a b c d e  "));
    }

    #[test]
    fn a_debugger_is_known_by_its_first_packet() {
        for said in ["", "+", "+$qSup", "$?#", "$?#3"] {
            assert_eq!(greeting(said.as_bytes()), Greeting::Begun, "{said}");
        }
        for said in ["$?#3f", "+$?#3F", "++\x03$qSupported:swbreak+#e4+"] {
            let said = said.replace("#e4", &packet("qSupported:swbreak+")[20..]);
            assert_eq!(greeting(said.as_bytes()), Greeting::Packet, "{said}");
        }
        let long = packet(&"0".repeat(MAX_GREETING_BYTES + 1));
        for said in ["GET / HTTP/1.1\r\n", "POST", "\r\n$?#3f", "$?#40", "$?#zz", "$?#+f", &long, &"+".repeat(5000)] {
            assert_eq!(greeting(said.as_bytes()), Greeting::Other, "{said}");
        }
    }
}
