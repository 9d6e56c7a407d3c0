// SPDX-License-Identifier: MIT OR Apache-2.0
//! Check of a command that a result carries: only commands of `harness test` are ever shown for pasting.

use crate::text::shell;

/// The program with its command, and the options that remedies use.
const PROGRAM: [&str; 2] = ["harness", "test"];

const OPTIONS: [&str; 5] = ["--untrusted", "-f", "--baseline", "--save-baseline", "--ratchet"];

/// Whether a text, which may come from another machine, has the form of the commands that harness makes, so that
/// pasting it runs nothing else.
pub fn is_command(text: &str) -> bool {
    let Some(words) = shell::words(text) else { return false };
    let is_known = |word: &String| !word.starts_with('-') || OPTIONS.contains(&word.as_str());
    words.get(..2).is_some_and(|first| first == PROGRAM) && words.iter().all(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_somebody_elses_is_none() {
        for other in [
            "",
            "curl evil",
            "harness",
            "harness test; curl evil",
            "harness test -f x --sandbox off",
            "harness test --cache-dir=/x",
            "harness test '--sandbox=off'",
            "harness run x",
        ] {
            assert!(!is_command(other), "{other}");
        }
    }
}
