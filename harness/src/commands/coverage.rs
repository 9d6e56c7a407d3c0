// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness coverage`: lines, functions and branches that one or more runs covered.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::analysis::changed_lines::ChangedLines;
use crate::analysis::coverage::Coverage;
use crate::analysis::source::{SourceMap, Sources};
use crate::cli::{CoverageArgs, CoverageFormat};
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::{cobertura, coverage_html, json, lcov};
use crate::profile::{FILE_NAME, Profile};
use crate::run::store::directory::{STDOUT, write_as, write_to};
use crate::show::coverage as table;
use crate::text::disarmed::Syntax;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// If a profile cannot be read, no image has source lines, git cannot tell the change, or the file cannot be written.
pub fn run(args: &CoverageArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(json::coverage::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let source_map = SourceMap::parse(&args.source_map)?;
    let mut profiles = Vec::new();
    for path in &args.profiles {
        for path in within(path)? {
            let mut profile = Profile::load(&path)?;
            source_map.relocate(&mut profile.names);
            profiles.push(profile);
        }
    }
    if profiles.iter().all(|profile| profile.names.lines.is_empty()) {
        let why = "the profiles have no source lines, because their images had no debug information";
        let next = "build the firmware with -g, or give the ELF that has it with --symbols, and profile it again";
        return Err(InputError::new(format!("{why}; {next}")).into());
    }
    let mut coverage = Coverage::of(&profiles.iter().collect::<Vec<_>>());
    if let Some(reference) = &args.since {
        let (changed, root) = changed(reference)?;
        changed.keep(&mut coverage, &root, &env::current_dir()?);
    }
    let mut sources = Sources::new(source_map);
    let title = title(&profiles);
    let path = args.output.as_deref().unwrap_or(Path::new(STDOUT));
    match args.format {
        None if args.json => write_to(path, |out| json::coverage::write(&coverage, &title, out))?,
        None => {
            let width_columns = terminal::width_columns().filter(|_| !args.wide.wide && path == Path::new(STDOUT));
            write_as(path, Syntax::Lines, |out| Ok(table::write(&coverage, width_columns, &mut &mut *out)?))?;
        }
        Some(CoverageFormat::Lcov) => {
            write_as(path, Syntax::Lines, |out| Ok(lcov::write_coverage(&coverage, &title, out)?))?
        }
        Some(CoverageFormat::Html) => {
            write_as(path, Syntax::Markup, |out| Ok(coverage_html::write(&coverage, &title, &mut sources, out)?))?;
            terminal::notes(&sources.notes());
        }
        Some(CoverageFormat::Cobertura) => {
            write_as(path, Syntax::Markup, |out| Ok(cobertura::write(&coverage, out)?))?
        }
        Some(CoverageFormat::Github) => {
            write_as(path, Syntax::Commands, |out| Ok(table::write_github(&coverage, &mut &mut *out)?))?;
        }
    }
    if let Some(reference) = args.since.as_ref().filter(|_| coverage.files.is_empty()) {
        terminal::notes(&[format!("no line that differs from {reference} has code in the images")]);
    }
    terminal::notes(&table::notes(&coverage));
    Ok(ExitCode::Good)
}

/// Profiles that a path stands for: itself, or those in the report directory of a suite.
fn within(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() || path.join(FILE_NAME).exists() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let entries = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut profiles: Vec<PathBuf> = entries.filter(|entry| entry.join(FILE_NAME).is_file()).collect();
    profiles.sort();
    // Without any, the path's own message says what is missing.
    Ok(if profiles.is_empty() { vec![path.to_owned()] } else { profiles })
}

/// Names of the images, each once.
fn title(profiles: &[Profile]) -> String {
    let mut names: Vec<&str> = profiles.iter().map(|profile| &*profile.facts.image_name).collect();
    names.sort_unstable();
    names.dedup();
    match names[..] {
        [one] => one.to_owned(),
        _ => format!("{} images", names.len()),
    }
}

/// Lines that differ between a commit and the working tree, and the root of the repository.
fn changed(reference: &str) -> Result<(ChangedLines, PathBuf)> {
    // The commit's hash, so that no reference is taken for an option.
    let commit = format!("{reference}^{{commit}}");
    let commit = git(reference, &["rev-parse", "--verify", "--quiet", "--end-of-options", &commit])?;
    let root = git(reference, &["rev-parse", "--show-toplevel"])?;
    let diff = git(
        reference,
        &[
            "-c",
            "core.quotePath=false",
            "diff",
            "--unified=0",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--no-renames",
            "--no-relative",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            commit.trim(),
            "--",
        ],
    )?;
    Ok((ChangedLines::parse(&diff), PathBuf::from(root.trim_end_matches('\n'))))
}

fn git(reference: &str, args: &[&str]) -> Result<String, InputError> {
    let failed = |why: String| InputError::new(format!("--since {reference}: {why}"));
    let output = Command::new("git").args(args).output().map_err(|error| failed(format!("git: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or("there is no such commit");
        return Err(failed(format!("{said}; name a commit or branch of the repository in which you run this")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
