//! `harness firmware.elf`: one image in, one profile directory and one table out.

use std::io::{self, Write, stdout};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::Result;

use crate::analysis::crosscheck::{self, CrossCheck};
use crate::analysis::describe::{self, ExitCode, group};
use crate::analysis::functions::{self, Table};
use crate::cli::ProfileArgs;
use crate::cli::resolve::Options;
use crate::export::{self, CONSOLE, FILES, FLAMECHART};
use crate::image;
use crate::measure::{Listener, Measured, measure};
use crate::profile::Profile;
use crate::run::directory::Output;
use crate::run::plan::INTERRUPTED;
use crate::run::progress::Bar;
use crate::run::records::Progress;
use crate::show::{spans, summary, tasks};
use crate::text::terminal::{self, Printable};

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

/// Writes the tables, and what is to be said of the run, as they are on the terminal.
pub(super) fn show(
    profile: &Profile,
    table: &Table,
    check: &CrossCheck,
    top_rows: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut layout = summary::Layout { top_rows, ..Default::default() };
    if let Some(columns) = terminal::width_columns() {
        layout.width_columns = columns;
    }
    summary::write(table, check, layout, out)?;
    tasks::write(profile, out)?;
    spans::write(profile, out)?;
    writeln!(out)?;
    writeln!(out, "{}", describe::describe_run(&profile.facts))?;
    if profile.facts.before_window_insns > 0 {
        writeln!(out, "{} instructions ran before the window", group(profile.facts.before_window_insns))?;
    }
    if let Some(line) = describe::describe_bins(profile) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "end: {}", describe::describe_end(profile))?;
    if let Some(line) = describe::describe_input(&profile.facts) {
        writeln!(out, "{line}")?;
    }
    for line in describe::describe_notes(profile).iter().chain(&describe::describe_unresolved(&profile.facts)) {
        writeln!(out, "{line}")?;
    }
    if let Some(line) = describe::describe_unopened(profile) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Prints the tables and the verdict, and settles the exit code.
fn report(profile: &Profile, options: &Options, directory: &std::path::Path) -> Result<ExitCode> {
    let table = functions::table(profile);
    let crosscheck = crosscheck::check(profile, &table);
    let mut out = Printable(stdout().lock());
    show(profile, &table, &crosscheck, options.top_rows, &mut out)?;
    let mut code = ExitCode::of_end(&profile.facts.end);
    if describe::describe_unopened(profile).is_some() {
        code = code.min(ExitCode::Firmware);
    }
    if options.strict && !crosscheck.counts_agree() {
        writeln!(out, "the counts differ, and --strict makes that a failure")?;
        code = code.min(ExitCode::Firmware);
    }
    let chart = options.flamechart.then_some(FLAMECHART);
    let files: Vec<&str> = FILES.into_iter().chain(chart).collect();
    writeln!(out, "profile in {}: {}", directory.display(), files.join(", "))?;
    Ok(code)
}
