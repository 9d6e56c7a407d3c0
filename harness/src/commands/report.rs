//! `harness report`: a saved profile as one page for the browser.

use std::io::Write;

use anyhow::Result;

use crate::analysis::source::{SourceMap, Sources};
use crate::analysis::stacks::View;
use crate::cli::ReportArgs;
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
    let profile = Profile::load(&args.profile)?;
    let mut sources = Sources::new(SourceMap::parse(&args.source_map)?);
    let view = View { fold_irqs: args.fold_irqs };
    write_to(&args.output, |out| report::write(&profile, view, &mut sources, out))?;
    if args.output.as_os_str() != STDOUT {
        // A closed standard error is no reason to fail: the page is written.
        let _ = writeln!(terminal::stderr(), "{}: open it in a browser", args.output.display());
    }
    terminal::notes(&sources.notes());
    Ok(ExitCode::Good)
}
