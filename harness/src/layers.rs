// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the order of the folders of harness and plugin: each folder may import only folders before it in that order,
//! and the files of a folder do not import each other in a circle. `docs/architecture.md` describes the folders. Every
//! line of the sources is read; only circles through unit tests are allowed.

use std::collections::{BTreeMap, BTreeSet};
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
    "export",
    "show",
    "ui",
    "cli",
    "measure",
    "learn",
    "taken",
    "debug",
    "gate",
    "serve",
    "commands",
];

/// Modules of the plugin: first the data, then the state made of them, then QEMU's callbacks. They have no unit tests,
/// because the plugin cannot be linked by itself.
const PLUGIN: &[&str] = &[
    "qemu",
    "records",
    "unmodelled",
    "accesses",
    "pins",
    "polled",
    "output",
    "errors",
    "snapshot",
    "sleep",
    "pace",
    "depth",
    "wait",
    "avr",
    "input",
    "semihosting",
    "debug",
    "state",
    "hooks",
    "translate",
];

/// Modules of the engine, the plugin's library, which is independent of QEMU.
const ENGINE: &[&str] = &[
    "recent",
    "block",
    "time",
    "ledger",
    "pace",
    "guest",
    "code",
    "skip",
    "room",
    "clock",
    "follow",
    "branches",
    "prediction",
    "transfer",
    "stack_cache",
    "stack",
    "heap",
    "marks",
    "access",
    "calls",
    "console",
    "cycles",
    "passage",
    "slice",
];

/// Files outside of the layers: the list of modules, the program (which uses the library from outside), and this file.
const NO_LAYER: [&str; 3] = ["lib.rs", "main.rs", "layers.rs"];

/// All files below a directory, sorted, with their paths relative to it.
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

/// Module of a source file: `run/qemu/mod.rs` and `run/qemu.rs` are both `run::qemu`.
fn module_path(path: &Path) -> String {
    let path = path.with_extension("").to_string_lossy().replace('/', "::");
    path.strip_suffix("::mod").map_or(path.clone(), str::to_owned)
}

/// Full paths of a use tree, without their last `self`: `a::{b, c::{self, d}}` is `a::b`, `a::c` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let Some((head, rest)) = tree.split_once('{') else { return vec![tree.trim().replace("::self", "")] };
    let (mut depth, mut from, mut paths) = (0, 0, Vec::new());
    let inside = rest.strip_suffix('}').unwrap_or(rest);
    for (at, letter) in inside.char_indices().chain([(inside.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let member = inside[from..at].trim();
                paths.extend(
                    expand(member).iter().filter(|path| !path.is_empty()).map(|path| format!("{head}{path}")),
                );
                from = at + 1;
            }
            _ => {}
        }
    }
    paths.iter().map(|path| path.replace("::self", "")).collect()
}

/// Modules of the same sources that a file names. A folder's `mod.rs` is exempt: the folder's files may use its
/// declarations, and it may use the files.
fn named_modules<'a>(path: &Path, text: &str, modules: &BTreeMap<String, &'a Path>) -> BTreeMap<String, &'a Path> {
    let own = module_path(path);
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code: Vec<&str> = code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let tree = Regex::new(r"\b(crate|(?:super::)*super)::((?:\w+::)*(?:\w+|\{[^;]*\}))").unwrap();
    let mut named = BTreeMap::new();
    for found in tree.captures_iter(&code) {
        let above = found[1].matches("super").count();
        let mut base: Vec<&str> = own.split("::").collect();
        base.truncate(if above == 0 { 0 } else { base.len().saturating_sub(above) });
        for member in expand(&found[2]) {
            let full: Vec<&str> = base.iter().copied().chain(member.split("::")).collect();
            let module =
                (1..=full.len()).rev().map(|length| full[..length].join("::")).find(|m| modules.contains_key(m));
            if let Some(module) = module.filter(|module| *module != own && !own.starts_with(&format!("{module}::"))) {
                named.insert(module.clone(), modules[&module]);
            }
        }
    }
    named
}

/// Names, in order, of files that import each other in a circle; None: there is no circle.
fn circle(files: &[(PathBuf, String)]) -> Option<String> {
    let modules: BTreeMap<String, &Path> = files.iter().map(|(path, _)| (module_path(path), &**path)).collect();
    let mut edges: BTreeMap<String, BTreeSet<String>> = files
        .iter()
        .map(|(path, text)| (module_path(path), named_modules(path, text, &modules).into_keys().collect()))
        .collect();
    // A file that imports none of the remaining files is not part of a circle.
    loop {
        let done: Vec<String> =
            edges.iter().filter(|(_, named)| named.is_empty()).map(|(module, _)| module.clone()).collect();
        if done.is_empty() {
            break;
        }
        done.iter().for_each(|module| drop(edges.remove(module)));
        edges.values_mut().for_each(|named| named.retain(|module| !done.contains(module)));
    }
    let mut way = vec![edges.keys().next()?.clone()];
    loop {
        let next = edges[way.last()?].first()?.clone();
        if let Some(start) = way.iter().position(|module| *module == next) {
            way.push(next);
            return Some(way[start..].join(" → "));
        }
        way.push(next);
    }
}

/// Forbidden imports of a source file, one line each: `path:line: …`.
fn upward(layers: &[&str], path: &Path, text: &str) -> Vec<String> {
    let module = path.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    let module = module.trim_end_matches(".rs");
    let depth = module_path(path).split("::").count();
    let level = |module: &str| layers.iter().position(|layer| *layer == module);
    let Some(own) = level(module) else {
        return vec![format!(
            "{}: {module} is not a layer: give it a place in harness/src/layers.rs",
            path.display()
        )];
    };
    let named = Regex::new(r"\bcrate::(\w+|\{)").unwrap();
    let leading = Regex::new(r"(super::)+").unwrap();
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let at = format!("{}:{}", path.display(), index + 1);
        for name in named.captures_iter(code) {
            let name = &name[1];
            match level(name) {
                Some(other) if other <= own => {}
                Some(_) => found.push(format!("{at}: {module} stands below {name} and imports it")),
                None => found.push(format!("{at}: crate::{name} is not a layer by its name: name one module a line")),
            }
        }
        let nested = usize::from(line.starts_with("    "));
        let supers = leading.find(code).map_or(0, |found| found.as_str().matches("super::").count());
        if supers >= depth + nested {
            found.push(format!("{at}: super:: leads out of the folders"));
        }
    }
    found
}

fn hold(root: &Path, layers: &[&str]) {
    let files = sources(root);
    let texts: Vec<(PathBuf, String)> =
        files.iter().map(|path| (path.clone(), fs::read_to_string(root.join(path)).unwrap())).collect();
    assert_eq!(circle(&texts), None, "files import each other: move what they share into a file of its own");
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
    // The names of the functions in a table: each function is looked up by its field's name.
    let declared = Regex::new(r"(?m)^    (\w+): fn\(").unwrap();
    let mut named = BTreeSet::new();
    for path in sources(&qemu) {
        let text = fs::read_to_string(qemu.join(&path)).unwrap();
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        // Functions of later API versions are looked up in `later.rs`; all others by their row of the table.
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

#[test]
fn a_circle_of_files_is_named_by_its_files() {
    let files = |texts: &[(&str, &str)]| -> Vec<(PathBuf, String)> {
        texts.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect()
    };
    let circled = files(&[
        ("a/mod.rs", "use crate::a::b::B;"),
        ("a/b.rs", "use crate::a::{\n    A,\n    c::{self, C},\n};"),
        ("a/c.rs", "fn f() { super::d::e() }"),
        ("a/d.rs", "use crate::{a::b, z};"),
    ]);
    assert_eq!(circle(&circled).as_deref(), Some("a::b → a::c → a::d → a::b"));
    let open = files(&[
        ("a/mod.rs", "use crate::a::b::B;"),
        ("a/b.rs", "use crate::a::A;\nuse crate::a::c::C;\n"),
        ("a/c.rs", "// crate::a::b\n#[cfg(test)]\nmod tests {\n    use crate::a::b::B;\n}\n"),
    ]);
    assert_eq!(circle(&open), None);
}

#[test]
fn super_that_leads_out_of_the_folders_is_named() {
    for (path, text, is_out) in [
        ("run/mod.rs", "use super::gate;", true),
        ("run/qemu/mod.rs", "use super::super::gate;", true),
        ("run/qemu/start.rs", "use super::super::gate;", false),
        ("run/qemu/start.rs", "use super::super::super::gate;", true),
        ("run/qemu/start.rs", "    use super::super::super::gate;", false),
    ] {
        assert_eq!(!upward(HARNESS, Path::new(path), text).is_empty(), is_out, "{path}: {text}");
    }
}
