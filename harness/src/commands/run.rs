//! `harness run firmware.elf`: the firmware as a program among others, for cargo, scripts and CI. What it prints
//! is stdout, its status is the exit status, and a profile is left besides.

use std::io::{Write, stderr, stdout};
use std::path::Path;

use anyhow::{Context, Result};

use crate::analysis::describe;
use crate::cli::RunArgs;
use crate::exit_code::runner;
use crate::export;
use crate::measure::{Listener, Measured, measure};
use crate::profile::files::CONSOLE;
use crate::run::directory::Output;
use crate::run::options::Options;
use crate::run::plan::{INTERRUPTED, end_on_interrupt};
use crate::run::records::Progress;
use crate::run::tail::Tail;
use crate::text::number::group;

/// Passes on to standard output what the firmware prints. The machine that was chosen is said at the end, and
/// progress is the firmware's to show.
#[derive(Default)]
struct Console(Option<Tail>);

impl Listener for Console {
    fn say(&mut self, line: &str) {
        // A closed standard error is no reason to end the run.
        let _ = writeln!(stderr(), "{line}");
    }

    fn choice(&mut self, _line: &str) {}

    fn starts(&mut self, console: &Path) {
        self.0 = Some(Tail::start(console.to_owned(), stdout()));
    }

    fn progress(&mut self, _progress: Progress) {}
}

/// Runs the command and returns the process's exit status.
///
/// # Errors
/// When there is no profile, or stdout did not take what the firmware printed: [`runner::FAILURE`].
pub fn run(args: RunArgs) -> Result<u8> {
    let options = Options::resolve_run(args)?;
    let output = Output::prepare_for(&options)?;
    end_on_interrupt();
    let mut passed_on = Console::default();
    let measured = measure(&options, &output, &mut passed_on);
    let console_error = passed_on.0.and_then(|tail| tail.finish(&INTERRUPTED).err());
    let Measured { profile, console } = measured?;
    export::write(&profile, &options, &output)?;
    output.take_console(&console)?;
    let directory = output.commit()?;
    let facts = &profile.facts;
    let mut lines = describe::describe_notes(&profile);
    lines.extend(describe::describe_unresolved(facts));
    lines.extend(describe::describe_unopened(&profile));
    lines.extend(describe::describe_stubs(facts));
    lines.push(format!(
        "{} on {}: {}; {} instructions; profile in {}",
        facts.image_name,
        facts.machine,
        describe::describe_end(&profile),
        group(profile.total_insns()),
        directory.display()
    ));
    for line in lines {
        // A closed standard error is no reason to fail: the status says the same.
        let _ = writeln!(stderr(), "harness: {line}");
    }
    if let Some(error) = console_error {
        let file = directory.join(CONSOLE);
        return Err(error).with_context(|| {
            format!(
                "what the firmware printed could not be passed on to standard output; all of it is in {}",
                file.display()
            )
        });
    }
    Ok(runner::status(&profile))
}
