//! The order of the folders, held for harness and plugin: each may import only what stands before it.
//! `docs/architecture.md` says what lives where; this reads every line of the sources, tests included.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// harness's top-level modules from the bottom up.
const HARNESS: &[&str] = &[
    "error",
    "text",
    "profile",
    "image",
    "chip",
    "machine",
    "analysis",
    "exit_code",
    "run",
    "show",
    "export",
    "cli",
    "measure",
    "debug",
    "gate",
    "commands",
];

/// The plugin's, whose own tests cannot be linked: data, then the state that they make, then QEMU's callbacks.
const PLUGIN: &[&str] = &[
    "qemu",
    "records",
    "block",
    "ledger",
    "guest",
    "code",
    "clock",
    "follow",
    "unmodelled",
    "prediction",
    "transfer",
    "recall",
    "stack",
    "heap",
    "marks",
    "timeline",
    "output",
    "errors",
    "handles",
    "snapshot",
    "slice",
    "sleep",
    "wait",
    "input",
    "semihosting",
    "debug",
    "state",
    "hooks",
    "translate",
];

/// Files that are no layer: the list of modules, the program (which uses the library from outside), and this one.
const NO_LAYER: [&str; 3] = ["lib.rs", "main.rs", "layers.rs"];

/// Every file below a directory with its path from there, in order.
fn sources(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

/// What a source file takes from where it must not, one line each: `path:line: …`.
fn upward(layers: &[&str], path: &Path, text: &str) -> Vec<String> {
    let module = path.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    let module = module.trim_end_matches(".rs");
    let depth = path.components().count();
    let level = |module: &str| layers.iter().position(|layer| *layer == module);
    let Some(own) = level(module) else {
        return vec![format!("{}: {module} is no layer: give it a place in harness/src/layers.rs", path.display())];
    };
    let named = Regex::new(r"\bcrate::(\w+|\{)").unwrap();
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let at = format!("{}:{}", path.display(), index + 1);
        for name in named.captures_iter(code) {
            let name = &name[1];
            match level(name) {
                Some(other) if other <= own => {}
                Some(_) => found.push(format!("{at}: {module} stands below {name} and imports it")),
                None => found.push(format!("{at}: crate::{name} is no layer by its name: name one module a line")),
            }
        }
        // What `super` of a folder's own file is, and `super::super` of one inside, is the crate.
        let supers = code.matches("super::").count();
        if supers > 0 && depth == 1 && !code.contains("use super::*") && !line.starts_with("    ") {
            found.push(format!("{at}: super:: leads out of the folders"));
        }
        if depth == 2 && code.contains("super::super::") && !line.starts_with("    ") {
            found.push(format!("{at}: super::super:: leads out of the folders"));
        }
    }
    found
}

fn hold(root: &Path, layers: &[&str]) {
    let files = sources(root);
    let layered = files.iter().filter(|path| !NO_LAYER.contains(&&*path.to_string_lossy()));
    let found: Vec<String> =
        layered.flat_map(|path| upward(layers, path, &fs::read_to_string(root.join(path)).unwrap())).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    for layer in layers {
        let is_there = files.iter().any(|path| path.starts_with(layer) || path == Path::new(&format!("{layer}.rs")));
        assert!(is_there, "{layer} is in the order and not in the sources");
    }
}

#[test]
fn no_folder_imports_one_that_stands_above_it() {
    hold(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), HARNESS);
}

#[test]
fn no_part_of_the_plugin_imports_one_that_stands_above_it() {
    hold(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugin/src"), PLUGIN);
}

#[test]
fn an_import_from_above_is_named_by_file_and_line() {
    let text = "use crate::text::number::group;\n// crate::gate is only spoken of\nuse crate::gate::suite::Suite;\n";
    assert_eq!(
        upward(HARNESS, Path::new("run/plan.rs"), text),
        ["run/plan.rs:3: run stands below gate and imports it"]
    );
    assert_eq!(upward(HARNESS, Path::new("gate/suite.rs"), text), [""; 0]);
    assert_eq!(upward(HARNESS, Path::new("run/plan.rs"), "use crate::{gate, text};").len(), 1);
    assert_eq!(upward(HARNESS, Path::new("newcomer/mod.rs"), "").len(), 1);
}
