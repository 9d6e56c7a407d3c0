// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness top`: prints the table of functions of a saved profile, and the remarks that the run printed after its
//! table.

use std::cmp::Reverse;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;

use crate::analysis::column::Column;
use crate::analysis::crosscheck;
use crate::analysis::debug_hints;
use crate::analysis::functions::{self, Row};
use crate::analysis::part::by_phase;
use crate::cli::{Sort, Split, TopArgs};
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::{Settings, json};
use crate::profile::Profile;
use crate::run::store::directory::{STDOUT, write_to};
use crate::show::overview;
use crate::show::part::functions_by_phase;
use crate::show::summary::SummarySize;
use crate::text::fold::Folded;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When the profile cannot be read.
pub fn run(args: &TopArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(json::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let Some(path) = &args.profile else {
        return Err(InputError::new("no profile: name its directory or file").into());
    };
    let profile = Profile::load(path)?;
    if args.json {
        write_to(Path::new(STDOUT), |out| json::write(&profile, &Settings::default(), out))?;
        return Ok(ExitCode::Good);
    }
    let size = SummarySize::on_terminal((args.top > 0).then_some(args.top), args.wide.wide, args.verbose);
    if args.by == Some(Split::Phase) {
        let phases = by_phase(&profile).map_err(InputError::new)?;
        let mut out = BufWriter::new(terminal::stdout());
        functions_by_phase(&phases, size.table(), &mut out)?;
        out.flush()?;
        return Ok(ExitCode::Good);
    }
    let mut table = functions::table(&profile);
    let check = crosscheck::check(&profile, &table);
    let column = match args.sort {
        Sort::Inclusive => Some(Column::Inclusive),
        Sort::Min => Some(Column::Min),
        Sort::Max => Some(Column::Max),
        Sort::SelfInsns | Sort::Calls | Sort::Samples | Sort::Name => None,
    };
    let values = column.map(|column| column.values(&profile)).transpose()?.unwrap_or_default();
    // A stable sort: equal rows keep the order of the table, most instructions first.
    match args.sort {
        Sort::SelfInsns => {}
        // Unknown values come last.
        Sort::Inclusive | Sort::Min | Sort::Max => {
            table.rows.sort_by_key(|row| Reverse(values.get(&row.start).copied()))
        }
        Sort::Calls => table.rows.sort_by_key(|row| Reverse(row.calls)),
        Sort::Samples => table.rows.sort_by_key(|row| Reverse(row.samples)),
        Sort::Name => table.rows.sort_by(|one: &Row, other| one.name.cmp(&other.name)),
    }
    let mut out = Folded::new(BufWriter::new(terminal::stdout()), size.width_columns);
    overview::write(&profile, &table, &check, size, column.map(|column| (column.title(), &values)), &mut out)?;
    out.flush()?;
    terminal::notes(debug_hints::sentence(&profile, &path.display().to_string()).as_slice());
    Ok(ExitCode::Good)
}
