//! `harness firmware.elf`: one image in, one profile directory and one table out.

use std::io::{IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::Result;
use console::Term;

use crate::cli::ProfileArgs;
use crate::crosscheck;
use crate::export::{self, CONSOLE, FILES, FLAMECHART, spans, summary, tasks};
use crate::functions;
use crate::image;
use crate::measure::{Listener, Measured, measure};
use crate::options::Options;
use crate::output::Output;
use crate::profile::Profile;
use crate::progress::Bar;
use crate::records::Progress;
use crate::run::INTERRUPTED;
use crate::verdict::{self, ExitCode, group};

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

/// Prints the table and the verdict, and settles the exit code.
fn report(profile: &Profile, options: &Options, directory: &std::path::Path) -> Result<ExitCode> {
    let table = functions::table(profile);
    let crosscheck = crosscheck::check(profile, &table);
    let mut out = stdout().lock();
    let columns = Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    let mut layout = summary::Layout { top_rows: options.top_rows, ..Default::default() };
    if let Some(columns) = columns.filter(|_| stdout().is_terminal()) {
        layout.width_columns = columns;
    }
    summary::write(&table, &crosscheck, layout, &mut out)?;
    tasks::write(profile, &mut out)?;
    spans::write(profile, &mut out)?;
    writeln!(out)?;
    writeln!(out, "{}", verdict::describe_run(&profile.facts))?;
    if profile.facts.before_window_insns > 0 {
        writeln!(out, "{} instructions ran before the window", group(profile.facts.before_window_insns))?;
    }
    if let Some(line) = verdict::describe_bins(profile) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "end: {}", verdict::describe_end(profile))?;
    if let Some(line) = verdict::describe_input(&profile.facts) {
        writeln!(out, "{line}")?;
    }
    for line in verdict::describe_notes(profile).iter().chain(&verdict::describe_unresolved(&profile.facts)) {
        writeln!(out, "{line}")?;
    }
    let mut code = ExitCode::of_end(&profile.facts.end);
    if let Some(line) = verdict::describe_unopened(profile) {
        writeln!(out, "{line}")?;
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
