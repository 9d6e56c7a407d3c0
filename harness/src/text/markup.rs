//! Text for XML and HTML: what a name holds must not become markup.

/// Text as it may stand between tags.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
