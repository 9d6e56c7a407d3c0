//! `harness callers`: who calls a function, what it calls, and what that costs.

use std::io::{BufWriter, Write};

use anyhow::Result;

use crate::analysis::lookup;
use crate::analysis::visit;
use crate::cli::CallersArgs;
use crate::exit_code::ExitCode;
use crate::profile::Profile;
use crate::show::callers::{CallersLimits, write};
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When the profile cannot be read, or has no such function.
pub fn run(args: &CallersArgs) -> Result<ExitCode> {
    let profile = Profile::load(&args.profile)?;
    let places = lookup::places(&profile, &args.function)?;
    let mut out = BufWriter::new(terminal::stdout());
    write(&profile, &places, CallersLimits { depth: args.depth.get(), top: args.top }, &mut out)?;
    out.flush()?;
    terminal::notes(visit::sentence_of(&profile, &places, &args.profile.display().to_string()).as_slice());
    Ok(ExitCode::Good)
}
