//! Tests the order of the folders of harness and plugin: each may import only folders that stand before it.
//! `docs/architecture.md` describes the folders. Every line of the sources is read, tests included.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Top-level modules of harness, from the bottom up.
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
    "learn",
    "debug",
    "gate",
    "commands",
];

/// Modules of the plugin, whose own tests cannot be linked: data, then the state made of them, then QEMU's callbacks.
const PLUGIN: &[&str] = &[
    "qemu",
    "records",
    "unmodelled",
    "polled",
    "output",
    "errors",
    "handles",
    "snapshot",
    "sleep",
    "wait",
    "input",
    "semihosting",
    "debug",
    "state",
    "hooks",
    "translate",
];

/// The library's that the plugin is made of, which knows nothing of QEMU.
const ENGINE: &[&str] = &[
    "block",
    "ledger",
    "guest",
    "code",
    "clock",
    "follow",
    "prediction",
    "transfer",
    "recall",
    "stack",
    "heap",
    "marks",
    "timeline",
    "slice",
];

/// Files outside of the layers: the list of modules, the program (which uses the library from outside), and this
/// file.
const NO_LAYER: [&str; 3] = ["lib.rs", "main.rs", "layers.rs"];

/// All files below a directory, sorted, each with its path from there.
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

/// Forbidden imports of a source file, one line each: `path:line: …`.
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
        // In a folder's own file, `super` is the crate; in a file inside, `super::super` is.
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
    hold(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugin/engine/src"), ENGINE);
}

#[test]
fn nothing_of_qemus_is_looked_up_past_the_table_of_tricks() {
    let qemu = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugin/src/qemu");
    let name = Regex::new(r#"c"(\w+)""#).unwrap();
    // A table of functions, each looked up by its own name.
    let declared = Regex::new(r"(?m)^    (\w+): fn\(").unwrap();
    let mut named = BTreeSet::new();
    for path in sources(&qemu) {
        let text = fs::read_to_string(qemu.join(&path)).unwrap();
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        // The API's own are those that later versions have; the others come by their row.
        let (is_door, is_api) = (path == Path::new("symbols.rs"), path == Path::new("api/later.rs"));
        let looks_up = code.contains("symbols::symbol");
        assert!(!code.contains("dlsym") || is_door, "{}: dlsym", path.display());
        assert!(!looks_up || is_api || path == Path::new("beyond/mod.rs"), "{}: past the table", path.display());
        if path.starts_with("beyond") {
            let names = name.captures_iter(&code).chain(declared.captures_iter(&text));
            named.extend(names.map(|name| name[1].to_owned()));
        } else if is_api {
            assert!(name.captures_iter(&code).all(|name| name[1].starts_with("qemu_plugin_")), "{}", path.display());
        }
    }
    for trick in wire::trick::TABLE {
        let missing = trick.symbols.iter().find(|symbol| !named.contains(**symbol));
        assert_eq!(missing, None, "{} is in the table and in no source", trick.name);
    }
}

#[test]
fn the_table_of_tricks_is_the_one_that_is_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/qemu.md");
    let page = fs::read_to_string(page).unwrap();
    for trick in wire::trick::TABLE {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", trick.name)));
        let row = row.unwrap_or_else(|| panic!("docs/qemu.md has no row {}", trick.name));
        let missing = trick.symbols.iter().find(|symbol| !row.contains(**symbol));
        assert_eq!(missing, None, "docs/qemu.md, row {}", trick.name);
    }
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
