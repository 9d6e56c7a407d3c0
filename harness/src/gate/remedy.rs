//! What can be done about an image that failed: the command that runs it again, and the one that takes its numbers for
//! the baseline's. They are written so that they can be pasted into a shell.

use std::path::Path;

use crate::text::shell::{self, quoted};

/// What the commands have in common: how the suite was named and what it was compared with.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// The suite's file, where it was named.
    pub suite: Option<String>,
    /// The baseline, where the suite does not name it.
    pub baseline: Option<String>,
    /// The suite is a stranger's, to whoever runs the commands, too.
    pub is_untrusted: bool,
}

impl Command {
    /// Runs this image alone.
    pub fn repeat(&self, case: &str) -> String {
        let mut words = self.words(case);
        if let Some(baseline) = &self.baseline {
            words.extend(["--baseline".to_owned(), quoted(baseline)]);
        }
        words.join(" ")
    }

    /// Keeps its numbers as the baseline of this name; None: a stranger's suite writes none.
    pub fn accept(&self, case: &str, baseline: &str) -> Option<String> {
        let mut words = self.words(case);
        words.extend(["--save-baseline".to_owned(), quoted(baseline)]);
        (!self.is_untrusted).then(|| words.join(" "))
    }

    fn words(&self, case: &str) -> Vec<String> {
        let mut words = vec!["harness test".to_owned()];
        words.extend(self.is_untrusted.then(|| "--untrusted".to_owned()));
        words.extend(self.suite.as_deref().map(quoted));
        words.extend(["-f".to_owned(), quoted(&format!("name({})", exactly(case)))]);
        words
    }
}

/// The program and its command, and the options that a remedy has.
const PROGRAM: [&str; 2] = ["harness", "test"];
const OPTIONS: [&str; 4] = ["--untrusted", "-f", "--baseline", "--save-baseline"];

/// Whether a text, which may come from elsewhere, is a command as they are written here: who pastes it runs nothing else.
pub fn is_command(text: &str) -> bool {
    let Some(words) = shell::words(text) else { return false };
    let is_known = |word: &String| !word.starts_with('-') || OPTIONS.contains(&word.as_str());
    words.get(..2).is_some_and(|first| first == PROGRAM) && words.iter().all(is_known)
}

/// A glob that means this name. What filters cannot hold is any character.
fn exactly(name: &str) -> String {
    globset::escape(name).chars().map(|c| if matches!(c, ')' | '\\') || c.is_control() { '?' } else { c }).collect()
}

/// A file as people know it wherever the checkout lies: from its repository on, else from the current directory, else
/// its name.
pub fn shown_path(path: &Path) -> String {
    let absolute = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let repository = absolute.ancestors().skip(1).find(|directory| directory.join(".git").exists());
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).ok();
    let below = repository.or(here.as_deref()).and_then(|above| absolute.strip_prefix(above).ok());
    let name = || Path::new(path.file_name().unwrap_or_default());
    below.unwrap_or_else(name).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::filter::Filter;

    #[test]
    fn commands_mean_one_image_and_no_other() {
        let command = Command::default();
        assert_eq!(command.repeat("bare"), "harness test -f 'name(bare)'");
        let accept = "harness test -f 'name(bare)' --save-baseline main";
        assert_eq!(command.accept("bare", "main").as_deref(), Some(accept));
        let stranger = Command { is_untrusted: true, ..Command::default() };
        assert_eq!(stranger.repeat("bare"), "harness test --untrusted -f 'name(bare)'");
        assert_eq!(stranger.accept("bare", "main"), None);
        let named = Command {
            suite: Some("ci suite.toml".to_owned()),
            baseline: Some("old".to_owned()),
            is_untrusted: false,
        };
        assert_eq!(named.repeat("a'b"), "harness test 'ci suite.toml' -f 'name(a'\\''b)' --baseline old");
        for name in ["uart[shift=5]", "a*b", "f(x)", "{x}", "a\\b"] {
            let filter = Filter::parse(&format!("name({})", exactly(name))).unwrap();
            assert!(filter.matches(name, &[]), "{name}");
            assert!(!filter.matches(&format!("{name}s"), &[]), "{name}");
            assert!(is_command(&named.repeat(name)) && is_command(&stranger.repeat(name)));
        }
    }

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

    #[test]
    fn a_path_is_shown_from_its_repository_on() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("ci/harness.toml");
        std::fs::create_dir_all(directory.path().join(".git")).unwrap();
        std::fs::create_dir_all(directory.path().join("ci")).unwrap();
        std::fs::write(&below, "").unwrap();
        assert_eq!(shown_path(&below), "ci/harness.toml");
        assert_eq!(shown_path(Path::new("/nowhere/suite.toml")), "suite.toml");
    }
}
