// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: every source file states its licence in an SPDX line. It is the first line, after `#!` the second, and in
//! targets/ the last: baselines and expected outputs name lines of firmware, which must not move.

use std::fs;
use std::path::Path;

use super::root;

const OWN: &str = "MIT OR Apache-2.0";
/// Licence of what QEMU loads, as QEMU's own.
const PLUGIN: &str = "GPL-2.0-or-later";
/// Libraries below plugin/ that harness is linked with, too.
const LIBRARIES: [&str; 5] =
    ["plugin/decode/", "plugin/device/", "plugin/engine/", "plugin/pipeline/", "plugin/wire/"];

/// Extensions of source files. Without an extension, a file that begins with `#` is one.
const SOURCES: [&str; 17] =
    ["S", "bash", "c", "cpp", "css", "h", "js", "ld", "mjs", "mk", "py", "rs", "s", "sh", "ts", "wat", "x"];

/// Folders that hold what was made or installed.
const MADE: [&str; 4] = ["build", "node_modules", "out", "target"];

/// Licence of the files in a folder, from the repository's root.
fn licence(file: &str) -> &'static str {
    let is_plugin = file.starts_with("plugin/") && !LIBRARIES.iter().any(|folder| file.starts_with(folder));
    if is_plugin { PLUGIN } else { OWN }
}

/// Whether a file has to state its licence. A script that firmware interprets is its input: each byte would count.
fn is_source(file: &str, text: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or_default();
    match name.rsplit_once('.') {
        None => text.starts_with("#!") || text.starts_with("# "),
        Some((_, "js")) => !file.starts_with("targets/"),
        Some((_, extension)) => SOURCES.contains(&extension),
    }
}

/// Complaint about a source file that does not state its licence.
fn complaint(file: &str, text: &str) -> Option<String> {
    let mut lines = text.lines();
    let (place, line) = if file.starts_with("targets/") {
        ("last", lines.next_back())
    } else if text.starts_with("#!") {
        ("second", lines.nth(1))
    } else {
        ("first", lines.next())
    };
    let wanted = format!("SPDX-License-Identifier: {}", licence(file));
    let stated = line.unwrap_or_default().trim_matches(|letter| "#/*; ".contains(letter));
    (stated != wanted).then(|| format!("{file}: the {place} line must be a comment: {wanted}"))
}

/// Files below a folder, each with its path from the root and its text. Hidden folders are left out, but for .ci.
fn files(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = Path::new(folder).join(&name).display().to_string();
        let is_hidden = name.starts_with('.') && name != ".ci";
        let kind = entry.file_type().unwrap();
        // cargo marks its folders, whatever their name, by a file.
        if kind.is_dir() && !is_hidden && !MADE.contains(&&*name) && !entry.path().join("CACHEDIR.TAG").exists() {
            found.extend(files(&path));
        } else if kind.is_file() && !is_hidden {
            found.push((path, String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned()));
        }
    }
    found
}

#[test]
fn every_source_file_states_its_licence() {
    let files = files("");
    let sources: Vec<_> = files.iter().filter(|(file, text)| is_source(file, text)).collect();
    assert!(sources.len() > 1000, "only {} source files are seen", sources.len());
    let found: Vec<String> = sources.iter().filter_map(|(file, text)| complaint(file, text)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));

    let mut stated = 0;
    for (file, text) in files.iter().filter(|(file, _)| file.ends_with("Cargo.toml")) {
        if let Some(of_crate) = text.lines().find_map(|line| line.strip_prefix("license = ")) {
            assert_eq!(of_crate, format!("{:?}", licence(file)), "{file}");
            stated += 1;
        }
    }
    assert!(stated >= 7, "{stated} crates with a licence");
}

#[test]
fn a_licence_that_is_missing_misplaced_or_wrong_is_seen() {
    let [own, plugin] = [OWN, PLUGIN].map(|licence| format!("SPDX-License-Identifier: {licence}"));
    for (file, text, is_stated) in [
        ("harness/src/a.rs", format!("// {own}\n//! A.\n"), true),
        ("harness/src/a.rs", format!("//! A.\n// {own}\n"), false),
        ("harness/src/a.rs", format!("// {own} OR 0BSD\n"), false),
        ("harness/src/a.rs", String::new(), false),
        ("ci/a", format!("#!/bin/bash\n# {own}\n"), true),
        ("ci/a", format!("#!/bin/bash\n# A.\n# {own}\n"), false),
        ("targets/a.S", format!("/* A. */\n/* {own} */\n"), true),
        ("targets/a.S", format!("/* {own} */\n/* A. */\n"), false),
        ("plugin/src/a.rs", format!("// {plugin}\n"), true),
        ("plugin/src/a.rs", format!("// {own}\n"), false),
        ("plugin/wire/src/a.rs", format!("// {own}\n"), true),
        ("plugin/wire/src/a.rs", format!("// {plugin}\n"), false),
    ] {
        assert_eq!(complaint(file, &text).is_none(), is_stated, "{file}: {text}");
    }
    for (file, text, is_one) in [
        ("ci/debian/copyright", "Format: a", false),
        ("ci/usage", "# A.", true),
        ("Makefile", "#!/usr/bin/make -f", true),
        ("targets/work.js", "", false),
        ("harness/src/page.js", "", true),
        ("harness.toml", "# A.", false),
    ] {
        assert_eq!(is_source(file, text), is_one, "{file}");
    }
}
