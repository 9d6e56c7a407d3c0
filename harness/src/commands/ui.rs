// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness ui`: a profile, or two to compare, to move around in on the terminal.

use anyhow::Result;

use crate::analysis::source::{SourceMap, Sources};
use crate::cli::UiArgs;
use crate::exit_code::ExitCode;
use crate::profile::Profile;
use crate::run::watch::interrupt::{INTERRUPTED, end_on_interrupt};
use crate::run::watch::progress::Busy;
use crate::text::shell::quoted;
use crate::text::terminal::Color;
use crate::ui::book::Book;
use crate::ui::{App, session};

/// Runs the command.
///
/// # Errors
/// When there is no terminal, or a profile cannot be read.
pub fn run(args: &UiArgs) -> Result<ExitCode> {
    let label = args.profile.display().to_string();
    session::check(&quoted(&label))?;
    let sources = Sources::new(SourceMap::parse(&args.source_map)?);
    // Ctrl-C and SIGTERM end the view like q, so that the terminal is restored.
    end_on_interrupt();
    let busy = Busy::new(&format!("reading {label}"));
    let profile = Profile::load(&args.profile)?;
    let after = args.after.as_ref().map(|path| anyhow::Ok((Profile::load(path)?, path.display().to_string())));
    let after = after.transpose()?;
    let book = match &after {
        Some((after, after_label)) => Book::new((after, after_label), Some((&profile, &label)), sources)?,
        None => Book::new((&profile, &label), None, sources)?,
    };
    drop(busy);
    let mut app = App::new(book, Color::for_stdout());
    session::run(&mut app, &INTERRUPTED)?;
    Ok(ExitCode::Good)
}
