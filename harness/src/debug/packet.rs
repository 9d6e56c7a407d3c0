//! Packets of GDB's protocol that are not `gdbstub`'s: errors in words, one of which tells a second debugger that it is
//! one.

/// A packet with its checksum.
pub(in crate::debug) fn packet(body: &str) -> String {
    let sum = body.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
    format!("${body}#{sum:02x}")
}

/// An error's packet in words, which GDB shows where it has none of its own.
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
}
