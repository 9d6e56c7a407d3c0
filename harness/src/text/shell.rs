// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shell words, so that a printed command can be pasted into a shell.

/// Whether a character has no special meaning in any shell.
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "-_./=:,+@".contains(c)
}

/// Splits a command of [`quoted`] words and options into its words. None: the command has other shell syntax, such as a
/// second command.
pub fn words(command: &str) -> Option<Vec<String>> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    let mut rest = command.chars();
    while let Some(c) = rest.next() {
        let word = words.last_mut()?;
        match c {
            '\'' => is_quoted = !is_quoted,
            c if is_quoted => word.push(c),
            '\\' if rest.next() == Some('\'') => word.push('\''),
            ' ' => words.push(String::new()),
            c if is_plain(c) => word.push(c),
            _ => return None,
        }
    }
    (!is_quoted).then_some(words)
}

/// Quotes a word for shells.
pub fn quoted(word: &str) -> String {
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_read_otherwise_are_quoted() {
        assert_eq!(
            ["", "-x", "a/b.toml", "f(int)", "a'b"].map(quoted),
            ["''", "'-x'", "a/b.toml", "'f(int)'", "'a'\\''b'"]
        );
    }

    #[test]
    fn a_command_has_the_words_that_it_was_made_of_and_no_other_command_in_it() {
        let made = ["harness", "a'b c;d", "", "-x", "$(x)\n", "''"];
        let command = made.map(quoted).join(" ");
        assert_eq!(words(&command).unwrap(), made);
        for other in
            ["a; b", "a | b", "a\nb", "a $b", "a `b`", "a 'b", "a \\b", "a > b", "a & b", "a \"b\"", "a #b", "a *"]
        {
            assert_eq!(words(other), None, "{other}");
        }
    }
}
