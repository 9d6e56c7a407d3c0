//! `harness report`: a saved profile as one page for the browser.

use std::fs::File;
use std::io::{BufWriter, Write, stdout};

use anyhow::{Context, Result};

use crate::cli::ReportArgs;
use crate::export::report;
use crate::output::unwritable;
use crate::profile::Profile;
use crate::source::{SourceMap, Sources};
use crate::stacks::View;
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
        let file = File::create(path).map_err(|error| unwritable(path, &error))?;
        let mut out = BufWriter::new(file);
        report::write(&profile, view, &mut sources, &mut out)
            .and_then(|()| Ok(out.flush()?))
            .with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("{}: open it in a browser", path.display());
    }
    for note in sources.notes() {
        eprintln!("{note}");
    }
    Ok(ExitCode::Good)
}
