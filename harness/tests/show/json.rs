// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: each command that prints a result prints it as JSON, too, by a published schema with a version; each other
//! command is listed here with the reason.

use std::collections::BTreeSet;
use std::process::Command;

use clap::CommandFactory as _;
use harness::cli::Cli;
use serde_json::Value;

/// Commands with `--json`, and the command whose `--schema` describes it.
const JSON: [(&str, &str); 23] = [
    ("annotate", "annotate"),
    ("bins", "bins"),
    ("budget", "budget"),
    ("callers", "callers"),
    ("chip check", "chip check"),
    ("chip learn", "chip learn"),
    ("chip show", "chip show"),
    ("chip suggest", "chip suggest"),
    ("coverage", "coverage"),
    ("diff", "diff"),
    ("doctor", "doctor"),
    ("heap", "heap"),
    ("history", "history"),
    ("init", "init"),
    ("list", "list"),
    ("merge", "merge"),
    // These print a profile, or write it to a file: standard output is the firmware's.
    ("profile", "export"),
    ("run", "export"),
    ("size", "size"),
    ("stack", "stack"),
    ("test", "test"),
    ("top", "top"),
    ("export", "export"),
];

/// Commands that print no result.
const NO_RESULT: [(&str, &str); 6] = [
    ("completions", "a script for a shell"),
    ("debug", "a session with GDB"),
    ("man", "the manual's pages"),
    ("report", "a page for the browser; its data are those of top --json"),
    ("serve", "the same page, while it runs"),
    ("ui", "a session in the terminal"),
];

/// Commands without commands of their own, by the words that call them.
fn leaves(command: &clap::Command, words: &str) -> Vec<(String, clap::Command)> {
    let below: Vec<&clap::Command> =
        command.get_subcommands().filter(|command| command.get_name() != "help").collect();
    if below.is_empty() {
        return vec![(words.trim().to_owned(), command.clone())];
    }
    below.iter().flat_map(|command| leaves(command, &format!("{words} {}", command.get_name()))).collect()
}

fn has(command: &clap::Command, option: &str) -> bool {
    command.get_arguments().any(|argument| argument.get_long() == Some(option))
}

#[test]
fn each_command_prints_json_or_no_result() {
    let mut cli = Cli::command();
    cli.build();
    let commands = leaves(&cli, "");
    let listed: Vec<&str> =
        JSON.iter().map(|(name, _)| *name).chain(NO_RESULT.iter().map(|(name, _)| *name)).collect();
    let names: BTreeSet<&str> = commands.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, listed.iter().copied().collect(), "list each command in JSON or in NO_RESULT");
    assert_eq!(names.len(), listed.len(), "a command is listed twice");
    for (name, command) in &commands {
        let is_json = JSON.iter().any(|(known, _)| known == name);
        // `export` writes JSON as one of its formats.
        assert_eq!(has(command, "json") || name == "export", is_json, "{name} --json");
        assert!(
            has(command, "json") || name == "export" || !has(command, "schema"),
            "{name} --schema without --json"
        );
    }
}

#[test]
fn each_schema_names_its_format_and_has_a_version() {
    let mut ids = BTreeSet::new();
    for (name, of) in JSON {
        let words = of.split(' ').chain(["--schema"]);
        let output = Command::new(env!("CARGO_BIN_EXE_harness")).args(words).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{name}: {}", output.status);
        let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        for field in ["format", "version"] {
            let required = schema["required"].as_array().unwrap();
            assert!(required.contains(&field.into()), "{name}: {field} is not in every document");
        }
        let format = schema["properties"]["format"]["description"].as_str().unwrap();
        assert!(format.starts_with("Always") && format.contains("harness-"), "{name}: {format}");
        ids.insert(format.to_owned());
        // Whoever reads the schema needs no other text.
        let undescribed: Vec<&String> = schema["properties"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, property)| property["description"].as_str().is_none() && property["$ref"].is_null())
            .map(|(name, _)| name)
            .collect();
        assert!(undescribed.is_empty(), "{name}: {undescribed:?} have no description");
    }
    assert_eq!(ids.len(), 19, "two commands' formats have one name: {ids:?}");
}
