// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness export`: a saved profile in the format of another tool.

use std::io::{IsTerminal, Write, stdout};
use std::num::NonZeroU32;
use std::path::Path;

use anyhow::Result;

use crate::analysis::source::SourceMap;
use crate::analysis::stacks::View;
use crate::analysis::zone;
use crate::cli::{ExportArgs, Split, resolve};
use crate::commands::list::formats;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::{FORMATS, Format, Settings, Writer, json};
use crate::profile::Profile;
use crate::run::store::directory::{STDOUT, write_as};
use crate::run::watch::progress::Busy;
use crate::text::number::parse_number;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// If the profile cannot be read or lacks the data of the format, or if the file cannot be written.
pub fn run(args: &ExportArgs) -> Result<ExitCode> {
    if args.schema {
        stdout().write_all(json::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let (profile, format) = match (&args.profile, args.format) {
        (Some(profile), Some(format)) => (profile, format),
        (None, None) => {
            terminal::stdout().write_all(formats().as_bytes())?;
            return Ok(ExitCode::Good);
        }
        (Some(_), None) => {
            return Err(
                InputError::new(format!("no format: choose one with --format\n{}", formats().trim_end())).into()
            );
        }
        (None, Some(_)) => return Err(InputError::new("no profile: name its directory or file").into()),
    };
    let settings = settings(args)?;
    if settings.by_phase {
        only("--by phase", "separate phases", Format::splits_by_phase, format)?;
    }
    if settings.in_cycles {
        only("--cycles", "have cycles instead of instructions", Format::can_be_in_cycles, format)?;
    }
    let source_map = SourceMap::parse(&args.source_map)?;
    let path = args.output.as_deref().unwrap_or(Path::new(STDOUT));
    let _busy = (path != Path::new(STDOUT)).then(|| Busy::new(&format!("writing {}", path.display())));
    let mut profile = Profile::load(profile)?;
    if let Some(text) = &args.slice {
        profile = resolve::slices(text, &profile)?;
    }
    if args.zones {
        profile = zone::framed(&profile);
    }
    source_map.relocate(&mut profile.names);
    let is_file = matches!(format.writer(), Writer::File(_));
    if path == Path::new(STDOUT) && is_file && format.is_binary() && stdout().is_terminal() {
        let why = "this format is binary: write it to a file with --output FILE";
        return Err(InputError::new(why).into());
    }
    match format.writer() {
        Writer::File(write) => write_as(path, format.syntax(), |out| write(&profile, &settings, out))?,
        Writer::Directory(_) if path == Path::new(STDOUT) => {
            let why = "this format is a directory: name one with --output DIRECTORY";
            return Err(InputError::new(why).into());
        }
        Writer::Directory(write) => write(&profile, &settings, path)?,
    }
    Ok(ExitCode::Good)
}

/// Refuses an option for a format that cannot do what it asks for, and names those that can.
fn only(option: &str, what: &str, can: fn(Format) -> bool, format: Format) -> Result<(), InputError> {
    if can(format) {
        return Ok(());
    }
    let able: Vec<&str> = FORMATS.iter().filter(|format| can(**format)).map(|format| format.name()).collect();
    Err(InputError::new(format!("{option}: {} cannot {what}; these can: {}", format.name(), able.join(", "))))
}

fn settings(args: &ExportArgs) -> Result<Settings, InputError> {
    Ok(Settings {
        view: View { fold_irqs: args.fold_irqs },
        by_phase: args.by == Some(Split::Phase),
        in_cycles: args.cycles,
        clock_hz: args.clock_hz.as_deref().map(parse_clock).transpose()?,
    })
}

fn parse_clock(text: &str) -> Result<NonZeroU32, InputError> {
    let hz = parse_number("--clock-hz", text)?;
    let clock = u32::try_from(hz).ok().and_then(NonZeroU32::new);
    clock.ok_or_else(|| InputError::new(format!("--clock-hz {text}: must be from 1 to {}", u32::MAX)))
}
