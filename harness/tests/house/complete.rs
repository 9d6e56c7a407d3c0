// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: `cargo test` runs every test that is written. None is ignored, empty, or in a file that no program
//! includes.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Rust sources below a folder.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Sources of harness and plugin, each with its path from the repository's root.
pub(crate) fn all_sources() -> Vec<(String, String)> {
    let root = root();
    let files = ["harness", "plugin"].iter().flat_map(|folder| sources(&root.join(folder)));
    let read = |path: PathBuf| {
        let shown = path.strip_prefix(&root).unwrap().display().to_string();
        (shown, fs::read_to_string(&path).unwrap())
    };
    files.map(read).collect()
}

/// Complaints about the tests of a source file, with their lines.
fn complaints(file: &str, text: &str) -> Vec<String> {
    let attributes =
        r"(?m)^\s*#\[test\]\s*(?:(?:#\[[^\]]*\]|//[^\n]*)\s*)*(?:fn\s+(\w+)[^{]*\{(?:\s|//[^\n]*\n)*\})?";
    let ignored = Regex::new(r"(?m)^[ \t]*#\[(?:cfg_attr\(.*)?ignore\b").unwrap();
    // A doctest: rustdoc is not asked to run any (`doctest = false` in Cargo.toml).
    let example = Regex::new(r"(?m)^\s*//[/!] *```(?:$|rust|no_run|should_panic|ignore|compile_fail)").unwrap();
    let line = |at: usize| 1 + text[..at].matches('\n').count();
    let empty = Regex::new(attributes).unwrap();
    let mut complaints = Vec::new();
    for found in empty.captures_iter(text) {
        if let Some(name) = found.get(1) {
            complaints.push(format!("{file}:{}: {} is empty", line(name.start()), name.as_str()));
        }
    }
    complaints
        .extend(ignored.find_iter(text).map(|found| format!("{file}:{}: a test is ignored", line(found.end()))));
    // Every second fence opens.
    let fences = text.match_indices("```").step_by(2).map(|(at, _)| at);
    let opens: Vec<usize> = fences.collect();
    complaints.extend(
        example
            .find_iter(text)
            .filter(|found| opens.contains(&(found.as_str().find('`').unwrap() + found.start())))
            .map(|found| format!("{file}:{}: an example that nothing runs; ```text is none", line(found.end()))),
    );
    complaints
}

#[test]
fn no_test_is_ignored_or_empty() {
    let sources = all_sources();
    let tests: usize = sources.iter().map(|(_, text)| text.matches("#[test]\n").count()).sum();
    assert!(tests > 400, "only {tests} tests are seen");
    let found: Vec<String> = sources.iter().flat_map(|(file, text)| complaints(file, text)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_is_no_test_is_seen() {
    let test = "#[test]\n";
    for (text, expected) in [
        (format!("{test}fn full() {{\n    a();\n}}\n{test}fn empty() {{}}\n"), vec!["f:6: empty is empty"]),
        (format!("{test}#[cfg(x)]\nfn later() {{\n    // To be done.\n}}\n"), vec!["f:3: later is empty"]),
        (format!("{test}#[{}]\nfn slow() {{ a(); }}\n", "ignore = \"slow\""), vec!["f:2: a test is ignored"]),
        (format!("{test}#[{}]\nfn slow() {{ a(); }}\n", "cfg_attr(unix, ignore)"), vec!["f:2: a test is ignored"]),
        ("//! ```text\n//! a\n//! ```\n".to_owned(), vec![]),
        (
            "/// ```\n/// a();\n/// ```\nfn a() {}\n".to_owned(),
            vec!["f:1: an example that nothing runs; ```text is none"],
        ),
    ] {
        assert_eq!(complaints("f", &text), expected, "{text}");
    }
}

#[test]
fn every_file_of_a_test_program_is_part_of_it() {
    let mut programs = 0;
    for entry in fs::read_dir(root().join("harness/tests")).unwrap() {
        let dir = entry.unwrap().path();
        let heads = ["main.rs", "mod.rs"].map(|name| dir.join(name));
        let Some(head) = heads.iter().find(|path| path.is_file()) else { continue };
        let text = fs::read_to_string(head).unwrap();
        for file in sources(&dir).iter().filter(|file| *file != head) {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let declared = text.lines().any(|line| line.trim_start_matches("pub ") == format!("mod {name};"));
            assert!(declared, "{} is in no program: {} lacks `mod {name};`", file.display(), head.display());
        }
        programs += usize::from(head.ends_with("main.rs"));
    }
    assert!(programs >= 6, "{programs} test programs");
}
