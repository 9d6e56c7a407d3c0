// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness report`: a saved profile, or the result of a suite, as one page for the browser.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::analysis::compare::compare;
use crate::analysis::source::{SourceMap, Sources};
use crate::analysis::stacks::View;
use crate::cli::ReportArgs;
use crate::commands::browser;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::report::{self, Before, Extras};
use crate::gate::baseline::Baseline;
use crate::gate::rerun_command::Root;
use crate::gate::result::{REPORT, SuiteResult};
use crate::gate::suite::FILE_NAME;
use crate::gate::suite_page;
use crate::profile::{FILE_NAME as PROFILE, Profile, files};
use crate::run::store::directory::{STDOUT, write_as};
use crate::run::watch::progress::Busy;
use crate::text::disarmed::Syntax;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When the profile cannot be read, or the page cannot be written.
pub fn run(args: &ReportArgs) -> Result<ExitCode> {
    let output = &args.output.clone().unwrap_or_else(|| default_output(args));
    if args.open && output.as_os_str() == STDOUT {
        return Err(InputError::new("--open shows a file: name one with --output FILE, not -").into());
    }
    let busy = (output.as_os_str() != STDOUT).then(|| Busy::new(&format!("writing {}", output.display())));
    if is_suite(&args.profile) {
        if args.before.is_some() || args.fold_irqs || !args.source_map.is_empty() {
            let what = "--before, --fold-irqs and --source-map are for profiles, not for the results of suites: leave \
                        them out, or name a profile";
            return Err(InputError::about(&args.profile, what).into());
        }
        let result = SuiteResult::load(&args.profile).map_err(|error| {
            let next = "name a profile, or a suite's report.json or the directory that has it";
            InputError::new(format!("{error:#}\n{next}"))
        })?;
        let directory = Root::of(Path::new(FILE_NAME)).path(&SuiteResult::directory_of(&args.profile));
        write_as(output, Syntax::Markup, |out| suite_page::write(&result, &|_| directory.clone(), out))?;
        drop(busy);
        return written(output, args.open);
    }
    let profile = Profile::load(&args.profile)?;
    let mut sources = Sources::new(SourceMap::parse(&args.source_map)?);
    let view = View { fold_irqs: args.fold_irqs };
    // Only a profile directory has the console's output; otherwise the page lacks it.
    let console = files::console(&args.profile)?;
    let old = args.before.as_deref().map(Profile::load).transpose()?;
    let label = args.before.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
    let before = old.as_ref().map(|old| {
        let (before, after) = (Baseline::of(old), Baseline::of(&profile));
        let comparison = compare(Some(&before.metrics), &after.metrics);
        Before { label: &label, profile: old, comparison, notes: before.mismatches(&after) }
    });
    let extras = Extras { console: console.as_deref(), before };
    write_as(output, Syntax::Markup, |out| report::write(&profile, view, &extras, &mut sources, out))?;
    drop(busy);
    terminal::notes(&sources.notes());
    written(output, args.open)
}

/// File that the page is written to if none is named: pages of two profiles do not replace each other.
fn default_output(args: &ReportArgs) -> PathBuf {
    let mut name = name_of(&args.profile);
    if let Some(before) = &args.before {
        name = format!("{name}-against-{}", name_of(before));
    }
    PathBuf::from(format!("{name}.html"))
}

/// Name of a profile or of reports without ending.
fn name_of(path: &Path) -> String {
    // `.` has a name of its own.
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let of_folder = whole.parent().filter(|_| whole.file_name().is_some_and(|name| name == PROFILE));
    let name = of_folder.unwrap_or(&whole).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let endings = [".profile", ".fwp", ".json"];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending)).filter(|stem| !stem.is_empty());
    stem.unwrap_or(&name).to_owned()
}

/// Whether a path is a suite's result, or the directory of its reports.
fn is_suite(path: &Path) -> bool {
    match path.is_dir() {
        true => path.join(REPORT).is_file() && !path.join(PROFILE).exists(),
        false => path.extension().is_some_and(|extension| extension == "json"),
    }
}

/// Says where the page is, and shows it if that is wanted.
fn written(output: &Path, is_shown: bool) -> Result<ExitCode> {
    if output.as_os_str() != STDOUT {
        // A closed standard error is not a failure: the page is written.
        let _ = writeln!(terminal::stderr(), "{}: open it in a browser", output.display());
    }
    if is_shown {
        browser::open(output)?;
    }
    Ok(ExitCode::Good)
}
