// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness bins`: instructions and samples of a saved profile by address.

use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;

use crate::analysis::part::by_phase;
use crate::cli::{BinsArgs, resolve};
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::json;
use crate::profile::Profile;
use crate::run::store::directory::{STDOUT, write_to};
use crate::show::bins::{self, BinsTable, Order};
use crate::show::part::heading;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// If the profile cannot be read or lacks the wanted slice or phases, or if the width of a bin is not a power of two.
pub fn run(args: &BinsArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(json::bins::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let Some(path) = &args.profile else {
        return Err(InputError::new("no profile: name its directory or file").into());
    };
    let bin_bytes = args.bin_bytes.as_deref().map(resolve::bin_bytes).transpose()?;
    let profile = Profile::load(path)?;
    let slice = args.slice.as_deref().map(|text| resolve::slices(text, &profile)).transpose()?;
    let profile = slice.unwrap_or(profile);
    if args.json {
        let bytes = bin_bytes.unwrap_or(profile.facts.bin_bytes);
        write_to(Path::new(STDOUT), |out| json::bins::write(&profile, bytes, out))?;
        return Ok(ExitCode::Good);
    }
    let table = BinsTable {
        bin_bytes: bin_bytes.unwrap_or(profile.facts.bin_bytes),
        top_rows: (args.top > 0).then_some(args.top),
        order: args.by,
        width_columns: terminal::width_columns().filter(|_| !args.wide.wide),
    };
    let mut out = BufWriter::new(terminal::stdout());
    if args.by == Order::Phase {
        let whole_insns = profile.total_insns();
        for (name, part) in by_phase(&profile).map_err(InputError::new)? {
            heading(&name, &part, whole_insns, &mut out)?;
            bins::write(&part, table, &mut out)?;
            writeln!(out)?;
        }
    } else {
        bins::write(&profile, table, &mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::Good)
}
