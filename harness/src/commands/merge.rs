// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness merge`: joins the results of shards into one run's reports and exit code.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cli::MergeArgs;
use crate::exit_code::ExitCode;
use crate::gate::lines::{self, View};
use crate::gate::reports::Reports;
use crate::gate::rerun_command::Root;
use crate::gate::result::{Missing, SuiteResult};
use crate::gate::suite::FILE_NAME;
use crate::text::printable::printable;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// If a part cannot be read, or the parts are not all the parts of one run.
pub fn run(args: MergeArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(SuiteResult::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let mut parts: Vec<(String, SuiteResult)> = Vec::new();
    let mut from: BTreeMap<String, PathBuf> = BTreeMap::new();
    for path in &args.results {
        let part = match SuiteResult::load(path) {
            Ok(part) => part,
            Err(error) if args.incomplete => {
                // A closed standard error changes nothing.
                let _ = writeln!(terminal::stderr(), "warning: left out: {}", printable(&format!("{error:#}")));
                continue;
            }
            Err(error) => return Err(error),
        };
        from.extend(part.cases.iter().map(|case| (case.name.clone(), SuiteResult::directory_of(path))));
        parts.push((path.display().to_string(), part));
    }
    let result = SuiteResult::merge(parts, if args.incomplete { Missing::Fail } else { Missing::Refuse })?;
    let directory = args.output.unwrap_or_else(|| PathBuf::from("harness-report"));
    let reports = Reports::prepare(directory, &Root::of(Path::new(FILE_NAME)))?;
    let name_columns = result.cases.iter().map(|case| case.name.chars().count()).max().unwrap_or(0);
    let mut text = Vec::new();
    let profiles = |case: &str| from.get(case).map_or(Path::new(""), PathBuf::as_path);
    for case in &result.cases {
        let directory = profiles(&case.name);
        let view = View { name_columns, directory, command: None, width_columns: terminal::width_columns() };
        lines::case(case, view, &mut text)?;
    }
    if args.json {
        return reports.finish_with_json(&result, &profiles);
    }
    terminal::stdout().write_all(&text)?;
    reports.finish_with_profiles(&result, &profiles)
}
