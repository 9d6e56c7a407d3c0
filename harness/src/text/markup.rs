//! Text for XML and HTML: what a name holds must not become markup.

/// Text between tags.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
