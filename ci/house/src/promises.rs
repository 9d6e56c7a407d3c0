// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: harness/tests/README.md is true. Each promise in its tables is in the document that the table's head names,
//! each test that they name exists, and each folder of tests is in them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regex::Regex;

use super::root;

/// Tables of promises, with the tests that hold them.
const TABLE: &str = "harness/tests/README.md";

/// Crates that have tests, with their folders.
const CRATES: [(&str, &str); 8] = [
    ("decode", "plugin/decode"),
    ("device", "plugin/device"),
    ("engine", "plugin/engine"),
    ("harness", "harness"),
    ("house", "ci/house"),
    ("pipeline", "plugin/pipeline"),
    ("store", "harness/store"),
    ("wire", "plugin/wire"),
];

/// Row of a table.
struct Row<'a> {
    /// Document that makes the promise, as the table's head names it: `README` or a path.
    document: &'a str,
    promise: &'a str,
    held_by: &'a str,
}

/// Rows of all tables, without their heads, `| promise of DOCUMENT | held by |`.
fn rows(text: &str) -> Vec<Row<'_>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let mut document = "";
    let mut rows = Vec::new();
    for (promise, held_by) in lines.filter_map(|line| line.split_once(" | ")) {
        match promise.strip_prefix("promise of ").filter(|_| held_by == "held by") {
            Some(named) => document = named,
            None => rows.push(Row { document, promise, held_by }),
        }
    }
    rows
}

/// Words of a document without its markup: links, code, emphasis and tables.
fn plain(text: &str) -> String {
    let links = Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap().replace_all(text, "$1");
    links.replace(['`', '*'], "").replace('|', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a text quotes a document: its parts between `…` are there, in that order.
fn is_quoted(quote: &str, document: &str) -> bool {
    let mut rest = document;
    quote.split('…').map(str::trim).all(|part| match rest.find(part) {
        Some(at) if !part.is_empty() => {
            rest = &rest[at + part.len()..];
            true
        }
        _ => false,
    })
}

/// Whether a source has a test of this name.
fn has_test(source: &str, name: &str) -> bool {
    let test = format!(r"(?m)^\s*#\[test\]\s*(?:(?:#\[[^\]]*\]|//[^\n]*)\s*)*fn {}\(", regex::escape(name));
    Regex::new(&test).unwrap().is_match(source)
}

/// Source file, below `root`, and name of a test as the table writes it: `folder::file::name` of the test program,
/// `folder::name` of the folder's own file, or `crate: path::name`.
fn place(root: &Path, test: &str) -> Option<(String, String)> {
    let (path, name) = test.rsplit_once("::")?;
    if let Some((of, file)) = path.split_once(": ") {
        let (_, folder) = CRATES.iter().find(|(known, _)| *known == of)?;
        return Some((format!("{folder}/{file}"), name.to_owned()));
    }
    let module = format!("harness/tests/{}", path.replace("::", "/"));
    let files = [format!("{module}.rs"), format!("{module}/mod.rs")];
    let file = files.into_iter().find(|file| root.join(file).is_file())?;
    Some((file, name.to_owned()))
}

/// Complaint about something that the table names: a test, or a script by its path.
fn complaint(root: &Path, named: &str) -> Option<String> {
    if !named.contains("::") {
        return (!root.join(named).is_file()).then(|| format!("{named}: no such file"));
    }
    let Some((file, name)) = place(root, named) else { return Some(format!("{named}: no such file of tests")) };
    let source = fs::read_to_string(root.join(&file)).unwrap_or_default();
    (!has_test(&source, &name)).then(|| format!("{named}: {file} has no such test"))
}

/// Complaints about rows of tables; `read` has the words of a document.
fn complaints(root: &Path, tables: &str, read: &dyn Fn(&str) -> String) -> Vec<String> {
    // What is in parentheses, and what the tests before it do not hold, explains the row.
    let explained = Regex::new(r"\([^)]*\)|; none\b.*$").unwrap();
    let code = Regex::new("`([^`]+)`").unwrap();
    let mut complaints = Vec::new();
    for Row { document, promise, held_by } in rows(tables) {
        if !is_quoted(promise, &read(document)) {
            complaints.push(format!("{promise}: {document} does not say so"));
        }
        let is_held_by_none = held_by.starts_with("none");
        let held_by = if is_held_by_none { held_by } else { &explained.replace_all(held_by, "") };
        let names: Vec<&str> = code.captures_iter(held_by).map(|name| name.get(1).unwrap().as_str()).collect();
        if names.is_empty() && !is_held_by_none {
            complaints.push(format!("{promise}: neither a test nor \"none\""));
        }
        complaints.extend(names.into_iter().filter_map(|name| complaint(root, name)));
    }
    complaints
}

#[test]
fn each_promise_of_the_table_is_the_readmes_and_each_test_exists() {
    let root = root();
    let read = |file: &str| fs::read_to_string(root.join(file)).unwrap();
    let tables = read(TABLE);
    let mut words = BTreeMap::new();
    for Row { document, .. } in rows(&tables) {
        let file = if document == "README" { "README.md" } else { document };
        words.entry(document.to_owned()).or_insert_with(|| plain(&read(file)));
    }
    assert!(rows(&tables).len() > 80 && words.len() > 1, "{} rows of {:?}", rows(&tables).len(), words.keys());
    let found = complaints(&root, &tables, &|document| words[document].clone());
    assert!(found.is_empty(), "{TABLE}:\n{}", found.join("\n"));
}

#[test]
fn each_folder_of_tests_is_in_the_table() {
    let root = root();
    let table = fs::read_to_string(root.join(TABLE)).unwrap();
    let held: String = rows(&table).iter().map(|row| row.held_by).collect::<Vec<_>>().join("\n");
    let mut folders = 0;
    for entry in fs::read_dir(root.join("harness/tests")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        // `common` has no tests: what the others share.
        if path.is_dir() && name != "common" {
            assert!(held.contains(&format!("`{name}::")), "{TABLE} names no test of {name}/");
            folders += 1;
        }
    }
    assert!(folders >= 10, "{folders} folders");
    for (name, folder) in CRATES {
        assert!(root.join(folder).join("Cargo.toml").is_file(), "{folder} is no crate");
        assert!(held.contains(&format!("`{name}: ")), "{TABLE} names no test of {folder}/");
    }
}

#[test]
fn a_quote_and_a_test_that_are_not_there_are_seen() {
    let root = root();
    let head = |document: &str| format!("| promise of {document} | held by |\n|---|---|\n");
    let row = |promise: &str, held_by: &str| format!("{}| {promise} | {held_by} |\n", head("README"));
    let readme = plain("It **counts** [all](docs/all.md), and\n`--exact` follows calls.");
    assert_eq!(readme, "It counts all, and --exact follows calls.");
    let own = "house: src/promises.rs::a_quote_and_a_test_that_are_not_there_are_seen";
    for (promise, held_by, expected) in [
        ("counts all … follows calls", format!("`{own}`"), vec![]),
        ("counts all", "none: see `somewhere`".to_owned(), vec!["somewhere: no such file"]),
        ("counts all", "none".to_owned(), vec![]),
        ("counts all", "`ci/usage` (see `somewhere`); none for the rest".to_owned(), vec![]),
        (
            "follows calls … counts all",
            format!("`{own}`"),
            vec!["follows calls … counts all: README does not say so"],
        ),
        ("counts none", "`ci/usage`".to_owned(), vec!["counts none: README does not say so"]),
        ("counts all", "reading".to_owned(), vec!["counts all: neither a test nor \"none\""]),
        ("counts all", "`ci/nothing`".to_owned(), vec!["ci/nothing: no such file"]),
        ("counts all", "`run::nothing::a`".to_owned(), vec!["run::nothing::a: no such file of tests"]),
        ("counts all", "`nothing: src/lib.rs::a`".to_owned(), vec!["nothing: src/lib.rs::a: no such file of tests"]),
        (
            "counts all",
            "`house: src/promises.rs::place`, `ci/usage`".to_owned(),
            vec!["house: src/promises.rs::place: ci/house/src/promises.rs has no such test"],
        ),
        (
            "counts all",
            "`sweep::findings`".to_owned(),
            vec!["sweep::findings: harness/tests/sweep/mod.rs has no such test"],
        ),
    ] {
        let found = complaints(&root, &row(promise, &held_by), &|_| readme.clone());
        assert_eq!(found, expected, "{promise}: {held_by}");
    }
    let two = format!("{}{}| counts all | none |\n", row("follows calls", "none"), head("docs/all.md"));
    let read = |document: &str| if document == "README" { readme.clone() } else { "counts some".to_owned() };
    assert_eq!(complaints(&root, &two, &read), ["counts all: docs/all.md does not say so"]);
}
