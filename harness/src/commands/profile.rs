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
    let output = Output::prepare_for(&options)?;
    end_on_interrupt();
    deadline::hold(options.timeout, output.in_the_making(), ExitCode::Limit.status());
    let stem = image::stem(&options.firmware);
    let mut terminal = Terminal(Bar::new(&stem, options.window.for_insns.unwrap_or(0)));
    let measured = measure(&options, &output, &mut terminal);
    let Terminal(bar) = terminal;
    bar.finish();
    let Measured { profile, console } = measured?;
    export::write(&profile, &options, &output)?;
    output.take_console(&console)?;
    show(&profile, &options, &output.commit()?)
}

/// Prints the tables and the verdict, and settles the exit code.
fn show(profile: &Profile, options: &Options, directory: &Path) -> Result<ExitCode> {
    let table = functions::table(profile);
    let crosscheck = crosscheck::check(profile, &table);
    let mut out = terminal::stdout();
    let size = TableSize { top_rows: options.top_rows, is_wide: options.is_wide };
    overview::write(profile, &table, &crosscheck, size, &mut out)?;
    let mut code = ExitCode::of_end(&profile.facts.end);
    if describe::describe_unopened(profile).is_some() {
        code = code.min(ExitCode::Firmware);
    }
    if options.strict && !crosscheck.counts_agree() {
        let what = if crosscheck.faults.is_empty() {
            "the counts differ"
        } else {
            "the calls disprove what a warning names"
        };
        writeln!(out, "{what}, and --strict makes that a failure")?;
        code = code.min(ExitCode::Firmware);
    }
    let is_there = |file: &&str| options.flamechart || *file != FLAMECHART;
    let files: Vec<&str> = FILES.into_iter().filter(is_there).collect();
    writeln!(out, "profile in {}: {}", directory.display(), files.join(", "))?;
    out.flush()?;
    Ok(code)
}
