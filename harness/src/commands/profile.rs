//! `harness firmware.elf`: one image in, one profile directory and one table out.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::Result;

use crate::analysis::crosscheck::{self};
use crate::analysis::describe;
use crate::analysis::functions::{self};
use crate::cli::ProfileArgs;
use crate::exit_code::ExitCode;
use crate::export;
use crate::image;
use crate::measure::{Listener, Measured, measure};
use crate::profile::Profile;
use crate::profile::files::{CONSOLE, FILES, FLAMECHART};
use crate::run::directory::Output;
use crate::run::options::Options;
use crate::run::plan::INTERRUPTED;
use crate::run::progress::Bar;
use crate::run::records::Progress;
use crate::show::overview;
use crate::text::terminal::Printable;

/// Tells the terminal.
struct Terminal(Bar);

impl Listener for Terminal {
    fn say(&mut self, line: &str) {
        self.0.above(|| eprintln!("{line}"));
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
    let output = prepare(&options)?;
    let stem = image::stem(&options.firmware);
    let mut terminal = Terminal(Bar::new(&stem, options.window.for_insns.unwrap_or(0)));
    let measured = measure(&options, &output, &mut terminal);
    let Terminal(bar) = terminal;
    bar.finish();
    let (profile, directory) = save(measured?, &options, output)?;
    report(&profile, &options, &directory)
}

/// Prepares the profile directory, and for the user to end the run.
pub(super) fn prepare(options: &Options) -> Result<Output> {
    let named = || PathBuf::from(format!("{}.profile", image::stem(&options.firmware)));
    let output = Output::prepare(options.output.clone().unwrap_or_else(named))?;
    // Fails only where a handler is set already; then that one decides.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
    Ok(output)
}

/// Completes the profile directory and says where it is.
pub(super) fn save(measured: Measured, options: &Options, output: Output) -> Result<(Profile, PathBuf)> {
    export::write(&measured.profile, options, &output)?;
    // A machine without a serial port and semihosting prints nothing, and QEMU may end before it
    // opens the file.
    if measured.console.exists() {
        output.take(CONSOLE, &measured.console)?;
    } else {
        output.write(CONSOLE, b"")?;
    }
    Ok((measured.profile, output.commit()?))
}

/// Prints the tables and the verdict, and settles the exit code.
fn report(profile: &Profile, options: &Options, directory: &std::path::Path) -> Result<ExitCode> {
    let table = functions::table(profile);
    let crosscheck = crosscheck::check(profile, &table);
    let mut out = Printable(stdout().lock());
    overview::write(profile, &table, &crosscheck, options.top_rows, &mut out)?;
    let mut code = ExitCode::of_end(&profile.facts.end);
    if describe::describe_unopened(profile).is_some() {
        code = code.min(ExitCode::Firmware);
    }
    if options.strict && !crosscheck.counts_agree() {
        writeln!(out, "the counts differ, and --strict makes that a failure")?;
        code = code.min(ExitCode::Firmware);
    }
    let is_there = |file: &&str| options.flamechart || *file != FLAMECHART;
    let files: Vec<&str> = FILES.into_iter().filter(is_there).collect();
    writeln!(out, "profile in {}: {}", directory.display(), files.join(", "))?;
    Ok(code)
}
