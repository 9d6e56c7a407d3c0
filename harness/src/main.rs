//! The `harness` command: a thin shell around the library.

use std::io;
use std::process::ExitCode;

use clap::Parser;
use harness::cli::{Cli, Command};
use harness::{commands, verdict};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match (cli.command, cli.profile) {
        (Some(Command::Doctor), _) => commands::doctor::run(),
        (Some(Command::Test(args)), _) => commands::test::run(args),
        (Some(Command::Merge(args)), _) => commands::merge::run(args),
        (Some(Command::Profile(args)), _) | (None, Some(args)) => commands::profile::run(args),
        // clap shows the help when nothing was typed.
        (None, None) => Ok(verdict::ExitCode::Usage),
    };
    let code = result.unwrap_or_else(|error| {
        if is_broken_pipe(&error) {
            return verdict::ExitCode::Good;
        }
        eprintln!("error: {error:#}");
        verdict::ExitCode::of_error(&error)
    });
    ExitCode::from(code.status())
}

/// A reader that has seen enough (`| head`) is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe))
}
