//! `harness heap`: the call paths that held a run's memory, its leaks, and its invalid frees.

use std::io::{BufWriter, Write};

use anyhow::Result;

use crate::analysis::heap::NOT_FOLLOWED;
use crate::analysis::stacks::View;
use crate::cli::HeapArgs;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::flamegraph;
use crate::profile::Profile;
use crate::run::store::directory::write_file;
use crate::show::heap::{self, TableSize};
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When the profile cannot be read, its run did not follow the heap, or the picture cannot be written.
pub fn run(args: &HeapArgs) -> Result<ExitCode> {
    let profile = Profile::load(&args.profile)?;
    let mut out = BufWriter::new(terminal::stdout());
    let size = TableSize {
        top_rows: (args.top > 0).then_some(args.top),
        width_columns: terminal::width_columns().filter(|_| !args.wide.wide),
    };
    if !heap::write(&profile, size, &mut out)? {
        return Err(InputError::about(&args.profile, NOT_FOLLOWED).into());
    }
    if let Some(path) = &args.output {
        let svg = flamegraph::heap(&profile, View { fold_irqs: args.fold_irqs }, args.of.quantity())?;
        write_file(path, |out| Ok(out.write_all(&svg)?))?;
        writeln!(out, "picture in {}", path.display())?;
    }
    out.flush()?;
    Ok(ExitCode::Good)
}
