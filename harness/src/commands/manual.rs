// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness man` and `harness completions`: files that a package installs beside the program.

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::commands::complete;
use crate::error::InputError;
use crate::exit_code::ExitCode;

/// Writes the manual pages, one for each command, into a directory; or only the program's own page to standard output.
///
/// # Errors
/// When they cannot be written.
pub fn man(directory: Option<&Path>) -> Result<ExitCode> {
    // The foot of a page has one line for the version.
    let command = Cli::command().long_version(None).disable_help_subcommand(true);
    match directory {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            stdout().lock().write_all(&page)?;
        }
        Some(directory) => {
            let cannot = |error| {
                InputError::about(
                    directory,
                    format_args!("manual pages cannot be written there: {error}; name another directory"),
                )
            };
            fs::create_dir_all(directory).map_err(cannot)?;
            clap_mangen::generate_to(command, directory).map_err(cannot)?;
        }
    }
    Ok(ExitCode::Good)
}

/// Prints a shell's completion script.
///
/// # Errors
/// When standard output cannot be written.
pub fn completions(shell: Shell) -> Result<ExitCode> {
    let mut script = Vec::new();
    complete::script(shell, &mut script)?;
    stdout().lock().write_all(&script)?;
    Ok(ExitCode::Good)
}
