//! Shell words: a printed command can be pasted into a shell.

/// Quotes a word for a shell where it needs quotes.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,+@".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_that_a_shell_would_read_otherwise_are_quoted() {
        assert_eq!(
            ["", "-x", "a/b.toml", "f(int)", "a'b"].map(quoted),
            ["''", "'-x'", "a/b.toml", "'f(int)'", "'a'\\''b'"]
        );
    }
}
