// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness chip show`: who read, wrote and polled the chip's registers in a run.

use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use decode::Isa;

use crate::analysis::peripherals::NO_CHIP;
use crate::cli::ChipShowArgs;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::json;
use crate::profile::Profile;
use crate::run::store::directory::{STDOUT, write_to};
use crate::show::peripherals;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When the profile cannot be read, or its run had no chip.
pub(super) fn run(args: &ChipShowArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(json::peripherals::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let Some(path) = &args.profile else {
        return Err(InputError::new("no profile: name its directory or file").into());
    };
    let profile = Profile::load(path)?;
    if profile.facts.isa().is_some_and(Isa::is_avr) {
        let why =
            "accesses of registers are not counted on AVR, where a chip file only adds devices to QEMU's machine";
        return Err(InputError::about(path, why).into());
    }
    let Some(chip) = &profile.facts.chip else { return Err(InputError::about(path, NO_CHIP).into()) };
    if args.json {
        write_to(Path::new(STDOUT), |out| json::peripherals::write(&profile, chip, out))?;
        return Ok(ExitCode::Good);
    }
    let mut out = BufWriter::new(terminal::stdout());
    peripherals::write(&profile, chip, (args.top > 0).then_some(args.top), &mut out)?;
    out.flush()?;
    Ok(ExitCode::Good)
}
