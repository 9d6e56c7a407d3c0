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
use crate::gate::result::SuiteResult;
use crate::gate::suite::FILE_NAME;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// If a part cannot be read, or the parts are not all the parts of one run.
pub fn run(args: MergeArgs) -> Result<ExitCode> {
    let named = |path: &PathBuf| Ok((path.display().to_string(), SuiteResult::load(path)?));
    let parts: Vec<(String, SuiteResult)> = args.results.iter().map(named).collect::<Result<_>>()?;
    // The profiles stay beside the parts' results.
    let beside = |path: &PathBuf| if path.is_dir() { path.clone() } else { path.with_file_name("") };
    let directories = args.results.iter().map(beside).zip(&parts);
    let from: BTreeMap<String, PathBuf> = directories
        .flat_map(|(directory, (_, part))| part.cases.iter().map(move |case| (case.name.clone(), directory.clone())))
        .collect();
    let result = SuiteResult::merge(parts)?;
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
    terminal::stdout().write_all(&text)?;
    reports.finish_with_profiles(&result, &profiles)
}
