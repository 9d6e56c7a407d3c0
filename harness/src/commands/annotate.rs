// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness annotate`: a function's code with exact counts, under the source lines that it comes from.

use std::io::{BufWriter, Write, stdout};
use std::path::Path;

use anyhow::Result;

use crate::analysis::debug_hints;
use crate::analysis::functions::{Row, RowKind};
use crate::analysis::listing::Lister;
use crate::analysis::lookup;
use crate::analysis::owner::Owner;
use crate::analysis::source::{SourceMap, Sources};
use crate::cli::AnnotateArgs;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::json;
use crate::profile::Profile;
use crate::run::store::directory::{STDOUT, write_to};
use crate::show::annotation::{self, Screen};
use crate::text::github::Log;
use crate::text::terminal::{self, Color};

/// Runs the command.
///
/// # Errors
/// When the profile cannot be read, or has no such function.
pub fn run(args: &AnnotateArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(json::annotation::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let Some(path) = &args.profile else {
        return Err(InputError::new("no profile: name its directory or file").into());
    };
    let mut sources = Sources::new(SourceMap::parse(&args.source_map)?);
    let profile = Profile::load(path)?;
    let lister = Lister::new(&profile)?;
    let all = || executed(&profile, lister.rows());
    if args.json && args.function.is_none() {
        let listings: Vec<_> = all().into_iter().map(|place| lister.list(place, &mut sources)).collect();
        write_to(Path::new(STDOUT), |out| json::annotation::write(&profile, &listings, out))?;
        return Ok(ExitCode::Good);
    }
    let (places, inlined) = match &args.function {
        Some(function) => lookup::places_or_inlined(&profile, function)?,
        None => (vec![hottest(&profile, all())?], None),
    };
    let list = |&place: &Owner<'_>| match &inlined {
        Some(inlined) => lister.list_inlined(place, inlined, &mut sources),
        None => lister.list(place, &mut sources),
    };
    let listings: Vec<_> = places.iter().map(list).collect();
    if args.json {
        write_to(Path::new(STDOUT), |out| json::annotation::write(&profile, &listings, out))?;
        return Ok(ExitCode::Good);
    }
    let screen =
        Screen { color: Color::for_stdout(), width_columns: terminal::width_columns().filter(|_| !args.wide.wide) };
    let mut out = BufWriter::new(Log::new(stdout().lock()));
    annotation::write_all(&listings, screen, &mut out)?;
    out.flush()?;
    if inlined.is_none() {
        terminal::notes(debug_hints::sentence_of(&profile, &places, &path.display().to_string()).as_slice());
    }
    terminal::notes(&sources.notes());
    Ok(ExitCode::Good)
}

/// Function with the most instructions.
fn hottest<'p>(profile: &Profile, executed: Vec<Owner<'p>>) -> Result<Owner<'p>> {
    executed.into_iter().next().ok_or_else(|| {
        let image = &profile.facts.image_name;
        InputError::new(format!("no function of {image} has executed: name an address, 0x…")).into()
    })
}

/// Functions that executed, most instructions first; other code has no source.
fn executed<'p>(profile: &'p Profile, rows: &[Row]) -> Vec<Owner<'p>> {
    let place = |row: &Row| Some(Owner::of(profile, row.start.filter(|_| row.kind == RowKind::Function)?));
    rows.iter().filter_map(place).collect()
}
