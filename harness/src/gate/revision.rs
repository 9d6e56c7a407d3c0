// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commit that a suite's firmware was built from: as stated, or as the engine of a pipeline gives it by its variables.

use chrono::{DateTime, SecondsFormat, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::InputError;

/// Most characters of a commit's name.
const MAX_CHARS: usize = 100;

/// Commit of the firmware's sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Revision {
    /// Name of the commit, usually a hash.
    pub commit: String,
    /// Time of the commit, not of the run, in seconds since 1970; None: it is not known.
    pub time_seconds: Option<i64>,
}

/// An engine of pipelines that gives the commit by a variable.
struct Engine {
    name: &'static str,
    /// Variable with the commit.
    commit: &'static str,
    /// Variable with the time of the commit.
    time: Option<&'static str>,
}

/// All engines whose variables are read, the first that is set counts.
const ENGINES: [Engine; 8] = [
    Engine { name: "GitHub", commit: "GITHUB_SHA", time: None },
    Engine { name: "GitLab", commit: "CI_COMMIT_SHA", time: Some("CI_COMMIT_TIMESTAMP") },
    Engine { name: "Buildkite", commit: "BUILDKITE_COMMIT", time: None },
    Engine { name: "CircleCI", commit: "CIRCLE_SHA1", time: None },
    Engine { name: "Bitbucket", commit: "BITBUCKET_COMMIT", time: None },
    Engine { name: "Azure Pipelines", commit: "BUILD_SOURCEVERSION", time: None },
    Engine { name: "Travis CI", commit: "TRAVIS_COMMIT", time: None },
    Engine { name: "Jenkins", commit: "GIT_COMMIT", time: None },
];

impl Revision {
    /// Revision as the user states it, or else as an engine gives it by the variables that `variable` reads. None: neither
    /// is there. A stated time also applies to an engine's commit.
    ///
    /// # Errors
    /// When a name or a time cannot be one.
    pub fn find(
        commit: Option<&str>,
        time: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Revision>, InputError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let stated_time = time.map(|text| parse_time("--revision-time", text)).transpose()?;
        if let Some(commit) = commit {
            return Ok(Some(Revision { commit: named("--revision", commit)?, time_seconds: stated_time }));
        }
        let found = ENGINES.iter().find_map(|engine| Some((engine, set(engine.commit)?)));
        let Some((engine, commit)) = found else {
            let known: Vec<&str> = ENGINES.iter().map(|engine| engine.commit).collect();
            return match stated_time {
                None => Ok(None),
                Some(_) => Err(InputError::new(format!(
                    "--revision-time: there is no commit; add --revision COMMIT, or set one of {}",
                    known.join(", ")
                ))),
            };
        };
        let of_engine = |name| Some((name, set(name)?));
        let engine_time = engine.time.and_then(of_engine).map(|(name, text)| parse_time(name, &text)).transpose()?;
        let commit = named(&format!("{} of {}", engine.commit, engine.name), &commit)?;
        Ok(Some(Revision { commit, time_seconds: stated_time.or(engine_time) }))
    }
}

/// Checks a commit's name, which reports show and other programs read.
fn named(whose: &str, text: &str) -> Result<String, InputError> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || "._/+-".contains(letter);
    if text.is_empty() || text.len() > MAX_CHARS || !text.chars().all(is_word) {
        let why = format!("1 to {MAX_CHARS} letters, digits and . _ / + -");
        return Err(InputError::new(format!("{whose}: {text:?} cannot be a commit; write its hash: {why}")));
    }
    Ok(text.to_owned())
}

/// Reads a time in RFC 3339 or in seconds since 1970.
fn parse_time(whose: &str, text: &str) -> Result<i64, InputError> {
    let seconds = text.parse().ok().filter(|&seconds| DateTime::<Utc>::from_timestamp(seconds, 0).is_some());
    let read = seconds.or_else(|| Some(DateTime::parse_from_rfc3339(text).ok()?.timestamp()));
    read.ok_or_else(|| {
        InputError::new(format!(
            "{whose}: {text:?} is not a time; write it as `git log -1 --format=%cI` prints it, or as seconds since 1970"
        ))
    })
}

/// Formats a commit's time, in UTC: `2026-01-31 15:47:55Z`; None: there is no such day.
pub fn shown_time(seconds: i64) -> Option<String> {
    let time = DateTime::<Utc>::from_timestamp(seconds, 0)?;
    Some(time.to_rfc3339_opts(SecondsFormat::Secs, true).replace('T', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(commit: Option<&str>, time: Option<&str>, set: &[(&str, &str)]) -> Result<Option<Revision>, String> {
        let variable =
            |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Revision::find(commit, time, variable).map_err(|error| error.to_string())
    }

    fn revision(commit: &str, time_seconds: Option<i64>) -> Result<Option<Revision>, String> {
        Ok(Some(Revision { commit: commit.to_owned(), time_seconds }))
    }

    #[test]
    fn the_commit_is_the_stated_one_or_the_engines() {
        let gitlab = [("CI_COMMIT_SHA", "abc"), ("CI_COMMIT_TIMESTAMP", "2026-01-31T16:47:55+01:00")];
        assert_eq!(find(None, None, &[]), Ok(None));
        assert_eq!(find(None, None, &[("GITHUB_SHA", "")]), Ok(None));
        assert_eq!(find(None, None, &gitlab), revision("abc", Some(1_769_874_475)));
        assert_eq!(find(None, Some("7"), &gitlab), revision("abc", Some(7)));
        // The engine's time is that of the engine's commit.
        assert_eq!(find(Some("v1.2-3"), None, &gitlab), revision("v1.2-3", None));
        assert_eq!(find(Some("x"), Some("1970-01-01T00:01:00Z"), &[]), revision("x", Some(60)));
        for (commit, time, set, what) in [
            (Some("a b"), None, &[][..], "--revision: \"a b\" cannot be"),
            (Some(""), None, &[], "cannot be a commit"),
            (Some("x"), Some("yesterday"), &[], "--revision-time: \"yesterday\" is not a time"),
            (Some("x"), Some("9223372036854775807"), &[], "is not a time"),
            (None, Some("1"), &[], "add --revision"),
            (None, None, &[("GIT_COMMIT", "<b>")], "GIT_COMMIT of Jenkins: \"<b>\" cannot be"),
        ] {
            let error = find(commit, time, set).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn a_time_is_shown_in_utc() {
        assert_eq!(shown_time(1_769_874_475).as_deref(), Some("2026-01-31 15:47:55Z"));
        assert_eq!(shown_time(i64::MAX), None);
    }
}
