// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion in a shell. The shell's script asks harness itself, which knows what a script cannot: the functions,
//! tasks and places of the profile or firmware that is on the command line.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use crate::analysis::stacks::{Exceptions, task_names, words_of};
use crate::cli::Cli;
use crate::commands::list;
use crate::commands::workshop::is_profile;
use crate::debug::place::FORMS;
use crate::exit_code::ExitCode;
use crate::profile::Profile;
use crate::text::printable::is_command;

/// Environment variable by which a shell's script asks for candidates; its value is the shell's name.
const ASKED: &str = "HARNESS_COMPLETE";

/// The program's name as users type it.
const PROGRAM: &str = "harness";

/// bash splits words at `:`, so its script is not clap's.
const BASH: &str = include_str!("harness.bash");

/// Answers a shell's script, if it asks. None: it does not.
pub fn serve() -> Option<ExitCode> {
    let here = env::current_dir().ok();
    match CompleteEnv::with_factory(command).var(ASKED).try_complete(env::args_os(), here.as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::Good),
        Err(error) => {
            let _ = error.print();
            Some(ExitCode::Usage)
        }
    }
}

/// Script that completes harness's command line in a shell.
///
/// # Errors
/// Errors of `out`.
pub(super) fn script(shell: Shell, out: &mut dyn Write) -> std::io::Result<()> {
    let env_shell: &dyn EnvCompleter = match shell {
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::PowerShell => &Powershell,
        Shell::Zsh => &Zsh,
        _ => return out.write_all(BASH.as_bytes()),
    };
    env_shell.write_registration(ASKED, PROGRAM, PROGRAM, PROGRAM, out)
}

/// Arguments that take functions, by command; `--at` takes places.
const FUNCTIONS: [(&str, &[&str]); 6] = [
    ("annotate", &["function"]),
    ("callers", &["function"]),
    ("profile", &["from", "until", "trace"]),
    ("run", &["from", "until", "trace"]),
    ("debug", &["from", "until", "trace"]),
    ("serve", &["from", "until", "trace"]),
];

/// The command line with the completers of its names.
fn command() -> Command {
    let mut command = Cli::command();
    // The commands get their arguments only then.
    command.build();
    for (name, arguments) in FUNCTIONS {
        for argument in arguments {
            command = command.mut_subcommand(name, |command| {
                command.mut_arg(argument, |argument| {
                    argument
                        .add(ArgValueCompleter::new(|begun: &OsStr| offered(begun, |known| known.functions.clone())))
                })
            });
        }
    }
    command.mut_subcommand("debug", |command| {
        command.mut_arg("at", |at| at.add(ArgValueCompleter::new(|begun: &OsStr| offered(begun, places))))
    })
}

/// Names in the profile or firmware of the command line.
#[derive(Debug, Default)]
struct Known {
    functions: BTreeSet<String>,
    tasks: BTreeSet<String>,
    interrupts: BTreeSet<String>,
}

impl Known {
    /// Names of the first file among the words of a command line; without one, none.
    fn of(words: &[OsString]) -> Known {
        let file = words.iter().skip(1).map(Path::new).find(|path| path.exists());
        let Some(file) = file else { return Known::default() };
        if !is_profile(file) {
            let functions = list::functions_of_image(file).map(|(functions, _)| functions).unwrap_or_default();
            let functions = functions.into_iter().map(|function| function.name);
            return Known { functions: functions.collect(), ..Known::default() };
        }
        let Ok(profile) = Profile::load(file) else { return Known::default() };
        let shown = Exceptions::new(&profile).names();
        let bare = |name: &String| words_of(name).first().map_or_else(|| name.clone(), |&word| word.to_owned());
        Known {
            functions: profile.names.functions.iter().map(|function| function.name.clone()).collect(),
            tasks: task_names(&profile).into_iter().collect(),
            interrupts: shown.iter().map(bare).collect(),
        }
    }
}

/// Candidates that continue a word. A name that a shell would not show as it is, is not offered.
fn offered(begun: &OsStr, all: impl Fn(&Known) -> BTreeSet<String>) -> Vec<CompletionCandidate> {
    let Some(begun) = begun.to_str() else { return Vec::new() };
    // The words after `--` are the command line's.
    let words: Vec<OsString> = env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let names = all(&Known::of(&words)).into_iter();
    names.filter(|name| name.starts_with(begun) && !name.contains(is_command)).map(CompletionCandidate::new).collect()
}

/// Places: the forms, and with the names that follow them.
fn places(known: &Known) -> BTreeSet<String> {
    let mut places = BTreeSet::new();
    for (form, takes, _) in FORMS {
        if !takes.starts_with(':') {
            places.insert(form.to_owned());
        }
        let names = match takes.trim_start_matches(['[', ':']) {
            takes if takes.starts_with("FUNC") => &known.functions,
            takes if takes.starts_with("TASK") => &known.tasks,
            takes if takes.starts_with("NAME") => &known.interrupts,
            takes if !takes.is_empty() => &BTreeSet::from([String::new()]),
            _ => &BTreeSet::new(),
        };
        places.extend(names.iter().map(|name| format!("{form}:{name}")));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_offered_with_the_names_that_follow_them() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        let known = Known { functions: set(&["app::main"]), tasks: set(&["blink"]), interrupts: set(&["SysTick"]) };
        let places = places(&known);
        for place in [
            "call:app::main",
            "max:app::main",
            "max-irq:SysTick",
            "peak-stack",
            "peak-stack:blink",
            "switch:blink",
            "end",
            "crash",
            "masked-max",
            "sample:",
            "console:",
            "write:",
        ] {
            assert!(places.contains(place), "{place}: {places:?}");
        }
        assert!(!places.contains("call") && !places.contains("switch:SysTick"), "{places:?}");
    }

    #[test]
    fn every_argument_with_a_completer_is_one_of_its_command() {
        // An argument that is missing would be made anew.
        let (mut plain, with) = (Cli::command(), command());
        plain.build();
        let count = |command: &Command| command.get_arguments().count();
        for plain in plain.get_subcommands() {
            let with = with.find_subcommand(plain.get_name()).unwrap();
            assert_eq!(count(plain), count(with), "{}", plain.get_name());
        }
    }
}
