// SPDX-License-Identifier: MIT OR Apache-2.0
//! JUnit XML for GitLab, Jenkins and GitHub's reporters (testdata/junit.xsd): one test case per image. Its times are
//! the firmware's own, so that equal results give equal bytes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use quick_junit::{NonSuccessKind, Property, TestCase, TestCaseStatus, TestSuite};

use crate::exit_code::ExitCode;
use crate::gate::budget::BudgetRow;
use crate::gate::expect::Finding;
use crate::gate::rerun_command::remedies;
use crate::gate::result::{CaseResult, RunResult, SuiteResult};
use crate::text::markup::line;

/// Writes a result; `profiles` maps a case to its profile's path, relative to the project's root.
///
/// # Errors
/// Errors of `out`.
pub fn write(result: &SuiteResult, profiles: &dyn Fn(&str) -> PathBuf, out: &mut impl Write) -> Result<()> {
    let mut suite = TestSuite::new(line(&result.suite));
    suite.add_property(Property::new("harness", &result.harness_version));
    if let Some(baseline) = &result.baseline {
        suite.add_property(Property::new("baseline", baseline));
    }
    for case in &result.cases {
        suite.add_test_case(test_case(&result.suite, case, &profiles(&case.name)));
    }
    suite.add_test_cases(result.findings.iter().map(|finding| of_suite(&result.suite, finding)));
    let mut junit = quick_junit::Report::new(line(&result.suite));
    junit.add_test_suite(suite);
    if result.cases.iter().any(|case| !case.budget.is_empty()) {
        let mut budgets = TestSuite::new(line(&format!("{} budget", result.suite)));
        for case in &result.cases {
            budgets.add_test_cases(case.budget.iter().map(|row| of_budget(&case.name, row)));
        }
        junit.add_test_suite(budgets);
    }
    // quick-junit writes this attribute of `testsuites`, which Jenkins's schema does not allow. No test is ever
    // skipped.
    out.write_all(junit.to_string()?.replacen(" skipped=\"0\"", "", 1).as_bytes())?;
    Ok(())
}

/// Writes a budget as a suite of its own, with a test case for each row.
///
/// # Errors
/// Errors of `out`.
pub fn write_budget(image: &str, rows: &[BudgetRow], out: &mut dyn Write) -> Result<()> {
    let mut suite = TestSuite::new(line(&format!("{image} budget")));
    suite.add_test_cases(rows.iter().map(|row| of_budget(image, row)));
    let mut junit = quick_junit::Report::new(line(image));
    junit.add_test_suite(suite);
    out.write_all(junit.to_string()?.replacen(" skipped=\"0\"", "", 1).as_bytes())?;
    Ok(())
}

/// Test case for a row of a budget.
fn of_budget(image: &str, row: &BudgetRow) -> TestCase {
    let status = if row.holds {
        TestCaseStatus::success()
    } else {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status.set_type(ExitCode::Regression.describe());
        status.set_message(line(&row.finding().message));
        status
    };
    let mut test = TestCase::new(line(&row.what), status);
    test.set_classname(line(image));
    let [_, value, certainty, limit, margin, trend] = row.cells();
    test.set_system_out(line(&format!("{value} ({certainty}) of {limit}, margin {margin}, trend {trend}")));
    test
}

/// Test case for a mistake in the suite itself.
fn of_suite(suite: &str, finding: &Finding) -> TestCase {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_type(ExitCode::Usage.describe());
    status.set_message(line(&finding.message));
    let mut test = TestCase::new(line(&finding.expected), status);
    test.set_classname(line(suite));
    if let Some((file, at)) = &finding.place {
        test.extra.insert("file".into(), line(file).into());
        test.extra.insert("line".into(), at.to_string().into());
    }
    test
}

fn test_case(suite: &str, case: &CaseResult, directory: &Path) -> TestCase {
    let failures: Vec<String> = case.failures().map(|finding| lines(&finding.message)).collect();
    let status = if case.passed() {
        TestCaseStatus::success()
    } else {
        // An error is a result that tells nothing about the firmware.
        let kind = match case.code() {
            ExitCode::Usage | ExitCode::Emulator => NonSuccessKind::Error,
            _ => NonSuccessKind::Failure,
        };
        let mut status = TestCaseStatus::non_success(kind);
        status.set_type(case.code().describe());
        status.set_message(failures.first().map_or_else(|| line(&case.end), Clone::clone));
        let places = case.failures().map(|finding| case.place_of(finding));
        let places = places.map(|place| place.map(|(file, at)| format!("{}:{at}: ", line(file))).unwrap_or_default());
        let mut text: Vec<String> =
            places.zip(&failures).map(|(place, failure)| format!("{place}{failure}")).collect();
        text.extend(remedies(case, directory).iter().map(|(what, how)| format!("{what} {}", line(how))));
        status.set_description(text.join("\n"));
        status
    };
    let mut test = TestCase::new(line(&case.name), status);
    test.set_classname(line(suite));
    let place = case.failures().next().map_or(case.place.as_ref(), |finding| case.place_of(finding));
    if let Some((file, at)) = place {
        test.extra.insert("file".into(), line(file).into());
        test.extra.insert("line".into(), at.to_string().into());
    }
    let mut text = String::new();
    if let Some(run) = &case.run {
        test.set_time(Duration::from_nanos(run.virtual_ns));
        // Jenkins's schema allows a test case no properties, so the facts are part of its output.
        let RunResult { image, qemu, machine, insns, .. } = run;
        text += &format!("{image} on QEMU {qemu} {machine}: {insns} instructions\nend: {}\n", case.end);
    }
    if let Some(comparison) = &case.comparison {
        text += &format!("{}\n", comparison.explanation);
    }
    let warnings = case.warnings.iter().map(|warning| format!("warning: {warning}"));
    let tighten = case.tighten.iter().map(|tighten| format!("tighten: {tighten}"));
    let chip = case.run.iter().flat_map(|run| &run.chip);
    for line in warnings.chain(tighten).chain(case.messages.iter().chain(chip).chain(&case.console_tail).cloned()) {
        text += &format!("{line}\n");
    }
    test.set_system_out(lines(&text));
    test
}

/// Text of several lines, without control characters in them.
fn lines(text: &str) -> String {
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}
