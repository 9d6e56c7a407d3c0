//! `harness annotate`: a function's code with exact counts, under the source lines that it comes from.

use std::io::{BufWriter, Write, stdout};

use anyhow::Result;

use crate::analysis::debug_hints;
use crate::analysis::listing::Lister;
use crate::analysis::lookup;
use crate::analysis::owner::Owner;
use crate::analysis::source::{SourceMap, Sources};
use crate::cli::AnnotateArgs;
use crate::exit_code::ExitCode;
use crate::profile::Profile;
use crate::show::annotation::{self, Screen};
use crate::text::github::Log;
use crate::text::terminal::{self, Color};

/// Runs the command.
///
/// # Errors
/// When the profile cannot be read, or has no such function.
pub fn run(args: &AnnotateArgs) -> Result<ExitCode> {
    let mut sources = Sources::new(SourceMap::parse(&args.source_map)?);
    let profile = Profile::load(&args.profile)?;
    let lister = Lister::new(&profile)?;
    let (places, inlined) = lookup::places_or_inlined(&profile, &args.function)?;
    let list = |&place: &Owner<'_>| match &inlined {
        Some(inlined) => lister.list_inlined(place, inlined, &mut sources),
        None => lister.list(place, &mut sources),
    };
    let listings: Vec<_> = places.iter().map(list).collect();
    let screen =
        Screen { color: Color::for_stdout(), width_columns: terminal::width_columns().filter(|_| !args.wide.wide) };
    let mut out = BufWriter::new(Log::new(stdout().lock()));
    annotation::write_all(&listings, screen, &mut out)?;
    out.flush()?;
    if inlined.is_none() {
        terminal::notes(debug_hints::sentence_of(&profile, &places, &args.profile.display().to_string()).as_slice());
    }
    terminal::notes(&sources.notes());
    Ok(ExitCode::Good)
}
