// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness heap`: the call paths that held a run's memory, its leaks, and its invalid frees.

use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;

use crate::analysis::heap::NOT_FOLLOWED;
use crate::analysis::stacks::View;
use crate::cli::HeapArgs;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::flamegraph;
use crate::export::json;
use crate::profile::Profile;
use crate::run::store::directory::{STDOUT, write_file, write_to};
use crate::show::heap;
use crate::show::table_size::TableSize;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When the profile cannot be read, its run did not follow the heap, or the picture cannot be written.
pub fn run(args: &HeapArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(json::heap::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let Some(path) = &args.profile else {
        return Err(InputError::new("no profile: name its directory or file").into());
    };
    let profile = Profile::load(path)?;
    if args.json {
        write_to(Path::new(STDOUT), |out| json::heap::write(&profile, out))?;
        return Ok(ExitCode::Good);
    }
    let mut out = BufWriter::new(terminal::stdout());
    let size = TableSize::on_terminal((args.top > 0).then_some(args.top), args.wide.wide);
    if !heap::write(&profile, size, &mut out)? {
        return Err(InputError::about(path, NOT_FOLLOWED).into());
    }
    if let Some(path) = &args.output {
        let svg = flamegraph::heap(&profile, View { fold_irqs: args.fold_irqs }, args.of.quantity())?;
        write_file(path, |out| Ok(out.write_all(&svg)?))?;
        writeln!(out, "picture in {}", path.display())?;
    }
    out.flush()?;
    Ok(ExitCode::Good)
}
