// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: every script in ci/ prints its purpose and usage with --help and -h, and does nothing else then.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use super::root;

/// Programs below a folder of the repository, each with its path from the root. Packages installed by npm are left
/// out.
fn scripts(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{folder}/{}", entry.file_name().into_string().unwrap());
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            if entry.file_name() != "node_modules" {
                found.extend(scripts(&name));
            }
        } else if metadata.permissions().mode() & 0o111 != 0 {
            found.push(name);
        }
    }
    found.sort();
    found
}

#[test]
fn every_script_prints_its_usage_and_does_nothing() {
    let scripts = [scripts("ci"), scripts(".ci")].concat();
    assert!(scripts.len() > 15 && scripts.contains(&"ci/pipeline/bundle".to_owned()), "{scripts:?}");
    // Nothing else can be run: no script gets further than to its usage.
    let tools = tempfile::tempdir().unwrap();
    for tool in ["bash", "dirname", "sed"] {
        let path = std::env::var_os("PATH").unwrap();
        let found = std::env::split_paths(&path).map(|dir| dir.join(tool)).find(|path| path.is_file());
        symlink(found.unwrap(), tools.path().join(tool)).unwrap();
    }
    let elsewhere = tempfile::tempdir().unwrap();
    for script in &scripts {
        for word in ["--help", "-h"] {
            let mut command = Command::new(root().join(script));
            let output = command.arg(word).env("PATH", tools.path()).current_dir(elsewhere.path()).output().unwrap();
            let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
            assert!(output.status.success() && stderr.is_empty(), "{script} {word}: {}: {stderr}", output.status);
            let usage = stdout.lines().find(|line| line.starts_with("Usage: ")).unwrap_or_default();
            assert!(usage.contains(script), "{script} {word}: {stdout}");
            assert!(!stdout.contains("set -e") && !stdout.contains("SPDX"), "{script} {word}: {stdout}");
        }
    }
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}
