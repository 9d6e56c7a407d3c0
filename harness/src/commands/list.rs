//! `harness list`: what there is to choose from, by the names that options take.

use std::io::Write;

use anyhow::Result;

use crate::cli::Listed;
use crate::exit_code::ExitCode;
use crate::export::FORMATS;
use crate::machine::MACHINES;
use crate::show::machines;
use crate::text::glossary::glossary;
use crate::text::terminal;

/// The formats and what each is for, in the width of the terminal; a pipe gets whole lines.
pub fn formats() -> String {
    let rows: Vec<_> = FORMATS.iter().map(|format| (format.name(), format.help())).collect();
    glossary(&rows, terminal::width_columns().unwrap_or(usize::MAX))
}

/// Runs the command.
///
/// # Errors
/// When it cannot be printed.
pub fn run(what: Listed) -> Result<ExitCode> {
    let mut text = Vec::new();
    match what {
        Listed::Machines => machines::write(MACHINES, &mut text)?,
        Listed::Formats => text.extend(formats().into_bytes()),
    }
    terminal::stdout().write_all(&text)?;
    Ok(ExitCode::Good)
}
