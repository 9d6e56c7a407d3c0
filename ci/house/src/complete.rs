// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the gate runs every test that is written. None is empty, or in a file that no program includes, and the only
//! tests that `cargo test` leaves out are those of other people's programs, which say how they are run.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use regex::Regex;

use super::root;

/// Reason of the tests that `cargo test` leaves out.
const LEFT_OUT: &str = r#"#[ignore = "needs ci/setup --viewers"]"#;

/// Command that runs those, too.
const WITH_THEM: &str = "cargo test -- --include-ignored";

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
pub(super) fn all_sources() -> Vec<(String, String)> {
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
    let ignored = ignored.find_iter(text).filter(|found| !text[found.start()..].trim_start().starts_with(LEFT_OUT));
    complaints.extend(ignored.map(|found| format!("{file}:{}: a test is ignored", line(found.end()))));
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
fn no_test_is_empty_or_left_out_for_another_reason() {
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
        (format!("{test}{LEFT_OUT}\nfn shown() {{ a(); }}\n"), vec![]),
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

/// Whether a manifest says that the library's own tests are not built.
fn leaves_tests_out(manifest: &str) -> bool {
    let library = manifest.split("\n[").find(|section| section.starts_with("lib]"));
    library.is_some_and(|section| section.lines().any(|line| line.trim() == "test = false"))
}

#[test]
fn no_test_is_in_a_library_whose_tests_are_left_out() {
    let root = root();
    let mut left_out = 0;
    for folder in
        ["plugin", "plugin/decode", "plugin/device", "plugin/engine", "plugin/pipeline", "plugin/wire", "harness"]
    {
        let manifest = fs::read_to_string(root.join(folder).join("Cargo.toml")).unwrap();
        if !leaves_tests_out(&manifest) {
            continue;
        }
        left_out += 1;
        for path in sources(&root.join(folder).join("src")) {
            let text = fs::read_to_string(&path).unwrap();
            assert!(!text.contains("#[test]\n"), "{}: nothing runs its tests: {folder}/tests", path.display());
        }
    }
    assert!(left_out >= 3, "{left_out}");
    assert!(
        leaves_tests_out("[package]\n[lib]\ntest = false\n")
            && !leaves_tests_out("[package]\n[lib]\n[[test]]\ntest = false\n")
    );
}

#[test]
fn every_file_of_the_test_program_is_part_of_it() {
    let tests = root().join("harness/tests");
    let mut folders = 0;
    let mut undeclared = Vec::new();
    let mut check = |head: PathBuf, names: Vec<String>| {
        let text = fs::read_to_string(&head).unwrap();
        let is_declared = |name: &str| {
            text.lines().any(|line| {
                line.trim_start_matches("pub ").trim_start_matches("pub(crate) ") == format!("mod {name};")
            })
        };
        undeclared.extend(names.into_iter().filter(|name| !is_declared(name)).map(|name| (head.clone(), name)));
    };
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let entries: Vec<PathBuf> = fs::read_dir(&tests).unwrap().map(|entry| entry.unwrap().path()).collect();
    for dir in entries.iter().filter(|path| path.is_dir()) {
        let head = dir.join("mod.rs");
        let files = sources(dir).into_iter().filter(|file| *file != head).map(|file| name(&file)).collect();
        check(head, files);
        folders += 1;
    }
    let modules = entries.iter().filter(|path| path.is_dir() || path.extension().is_some_and(|end| end == "rs"));
    let others = modules.map(|path| name(path)).filter(|name| name != "promises").collect();
    check(tests.join("promises.rs"), others);
    assert!(undeclared.is_empty(), "in no program, for lack of a `mod`: {undeclared:?}");
    assert!(folders >= 10, "{folders} folders");
}

#[test]
fn the_tests_that_are_left_out_are_counted_and_their_command_is_named() {
    let count: usize = all_sources().iter().map(|(_, text)| text.matches(&format!("\n{LEFT_OUT}\n")).count()).sum();
    assert!(count > 0, "none is left out: remove this line and the option of ci/setup");
    let line = format!(
        "left out: {count} tests of other people's programs and Rust firmware; all: ci/setup --viewers && {WITH_THEM}\n"
    );
    // Past the capture of a passing test's output.
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains(&format!("ci/setup --viewers && {WITH_THEM}")), "README.md has another command");
}
