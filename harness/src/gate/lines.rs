//! A suite's result on the terminal: a line per image as it is finished, details of what failed, the verdict.
//!
//! A failure is a line `file:line: error: message`, as compilers write them, which editors and CI find by themselves
//! (VS Code's `$gcc`; ci/problem-matcher.json).

use std::io::{self, Write};
use std::path::Path;

use crate::analysis::visit;
use crate::exit_code::ExitCode;
use crate::gate::result::{CaseResult, SuiteResult};
use crate::text::github;
use crate::text::number::group;
use crate::text::terminal::printable;

/// Writes one case; `width` columns are for names, `directory` is where its profile is.
///
/// # Errors
/// What `out` reports.
pub fn case(case: &CaseResult, width: usize, directory: Option<&Path>, out: &mut impl Write) -> io::Result<()> {
    let word = if case.passed() { "PASS" } else { "FAIL" };
    let insns = case.run.as_ref().map_or_else(|| "-".to_owned(), |run| group(run.insns));
    let change = case.comparison.as_ref().map(|comparison| comparison.explanation.as_str());
    let name = printable(&case.name);
    // What is wrong comes first, then what accounts for it.
    let first = case.failures().next().map(|finding| finding.message.lines().next().unwrap_or_default());
    let line = format!("{word}  {name:<width$}  {insns:>15}  {}", first.or(change).unwrap_or_default());
    writeln!(out, "{}", printable(line.trim_end()))?;
    if let Some(change) = change.filter(|_| first.is_some()) {
        writeln!(out, "      {}", printable(change))?;
    }
    for message in &case.messages {
        writeln!(out, "      {}", printable(message))?;
    }
    for mismatch in case.comparison.iter().flat_map(|comparison| &comparison.mismatches) {
        writeln!(out, "      note: {}", printable(mismatch))?;
    }
    for warning in &case.warnings {
        writeln!(out, "{}warning: {name}: {}", at(case.place.as_ref()), printable(warning))?;
    }
    for finding in case.failures() {
        let mut lines = finding.message.lines();
        let message = lines.next().unwrap_or_default();
        writeln!(out, "{}error: {name}: {}", at(case.place_of(finding)), printable(message))?;
        for line in lines {
            writeln!(out, "      {}", printable(line))?;
        }
    }
    if case.passed() {
        return Ok(());
    }
    for (what, how) in remedies(case, directory) {
        writeln!(out, "      {what:<8} {}", printable(&how))?;
    }
    if !case.console_tail.is_empty() {
        writeln!(out, "      it printed at last:")?;
        for line in &case.console_tail {
            writeln!(out, "      | {}", printable(line))?;
        }
    }
    Ok(())
}

/// Whether a case is as it should be, and nothing is to be said of it.
pub fn has_nothing_to_say(case: &CaseResult) -> bool {
    case.passed() && case.warnings.is_empty()
}

/// `file:line: `, where that is known.
fn at(place: Option<&(String, u32)>) -> String {
    place.map(|(file, line)| format!("{}:{line}: ", printable(file))).unwrap_or_default()
}

/// What can be done about a failure, and where to look: a word and the command or file.
pub fn remedies(case: &CaseResult, directory: Option<&Path>) -> Vec<(&'static str, String)> {
    let path = |name: &String| directory.map_or_else(|| name.clone(), |above| above.join(name).display().to_string());
    let mut remedies = vec![("again:", case.repeat.clone())];
    remedies.extend(case.accept.iter().map(|accept| ("accept:", accept.clone())));
    let debug = case.at.iter().zip(&case.profile);
    remedies.extend(debug.map(|(at, profile)| ("debug:", visit::command(&path(profile), at))));
    remedies.extend(case.profile.iter().map(|profile| ("profile:", path(profile))));
    remedies.extend(case.picture.iter().map(|picture| ("picture:", path(picture))));
    remedies.retain(|(_, how)| !how.is_empty());
    remedies
}

/// Writes the verdict; `code` is what the command ends with.
///
/// # Errors
/// What `out` reports.
pub fn verdict(result: &SuiteResult, code: ExitCode, out: &mut impl Write) -> io::Result<()> {
    let (passed, all) = (result.passed(), result.cases.len());
    let insns: u64 = result.cases.iter().filter_map(|case| Some(case.run.as_ref()?.insns)).sum();
    let failed = if passed == all { String::new() } else { format!(", {} failed", all - passed) };
    let warnings = match result.cases.iter().map(|case| case.warnings.len()).sum() {
        0 => String::new(),
        1 => ", 1 warning".to_owned(),
        warnings => format!(", {warnings} warnings"),
    };
    writeln!(
        out,
        "{passed} of {all} passed{failed}{warnings}; {} instructions; exit {}: {}",
        group(insns),
        code.status(),
        code.describe()
    )
}

/// Writes what failed, and what would not be seen, as annotations of GitHub's
/// (<https://docs.github.com/actions/reference/workflow-commands-for-github-actions>).
///
/// # Errors
/// What `out` reports.
pub fn annotations(result: &SuiteResult, out: &mut impl Write) -> io::Result<()> {
    let mut write = |kind: &str, case: &CaseResult, place: Option<&(String, u32)>, message: &str| {
        let place = place.map(|(file, line)| format!("file={},line={line},", github::property(github::path(file))));
        let (place, title) = (place.unwrap_or_default(), github::property(&case.name));
        writeln!(out, "::{kind} {place}title={title}::{}", github::message(message))
    };
    for case in &result.cases {
        for warning in &case.warnings {
            write("warning", case, case.place.as_ref(), warning)?;
        }
        for finding in case.failures() {
            write("error", case, case.place_of(finding), &finding.message)?;
        }
    }
    Ok(())
}
