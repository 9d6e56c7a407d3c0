//! A summary in Markdown, for a pull request's comment: the verdict first, then what failed, then the rest folded
//! away.

use std::io::{self, Write};

use crate::gate::result::{CaseResult, SuiteResult};
use crate::text::number::{group, signed_percent};

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
    writeln!(out, "## {sign} {}: {passed} of {all} images {verdict}\n", text(&result.suite))?;
    for case in result.cases.iter().filter(|case| !case.passed()) {
        failed(case, out)?;
    }
    if let Some(baseline) = &result.baseline {
        writeln!(out, "Compared with the baseline `{}`.\n", baseline.replace('`', "'"))?;
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
            text(&case.name),
            change.unwrap_or_default(),
            text(why.unwrap_or_default())
        )?;
    }
    writeln!(out, "\n</details>")
}

fn failed(case: &CaseResult, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "### \u{274c} {}\n", text(&case.name))?;
    for finding in case.failures() {
        let place = finding.place.as_ref().map(|(file, line)| format!(" (`{file}:{line}`)")).unwrap_or_default();
        writeln!(out, "- **{}**: {}{place}", text(&finding.expected), text(&finding.actual))?;
    }
    if let Some(comparison) = &case.comparison {
        writeln!(out, "\n{}\n", text(&comparison.explanation))?;
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
                    text(&change.name),
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
            writeln!(out, "\n> {}", text(mismatch))?;
        }
    }
    if !case.console_tail.is_empty() {
        // Longer than any run of backticks that the firmware may have printed.
        let fence = "`".repeat(3 + case.console_tail.iter().map(|line| line.matches('`').count()).max().unwrap_or(0));
        writeln!(out, "\n<details><summary>The last lines printed</summary>\n\n{fence}")?;
        for line in &case.console_tail {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "{fence}\n\n</details>")?;
    }
    writeln!(out)
}

fn signed(difference: i128) -> String {
    let digits = group(u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX));
    match difference {
        0 => "\u{b1}0".to_owned(),
        1.. => format!("+{digits}"),
        _ => format!("\u{2212}{digits}"),
    }
}

/// Without what Markdown or HTML would take for its own.
fn text(plain: &str) -> String {
    let mut escaped = String::with_capacity(plain.len());
    for char in plain.chars() {
        match char {
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '&' => escaped += "&amp;",
            '\n' | '\r' => escaped.push(' '),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' => {
                escaped.push('\\');
                escaped.push(char);
            }
            _ => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        assert_eq!(text("a<b>|*c*\n`d`"), "a&lt;b&gt;\\|\\*c\\* \\`d\\`");
        assert_eq!([signed(-1234), signed(0), signed(7)], ["\u{2212}1,234", "\u{b1}0", "+7"]);
    }
}
