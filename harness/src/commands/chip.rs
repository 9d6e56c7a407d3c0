// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness chip`: the commands for chips, and `harness chip learn`: firmware in, a chip file out.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{ChipArgs, ChipCommand, LearnArgs};
use crate::commands::{chip_check, chip_show, chip_suggest};
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::json::document;
use crate::learn::{self, GivenUp, Lesson, describe, guesses};
use crate::measure::Listener;
use crate::run::records::read::Progress;
use crate::run::request::options::Options;
use crate::run::store::directory::{STDOUT, write_as, write_file, write_to};
use crate::run::watch::interrupt::end_on_interrupt;
use crate::text::disarmed::Syntax;
use crate::text::printable::printable;
use crate::text::terminal;

/// File that is written unless the user names another one.
const FILE: &str = "chip.toml";

/// Prints what is learned, as soon as it is learned.
struct Terminal {
    is_quiet: bool,
}

impl Listener for Terminal {
    fn say(&mut self, line: &str) {
        if !self.is_quiet {
            say(line);
        }
    }

    fn progress(&mut self, _: Progress) {}
}

fn say(line: &str) {
    // A closed standard error does not end the command.
    let _ = writeln!(terminal::stderr(), "{}", printable(line));
}

/// Runs the command.
///
/// # Errors
/// When the firmware cannot be run, or the file cannot be written.
pub fn run(args: ChipArgs) -> Result<ExitCode> {
    match args.command {
        ChipCommand::Learn(args) => learn(args),
        ChipCommand::Suggest(args) => chip_suggest::run(args),
        ChipCommand::Show(args) => chip_show::run(&args),
        ChipCommand::Check(args) => chip_check::run(&args),
    }
}

/// Version of the JSON format; it grows when a field is removed or changes its meaning.
const VERSION: u32 = 1;

/// Lesson as JSON.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChipLearn")]
struct Learned<'a> {
    /// Always "harness-chip-learn".
    format: &'static str,
    /// Version of the format.
    version: u32,
    /// The chip file.
    chip_file: String,
    /// The firmware.
    firmware: String,
    /// Number of runs.
    runs: u32,
    /// Registers that are answered.
    answers: usize,
    /// Registers that count.
    counters: usize,
    /// Interrupts that are offered.
    interrupts: usize,
    /// Answers, counters and interrupts that are guesses.
    guesses: usize,
    /// Whether `main` was reached; null: the image names none.
    main_reached: Option<bool>,
    /// Handlers that were entered twice or more.
    ticks: &'a [String],
    /// Whether the firmware passes a loop again and again.
    loops: bool,
    /// Functions that were entered.
    functions: usize,
    /// Places that still wait, and parts that are missing, a sentence each.
    left: &'a [String],
}

fn learn(args: LearnArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(document::schema::<Learned<'_>>()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let (is_quiet, is_json) = (args.quiet || args.json, args.json);
    if is_json && args.output.as_deref() == Some(Path::new(STDOUT)) {
        return Err(
            InputError::new("--json prints on standard output: write the chip file elsewhere, not to -").into()
        );
    }
    let output = args.output.clone();
    let to = match output {
        Some(file) => file,
        None if Path::new(FILE).exists() => {
            let what = format!("exists, and may have been edited; -o {FILE} replaces it");
            return Err(InputError::about(Path::new(FILE), what).into());
        }
        None => PathBuf::from(FILE),
    };
    let options = Options::resolve_named(args.into_profile_args())?;
    end_on_interrupt();
    let lesson = match learn::learn(&options, &mut Terminal { is_quiet }) {
        Ok(lesson) => lesson,
        Err(error) => {
            let given_up = error.downcast::<GivenUp>()?;
            say(&given_up.to_string());
            return Ok(ExitCode::of_end(&given_up.0));
        }
    };
    let code = if lesson.is_cut { ExitCode::Limit } else { ExitCode::Good };
    let text = lesson.draft.text();
    let write = |out: &mut dyn std::io::Write| Ok(out.write_all(text.as_bytes())?);
    if to.as_os_str() == STDOUT {
        write_as(&to, Syntax::Lines, write)?
    } else {
        write_file(&to, write)?
    }
    if is_json {
        let learned = Learned::new(&lesson, &to, &options.firmware);
        write_to(Path::new(STDOUT), |out| document::write(&learned, out))?;
        return Ok(code);
    }
    for line in describe(&lesson) {
        say(&line);
    }
    if to.as_os_str() != STDOUT {
        say(&format!("{}: harness {} --chip {}", to.display(), options.firmware.display(), to.display()));
    }
    Ok(code)
}

impl<'a> Learned<'a> {
    fn new(lesson: &'a Lesson, chip_file: &Path, firmware: &Path) -> Learned<'a> {
        let Lesson { draft, runs, main, ticks, loops, functions, left, .. } = lesson;
        Learned {
            format: "harness-chip-learn",
            version: VERSION,
            chip_file: chip_file.display().to_string(),
            firmware: firmware.display().to_string(),
            runs: *runs,
            answers: draft.answers.len(),
            counters: draft.counts.len(),
            interrupts: draft.pulses.len(),
            guesses: guesses(draft),
            main_reached: *main,
            ticks,
            loops: *loops,
            functions: *functions,
            left,
        }
    }
}
