// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness serve`: the report's page on this machine, made again when the profile or the firmware has changed.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;

use crate::analysis::source::{SourceMap, Sources};
use crate::analysis::stacks::View;
use crate::cli::ServeArgs;
use crate::commands::browser;
use crate::commands::workshop::{is_profile, measured};
use crate::exit_code::ExitCode;
use crate::export::report::{self, Extras};
use crate::gate::cache;
use crate::gate::watch::Watch;
use crate::image;
use crate::measure::Listener;
use crate::profile::{FILE_NAME, Profile, files};
use crate::run::records::read::Progress;
use crate::run::request::options::Options;
use crate::run::watch::interrupt::{INTERRUPTED, end_on_interrupt};
use crate::run::watch::progress::Bar;
use crate::serve::http;
use crate::text::printable::printable;
use crate::text::terminal;

/// Prints messages and the progress of runs on standard error.
struct Terminal(Bar);

impl Listener for Terminal {
    fn say(&mut self, line: &str) {
        self.0.above(|| say(line));
    }

    fn progress(&mut self, progress: Progress) {
        self.0.update(progress);
    }
}

fn say(line: &str) {
    // A closed standard error does not end the server.
    let _ = writeln!(terminal::stderr(), "{line}");
}

/// Source of the page.
enum Subject {
    Profile(PathBuf),
    Firmware(Box<Options>),
}

impl Subject {
    /// Files on which the page depends.
    fn files(&self) -> BTreeSet<PathBuf> {
        match self {
            Subject::Profile(path) if path.is_dir() => [FILE_NAME, files::CONSOLE].map(|name| path.join(name)).into(),
            Subject::Profile(path) => [path.clone()].into(),
            Subject::Firmware(options) => cache::files(options).into_iter().collect(),
        }
    }

    fn profile(&self) -> Result<(Profile, Option<Vec<u8>>)> {
        match self {
            Subject::Profile(path) => Ok((Profile::load(path)?, files::console(path)?)),
            Subject::Firmware(options) => {
                let bar = Bar::new(&image::stem(&options.firmware), options.window.for_insns.unwrap_or(0));
                let mut terminal = Terminal(bar);
                let measured = measured(&mut Options::clone(options), &mut terminal);
                terminal.0.finish();
                measured
            }
        }
    }
}

/// Runs the command.
///
/// # Errors
/// When the first page cannot be made, or the port not be served.
pub fn run(args: ServeArgs) -> Result<ExitCode> {
    let map = SourceMap::parse(&args.source_map)?;
    let view = View { fold_irqs: args.measure.fold_irqs };
    let (port, is_opened, target) = (args.port.unwrap_or(0), args.open, args.target.clone());
    let subject = if is_profile(&target) {
        Subject::Profile(target.clone())
    } else {
        Subject::Firmware(Box::new(Options::resolve_named(args.into_profile_args(target.clone()))?))
    };
    end_on_interrupt();
    // Changes during the work on the first page are seen, since the states are recorded before it.
    let mut watch = Watch::new(subject.files());
    let first = page(&subject, view, &map)?;
    if INTERRUPTED.load(std::sync::atomic::Ordering::Relaxed) {
        return Ok(ExitCode::Good);
    }
    let site = http::open(port)?;
    site.show(first);
    let mut out = terminal::stdout();
    writeln!(out, "{}", site.url())?;
    out.flush()?;
    drop(out);
    say(&format!("note: the page follows {}; Ctrl-C ends", target.display()));
    if is_opened && let Err(why) = browser::start(site.url().as_ref()) {
        say(&format!("warning: {why}; open the URL by hand, or set BROWSER"));
    }
    while let Some(changed) = watch.wait(&INTERRUPTED) {
        watch = Watch::new(subject.files());
        let changed: Vec<String> = changed.iter().map(|path| path.display().to_string()).collect();
        match page(&subject, view, &map) {
            Ok(page) => {
                site.show(page);
                say(&format!("note: {} has changed: the page is new", changed.join(", ")));
            }
            Err(error) => {
                let trouble = format!("{error:#}");
                site.say(&printable(&trouble));
                say(&format!("warning: the page stays as it was: {trouble}"));
            }
        }
    }
    Ok(ExitCode::Good)
}

/// Makes the page.
fn page(subject: &Subject, view: View, map: &SourceMap) -> Result<Vec<u8>> {
    let (profile, console) = subject.profile()?;
    let mut sources = Sources::new(map.clone());
    let extras = Extras { console: console.as_deref(), ..Extras::default() };
    let mut page = Vec::new();
    report::write(&profile, view, &extras, &mut sources, &mut page)?;
    Ok(page)
}
