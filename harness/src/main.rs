// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `harness` command: a thin shell around the library.
#![warn(clippy::too_many_lines)]

use std::env;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use harness::cli::{Cli, Command, word};
use harness::commands;
use harness::commands::complete;
use harness::error::is_broken_pipe;
use harness::exit_code::{self, runner};
use harness::gate::worker;
use harness::run::contain::host;
use harness::run::contain::launcher;
use harness::text::terminal;

fn main() -> ExitCode {
    if let Some(ended) = launcher::serve() {
        return ended;
    }
    host::survive_large_files();
    if let Some(ended) = worker::serve() {
        return ended;
    }
    if let Some(code) = complete::serve() {
        return ExitCode::from(code.status());
    }
    if let Some(error) = env::args_os().nth(1).and_then(|word| word::unknown_command(&word)) {
        say(&error.into());
        return ExitCode::from(exit_code::ExitCode::Usage.status());
    }
    let cli = Cli::try_parse_from(word::with_top(env::args_os())).unwrap_or_else(|error| {
        // clap prints its own errors, and the help if the user asked for it.
        let status = error.exit_code();
        let _ = error.print();
        let is_run = env::args_os().nth(1).is_some_and(|word| word == "run");
        std::process::exit(if is_run && status != 0 { runner::FAILURE.into() } else { status });
    });
    cli.color.unwrap_or_default().choose();
    let result = match (cli.command, cli.profile) {
        (Some(Command::Run(args)), _) => {
            return ExitCode::from(commands::run::run(args).unwrap_or_else(|error| {
                say(&error);
                runner::of_error(&error)
            }));
        }
        (Some(Command::Doctor(args)), _) => commands::doctor::run(&args),
        (Some(Command::Init(args)), _) => commands::init::run(args),
        (Some(Command::Chip(args)), _) => commands::chip::run(args),
        (Some(Command::List(args)), _) => commands::list::run(&args),
        (Some(Command::Debug(args)), _) => commands::debug::run(args),
        (Some(Command::Completions { shell }), _) => commands::manual::completions(shell),
        (Some(Command::Man { directory }), _) => commands::manual::man(directory.as_deref()),
        (Some(Command::Test(args)), _) => commands::test::run(args),
        (Some(Command::Diff(args)), _) => commands::diff::run(args),
        (Some(Command::Export(args)), _) => commands::export::run(&args),
        (Some(Command::Annotate(args)), _) => commands::annotate::run(&args),
        (Some(Command::Coverage(args)), _) => commands::coverage::run(&args),
        (Some(Command::Top(args)), _) => commands::top::run(&args),
        (Some(Command::Bins(args)), _) => commands::bins::run(&args),
        (Some(Command::Heap(args)), _) => commands::heap::run(&args),
        (Some(Command::History(args)), _) => commands::history::run(&args),
        (Some(Command::Callers(args)), _) => commands::callers::run(&args),
        (Some(Command::Size(args)), _) => commands::size::run(&args),
        (Some(Command::Stack(args)), _) => commands::stack::run(&args),
        (Some(Command::Budget(args)), _) => commands::budget::run(&args),
        (Some(Command::Ui(args)), _) => commands::ui::run(&args),
        (Some(Command::Serve(args)), _) => commands::serve::run(args),
        (Some(Command::Report(args)), _) => commands::report::run(&args),
        (Some(Command::Merge(args)), _) => commands::merge::run(args),
        (Some(Command::Profile(args)), _) | (None, Some(args)) => commands::profile::run(args),
        // clap shows the help if the user typed no word.
        (None, None) => Ok(exit_code::ExitCode::Usage),
    };
    let code = result.unwrap_or_else(|error| {
        if is_broken_pipe(&error) {
            return exit_code::ExitCode::Good;
        }
        say(&error);
        exit_code::ExitCode::of_error(&error)
    });
    ExitCode::from(code.status())
}

/// Writes an error to standard error. A closed standard error does not change the exit code.
fn say(error: &anyhow::Error) {
    let _ = writeln!(terminal::stderr(), "error: {error:#}");
}
