//! `harness report`: a saved profile as one page for the browser.

use std::io::Write;

use anyhow::Result;

use crate::analysis::source::{SourceMap, Sources};
use crate::analysis::stacks::View;
use crate::cli::ReportArgs;
use crate::commands::browser;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::report;
use crate::profile::Profile;
use crate::run::directory::{STDOUT, write_to};
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When the profile cannot be read, or the page cannot be written.
pub fn run(args: &ReportArgs) -> Result<ExitCode> {
    if args.open && args.output.as_os_str() == STDOUT {
        return Err(InputError::new("--open shows a file: name one with --output FILE, not -").into());
    }
    let profile = Profile::load(&args.profile)?;
    let mut sources = Sources::new(SourceMap::parse(&args.source_map)?);
    let view = View { fold_irqs: args.fold_irqs };
    write_to(&args.output, |out| report::write(&profile, view, &mut sources, out))?;
    if args.output.as_os_str() != STDOUT {
        // A closed standard error is no reason to fail: the page is written.
        let _ = writeln!(terminal::stderr(), "{}: open it in a browser", args.output.display());
    }
    terminal::notes(&sources.notes());
    if args.open {
        browser::open(&args.output)?;
    }
    Ok(ExitCode::Good)
}
