//! `harness heap`: who held the memory of a run, what leaked, and what was freed that was not there.

use std::io::{BufWriter, Write};

use anyhow::Result;

use crate::cli::HeapArgs;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::profile::Profile;
use crate::show::heap;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When the profile cannot be read, or its run did not follow the heap.
pub fn run(args: &HeapArgs) -> Result<ExitCode> {
    let profile = Profile::load(&args.profile)?;
    let mut out = BufWriter::new(terminal::stdout());
    let top_rows = (args.top > 0).then_some(args.top);
    if !heap::write(&profile, top_rows, &mut out)? {
        let message = "the heap was not followed in this run; profile the firmware with --heap";
        return Err(InputError::about(&args.profile, message).into());
    }
    out.flush()?;
    Ok(ExitCode::Good)
}
