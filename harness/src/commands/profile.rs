// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness firmware.elf`: profiles one image, writes a profile directory and prints a table.

use std::io::Write;
use std::path::Path;

use anyhow::Result;

use crate::analysis::crosscheck::{self, CrossCheck};
use crate::analysis::missing_device;
use crate::analysis::stack_proof;
use crate::analysis::{describe, functions};
use crate::cli::ProfileArgs;
use crate::error::is_broken_pipe;
use crate::exit_code::ExitCode;
use crate::export::{self, Settings, json};
use crate::image;
use crate::learn;
use crate::measure::{Listener, Measured};
use crate::profile::Profile;
use crate::profile::files::{FILES, FLAMECHART};
use crate::run::records::read::Progress;
use crate::run::request::options::Options;
use crate::run::store::deadline;
use crate::run::store::directory::{Output, STDOUT, write_to};
use crate::run::watch::interrupt::end_on_interrupt;
use crate::run::watch::progress::Bar;
use crate::show::next;
use crate::show::overview;
use crate::show::summary::SummarySize;
use crate::taken;
use crate::text::fold::Folded;
use crate::text::terminal;

/// Prints messages and the progress of a run on standard error.
struct Terminal {
    bar: Bar,
    is_quiet: bool,
    is_verbose: bool,
    /// Lines about machines that were not chosen, kept for a run that fails.
    runners_up: Vec<String>,
}

impl Listener for Terminal {
    fn say(&mut self, line: &str) {
        // A closed standard error does not end the run.
        self.bar.above(|| drop(writeln!(terminal::stderr(), "{line}")));
    }

    fn choice(&mut self, line: &str) {
        if !self.is_quiet {
            self.say(line);
        }
    }

    fn taken(&mut self, line: &str) {
        self.choice(line);
    }

    fn runner_up(&mut self, line: &str) {
        if self.is_verbose {
            self.choice(line);
        } else {
            self.runners_up.push(line.to_owned());
        }
    }

    fn slow(&mut self, line: &str) {
        self.choice(line);
    }

    fn progress(&mut self, progress: Progress) {
        self.bar.update(progress);
    }
}

/// Runs the command.
///
/// # Errors
/// If no profile was made; see [`ExitCode::of_error`].
pub fn run(args: ProfileArgs) -> Result<ExitCode> {
    let (is_quiet, is_verbose, is_json) = (args.quiet, args.verbose, args.json);
    let mut options = Options::resolve_named(args)?;
    // Ctrl-C is handled from here on, before there are files to remove.
    end_on_interrupt();
    let output = Output::prepare_for(&options)?;
    deadline::hold(output.deadline().clone(), ExitCode::Limit.status());
    let stem = image::stem(&options.firmware);
    let bar = if is_quiet { Bar::hidden() } else { Bar::new(&stem, options.window.for_insns.unwrap_or(0)) };
    let mut terminal = Terminal { bar, is_quiet, is_verbose, runners_up: Vec::new() };
    let chip_file = learn::file_of(&options);
    let opened = taken::settle(&mut options, &chip_file, output.deadline(), &mut terminal)?;
    let measured = taken::measure(&mut options, opened, &output, &mut terminal);
    terminal.bar.finish();
    let deadline = output.deadline().clone();
    let made = measured.and_then(|Measured { profile, console }| {
        export::write(&profile, &options, &output)?;
        output.take_console(&console)?;
        if let Some(line) = output.shortened() {
            let _ = writeln!(terminal::stderr(), "warning: {line}");
        }
        Ok((profile, output.commit()?))
    });
    let (profile, directory) = deadline::settle(&deadline, made)?;
    let mut code = code(&profile);
    let shown = if is_json || is_quiet {
        say(&profile, &options, &mut code);
        let settings = Settings { view: options.view, ..Settings::default() };
        if is_json { write_to(Path::new(STDOUT), |out| json::write(&profile, &settings, out)) } else { Ok(()) }
    } else {
        show(&profile, &options, &directory, is_verbose, &mut code)
    };
    let may_be_elsewhere = code == ExitCode::Firmware && missing_device::address(&profile).is_some();
    if may_be_elsewhere && !terminal.runners_up.is_empty() && !is_quiet {
        // The firmware may have been built for another machine, one that has the device.
        let what = "note: other machines have memory for this image; `--machine NAME` takes one of them";
        for line in [what].into_iter().chain(terminal.runners_up.iter().map(String::as_str)) {
            let _ = writeln!(terminal::stderr(), "{line}");
        }
    }
    if let Err(error) = shown
        && !is_broken_pipe(&error)
    {
        // The profile is complete, so this failure is not bad input.
        let place = directory.display();
        let _ = writeln!(
            terminal::stderr(),
            "warning: the tables could not be printed: {error:#}; the profile is in {place}"
        );
    }
    Ok(code)
}

/// Exit code by the end of the run, without `--strict`.
fn code(profile: &Profile) -> ExitCode {
    let code = ExitCode::of_end(&profile.facts.end);
    if describe::describe_unopened(profile).is_some() { code.min(ExitCode::Firmware) } else { code }
}

/// Reasons why `--strict` turns the run into a failure; sets the exit code accordingly.
fn strictly(profile: &Profile, check: &CrossCheck, options: &Options, code: &mut ExitCode) -> Vec<String> {
    let why =
        if check.faults.is_empty() { "the counts differ" } else { "the calls disprove stacks or the call tree" };
    let counts = (!check.counts_agree()).then_some(why);
    let standstill = profile.facts.only.standstill.as_ref().map(|_| "the firmware stands still");
    let doubts = describe::describe_doubts(profile);
    let whys = counts.into_iter().chain(standstill).chain(doubts.as_deref());
    let whys: Vec<&str> = whys.filter(|_| options.strict).collect();
    if !whys.is_empty() {
        *code = (*code).min(ExitCode::Firmware);
    }
    whys.into_iter().map(|why| format!("{why}, and --strict makes that a failure")).collect()
}

/// Prints problems of the run on standard error; settles the exit code.
fn say(profile: &Profile, options: &Options, code: &mut ExitCode) {
    let check = crosscheck::check(profile, &functions::table(profile));
    let strictly = strictly(profile, &check, options, code);
    let mut lines: Vec<String> = describe::describe_trouble(profile).into_iter().collect();
    lines.extend(stack_proof::faults(profile).into_iter().map(|fault| format!("warning: {fault}")));
    lines.extend(describe::describe_unopened(profile));
    if *code != ExitCode::Good {
        lines.push(format!("end: {}", describe::describe_end(profile)));
    }
    for line in lines.into_iter().chain(strictly) {
        // A closed standard error is not a failure: the exit status has the result.
        let _ = writeln!(terminal::stderr(), "{line}");
    }
}

/// Prints the tables and the verdict; settles the exit code.
fn show(profile: &Profile, options: &Options, directory: &Path, is_verbose: bool, code: &mut ExitCode) -> Result<()> {
    let table = functions::table(profile);
    let crosscheck = crosscheck::check(profile, &table);
    let strictly = strictly(profile, &crosscheck, options, code);
    let size = SummarySize::on_terminal(options.top_rows, options.is_wide, is_verbose);
    let mut out = Folded::new(terminal::stdout(), size.width_columns);
    overview::write(profile, &table, &crosscheck, size, None, &mut out)?;
    for line in strictly {
        writeln!(out, "{line}")?;
    }
    let is_there = |file: &&str| options.flamechart || *file != FLAMECHART;
    let files: Vec<&str> = FILES.into_iter().filter(is_there).collect();
    writeln!(out, "profile in {}: {}", directory.display(), files.join(", "))?;
    out.flush()?;
    let path = directory.display().to_string();
    let elf = elsewhere(&options.firmware, directory);
    terminal::notes(next::sentence(profile, &table, &path, elf.as_deref()).as_slice());
    Ok(())
}

/// Path of the firmware, if `harness debug` would not find the file by itself: it is neither below the working directory
/// nor beside the profile.
fn elsewhere(firmware: &Path, directory: &Path) -> Option<String> {
    let canonical = |path: &Path| path.canonicalize().ok();
    let (file, here) = (canonical(firmware)?, canonical(Path::new("."))?);
    let is_beside = file.parent() == canonical(directory)?.parent();
    (!file.starts_with(here) && !is_beside).then(|| firmware.display().to_string())
}
