//! `harness firmware.elf`: one image in, one profile directory and one table out.

use std::io::Write;
use std::path::Path;

use anyhow::Result;

use crate::analysis::{crosscheck, describe, functions};
use crate::cli::ProfileArgs;
use crate::exit_code::ExitCode;
use crate::export;
use crate::image;
use crate::measure::{Listener, Measured, measure};
use crate::profile::Profile;
use crate::profile::files::{FILES, FLAMECHART};
use crate::run::deadline;
use crate::run::directory::Output;
use crate::run::options::Options;
use crate::run::plan::end_on_interrupt;
use crate::run::progress::Bar;
use crate::run::records::Progress;
use crate::show::overview::{self, TableSize};
use crate::text::terminal;

/// What a run says and how far it has come, on standard error.
struct Terminal(Bar);

impl Listener for Terminal {
    fn say(&mut self, line: &str) {
        // A closed standard error is no reason to end the run.
        self.0.above(|| drop(writeln!(terminal::stderr(), "{line}")));
    }

    fn progress(&mut self, progress: Progress) {
        self.0.update(progress);
    }
}

/// Runs the command.
///
/// # Errors
/// When there is no profile to show; see [`ExitCode::of_error`].
pub fn run(args: ProfileArgs) -> Result<ExitCode> {
    let options = Options::resolve(args)?;
    // Before there is anything to tidy up.
    end_on_interrupt();
    let output = Output::prepare_for(&options)?;
    deadline::hold(output.deadline().clone(), ExitCode::Limit.status());
    let stem = image::stem(&options.firmware);
    let mut terminal = Terminal(Bar::new(&stem, options.window.for_insns.unwrap_or(0)));
    let measured = measure(&options, &output, &mut terminal);
    let Terminal(bar) = terminal;
    bar.finish();
    let Measured { profile, console } = measured?;
    export::write(&profile, &options, &output)?;
    output.take_console(&console)?;
    if let Some(line) = output.shortened() {
        let _ = writeln!(terminal::stderr(), "warning: {line}");
    }
    let directory = output.commit()?;
    let mut code = code(&profile);
    show(&profile, &options, &directory, &mut code).unwrap_or_else(|error| {
        // All of it is in the profile: this is no bad input, after which there would be none.
        let place = directory.display();
        let _ = writeln!(
            terminal::stderr(),
            "warning: the tables could not be printed: {error:#}; the profile is in {place}"
        );
    });
    Ok(code)
}

/// The exit code, as far as the run alone says it.
fn code(profile: &Profile) -> ExitCode {
    let code = ExitCode::of_end(&profile.facts.end);
    if describe::describe_unopened(profile).is_some() { code.min(ExitCode::Firmware) } else { code }
}

/// Prints the tables and the verdict, and settles the exit code.
fn show(profile: &Profile, options: &Options, directory: &Path, code: &mut ExitCode) -> Result<()> {
    let table = functions::table(profile);
    let crosscheck = crosscheck::check(profile, &table);
    let fails = options.strict && !crosscheck.counts_agree();
    if fails {
        *code = (*code).min(ExitCode::Firmware);
    }
    let mut out = terminal::stdout();
    let size = TableSize { top_rows: options.top_rows, is_wide: options.is_wide };
    overview::write(profile, &table, &crosscheck, size, &mut out)?;
    if fails {
        let what = if crosscheck.faults.is_empty() {
            "the counts differ"
        } else {
            "the calls disprove what a warning names"
        };
        writeln!(out, "{what}, and --strict makes that a failure")?;
    }
    let is_there = |file: &&str| options.flamechart || *file != FLAMECHART;
    let files: Vec<&str> = FILES.into_iter().filter(is_there).collect();
    writeln!(out, "profile in {}: {}", directory.display(), files.join(", "))?;
    out.flush()?;
    Ok(())
}
