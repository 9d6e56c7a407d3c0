// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness list`: the values that options accept, by name.

use std::io::Write;
use std::path::Path;

use anyhow::Result;

use crate::chip::{self, Chip};
use crate::cli::{ListArgs, Listed};
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::FORMATS;
use crate::export::json::document;
use crate::export::json::list::List;
use crate::image::bounded_read;
use crate::image::symbols::Symbols;
use crate::image::{Arch, Image, LoadOptions};
use crate::machine::MACHINES;
use crate::profile::{Function, Profile};
use crate::run::store::directory::{STDOUT, write_to};
use crate::show::table_size::TableSize;
use crate::show::{listing, machines, tasks};
use crate::text::glossary::glossary;
use crate::text::shell::quoted;
use crate::text::terminal;

/// Table of the formats and their uses, folded to the terminal's width; lines for a pipe stay whole.
pub fn formats() -> String {
    let rows: Vec<_> = FORMATS.iter().map(|format| (format.name(), format.help())).collect();
    glossary(&rows, terminal::width_columns().unwrap_or(usize::MAX))
}

/// The built-in chips.
fn known_chips() -> Result<Vec<Chip>, InputError> {
    chip::names().map(chip::find).collect()
}

/// Table of the built-in chips, with their processor and memory.
fn chips() -> Result<String, InputError> {
    let known = known_chips()?;
    let rows: Vec<(&str, String)> = known.iter().map(|chip| (chip.name.as_str(), chip.describe())).collect();
    let rows: Vec<_> = rows.iter().map(|(name, what)| (*name, what.as_str())).collect();
    Ok(glossary(&rows, terminal::width_columns().unwrap_or(usize::MAX)))
}

/// Runs the command.
///
/// # Errors
/// If the profile or image cannot be read, or has nothing of the kind.
pub fn run(args: &ListArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(document::schema::<List>()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let Some(what) = args.what else {
        return Err(InputError::new("no subject: machines, chips, formats, functions or tasks").into());
    };
    if let (Listed::Machines | Listed::Chips | Listed::Formats, Some(of)) = (what, &args.of) {
        let why = "machines, chips and formats are the same for every file: leave it out";
        return Err(InputError::about(of, why).into());
    }
    let of = args.of.as_deref().unwrap_or(Path::new(""));
    if args.json {
        let list = match what {
            Listed::Machines => List::machines(MACHINES),
            Listed::Chips => List::chips(known_chips()?),
            Listed::Formats => List::formats(),
            Listed::Functions => {
                let (functions, profile) = functions(of)?;
                List::functions(&functions, profile.as_ref())
            }
            Listed::Tasks => List::tasks(&with_tasks(of)?),
        };
        write_to(Path::new(STDOUT), |out| document::write(&list, out))?;
        return Ok(ExitCode::Good);
    }
    let mut text = Vec::new();
    match what {
        Listed::Machines => machines::write(MACHINES, &mut text)?,
        Listed::Chips => text.extend(chips()?.into_bytes()),
        Listed::Formats => text.extend(formats().into_bytes()),
        Listed::Functions => {
            let (functions, profile) = functions(of)?;
            listing::functions(&functions, profile.as_ref(), &mut text)?;
        }
        Listed::Tasks => {
            let mut table = Vec::new();
            tasks::tasks(&with_tasks(of)?, TableSize::on_terminal(None, false), &mut table)?;
            // Remove the empty lines by which tables are separated from other text.
            text.extend_from_slice(table.trim_ascii());
            text.push(b'\n');
        }
    }
    terminal::stdout().write_all(&text)?;
    Ok(ExitCode::Good)
}

/// Whether a path is a firmware file, as opposed to a profile.
fn is_image(path: &Path) -> bool {
    path.is_file() && Image::open(path, &LoadOptions::default()).is_ok()
}

/// Functions of a firmware file, and warnings about its symbols.
pub(super) fn functions_of_image(of: &Path) -> Result<(Vec<Function>, Vec<String>)> {
    let bytes = bounded_read::read_named(of)?;
    let image = Image::from_bytes(of, &bytes, &LoadOptions::default(), None)?;
    let (names, warnings) = Symbols::new(Some(&bytes), 0, image.arch == Some(Arch::CortexM)).names(&[]);
    Ok((names.functions, warnings))
}

/// Functions of an image or of a profile, and the profile.
fn functions(of: &Path) -> Result<(Vec<Function>, Option<Profile>)> {
    let (functions, profile) = if is_image(of) {
        let (functions, warnings) = functions_of_image(of)?;
        for line in warnings {
            let _ = writeln!(terminal::stderr(), "warning: {line}");
        }
        (functions, None)
    } else {
        let profile = Profile::load(of)?;
        (profile.names.functions.clone(), Some(profile))
    };
    if functions.is_empty() {
        let why = "has no symbols, and so no functions with names; give the ELF file that has them";
        return Err(InputError::about(of, why).into());
    }
    Ok((functions, profile))
}

/// Profile of a run with tasks.
fn with_tasks(of: &Path) -> Result<Profile> {
    if is_image(of) {
        let run = format!("harness {}", quoted(&of.display().to_string()));
        let why = format!("tasks exist only in a run: make a profile with `{run}`, and list its tasks");
        return Err(InputError::about(of, why).into());
    }
    let profile = Profile::load(of)?;
    if profile.tasks.is_empty() {
        return Err(InputError::about(of, "the run had no task of a known kernel").into());
    }
    Ok(profile)
}
