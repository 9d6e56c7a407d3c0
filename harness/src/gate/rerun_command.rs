// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remedies for a failed image: the command that runs it again, and the command that makes its numbers the baseline's.
//! Both can be pasted into a shell.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::analysis::debug_hints;
use crate::gate::result::CaseResult;
use crate::gate::suite::FILE_NAME;
use crate::text::shell::quoted;

/// Parts that the commands have in common: the suite's name, and the baseline.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Command {
    /// The suite's file; None: harness finds it by itself.
    pub suite: Option<String>,
    /// The baseline, if the suite does not name it.
    pub baseline: Option<String>,
    /// The baseline compared with, named by the suite or by the command line.
    pub compared: Option<String>,
    /// Whether the suite is untrusted; it is so for the reader who runs the commands, too.
    pub is_untrusted: bool,
}

impl Command {
    /// Command that runs one image alone.
    pub fn repeat(&self, case: &str) -> String {
        self.compared_words(case).join(" ")
    }

    /// Command that saves an image's numbers as the baseline; None: there is no baseline, or the suite is untrusted and
    /// may not write one.
    pub fn accept(&self, case: &str) -> Option<String> {
        if self.is_untrusted {
            return None;
        }
        let mut words = self.words(case);
        words.extend(["--save-baseline".to_owned(), quoted(self.compared.as_ref()?)]);
        Some(words.join(" "))
    }

    /// Command that tightens the baseline to an image's numbers; None: the suite is untrusted and may not write one.
    pub fn tighten(&self, case: &str) -> Option<String> {
        let mut words = self.compared_words(case);
        words.push("--ratchet".to_owned());
        (!self.is_untrusted).then(|| words.join(" "))
    }

    fn compared_words(&self, case: &str) -> Vec<String> {
        let mut words = self.words(case);
        if let Some(baseline) = &self.baseline {
            words.extend(["--baseline".to_owned(), quoted(baseline)]);
        }
        words
    }

    fn words(&self, case: &str) -> Vec<String> {
        let mut words = vec!["harness test".to_owned()];
        words.extend(self.is_untrusted.then(|| "--untrusted".to_owned()));
        words.extend(self.suite.as_deref().map(quoted));
        words.extend(["-f".to_owned(), quoted(&format!("name({})", exactly(case)))]);
        words
    }
}

/// Remedies for a case: a word, and the command or file. `directory` is the directory of the case's profile, as
/// commands name it.
pub fn remedies(case: &CaseResult, directory: &Path) -> Vec<(&'static str, String)> {
    let path = |name: &String| directory.join(name).display().to_string();
    let mut remedies = Vec::new();
    if !case.passed() {
        remedies.push(("again:", case.repeat.clone()));
        remedies.extend(case.accept.iter().map(|accept| ("accept:", accept.clone())));
        let debug = case.at.iter().zip(&case.profile);
        remedies.extend(debug.map(|(at, profile)| ("debug:", debug_hints::command(&path(profile), at))));
        remedies.extend(case.profile.iter().map(|profile| ("profile:", path(profile))));
        remedies.extend(case.picture.iter().map(|picture| ("picture:", path(picture))));
    }
    remedies.extend(case.tighten.iter().map(|tighten| ("tighten:", tighten.clone())));
    remedies.retain(|(_, how)| !how.is_empty());
    remedies
}

/// Like [`remedies`], with commands for the current directory; `command` is the suite's command there.
pub fn remedies_here(case: &CaseResult, directory: &Path, command: &Command) -> Vec<(&'static str, String)> {
    let case = CaseResult {
        repeat: command.repeat(&case.name),
        accept: case.accept.as_ref().and_then(|_| command.accept(&case.name)),
        tighten: case.tighten.as_ref().and_then(|_| command.tighten(&case.name)),
        ..case.clone()
    };
    remedies(&case, directory)
}

/// The project's root, in which the commands of reports are pasted: the suite's repository; or else the current
/// directory, if the suite is below it; or else the suite's own directory.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// Root of the project that contains a file, such as a suite's.
    pub fn of(file: &Path) -> Root {
        let absolute = absolute(file);
        let around = || absolute.ancestors().skip(1);
        let repository = around().find(|directory| directory.join(".git").exists()).map(Path::to_owned);
        let here = || std::env::current_dir().and_then(|here| here.canonicalize()).ok();
        let here = || here().filter(|here| absolute.starts_with(here));
        let own = || around().next().map(Path::to_owned);
        Root(repository.or_else(here).or_else(own).unwrap_or_default())
    }

    /// Path relative to the root. A file outside of the root has its absolute path.
    pub fn path(&self, path: &Path) -> PathBuf {
        let absolute = absolute(path);
        absolute.strip_prefix(&self.0).map_or_else(|_| absolute.clone(), Path::to_owned)
    }

    /// The suite's command for the project's root.
    pub fn command(&self, suite: &Path, command: &Command) -> Command {
        let path = self.path(suite);
        let suite = (path != Path::new(FILE_NAME)).then(|| path.display().to_string());
        Command { suite, ..command.clone() }
    }
}

/// Absolute path without links. The file need not exist yet.
fn absolute(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there =
        whole.ancestors().find_map(|above| Some((above.canonicalize().ok()?, whole.strip_prefix(above).ok()?)));
    there.map_or_else(|| whole.clone(), |(above, rest)| above.join(rest))
}

/// Glob that matches only this name, except that wildcards replace the characters that filters cannot contain.
fn exactly(name: &str) -> String {
    globset::escape(name).chars().map(|c| if matches!(c, ')' | '\\') || c.is_control() { '?' } else { c }).collect()
}

/// Path of a file for display, relative to its project's root.
pub fn shown_path(path: &Path) -> String {
    Root::of(path).path(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::command_check::is_command;
    use crate::gate::filter::Filter;

    #[test]
    fn commands_mean_one_image_and_no_other() {
        let command = Command { compared: Some("main".to_owned()), ..Command::default() };
        assert_eq!(command.repeat("bare"), "harness test -f 'name(bare)'");
        assert_eq!(command.accept("bare").unwrap(), "harness test -f 'name(bare)' --save-baseline main");
        assert_eq!(command.tighten("bare").unwrap(), "harness test -f 'name(bare)' --ratchet");
        let stranger = Command { is_untrusted: true, ..command.clone() };
        assert_eq!(stranger.repeat("bare"), "harness test --untrusted -f 'name(bare)'");
        assert_eq!((stranger.accept("bare"), stranger.tighten("bare")), (None, None));
        let old = || Some("old".to_owned());
        let suite = Some("ci suite.toml".to_owned());
        let named = Command { suite, baseline: old(), compared: old(), is_untrusted: false };
        assert_eq!(named.repeat("a'b"), "harness test 'ci suite.toml' -f 'name(a'\\''b)' --baseline old");
        assert_eq!(named.tighten("b").unwrap(), "harness test 'ci suite.toml' -f 'name(b)' --baseline old --ratchet");
        assert_eq!(Command::default().accept("bare"), None);
        for name in ["uart[shift=5]", "a*b", "f(x)", "{x}", "a\\b"] {
            let filter = Filter::parse(&format!("name({})", exactly(name))).unwrap();
            assert!(filter.matches(name, &[]), "{name}");
            assert!(!filter.matches(&format!("{name}s"), &[]), "{name}");
            assert!(is_command(&named.repeat(name)) && is_command(&stranger.repeat(name)));
        }
    }

    #[test]
    fn what_reports_name_is_from_the_projects_root_on() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for folder in [".git", "ci/deep"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        let suite = |path: &str| {
            let suite = root.join(path);
            Root::of(&suite).command(&suite, &Command::default()).suite
        };
        assert_eq!(suite("harness.toml"), None);
        assert_eq!(suite("ci/harness.toml").as_deref(), Some("ci/harness.toml"));
        std::fs::write(root.join("ci/suite.toml"), "").unwrap();
        assert_eq!(suite("ci/deep/../suite.toml").as_deref(), Some("ci/suite.toml"));
        let of = Root::of(&root.join("ci/suite.toml"));
        assert_eq!(of.path(&root.join("ci/out")), Path::new("ci/out"));
        assert_eq!(of.path(Path::new("/nowhere/out")), Path::new("/nowhere/out"));
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
