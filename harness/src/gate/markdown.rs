//! A summary in Markdown, for a pull request's comment: the verdict first, then what failed, then the rest folded
//! away.

use std::io::{self, Write};

use crate::gate::lines::remedies;
use crate::gate::result::{CaseResult, SuiteResult};
use crate::text::markdown::{block, cell, code};
use crate::text::number::{group, signed, signed_percent};

/// Rows of a table of changes.
const ROWS: usize = 10;

/// Writes a result.
///
/// # Errors
/// What `out` reports.
pub fn write(result: &SuiteResult, out: &mut impl Write) -> io::Result<()> {
    let (passed, all) = (result.passed(), result.cases.len());
    let (sign, verdict) =
        if passed == all { ("\u{2705}", "passed") } else { ("\u{274c}", "passed; the others failed") };
    writeln!(out, "## {sign} {}: {passed} of {all} images {verdict}\n", code(&result.suite))?;
    for case in result.cases.iter().filter(|case| !case.passed()) {
        failed(case, out)?;
    }
    for case in result.cases.iter().filter(|case| !case.warnings.is_empty()) {
        for warning in &case.warnings {
            writeln!(out, "\u{26a0}\u{fe0f} {}: {}\n", code(&case.name), warning)?;
        }
    }
    if let Some(baseline) = &result.baseline {
        writeln!(out, "Compared with the baseline {}.\n", code(baseline))?;
    }
    writeln!(out, "<details><summary>All images</summary>\n")?;
    writeln!(out, "| | Image | Instructions | Change | What accounts for it |\n|---|---|--:|--:|---|")?;
    for case in &result.cases {
        let sign = if case.passed() { "\u{2705}" } else { "\u{274c}" };
        let insns = case.run.as_ref().map_or_else(|| "-".to_owned(), |run| group(run.insns));
        let comparison = case.comparison.as_ref();
        let change = comparison.map(|comparison| {
            signed_percent(comparison.total_insns.difference(), comparison.total_insns.before.unwrap_or(0))
        });
        let why = comparison.and_then(|comparison| Some(comparison.explanation.split_once(": ")?.1));
        writeln!(
            out,
            "| {sign} | {} | {insns} | {} | {} |",
            cell(&case.name),
            change.unwrap_or_default(),
            cell(why.unwrap_or_default())
        )?;
    }
    writeln!(out, "\n</details>")
}

fn failed(case: &CaseResult, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "### \u{274c} {}\n", code(&case.name))?;
    for finding in case.failures() {
        let place = case.place_of(finding).map(|(file, line)| format!(" at {}", code(&format!("{file}:{line}"))));
        let mut lines = finding.message.lines();
        writeln!(out, "- {}{}", code(lines.next().unwrap_or_default()), place.unwrap_or_default())?;
        lines.try_for_each(|line| writeln!(out, "  - {}", code(line.trim())))?;
    }
    writeln!(out)?;
    for (what, how) in remedies(case, None) {
        writeln!(out, "{what} {}  ", code(&how))?;
    }
    if let Some(comparison) = &case.comparison {
        writeln!(out, "\n{}\n", code(&comparison.explanation))?;
        let changed = &comparison.functions;
        if !changed.is_empty() {
            writeln!(out, "| Function | Before | After | Change |\n|---|--:|--:|--:|")?;
            for change in changed.iter().take(ROWS) {
                let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), group);
                let fate = match change.fate.describe() {
                    "" => String::new(),
                    fate => format!(" *({fate})*"),
                };
                writeln!(
                    out,
                    "| {}{fate} | {} | {} | {} |",
                    cell(&change.name),
                    number(change.self_insns.before),
                    number(change.self_insns.after),
                    signed(change.self_insns.difference())
                )?;
            }
            if changed.len() > ROWS {
                let rest: i128 = changed[ROWS..].iter().map(|change| change.self_insns.difference()).sum();
                writeln!(out, "| {} others | | | {} |", changed.len() - ROWS, signed(rest))?;
            }
        }
        for mismatch in &comparison.mismatches {
            writeln!(out, "\n> {}", code(mismatch))?;
        }
    }
    if !case.console_tail.is_empty() {
        let lines = block(case.console_tail.iter().map(String::as_str));
        writeln!(out, "\n<details><summary>The last lines printed</summary>\n\n{lines}\n\n</details>")?;
    }
    writeln!(out)
}
