//! A suite's result on the terminal: a line per image as it is finished, details of what failed, the verdict.

use std::io::{self, Write};

use crate::gate::result::{CaseResult, SuiteResult};
use crate::text::number::group;

/// Writes one case; `width` columns are for names.
///
/// # Errors
/// What `out` reports.
pub fn case(case: &CaseResult, width: usize, out: &mut impl Write) -> io::Result<()> {
    let word = if case.passed() { "PASS" } else { "FAIL" };
    let insns = case.run.as_ref().map_or_else(|| "-".to_owned(), |run| group(run.insns));
    let change = case.comparison.as_ref().map(|comparison| comparison.explanation.as_str()).unwrap_or_default();
    let line = format!("{word}  {:<width$}  {insns:>15}  {change}", case.name);
    writeln!(out, "{}", line.trim_end())?;
    for message in &case.messages {
        writeln!(out, "      {message}")?;
    }
    for mismatch in case.comparison.iter().flat_map(|comparison| &comparison.mismatches) {
        writeln!(out, "      note: {mismatch}")?;
    }
    for finding in case.failures() {
        let place = finding.place.as_ref().map(|(file, line)| format!(" at {file}:{line}")).unwrap_or_default();
        writeln!(out, "      {}: {}{place}", finding.expected, finding.actual)?;
    }
    if !case.passed() && !case.console_tail.is_empty() {
        writeln!(out, "      it printed at last:")?;
        for line in &case.console_tail {
            writeln!(out, "      | {line}")?;
        }
    }
    Ok(())
}

/// Writes the verdict.
///
/// # Errors
/// What `out` reports.
pub fn verdict(result: &SuiteResult, out: &mut impl Write) -> io::Result<()> {
    let (passed, all, code) = (result.passed(), result.cases.len(), result.code());
    let insns: u64 = result.cases.iter().filter_map(|case| Some(case.run.as_ref()?.insns)).sum();
    let failed = if passed == all { String::new() } else { format!(", {} failed", all - passed) };
    writeln!(
        out,
        "{passed} of {all} passed{failed}; {} instructions; exit {}: {}",
        group(insns),
        code.status(),
        code.describe()
    )
}

/// Writes what failed as annotations of GitHub's
/// (<https://docs.github.com/actions/reference/workflow-commands-for-github-actions>).
///
/// # Errors
/// What `out` reports.
pub fn annotations(result: &SuiteResult, out: &mut impl Write) -> io::Result<()> {
    let data = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    for case in &result.cases {
        for finding in case.failures() {
            let place = finding.place.as_ref().map(|(file, line)| format!("file={},line={line},", property(file)));
            writeln!(
                out,
                "::error {}title={}::{}",
                place.unwrap_or_default(),
                property(&case.name),
                data(&format!("{}: {}", finding.expected, finding.actual))
            )?;
        }
    }
    Ok(())
}
