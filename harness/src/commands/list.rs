//! `harness list`: the values that options accept, by name.

use std::io::Write;
use std::path::Path;

use anyhow::Result;

use crate::chip;
use crate::cli::{ListArgs, Listed};
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::FORMATS;
use crate::image::bounded_read;
use crate::image::symbols::Symbols;
use crate::image::{Arch, Image, LoadOptions};
use crate::machine::MACHINES;
use crate::profile::{Function, Profile};
use crate::show::{listing, machines, tasks};
use crate::text::glossary::glossary;
use crate::text::shell::quoted;
use crate::text::terminal;

/// Table of the formats and their uses, folded to the terminal's width; lines for a pipe stay whole.
pub fn formats() -> String {
    let rows: Vec<_> = FORMATS.iter().map(|format| (format.name(), format.help())).collect();
    glossary(&rows, terminal::width_columns().unwrap_or(usize::MAX))
}

/// Table of the built-in chips, with their processor and memory.
fn chips() -> Result<String, InputError> {
    let known = chip::names().map(chip::find).collect::<Result<Vec<_>, _>>()?;
    let rows: Vec<(&str, String)> = known.iter().map(|chip| (chip.name.as_str(), chip.describe())).collect();
    let rows: Vec<_> = rows.iter().map(|(name, what)| (*name, what.as_str())).collect();
    Ok(glossary(&rows, terminal::width_columns().unwrap_or(usize::MAX)))
}

/// Runs the command.
///
/// # Errors
/// If the profile or image cannot be read, or has nothing of the kind.
pub fn run(args: &ListArgs) -> Result<ExitCode> {
    let mut text = Vec::new();
    match (args.what, args.of.as_deref()) {
        (Listed::Machines | Listed::Chips | Listed::Formats, Some(of)) => {
            let why = "machines, chips and formats are the same for every file: leave it out";
            return Err(InputError::about(of, why).into());
        }
        (Listed::Machines, None) => machines::write(MACHINES, &mut text)?,
        (Listed::Chips, None) => text.extend(chips()?.into_bytes()),
        (Listed::Formats, None) => text.extend(formats().into_bytes()),
        (Listed::Functions, of) => functions(of.unwrap_or(Path::new("")), &mut text)?,
        (Listed::Tasks, of) => of_tasks(of.unwrap_or(Path::new("")), &mut text)?,
    }
    terminal::stdout().write_all(&text)?;
    Ok(ExitCode::Good)
}

/// Whether a path is a firmware file, as opposed to a profile.
fn is_image(path: &Path) -> bool {
    path.is_file() && Image::open(path, &LoadOptions::default()).is_ok()
}

fn functions(of: &Path, text: &mut Vec<u8>) -> Result<()> {
    if is_image(of) {
        let image = Image::open(of, &LoadOptions::default())?;
        let bytes = bounded_read::read_named(of)?;
        let (names, warnings) = Symbols::new(Some(&bytes), 0, image.arch == Some(Arch::CortexM)).names(&[]);
        for line in warnings {
            let _ = writeln!(terminal::stderr(), "warning: {line}");
        }
        return list_functions(of, &names.functions, None, text);
    }
    let profile = Profile::load(of)?;
    list_functions(of, &profile.names.functions, Some(&profile), text)
}

fn list_functions(of: &Path, functions: &[Function], profile: Option<&Profile>, text: &mut Vec<u8>) -> Result<()> {
    if functions.is_empty() {
        let why = "has no symbols, and so no functions with names; give the ELF file that has them";
        return Err(InputError::about(of, why).into());
    }
    Ok(listing::functions(functions, profile, text)?)
}

fn of_tasks(of: &Path, text: &mut Vec<u8>) -> Result<()> {
    if is_image(of) {
        let run = format!("harness {}", quoted(&of.display().to_string()));
        let why = format!("tasks exist only in a run: make a profile with `{run}`, and list its tasks");
        return Err(InputError::about(of, why).into());
    }
    let profile = Profile::load(of)?;
    if profile.tasks.is_empty() {
        return Err(InputError::about(of, "the run had no task of a known kernel").into());
    }
    let mut table = Vec::new();
    tasks::tasks(&profile, None, &mut table)?;
    // Remove the empty lines by which tables are separated from other text.
    text.extend_from_slice(table.trim_ascii());
    text.push(b'\n');
    Ok(())
}
