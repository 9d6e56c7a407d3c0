// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks and debugger settings for VS Code: entries that are merged into the user's files, which are JSON with comments.
//! Comments, order and all other entries stay. An entry of the same name stays, too: the user may have edited it.

use jsonc_parser::cst::{CstArray, CstInputValue, CstRootNode};
use jsonc_parser::{ParseOptions, json};

/// Port of the debug server, which tasks and debugger settings share.
const PORT: &str = "2331";

/// Files to write, relative to the project.
pub const FILES: [&str; 2] = [".vscode/tasks.json", ".vscode/launch.json"];

/// Firmware that the entries are for.
#[derive(Clone, Copy, Debug)]
pub struct Firmware<'a> {
    /// Path of the ELF file, as the tasks name it.
    pub elf: &'a str,
    /// Path of the directory with its profile.
    pub profile: &'a str,
    /// Whether it is for a Cortex-M, which cortex-debug knows.
    pub is_arm: bool,
}

/// Named entries of one list in a file.
struct List {
    /// Key of the list.
    key: &'static str,
    /// Key of an entry's name.
    name: &'static str,
    entries: Vec<(String, CstInputValue)>,
}

/// Outcome of a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Text of the file.
    pub text: String,
    /// Names of the entries that were added.
    pub added: Vec<String>,
    /// Names of the entries that were there.
    pub kept: Vec<String>,
}

/// Merges the tasks into the text of tasks.json; None: there is no file.
///
/// # Errors
/// A sentence, if the text is not JSON with comments, or not of a file of tasks.
pub fn tasks(text: Option<&str>, firmware: Firmware<'_>) -> Result<Merged, String> {
    let Firmware { elf, profile, .. } = firmware;
    // What harness prints about failures of a suite: ci/problem-matcher.json has the same expression.
    let matcher = || {
        json!({
            owner: "harness",
            fileLocation: ["autoDetect", "${workspaceFolder}"],
            pattern: {
                regexp: "^([^\\s:][^:]*):(\\d+): (error|warning): (.*)$",
                file: 1, line: 2, severity: 3, message: 4,
            },
        })
    };
    let task = |label: &str, args: Vec<&str>| {
        let args: Vec<CstInputValue> = args.into_iter().map(CstInputValue::from).collect();
        let value = json!({
            label: label, "type": "process", command: "harness", args: args, problemMatcher: [(matcher())],
        });
        (label.to_owned(), value)
    };
    // The server is ready as soon as it has printed how to connect.
    let server = |label: &str, place: &str| {
        let value = json!({
            label: label, "type": "process", command: "harness",
            args: ["debug", profile, "--at", place, "--port", PORT],
            isBackground: true,
            problemMatcher: {
                owner: "harness-debug",
                pattern: { regexp: "^error: (.*)$", file: 1, message: 1 },
                background: { activeOnStart: true, beginsPattern: "^instruction ", endsPattern: "^connect with:" },
            },
        });
        (label.to_owned(), value)
    };
    let function = json!({
        id: "harnessFunction", "type": "promptString", description: "Function whose longest call to debug",
        "default": "main",
    });
    let lists = [
        List {
            key: "tasks",
            name: "label",
            entries: vec![
                task("harness: profile", vec![elf, "-o", profile]),
                task("harness: test", vec!["test"]),
                task("harness: report", vec!["report", profile, "--open"]),
                server("harness: debug server, longest call", "max:${input:harnessFunction}"),
                server("harness: debug server, crash", "crash"),
            ],
        },
        List { key: "inputs", name: "id", entries: vec![("harnessFunction".to_owned(), function)] },
    ];
    merge(text, "2.0.0", &lists)
}

/// Merges the debugger settings into the text of launch.json; None: there is no file.
///
/// # Errors
/// Same as [`tasks`].
pub fn launch(text: Option<&str>, firmware: Firmware<'_>) -> Result<Merged, String> {
    let Firmware { elf, is_arm, .. } = firmware;
    let target = format!("localhost:{PORT}");
    let program = format!("${{workspaceFolder}}/{elf}");
    let mut entries = Vec::new();
    for (what, server) in
        [("longest call", "harness: debug server, longest call"), ("crash", "harness: debug server, crash")]
    {
        let name = format!("harness: {what}");
        let value = json!({
            name: (name.as_str()), "type": "cppdbg", request: "launch", program: (program.as_str()),
            cwd: "${workspaceFolder}", MIMode: "gdb", miDebuggerPath: "gdb-multiarch",
            miDebuggerServerAddress: (target.as_str()), stopAtConnect: true, preLaunchTask: server,
        });
        entries.push((name, value));
        if is_arm {
            let name = format!("harness: {what} (cortex-debug)");
            let value = json!({
                name: (name.as_str()), "type": "cortex-debug", request: "attach", executable: (program.as_str()),
                cwd: "${workspaceFolder}", servertype: "external", gdbTarget: (target.as_str()),
                gdbPath: "gdb-multiarch", preLaunchTask: server,
            });
            entries.push((name, value));
        }
    }
    merge(text, "0.2.0", &[List { key: "configurations", name: "name", entries }])
}

/// Syntax that VS Code reads: JSON with comments and trailing commas.
fn syntax() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn merge(text: Option<&str>, version: &str, lists: &[List]) -> Result<Merged, String> {
    let root = CstRootNode::parse(text.unwrap_or_default(), &syntax()).map_err(|error| error.to_string())?;
    let object = root.object_value_or_create().ok_or("it is not an object { … }")?;
    if object.get("version").is_none() {
        object.append("version", version.into());
    }
    let mut merged = Merged::default();
    for List { key, name, entries } in lists {
        let array = object.array_value_or_create(key).ok_or_else(|| format!("its {key:?} is not a list [ … ]"))?;
        let known = names(&array, name);
        for (own, value) in entries {
            if known.contains(own) {
                merged.kept.push(own.clone());
            } else {
                array.ensure_multiline();
                array.append(value.clone());
                merged.added.push(own.clone());
            }
        }
    }
    merged.text = root.to_string();
    if !merged.text.ends_with('\n') {
        merged.text.push('\n');
    }
    Ok(merged)
}

/// Names of a list's entries.
fn names(array: &CstArray, key: &str) -> Vec<String> {
    let name = |entry: jsonc_parser::cst::CstNode| {
        entry.as_object()?.get(key)?.value()?.as_string_lit()?.decoded_value().ok()
    };
    array.elements().into_iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRMWARE: Firmware<'_> = Firmware { elf: "build/fw \"x\".elf", profile: "fw.profile", is_arm: true };

    /// Value of a file, by a reader of plain JSON.
    fn value(text: &str) -> serde_json::Value {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn new_files_have_all_entries_and_a_second_merge_changes_nothing() {
        let made = tasks(None, FIRMWARE).unwrap();
        let file = value(&made.text);
        assert_eq!((&file["version"], made.kept.len()), (&"2.0.0".into(), 0));
        assert_eq!(file["tasks"][0]["args"], serde_json::json!(["build/fw \"x\".elf", "-o", "fw.profile"]));
        assert_eq!(file["tasks"].as_array().unwrap().len() + 1, made.added.len());
        let again = tasks(Some(&made.text), FIRMWARE).unwrap();
        assert_eq!((&again.text, &again.added, &again.kept), (&made.text, &Vec::new(), &made.added));
        let started = launch(None, FIRMWARE).unwrap();
        let file = value(&started.text);
        let settings = file["configurations"].as_array().unwrap();
        assert_eq!((settings.len(), &settings[1]["type"]), (4, &"cortex-debug".into()));
        // Each is started after a task that exists.
        for setting in settings {
            assert!(again.kept.contains(&setting["preLaunchTask"].as_str().unwrap().to_owned()), "{setting}");
        }
        let riscv = launch(None, Firmware { is_arm: false, ..FIRMWARE }).unwrap();
        assert_eq!(riscv.added, ["harness: longest call", "harness: crash"]);
    }

    #[test]
    fn the_problem_matcher_is_that_of_pipelines() {
        let file = value(&tasks(None, FIRMWARE).unwrap().text);
        let pipeline = value(include_str!("../../../ci/problem-matcher.json"));
        let (own, other) =
            (&file["tasks"][1]["problemMatcher"][0]["pattern"], &pipeline["problemMatcher"][0]["pattern"][0]);
        assert_eq!(own, other);
    }

    #[test]
    fn comments_and_the_users_entries_stay() {
        let text = "// mine\n{\n  \"version\": \"2.0.0\", /* keep */\n  \"tasks\": [\n    // build\n    { \"label\": \"make\" },\n    \
                    { \"label\": \"harness: test\", \"command\": \"mine\" },\n  ],\n}\n";
        let merged = tasks(Some(text), FIRMWARE).unwrap();
        for part in ["// mine\n", "/* keep */", "// build\n    { \"label\": \"make\" }", "\"command\": \"mine\""] {
            assert!(merged.text.contains(part), "{part}: {}", merged.text);
        }
        assert_eq!((merged.kept, merged.added.len()), (vec!["harness: test".to_owned()], 5));
        assert_eq!(tasks(Some(&merged.text), FIRMWARE).unwrap().text, merged.text);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let deep = "[".repeat(100_000);
        for (text, what) in [
            ("{", ""),
            ("[1]", "not an object"),
            ("{\"tasks\": {}}", "\"tasks\" is not a list"),
            ("{\"tasks\": [], 'a': 1}", ""),
            ("{\"tasks\": [}", ""),
            (&deep, ""),
            ("\u{0}", ""),
        ] {
            let error = tasks(Some(text), FIRMWARE).unwrap_err();
            assert!(error.contains(what) && !error.is_empty(), "{}: {error}", &text[..text.len().min(40)]);
        }
        assert_eq!(tasks(Some(""), FIRMWARE), tasks(None, FIRMWARE));
    }
}
