// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness debug`: connects GDB to any instruction of a run, forwards and backwards.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;

use crate::cli::DebugArgs;
use crate::commands::workshop::{self, is_profile};
use crate::debug::again::repeat;
use crate::debug::find::{Finder, More};
use crate::debug::firmware::{Search, Wanted as WantedFile};
use crate::debug::monitor::Monitor;
use crate::debug::place::Place;
use crate::debug::server;
use crate::debug::session::Session;
use crate::debug::socket;
use crate::debug::thread::{self, Processor};
use crate::debug::threads::Threads;
use crate::debug::travel::{Position, Refused, Travel, Why};
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::image;
use crate::image::bounded_read;
use crate::measure::Listener;
use crate::profile::files;
use crate::profile::{End, Profile};
use crate::run::records::read::Progress;
use crate::run::request::options::Options;
use crate::run::watch::interrupt::end_on_interrupt;
use crate::run::watch::progress::Bar;
use crate::text::number::plural;
use crate::text::terminal;

/// Prints messages and the progress of runs on standard error.
#[derive(Default)]
struct Terminal {
    bar: Option<Bar>,
    position: Arc<Position>,
}

impl Listener for Terminal {
    fn say(&mut self, line: &str) {
        match &self.bar {
            Some(bar) => bar.above(|| say(line)),
            None => say(line),
        }
    }

    /// The profile names the machine already.
    fn choice(&mut self, _: &str) {}

    fn progress(&mut self, progress: Progress) {
        self.position.set(progress.insns);
        if let Some(bar) = &mut self.bar {
            bar.update(progress);
        }
    }
}

fn say(line: &str) {
    // A closed standard error does not end the command.
    let _ = writeln!(terminal::stderr(), "{line}");
}

/// Runs the command.
///
/// # Errors
/// Errors of a profiling run; also if the run never comes to the place, the profile is not of this firmware, or a port
/// is in use.
pub fn run(args: DebugArgs) -> Result<ExitCode> {
    let place = args.at.as_deref().map(Place::parse).transpose()?;
    // Otherwise GDB's Ctrl-C would end more than the execution if GDB was started in this terminal.
    end_on_interrupt();
    let checkpoint_mib = args.checkpoint_mib;
    let (port, gdb) = (args.port, args.gdb);
    let Subject { options, profile, console } = subject(args)?;
    let mut listener = match port {
        Some(port) => socket::Listener::port(port)?,
        None => socket::Listener::private()?,
    };
    let mut session = Session::open(&options, checkpoint_mib, &mut Terminal::default())?;
    if checkpoint_mib > 0 && !session.has_checkpoints() {
        say("note: no checkpoints can be made of this run: going back takes another run each time");
    }
    let (isa, elf, kernel, threads) = {
        let loaded = session.loaded();
        let isa: decode::Isa = loaded.choice.machine.isa.parse().map_err(anyhow::Error::new)?;
        let (kernel, _) = loaded.kernel();
        let elf = loaded.symbol_file().map(<[u8]>::to_vec);
        let threads = Threads::new(kernel.as_ref(), elf.as_deref(), loaded.choice.load_bias, isa.is_thumb());
        (isa, elf, kernel, threads)
    };
    let again_options = options.clone();
    let image_sha256 = profile.facts.image_sha256.clone();
    let position = session.position();
    let again = move |more: More| {
        let mut options = again_options.clone();
        match more {
            More::Exact => options.exact = true,
            More::Marks { period_insns, for_insns } => {
                (options.period_insns, options.window.for_insns) = (period_insns, Some(for_insns));
                options.console_marks = true;
            }
        }
        let again = profiled(&mut options, &position)?.0;
        if again.facts.end == End::Interrupted {
            return Err(Refused("interrupted during the search".to_owned()).into());
        }
        if again.facts.image_sha256 != image_sha256 {
            return Err(InputError::about(&options.firmware, "has changed since the debugger was started").into());
        }
        Ok(again)
    };
    let mut finder = Finder::new(&profile, Box::new(again));
    finder.console = console;
    finder.elf = elf.as_deref();
    finder.kernel = kernel;
    if let Some(place) = &place {
        go_to(place, &mut finder, &mut session)?;
    }
    let mut monitor = Monitor { finder, threads: threads.clone() };
    if place.is_some() {
        say(monitor.monitor(&mut session, "where", &mut say).trim_end());
    }
    let firmware = options.symbol_file();
    if gdb {
        listener.start_gdb(isa, firmware, std::process::Stdio::inherit)?;
    } else {
        say("connect with:");
        println!("{}", listener.line(isa, firmware));
        io::stdout().flush()?;
    }
    let mut processor = Processor;
    let mut tasks = threads;
    let threads: &mut dyn thread::Threads = match &mut tasks {
        Some(threads) => threads,
        None => &mut processor,
    };
    let mut answer =
        |travel: &mut dyn Travel, words: &str, say: &mut dyn FnMut(&str)| monitor.monitor(travel, words, say);
    server::serve(&mut session, isa, threads, &mut answer, &mut listener)?;
    Ok(ExitCode::Good)
}

/// Moves the session to a place of the profile.
fn go_to(place: &Place, finder: &mut Finder<'_>, session: &mut Session) -> Result<()> {
    let found = finder.find(session, place, &mut say)?;
    let stop = session.go(found.insn)?;
    if let Some(note) = found.note {
        say(&note);
    }
    if !matches!(stop.why, Why::Reached) && stop.at.insn != found.insn {
        return Err(InputError::new(format!(
            "{place}: this run ended after {} instructions, and the profile's did not: it is a different run",
            stop.at.insn
        ))
        .into());
    }
    Ok(())
}

/// The firmware or profile to be debugged.
struct Subject {
    options: Options,
    profile: Profile,
    /// Console output of the profiled run.
    console: Option<Vec<u8>>,
}

fn subject(mut args: DebugArgs) -> Result<Subject> {
    let target = args.target.clone();
    if !is_profile(&target) {
        let mut options = Options::resolve_named(args.into_profile_args(target))?;
        say("one run first: the firmware is profiled");
        let (profile, console) = profiled(&mut options, &Arc::default())?;
        return Ok(Subject { options, profile, console });
    }
    let profile = Profile::load(&target)?;
    let directory =
        if target.is_dir() { target.clone() } else { target.parent().unwrap_or(Path::new("")).to_owned() };
    let console = files::console(&directory)?;
    let firmware = match args.elf.take() {
        Some(elf) => elf,
        None => firmware(&directory, &profile)?,
    };
    if let (None, Some(sha256)) = (&args.measure.symbols, &profile.facts.symbols_sha256) {
        args.measure.symbols = search(&directory, WantedFile { name: None, sha256 }).found;
        if args.measure.symbols.is_none() {
            say("note: the profile's file of symbols is not here; name it with --symbols");
        }
    }
    let bytes = bounded_read::read_named(&firmware)?;
    let hash = image::sha256_hex(&bytes);
    if hash != profile.facts.image_sha256 {
        return Err(InputError::new(format!(
            "{}: not the file that was profiled: its SHA-256 is {hash}, the profile's is {}\nprofile it again, or \
             name the file that was profiled with --elf",
            firmware.display(),
            profile.facts.image_sha256
        ))
        .into());
    }
    let mut options = Options::resolve(args.into_profile_args(firmware))?;
    repeat(&mut options, &profile)?;
    Ok(Subject { options, profile, console })
}

/// Looks for a file below the current directory and beside the profile.
fn search(directory: &Path, wanted: WantedFile<'_>) -> Search {
    let parent = directory.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
    let beside: Vec<PathBuf> = parent.into_iter().chain([directory.to_owned()]).collect();
    Search::of(wanted, Path::new("."), &beside)
}

/// Finds the profiled file by its content; or else a file of the same name, so that the caller reports the difference.
fn firmware(directory: &Path, profile: &Profile) -> Result<PathBuf> {
    let (name, sha256) = (&profile.facts.image_name, &profile.facts.image_sha256);
    let Search { found, namesake, files, is_cut, .. } = search(directory, WantedFile { name: Some(name), sha256 });
    found.or(namesake).ok_or_else(|| {
        let limit = if is_cut { "; the search ended at its limit of files" } else { "" };
        InputError::new(format!(
            "{name}, which was profiled, is neither below the working directory nor beside the profile: of {} none \
             has the SHA-256 {sha256}{limit}\nname the file with --elf",
            plural(files, "file")
        ))
        .into()
    })
}

/// Measures a run in a temporary directory, which is removed again.
fn profiled(options: &mut Options, position: &Arc<Position>) -> Result<(Profile, Option<Vec<u8>>)> {
    let stem = image::stem(&options.firmware);
    let bar = Some(Bar::new(&stem, options.window.for_insns.unwrap_or(0)));
    let mut terminal = Terminal { bar, position: Arc::clone(position) };
    let measured = workshop::measured(options, &mut terminal);
    if let Some(bar) = terminal.bar {
        bar.finish();
    }
    measured
}
