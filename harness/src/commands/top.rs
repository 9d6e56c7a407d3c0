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
use crate::show::overview::{self, TableSize};
use crate::show::part::functions_by_phase;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When the profile cannot be read.
pub fn run(args: &TopArgs) -> Result<ExitCode> {
    let profile = Profile::load(&args.profile)?;
    if args.json {
        write_to(Path::new(STDOUT), |out| json::write(&profile, &Settings::default(), out))?;
        return Ok(ExitCode::Good);
    }
    if args.by == Some(Split::Phase) {
        let phases = by_phase(&profile).map_err(InputError::new)?;
        let mut out = BufWriter::new(terminal::stdout());
        functions_by_phase(&phases, (args.top > 0).then_some(args.top), &mut out)?;
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
    let mut out = BufWriter::new(terminal::stdout());
    let size =
        TableSize { top_rows: (args.top > 0).then_some(args.top), is_wide: args.wide.wide, is_verbose: args.verbose };
    overview::write(&profile, &table, &check, size, column.map(|column| (column.title(), &values)), &mut out)?;
    out.flush()?;
    terminal::notes(debug_hints::sentence(&profile, &args.profile.display().to_string()).as_slice());
    Ok(ExitCode::Good)
}
