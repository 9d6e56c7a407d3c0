//! Text for XML and HTML: what a name holds must not become markup.

use crate::text::terminal::printable;

/// Text as it may stand between tags.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Text for a writer of XML, which escapes markup itself: one line that any reader may show.
pub fn line(text: &str) -> String {
    // XML has no such characters at all.
    printable(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}
