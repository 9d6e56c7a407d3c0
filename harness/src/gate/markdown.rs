// SPDX-License-Identifier: MIT OR Apache-2.0
//! A summary in Markdown for a pull request's comment: first the verdict, then failures, then the rest, folded away.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::analysis::metrics::Metric;
use crate::export::json::comparison::{ComparisonResult, ZoneResult};
use crate::gate::budget::BudgetRow;
use crate::gate::rerun_command::remedies;
use crate::gate::result::{CaseResult, SuiteResult, SuiteWarning};
use crate::text::markdown::{block, cell, code};
use crate::text::number::{group, group_known, plural, signed, signed_percent};

/// Maximum number of rows in a table of changes.
const ROWS: usize = 10;

/// Number of failed images that are shown whole, with their comparisons. GitHub drops a summary of more than a megabyte.
const WHOLE: usize = 20;

/// Maximum number of rows for further failed images.
const SHORT_ROWS: usize = 1000;

/// Writes a result; `profiles` maps a case to its profile's path, relative to the project's root.
///
/// # Errors
/// Errors of `out`.
pub fn write(result: &SuiteResult, profiles: &dyn Fn(&str) -> PathBuf, out: &mut impl Write) -> io::Result<()> {
    let (passed, all) = (result.passed(), result.cases.len());
    let (sign, verdict) = match passed == all {
        true if result.findings.is_empty() => ("\u{2705}", "passed"),
        true => ("\u{274c}", "passed; the suite itself is wrong"),
        false => ("\u{274c}", "passed; the others failed"),
    };
    writeln!(out, "## {sign} {}: {passed} of {all} images {verdict}\n", code(&result.suite))?;
    for finding in &result.findings {
        let place = finding.place.as_ref().map(|(file, line)| format!(" at {}", code(&format!("{file}:{line}"))));
        writeln!(out, "- {}{}\n", code(&finding.message), place.unwrap_or_default())?;
    }
    let failures: Vec<&CaseResult> = result.cases.iter().filter(|case| !case.passed()).collect();
    if failures.len() > 1 {
        let ways: Vec<String> =
            result.failed_by().iter().map(|(kind, count)| format!("{} {count}", kind.word())).collect();
        writeln!(out, "Failed by: {}\n", ways.join(", "))?;
    }
    for case in failures.iter().take(WHOLE) {
        failed(case, &profiles(&case.name), out)?;
    }
    if let Some(others @ [_, ..]) = failures.get(WHOLE..) {
        shortly(others, out)?;
    }
    for SuiteWarning { message, place: (file, line) } in &result.warnings {
        writeln!(out, "\u{26a0}\u{fe0f} {} at {}\n", code(message), code(&format!("{file}:{line}")))?;
    }
    for case in result.cases.iter().filter(|case| !case.warnings.is_empty()) {
        for warning in &case.warnings {
            writeln!(out, "\u{26a0}\u{fe0f} {}: {}\n", code(&case.name), warning)?;
        }
    }
    for case in &result.cases {
        if let (Some(tighten), Some(comparison)) = (&case.tighten, &case.comparison) {
            let total = comparison.total_insns;
            let change = signed_percent(total.difference(), total.before.unwrap_or(0));
            let name = code(&case.name);
            writeln!(out, "{name}: total {change}; this tightens the baseline: {}\n", code(tighten))?;
        }
    }
    budgets(result, out)?;
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
    for case in &result.cases {
        for (number, sentence) in case.run.iter().flat_map(|run| &run.chip).enumerate() {
            let name = if number == 0 { format!("\n{}: ", code(&case.name)) } else { "  \n".to_owned() };
            write!(out, "{name}{}", code(sentence))?;
        }
    }
    writeln!(out, "\n</details>")?;
    for case in result.cases.iter().filter(|case| case.passed()) {
        let changed = case.comparison.as_ref().filter(|comparison| !comparison.zones.is_empty());
        if let Some(changed) = changed {
            writeln!(out, "\nZones that changed in {}:", code(&case.name))?;
            zones(&changed.zones, out)?;
        }
    }
    Ok(())
}

/// Writes the budgets of all images as one table, what is over the limit first.
fn budgets(result: &SuiteResult, out: &mut impl Write) -> io::Result<()> {
    let rows = result.cases.iter().flat_map(|case| case.budget.iter().map(|row| (case.name.as_str(), row)));
    let mut rows: Vec<(&str, &BudgetRow)> = rows.collect();
    rows.sort_by_key(|(_, row)| row.holds);
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "Budget:\n")?;
    budget(&rows, out)?;
    writeln!(out)
}

/// Writes rows of budgets as a table, each with its image.
///
/// # Errors
/// Errors of `out`.
pub fn budget(rows: &[(&str, &BudgetRow)], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "| | Image | Budget | Value | Number is | Limit | Margin | Trend |\n|---|---|---|--:|---|--:|--:|--:|"
    )?;
    for (image, row) in rows {
        let sign = if row.holds { "\u{2705}" } else { "\u{274c}" };
        let [what, value, certainty, limit, margin, trend] = row.cells();
        let (image, what) = (cell(image), cell(&what));
        writeln!(out, "| {sign} | {image} | {what} | {value} | {certainty} | {limit} | {margin} | {trend} |")?;
    }
    Ok(())
}

/// Writes a row for each failed image: its name and its first failure.
fn shortly(failures: &[&CaseResult], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "### \u{274c} {} more\n", plural(failures.len() as u64, "image"))?;
    writeln!(out, "| Image | First failure |\n|---|---|")?;
    for case in failures.iter().take(SHORT_ROWS) {
        let message = case.failures().next().map_or(&*case.end, |finding| &*finding.message);
        writeln!(out, "| {} | {} |", cell(&case.name), cell(message.lines().next().unwrap_or_default()))?;
    }
    if let Some(others @ [_, ..]) = failures.get(SHORT_ROWS..) {
        writeln!(out, "| … {} more, in `report.json` | |", others.len())?;
    }
    writeln!(out)
}

fn failed(case: &CaseResult, directory: &Path, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "### \u{274c} {}\n", code(&case.name))?;
    for finding in case.failures() {
        let place = case.place_of(finding).map(|(file, line)| format!(" at {}", code(&format!("{file}:{line}"))));
        let mut lines = finding.message.lines();
        writeln!(out, "- {}{}", code(lines.next().unwrap_or_default()), place.unwrap_or_default())?;
        lines.try_for_each(|line| writeln!(out, "  - {}", code(line.trim())))?;
    }
    writeln!(out)?;
    for (what, how) in remedies(case, directory) {
        writeln!(out, "{what} {}  ", code(&how))?;
    }
    if let Some(compared) = &case.comparison {
        writeln!(out)?;
        comparison(compared, out)?;
    }
    if !case.console_tail.is_empty() {
        let lines = block(case.console_tail.iter().map(String::as_str));
        writeln!(out, "\n<details><summary>The last lines printed</summary>\n\n{lines}\n\n</details>")?;
    }
    writeln!(out)
}

/// Writes what changed between two runs: the cause in a sentence, the functions, the zones, and differences of their
/// conditions.
///
/// # Errors
/// Errors of `out`.
pub fn comparison(comparison: &ComparisonResult, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}\n", code(&comparison.explanation))?;
    let changed = &comparison.functions;
    if !changed.is_empty() {
        writeln!(out, "| Function | Own before | Own after | Change | Of itself |\n|---|--:|--:|--:|--:|")?;
        for change in changed.iter().take(ROWS) {
            let fate = match change.fate.describe() {
                "" => String::new(),
                fate => format!(" *({fate})*"),
            };
            let own = change.self_insns;
            let of_itself = match (own.before, own.after) {
                (Some(before @ 1..), Some(_)) => signed_percent(own.difference(), before),
                _ => String::new(),
            };
            writeln!(
                out,
                "| {}{fate} | {} | {} | {} | {of_itself} |",
                cell(&change.name),
                group_known(own.before),
                group_known(own.after),
                signed(own.difference())
            )?;
        }
        if changed.len() > ROWS {
            let rest: i128 = changed[ROWS..].iter().map(|change| change.self_insns.difference()).sum();
            writeln!(out, "| {} others | | | {} | |", changed.len() - ROWS, signed(rest))?;
        }
    }
    zones(&comparison.zones, out)?;
    for mismatch in &comparison.mismatches {
        writeln!(out, "\n> {}", code(mismatch))?;
    }
    Ok(())
}

/// Writes a table of zones and test cases; nothing without any.
fn zones(zones: &[ZoneResult], out: &mut impl Write) -> io::Result<()> {
    if zones.is_empty() {
        return Ok(());
    }
    let heading = "| Zone or test case | Before | After | Change | Own before | Own after | Own change |";
    writeln!(out, "\n{heading}\n|---|--:|--:|--:|--:|--:|--:|")?;
    for zone in zones {
        write!(out, "| {} |", cell(&zone.name))?;
        for metric in [Metric::ZoneElapsed, Metric::Zone] {
            let pair = zone.numbers.get(metric.word()).copied().unwrap_or_default();
            let change = match (pair.before, pair.after) {
                (Some(before @ 1..), Some(_)) if pair.difference() != 0 => signed_percent(pair.difference(), before),
                (Some(_), Some(_)) => String::new(),
                (None, _) => "*new*".to_owned(),
                (_, None) => "*vanished*".to_owned(),
            };
            write!(out, " {} | {} | {change} |", group_known(pair.before), group_known(pair.after))?;
        }
        writeln!(out)?;
    }
    let what = "instructions of everything from the beginning to the end; own: of the zone's own task or interrupt";
    writeln!(out, "\n{what}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit_code::ExitCode;

    /// Summary of a suite of which the first `failed` images are not run.
    fn summary(all: usize, failed: usize) -> String {
        let case = |index: usize| {
            let name = format!("image-{index:04}");
            let case = CaseResult::without_run(&name, &[], ExitCode::Usage, "its ELF is | damaged");
            if index < failed { case } else { CaseResult { exit_code: 0, findings: Vec::new(), ..case } }
        };
        let cases: Vec<CaseResult> = (0..all).map(case).collect();
        let names = cases.iter().map(|case| case.name.clone()).collect();
        let result = SuiteResult::new("big".to_owned(), None, (names, 0), cases);
        let mut out = Vec::new();
        write(&result, &|_| PathBuf::from("reports"), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_summary_of_a_big_suite_stays_below_githubs_limit_and_names_each_failure() {
        let text = summary(1000, 900);
        assert!(text.len() < 1 << 20, "{} bytes", text.len());
        assert!(text.contains("Failed by: not run 900\n"), "{}", &text[..500]);
        assert_eq!(text.matches("### \u{274c} `image-").count(), WHOLE);
        assert!(text.contains("### \u{274c} 880 images more"));
        assert!(
            (0..900).all(|index| text.matches(&format!("`image-{index:04}`")).count() == 2),
            "once, and in all images"
        );
        assert!(text.contains("| `image-0899` | `its ELF is \\| damaged` |"), "a cell stays a cell");
        assert!(!summary(3, 1).contains("Failed by"));
        assert!(!summary(20, 20).contains("more"));
        assert!(summary(1030, 1030).contains("| … 10 more, in `report.json` | |"));
    }
}
