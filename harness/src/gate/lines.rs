// SPDX-License-Identifier: MIT OR Apache-2.0
//! A suite's result on the terminal: a line per finished image, details of failures, and the verdict.
//!
//! A failure is a line `file:line: error: message`, as compilers write them, which editors and CI recognise (VS
//! Code's `$gcc`; ci/problem-matcher.json).

use std::io::{self, Write};
use std::path::Path;

use crate::exit_code::ExitCode;
use crate::gate::rerun_command::{self, Command};
use crate::gate::result::{CaseResult, SuiteResult, SuiteWarning};
use crate::text::fold;
use crate::text::github;
use crate::text::number::group;
use crate::text::printable::printable;

/// Indentation of details below their line.
const INDENT: usize = 6;

/// Settings for showing a case.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Columns for names.
    pub name_columns: usize,
    /// Directory of the case's profile.
    pub directory: &'a Path,
    /// Command by which the suite is run from the current directory; None: commands are shown as reports have them.
    pub command: Option<&'a Command>,
    /// Columns of the terminal, to which sentences are folded; None: lines stay whole.
    pub width_columns: Option<usize>,
}

/// Writes one case.
///
/// # Errors
/// Errors of `out`.
pub fn case(case: &CaseResult, view: View<'_>, out: &mut impl Write) -> io::Result<()> {
    let View { name_columns: width, directory, command, width_columns } = view;
    let word = if case.passed() { "PASS" } else { "FAIL" };
    let insns = case.run.as_ref().map_or_else(|| "-".to_owned(), |run| group(run.insns));
    let change = case.comparison.as_ref().map(|comparison| comparison.explanation.as_str());
    let name = printable(&case.name);
    // The failure comes first, then its cause.
    let first = case.failures().next().map(|finding| finding.message.lines().next().unwrap_or_default());
    // The failure's own line, further below, is not folded, since editors read it, too.
    let mut sentence = |head: &str, text: &str| -> io::Result<()> {
        let lines = fold::behind(head, &printable(text), INDENT, width_columns);
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))
    };
    let head = format!("{word}  {name:<width$}  {insns:>15}  ");
    sentence(&head, first.or(change).unwrap_or_default())?;
    let head = " ".repeat(INDENT);
    if let Some(change) = change.filter(|_| first.is_some()) {
        sentence(&head, change)?;
    }
    for message in case.messages.iter().chain(case.run.iter().flat_map(|run| &run.chip)) {
        sentence(&head, message)?;
    }
    for mismatch in case.comparison.iter().flat_map(|comparison| &comparison.mismatches) {
        sentence(&head, &format!("note: {mismatch}"))?;
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
    let remedies = match command {
        Some(command) => rerun_command::remedies_here(case, directory, command),
        None => rerun_command::remedies(case, directory),
    };
    for (what, how) in remedies {
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

/// Whether a case passed without a warning.
pub fn has_nothing_to_say(case: &CaseResult) -> bool {
    case.passed() && case.warnings.is_empty()
}

/// Prefix `file:line: `; empty if unknown.
fn at(place: Option<&(String, u32)>) -> String {
    place.map(|(file, line)| format!("{}:{line}: ", printable(file))).unwrap_or_default()
}

/// Writes the verdict; `code` is the command's exit code.
///
/// # Errors
/// Errors of `out`.
pub fn verdict(result: &SuiteResult, code: ExitCode, out: &mut impl Write) -> io::Result<()> {
    let (passed, all) = (result.passed(), result.cases.len());
    let insns: u64 = result.cases.iter().filter_map(|case| Some(case.run.as_ref()?.insns)).sum();
    let failed = if passed == all { String::new() } else { format!(", {} failed", all - passed) };
    let warnings: usize = result.cases.iter().map(|case| case.warnings.len()).sum();
    let warnings = match warnings + result.warnings.len() {
        0 => String::new(),
        1 => ", 1 warning".to_owned(),
        warnings => format!(", {warnings} warnings"),
    };
    for SuiteWarning { message, place } in &result.warnings {
        writeln!(out, "{}warning: {}", at(Some(place)), printable(message))?;
    }
    for finding in &result.findings {
        writeln!(out, "{}error: {}", at(finding.place.as_ref()), printable(&finding.message))?;
    }
    writeln!(
        out,
        "{passed} of {all} passed{failed}{warnings}; {} instructions; exit {}: {}",
        group(insns),
        code.status(),
        code.describe()
    )
}

/// Writes failures, and warnings that would not be seen, as GitHub's annotations
/// (<https://docs.github.com/actions/reference/workflow-commands-for-github-actions>).
///
/// # Errors
/// Errors of `out`.
pub fn annotations(result: &SuiteResult, out: &mut impl Write) -> io::Result<()> {
    let mut write = |kind: &str, title: &str, place: Option<&(String, u32)>, message: &str| {
        let place = place.map(|(file, line)| format!("file={},line={line},", github::property(github::path(file))));
        let (place, title) = (place.unwrap_or_default(), github::property(title));
        writeln!(out, "::{kind} {place}title={title}::{}", github::message(message))
    };
    for SuiteWarning { message, place } in &result.warnings {
        write("warning", &result.suite, Some(place), message)?;
    }
    for finding in &result.findings {
        write("error", &result.suite, finding.place.as_ref(), &finding.message)?;
    }
    for case in &result.cases {
        for warning in &case.warnings {
            write("warning", &case.name, case.place.as_ref(), warning)?;
        }
        for finding in case.failures() {
            write("error", &case.name, case.place_of(finding), &finding.message)?;
        }
    }
    Ok(())
}
