// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness callers`: a function's callers and callees, with the cost of these calls.

use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;

use crate::analysis::debug_hints;
use crate::analysis::lookup;
use crate::cli::CallersArgs;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::json::callers;
use crate::profile::Profile;
use crate::run::store::directory::{STDOUT, write_to};
use crate::show::callers::{CallersLimits, write, write_inlined};
use crate::text::fold::Folded;
use crate::text::shell::quoted;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When the profile cannot be read, or has no such function.
pub fn run(args: &CallersArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(callers::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let (Some(path), Some(function)) = (&args.profile, &args.function) else {
        return Err(InputError::new("no profile and function: name both, as firmware.profile main").into());
    };
    let profile = Profile::load(path)?;
    if args.json {
        let places = lookup::places(&profile, function)?;
        write_to(Path::new(STDOUT), |out| callers::write(&profile, &places, args.depth.get(), out))?;
        return Ok(ExitCode::Good);
    }
    let (places, inlined) = lookup::places_or_inlined(&profile, function)?;
    let width_columns = terminal::width_columns();
    let limits = CallersLimits { depth: args.depth.get(), top: args.top, width_columns };
    let mut out = BufWriter::new(Folded::new(terminal::stdout(), width_columns));
    if let Some(inlined) = inlined {
        write_inlined(&profile, &inlined, limits, &mut out)?;
        out.flush()?;
        let host = places.first().map(|host| quoted(&host.to_string()));
        let command = host.map(|host| format!("`harness callers {} {host}`", quoted(&path.display().to_string())));
        terminal::notes(
            command.map(|command| format!("{command} shows who calls what it is inlined into")).as_slice(),
        );
        return Ok(ExitCode::Good);
    }
    write(&profile, &places, limits, &mut out)?;
    out.flush()?;
    terminal::notes(debug_hints::sentence_of(&profile, &places, &path.display().to_string()).as_slice());
    Ok(ExitCode::Good)
}
