// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness run firmware.elf`: runs the firmware as an ordinary program, for cargo, scripts and CI. The firmware's
//! output goes to standard output, its status becomes the exit status, and the run leaves a profile.

use std::io::{self, IsTerminal, Write, stdout};
use std::path::Path;

use anyhow::{Context, Result};

use crate::analysis::describe;
use crate::cli::{RunArgs, word};
use crate::exit_code::runner;
use crate::export::{self, Settings, json};
use crate::image::defmt::Decoder;
use crate::learn;
use crate::measure::{Listener, Measured, measure};
use crate::profile::files::CONSOLE;
use crate::run::records::read::Progress;
use crate::run::request::options::Options;
use crate::run::store::deadline;
use crate::run::store::directory::{Output, write_file};
use crate::run::watch::errors::Reddened;
use crate::run::watch::interrupt::{INTERRUPTED, end_on_interrupt};
use crate::run::watch::tail::Tail;
use crate::taken;
use crate::text::github::{self, Stopped};
use crate::text::number::group;
use crate::text::screen::Screen;
use crate::text::terminal::{self, Color};

/// Passes the firmware's output on to standard output, byte for byte; on a terminal, dangerous control sequences are
/// escaped. The chosen machine is only named at the end, and there is no progress bar.
struct Console {
    /// Decoder of the firmware's log, if the log consists of frames.
    decoder: Option<Decoder>,
    tail: Option<Tail>,
}

impl Listener for Console {
    fn say(&mut self, line: &str) {
        // A closed standard error does not end the run.
        let _ = writeln!(terminal::stderr(), "{line}");
    }

    fn choice(&mut self, _line: &str) {}

    fn taken(&mut self, line: &str) {
        self.say(&format!("harness: {line}"));
    }

    fn starts(&mut self, console: &Path) {
        let console = console.to_owned();
        self.tail = Some(match (self.decoder.take(), stdout().is_terminal()) {
            (Some(decoder), true) => Tail::start(console, Words { decoder, out: Screen::new(stdout()) }),
            (Some(decoder), false) => Tail::start(console, Words { decoder, out: stdout() }),
            (None, true) => {
                let has_colors = Color::for_stdout();
                let reddened = has_colors.then(|| Reddened::begin(&console, Screen::new(stdout())).ok()).flatten();
                match reddened {
                    Some(reddened) => Tail::start(console, reddened),
                    None => Tail::start(console, Screen::new(stdout())),
                }
            }
            (None, false) => Tail::start(console, stdout()),
        });
    }

    fn progress(&mut self, _progress: Progress) {}
}

/// Writer that decodes frames and passes their text on.
struct Words<W: Write> {
    decoder: Decoder,
    out: W,
}

impl<W: Write> Write for Words<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut words = Vec::new();
        self.decoder.push(bytes, &mut words);
        self.out.write_all(&words)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Drop for Words<W> {
    fn drop(&mut self) {
        let mut words = Vec::new();
        self.decoder.finish(&mut words);
        // An earlier write error has been reported, and this write would fail, too.
        let _ = self.out.write_all(&words).and_then(|()| self.out.flush());
    }
}

/// Runs the command and returns the process's exit status.
///
/// # Errors
/// If no profile was made, or standard output did not accept the firmware's output; see [`runner::of_error`].
pub fn run(args: RunArgs) -> Result<u8> {
    let misplaced = word::misplaced_option(&args.firmware_and_args);
    let json_file = args.json.clone();
    let mut options = Options::resolve_run(args)?;
    if let Some(line) = misplaced {
        let _ = writeln!(terminal::stderr(), "harness: note: {line}");
    }
    // Ctrl-C is handled from here on, before there are files to remove.
    end_on_interrupt();
    let output = Output::prepare_for(&options)?;
    let job = github::is_job().then(|| Stopped::begin(stdout().is_terminal())).transpose();
    let job = job.context("commands that the firmware prints into the job's log cannot be stopped")?;
    deadline::hold(output.deadline().clone(), runner::LIMIT);
    let decoder = Decoder::of(options.symbol_file(), Color::for_stdout()).unwrap_or_else(|why| {
        let what = "the firmware's defmt logs cannot be decoded";
        let _ = writeln!(terminal::stderr(), "harness: warning: {what}: {why}");
        None
    });
    let mut passed_on = Console { decoder, tail: None };
    let chip_file = learn::file_of(&options);
    let opened = taken::settle(&mut options, &chip_file, output.deadline(), &mut passed_on)?;
    let measured = measure(&options, opened, &output, &mut passed_on);
    let console_error = passed_on.tail.and_then(|tail| tail.finish(&INTERRUPTED).err());
    drop(job);
    let deadline = output.deadline().clone();
    let made = measured.and_then(|Measured { profile, console }| {
        export::write(&profile, &options, &output)?;
        output.take_console(&console)?;
        let shortened = output.shortened();
        Ok((profile, shortened, output.commit()?))
    });
    let (profile, shortened, directory) = deadline::settle(&deadline, made)?;
    if let Some(file) = &json_file {
        let settings = Settings { view: options.view, ..Settings::default() };
        write_file(file, |out| json::write(&profile, &settings, out))?;
    }
    let facts = &profile.facts;
    let mut lines = describe::describe_notes(&profile);
    lines.extend(shortened.map(|line| format!("warning: {line}")));
    lines.extend(describe::describe_unresolved(facts));
    lines.extend(describe::describe_unopened(&profile));
    lines.extend(describe::describe_late_fault(&profile));
    // Lines without "warning" are about the end of the run, which is reported below.
    lines.extend(describe::describe_trouble(&profile).filter(|line| line.starts_with("warning: ")));
    lines.extend(describe::describe_stubs(facts));
    lines.extend(describe::describe_chip(&profile));
    lines.push(format!(
        "{} on {}: {}; {} instructions; profile in {}",
        facts.image_name,
        facts.machine,
        describe::describe_end(&profile),
        group(profile.total_insns()),
        directory.display()
    ));
    for line in lines {
        // A closed standard error is not a failure: the exit status has the result.
        let _ = writeln!(terminal::stderr(), "harness: {line}");
    }
    if let Some(error) = console_error {
        let file = directory.join(CONSOLE);
        return Err(error).with_context(|| {
            format!(
                "the firmware's output could not be written to standard output; all of it is in {}",
                file.display()
            )
        });
    }
    Ok(runner::status(&profile))
}
