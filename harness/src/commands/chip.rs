//! `harness chip learn`: firmware in, a chip file out.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::chip::hints::Hint;
use crate::cli::{ChipArgs, ChipCommand, LearnArgs};
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::image;
use crate::learn::{self, GivenUp, Lesson};
use crate::measure::Listener;
use crate::profile::Window;
use crate::run::records::read::Progress;
use crate::run::request::options::Options;
use crate::run::store::directory::{STDOUT, write_file, write_to};
use crate::run::watch::interrupt::end_on_interrupt;
use crate::text::number::plural;
use crate::text::printable::printable;
use crate::text::terminal;

/// File that is written unless the user names another one.
const FILE: &str = "chip.toml";

/// Value of `--chip` for which harness finds or learns the chip.
const AUTO: &str = "auto";

/// Instructions of each learning run for `--chip auto`.
const AUTO_INSNS: u64 = 20_000_000;

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
    let ChipCommand::Learn(args) = args.command;
    learn(args)
}

fn learn(args: LearnArgs) -> Result<ExitCode> {
    let is_quiet = args.quiet;
    let output = args.output.clone();
    let to = match output {
        Some(file) => file,
        None if Path::new(FILE).exists() => {
            let what = format!("exists, and may have been edited; -o {FILE} replaces it");
            return Err(InputError::about(Path::new(FILE), what).into());
        }
        None => PathBuf::from(FILE),
    };
    let options = Options::resolve(args.into_profile_args())?;
    end_on_interrupt();
    let lesson = match learn::learn(&options, &mut Terminal { is_quiet }) {
        Ok(lesson) => lesson,
        Err(error) => {
            let given_up = error.downcast::<GivenUp>()?;
            say(&given_up.to_string());
            return Ok(ExitCode::of_end(&given_up.0));
        }
    };
    let text = lesson.draft.text();
    let write = |out: &mut dyn std::io::Write| Ok(out.write_all(text.as_bytes())?);
    if to.as_os_str() == STDOUT {
        write_to(&to, write)?
    } else {
        write_file(&to, write)?
    }
    for line in describe(&lesson) {
        say(&line);
    }
    if to.as_os_str() != STDOUT {
        say(&format!("{}: harness {} --chip {}", to.display(), options.firmware.display(), to.display()));
    }
    Ok(ExitCode::Good)
}

/// Settles `--chip auto`: takes the one built-in chip that the image is for, or the chip file learned from the image,
/// which is learned once. Without `--chip` and `--machine` the family of a UF2 file chooses the chip.
///
/// # Errors
/// Same as [`learn::learn`]; also when the file cannot be written.
pub fn settle(options: &mut Options, listener: &mut dyn Listener) -> Result<()> {
    let is_auto = options.chip.as_deref() == Some(AUTO);
    let is_asked = is_auto || options.chip.is_none() && options.machine.is_none() && image::is_uf2(&options.firmware);
    if !is_asked {
        return Ok(());
    }
    if let Some(Hint { name, why }) = learn::known(options)? {
        let asked = if is_auto { " (--chip auto)" } else { "" };
        listener.choice(&format!("chip: {name}, {why}{asked}"));
        options.chip = Some(name.to_owned());
        return Ok(());
    }
    if !is_auto {
        return Ok(());
    }
    let file = learn::file_of(options);
    if file.exists() {
        listener.choice(&format!("chip: {}, learned before (--chip auto; remove it to learn anew)", file.display()));
    } else {
        let short =
            Options { window: Window { for_insns: Some(AUTO_INSNS), ..Window::default() }, ..options.clone() };
        let lesson = learn::learn(&short, listener)?;
        let text = lesson.draft.text();
        write_file(&file, |out| Ok(out.write_all(text.as_bytes())?))?;
        describe(&lesson).iter().for_each(|line| listener.choice(line));
        listener.choice(&format!("chip: {}, learned now (--chip auto)", file.display()));
    }
    // The leading `.` makes it a path, which cannot be taken for the name of a built-in chip.
    options.chip = Some(Path::new(".").join(file).display().to_string());
    Ok(())
}

/// Lines about what was learned and what the chip still lacks.
fn describe(lesson: &Lesson) -> Vec<String> {
    let Lesson { draft, runs, main, ticks, loops, functions, left, .. } = lesson;
    let guesses =
        draft.answers.iter().filter(|answer| answer.is_guess).count() + draft.pulses.len() + draft.counts.len();
    let main = match main {
        Some(true) => "main is reached",
        Some(false) => "main is not reached",
        None => "the image names no main",
    };
    let ticks =
        if ticks.is_empty() { "no interrupt ticks".to_owned() } else { format!("{} ticks", ticks.join(", ")) };
    let loops = if *loops { ", a loop is passed again and again" } else { "" };
    let mut lines = vec![format!(
        "{}, {} and {} in {}, {} of these guesses; {main}, {ticks}{loops}, {} executed",
        plural(draft.answers.len() as u64, "answer"),
        plural(draft.counts.len() as u64, "counter"),
        plural(draft.pulses.len() as u64, "interrupt"),
        plural((*runs).into(), "run"),
        guesses,
        plural(*functions as u64, "function"),
    )];
    lines.extend(left.iter().map(|line| format!("left: {line}")));
    lines
}
