// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise of `harness init --vscode`: the editor's files get entries that harness accepts, and whatever else is in them
//! stays, byte for byte.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{self, image};

/// Project with one firmware file.
fn project(name: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("build")).unwrap();
    fs::copy(image(name), dir.path().join("build/fw.elf")).unwrap();
    dir
}

/// Exit code and output of `harness init --vscode`.
fn init(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = common::harness().current_dir(dir).args(["init", "--vscode"]).args(args).output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), stdout, stderr)
}

fn read(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(".vscode").join(name)).unwrap()
}

#[test]
fn each_task_is_a_command_that_harness_accepts() {
    for (name, settings) in [("cortex-m3-uart", 4), ("riscv64-exit0", 2)] {
        let dir = project(name);
        let (code, stdout, stderr) = init(dir.path(), &[]);
        assert_eq!(code, Some(0), "{stderr}");
        let expected =
            format!(".vscode/tasks.json: 6 entries added\n.vscode/launch.json: {settings} entries added\n");
        assert_eq!(stdout, expected);
        assert!(!dir.path().join("harness.toml").exists(), "no suite was asked for");
        let tasks: Value = serde_json::from_str(&read(dir.path(), "tasks.json")).unwrap();
        for task in tasks["tasks"].as_array().unwrap() {
            let args = task["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
            let args: Vec<String> = args.map(|word| word.replace("${input:harnessFunction}", "main")).collect();
            // `--help` behind a command line that is understood prints the help.
            let output = common::harness().current_dir(dir.path()).args(&args).arg("--help").output().unwrap();
            assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let args = tasks["tasks"][0]["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let run = common::harness().current_dir(dir.path()).args(args).args(["-q", "--for", "20k"]).status().unwrap();
        assert!(run.code().is_some() && dir.path().join("fw.profile").is_dir());
        let launch: Value = serde_json::from_str(&read(dir.path(), "launch.json")).unwrap();
        assert_eq!(launch["configurations"][0]["program"], "${workspaceFolder}/build/fw.elf");
    }
}

#[test]
fn what_is_there_stays_and_what_cannot_be_read_is_not_touched() {
    let dir = project("riscv64-exit0");
    let mine = "{\n    // my build\n    \"version\": \"2.0.0\",\n    \"tasks\": [{ \"label\": \"make\", \"command\": \"make\" },],\n}\n";
    fs::create_dir(dir.path().join(".vscode")).unwrap();
    fs::write(dir.path().join(".vscode/tasks.json"), mine).unwrap();
    // The second file is broken, so the first is not written, either.
    for (broken, what) in [("{ broken", "not JSON with comments"), ("[]", "not an object"), ("\u{0}", "JSON")] {
        fs::write(dir.path().join(".vscode/launch.json"), broken).unwrap();
        let (code, _, stderr) = init(dir.path(), &[]);
        assert!(code == Some(2) && stderr.contains(".vscode/launch.json") && stderr.contains(what), "{stderr}");
        assert_eq!(
            (read(dir.path(), "tasks.json"), read(dir.path(), "launch.json")),
            (mine.to_owned(), broken.to_owned())
        );
    }
    fs::write(dir.path().join(".vscode/launch.json"), b"\xff").unwrap();
    assert!(init(dir.path(), &[]).2.contains("is not text"));
    fs::remove_file(dir.path().join(".vscode/launch.json")).unwrap();
    assert_eq!(init(dir.path(), &[]).0, Some(0));
    let merged = read(dir.path(), "tasks.json");
    assert!(
        merged.contains("// my build") && merged.contains("{ \"label\": \"make\", \"command\": \"make\" }"),
        "{merged}"
    );
    let (_, stdout, _) = init(dir.path(), &["build/fw.elf"]);
    assert!(stdout.contains("tasks.json: 0 entries added; 6 were there and stay"), "{stdout}");
    assert_eq!(read(dir.path(), "tasks.json"), merged);
    // Several files: which one is not guessed.
    fs::copy(image("riscv64-exit3"), dir.path().join("build/other.elf")).unwrap();
    let (code, _, stderr) = init(dir.path(), &[]);
    assert!(code == Some(2) && stderr.contains("name it: harness init --vscode build/fw.elf"), "{stderr}");
}
