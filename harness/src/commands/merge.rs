//! `harness merge`: the results of shards, joined into the reports and the exit code of one run.

use std::fs;
use std::io::{Write, stdout};
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cli::MergeArgs;
use crate::exit_code::ExitCode;
use crate::gate::lines;
use crate::gate::reports;
use crate::gate::result::{REPORT, SuiteResult};
use crate::run::directory::unwritable;

/// Runs the command.
///
/// # Errors
/// When a part cannot be read or the parts do not make a whole.
pub fn run(args: MergeArgs) -> Result<ExitCode> {
    let mut parts = Vec::new();
    for path in &args.results {
        let file = if path.is_dir() { path.join(REPORT) } else { path.clone() };
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read the report {}", file.display()))?;
        let part =
            SuiteResult::from_json(&text).with_context(|| format!("cannot read the report {}", file.display()))?;
        parts.push((path.display().to_string(), part));
    }
    let result = SuiteResult::merge(parts)?;
    let directory = args.output.unwrap_or_else(|| PathBuf::from("harness-report"));
    fs::create_dir_all(&directory).map_err(|error| unwritable(&directory, &error))?;
    let width = result.cases.iter().map(|case| case.name.chars().count()).max().unwrap_or(0);
    let mut text = Vec::new();
    for case in &result.cases {
        lines::case(case, width, &mut text)?;
    }
    stdout().lock().write_all(&text)?;
    reports::finish(&result, &directory)
}
