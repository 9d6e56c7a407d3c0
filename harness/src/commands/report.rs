//! `harness report`: a saved profile as one page for the browser.

use std::io::{BufWriter, Write, stderr, stdout};

use anyhow::Result;

use crate::cli::ReportArgs;
use crate::export::report;
use crate::output::write_file;
use crate::profile::Profile;
use crate::source::{SourceMap, Sources};
use crate::stacks::View;
use crate::terminal::Printable;
use crate::verdict::ExitCode;

/// Runs the command.
///
/// # Errors
/// When the profile cannot be read, or the page cannot be written.
pub fn run(args: &ReportArgs) -> Result<ExitCode> {
    let profile = Profile::load(&args.profile)?;
    let mut sources = Sources::new(SourceMap::parse(&args.source_map)?);
    let view = View { fold_irqs: args.fold_irqs };
    if args.output.as_os_str() == "-" {
        let mut out = BufWriter::new(stdout().lock());
        report::write(&profile, view, &mut sources, &mut out)?;
        out.flush()?;
    } else {
        let path = &args.output;
        write_file(path, |out| report::write(&profile, view, &mut sources, out))?;
        // Nobody may listen.
        let _ = writeln!(Printable(stderr()), "{}: open it in a browser", path.display());
    }
    for note in sources.notes() {
        let _ = writeln!(Printable(stderr()), "note: {note}");
    }
    Ok(ExitCode::Good)
}
