// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: docs/architecture.md describes the sources that are there. It has each folder, in the order of the imports,
//! and names no file, folder or function of a walk that does not exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::root;

/// The page.
const PAGE: &str = "docs/architecture.md";

/// Order of the imports, as the test of harness has it.
const LAYERS: &str = "harness/src/layers.rs";

/// Folder that paths of the page are relative to if they are neither in the section's folder nor in the repository's.
const HARNESS: &str = "harness/src";

/// Files of harness outside of the order.
const NO_LAYER: [&str; 3] = ["main", "lib", "layers"];

/// Heading of the walks.
const WALKS: &str = "Three walks";

/// Part of the page below one heading.
#[derive(Debug, Default)]
struct Section<'a> {
    /// Heading of the second level that it belongs to.
    chapter: &'a str,
    /// Own heading, of the second or third level.
    heading: &'a str,
    /// Folder that it is about, from the root; empty: none.
    folder: String,
    /// Lines with their numbers.
    lines: Vec<(usize, &'a str)>,
}

/// Sections of the page. A chapter named like a folder is about it, and a heading `folder/` about a folder in that one.
fn sections<'a>(root: &Path, page: &'a str) -> Vec<Section<'a>> {
    let mut sections = vec![Section::default()];
    let (mut chapter, mut around) = ("", "");
    for (number, line) in (1..).zip(page.lines()) {
        if let Some(heading) = line.strip_prefix("## ") {
            chapter = heading;
            around = if root.join(heading).is_dir() { heading } else { "" };
            sections.push(Section { chapter, heading, folder: around.to_owned(), lines: Vec::new() });
        } else if let Some(heading) = line.strip_prefix("### ") {
            let named = heading.strip_prefix('`').and_then(|rest| rest.strip_suffix("/`"));
            let folder = named.map_or(around.to_owned(), |name| {
                let inner = format!("{around}/{name}");
                inner.trim_start_matches('/').to_owned()
            });
            sections.push(Section { chapter, heading, folder, lines: vec![(number, line)] });
        } else {
            sections.last_mut().unwrap().lines.push((number, line));
        }
    }
    sections
}

/// Sources and folders that a line names in backticks: `a/b.rs`, `a/`, `b.rs::function`. A path with `NAME` is a pattern.
fn paths(line: &str) -> Vec<(String, Option<String>)> {
    static PATH: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"`((?:[\w.-]+/)*(?:[\w-]+\.rs|[\w-]+/))(?:::(\w+))?`").unwrap());
    let all =
        PATH.captures_iter(line).map(|found| (found[1].to_owned(), found.get(2).map(|name| name.as_str().into())));
    all.filter(|(path, _)| !path.contains("NAME")).collect()
}

/// File or folder that a path of a section means, from the root.
fn meant(root: &Path, folder: &str, path: &str) -> Option<String> {
    let bases = [folder, "", HARNESS]
        .into_iter()
        .map(|base| if base.is_empty() { path.to_owned() } else { format!("{base}/{path}") });
    bases.into_iter().find(|full| {
        let full = root.join(full);
        if path.ends_with('/') { full.is_dir() } else { full.is_file() }
    })
}

/// Whether a source has a name as a word of its own.
fn has_word(root: &Path, file: &str, word: &str) -> bool {
    let text = fs::read_to_string(root.join(file)).unwrap();
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|known| known == word)
}

/// Complaints about paths that lead nowhere.
fn astray(root: &Path, sections: &[Section<'_>]) -> Vec<String> {
    let mut complaints = Vec::new();
    for section in sections {
        for (number, line) in &section.lines {
            for (path, function) in paths(line) {
                match (meant(root, &section.folder, &path), function) {
                    (None, _) => complaints.push(format!("{PAGE}:{number}: {path}: no such file or folder")),
                    (Some(file), Some(name)) if !has_word(root, &file, &name) => {
                        complaints.push(format!("{PAGE}:{number}: {path} has no {name}"));
                    }
                    _ => {}
                }
            }
        }
    }
    complaints
}

/// Names of modules in a list of [`LAYERS`], from the bottom up.
fn layers(text: &str, list: &str) -> Vec<String> {
    let (_, rest) =
        text.split_once(&format!("const {list}: &[&str] = &[")).unwrap_or_else(|| panic!("no list {list}"));
    let (names, _) = rest.split_once("];").unwrap();
    Regex::new(r#""(\w+)""#).unwrap().captures_iter(names).map(|name| name[1].to_owned()).collect()
}

/// Modules that a heading or an item of a list begins with: `a/` and `a.rs` are both `a`.
fn modules(text: &str) -> Vec<String> {
    let all = paths(text).into_iter().map(|(path, _)| path);
    let own = all.filter(|path| !path.trim_end_matches('/').contains('/'));
    own.map(|path| path.trim_end_matches('/').trim_end_matches(".rs").to_owned()).collect()
}

/// Modules of a folder's chapter, in the page's order: of its headings, or of its items if it has no heading for each.
fn described(sections: &[Section<'_>], folder: &str) -> Vec<String> {
    let of_chapter = || sections.iter().filter(|section| section.chapter == folder);
    let headings: Vec<String> = of_chapter().flat_map(|section| modules(section.heading)).collect();
    if !headings.is_empty() {
        return headings;
    }
    let items = of_chapter().flat_map(|section| &section.lines).filter_map(|(_, line)| line.strip_prefix("- "));
    items.filter_map(|item| modules(item.split(": ").next()?).into_iter().next()).collect()
}

/// Complaints about a walk: its number of files is the one that it states, each is there once, and has what is named.
fn astray_in_walk(root: &Path, section: &Section<'_>) -> Vec<String> {
    let text: Vec<&str> = section.lines.iter().map(|(_, line)| *line).collect();
    let text = text.join("\n");
    let item = Regex::new(r"(?m)^(\d+)\. `([\w./-]+)`: ((?:.*\n?)(?:   .*\n?)*)").unwrap();
    let name = Regex::new(r"`(?:\w+::)?(\w+)`").unwrap();
    let stated = Regex::new(r"(?m)^(\d+) files, (\d+) of which only carry it").unwrap();
    let walk = section.heading;
    let (mut complaints, mut files, mut carriers) = (Vec::new(), BTreeSet::new(), 0);
    for (number, found) in (1..).zip(item.captures_iter(&text)) {
        let file = &found[2];
        let is_new = files.insert(file.to_owned());
        if found[1] != format!("{number}") || !is_new {
            complaints.push(format!("{walk}: {}. {file}: out of order, or there twice", &found[1]));
        }
        carriers += usize::from(found[3].starts_with("*carries*"));
        if !root.join(file).is_file() {
            complaints.push(format!("{walk}: {file}: no such file"));
            continue;
        }
        let missing = name.captures_iter(&found[3]).filter(|word| !has_word(root, file, &word[1]));
        complaints.extend(missing.map(|word| format!("{walk}: {file} has no {}", &word[1])));
    }
    let counted = format!("{} files, {carriers} of which", files.len());
    let stated =
        stated.captures(&text).map_or(String::new(), |found| format!("{} files, {} of which", &found[1], &found[2]));
    if stated != counted {
        complaints.push(format!("{walk}: it has {counted} only carry it, and says {stated:?}"));
    }
    complaints
}

/// Folders and sources that are directly in a folder.
fn entries(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = entries.filter(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "rs"));
    let stem = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    named.map(|path| stem(&path)).collect()
}

#[test]
fn the_page_has_each_folder_in_the_order_of_the_imports() {
    let root = root();
    let page = fs::read_to_string(root.join(PAGE)).unwrap();
    let sections = sections(&root, &page);
    let order = fs::read_to_string(root.join(LAYERS)).unwrap();
    let mut expected = layers(&order, "HARNESS");
    expected.extend(NO_LAYER.map(str::to_owned));
    let found = described(&sections, HARNESS);
    assert_eq!(found, expected, "{PAGE}, headings of {HARNESS}: write them in the order of {LAYERS}");
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), entries(&root.join(HARNESS)), "{PAGE} and {HARNESS}");
    for (folder, list) in [("plugin/src", "PLUGIN"), ("plugin/engine/src", "ENGINE")] {
        let found = described(&sections, folder);
        assert_eq!(found, layers(&order, list), "{PAGE}, items of {folder}: write them in the order of {LAYERS}");
        let of_library = ["lib".to_owned()].into_iter();
        assert_eq!(
            found.into_iter().chain(of_library).collect::<BTreeSet<_>>(),
            entries(&root.join(folder)),
            "{folder}"
        );
    }
    for folder in entries(&root.join("plugin")) {
        assert!(page.contains(&format!("`plugin/{folder}/`")), "{PAGE} does not name `plugin/{folder}/`");
    }
}

#[test]
fn each_source_that_the_page_names_is_there() {
    let root = root();
    let page = fs::read_to_string(root.join(PAGE)).unwrap();
    let sections = sections(&root, &page);
    let count: usize = sections.iter().flat_map(|section| &section.lines).map(|(_, line)| paths(line).len()).sum();
    assert!(count > 300, "only {count} paths are seen");
    let found = astray(&root, &sections);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn each_walk_goes_through_files_that_have_what_it_names() {
    let root = root();
    let page = fs::read_to_string(root.join(PAGE)).unwrap();
    let sections = sections(&root, &page);
    let walks: Vec<_> =
        sections.iter().filter(|section| section.chapter == WALKS && section.heading != WALKS).collect();
    assert_eq!(walks.len(), 3, "{PAGE} has the walks below {WALKS:?}");
    let found: Vec<String> = walks.iter().flat_map(|walk| astray_in_walk(&root, walk)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_the_page_gets_wrong_is_seen() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    fs::create_dir_all(root.join("harness/src/text")).unwrap();
    fs::create_dir_all(root.join("plugin/src/qemu")).unwrap();
    for (file, text) in [
        ("harness/src/error.rs", "fn say() {}"),
        ("harness/src/text/table.rs", "struct Table;"),
        ("plugin/src/state.rs", "fn settle() {}"),
    ] {
        fs::write(root.join(file), text).unwrap();
    }
    let page = "\
# Page
`text/table.rs`, `NAME.rs`, `tables.rs`, `a.md`
## harness/src
### `error.rs`
`error.rs::say`, `error.rs::said`
### `text/`
- `table.rs`: `rows.rs`
## plugin/src
- `qemu/`: the bottom, `state.rs`
- `state.rs`, `qemu/`: the top
## Three walks
### A walk
3 files, 1 of which only carry it.

1. `harness/src/error.rs`: `say`
   and `x::told`.
2. `harness/src/text/table.rs`: *carries*; `Table`.
2. `plugin/src/late.rs`: `Late`.
";
    let sections = sections(root, page);
    let expected = [
        "docs/architecture.md:2: tables.rs: no such file or folder",
        "docs/architecture.md:5: error.rs has no said",
        "docs/architecture.md:7: rows.rs: no such file or folder",
        "docs/architecture.md:18: plugin/src/late.rs: no such file or folder",
    ];
    assert_eq!(astray(root, &sections), expected);
    assert_eq!(described(&sections, "harness/src"), ["error", "text"]);
    assert_eq!(described(&sections, "plugin/src"), ["qemu", "state"]);
    assert_eq!(layers("const A: &[&str] = &[\n    \"x\",\n    \"y\",\n];", "A"), ["x", "y"]);
    let expected = [
        "A walk: harness/src/error.rs has no told",
        "A walk: 2. plugin/src/late.rs: out of order, or there twice",
        "A walk: plugin/src/late.rs: no such file",
    ];
    assert_eq!(astray_in_walk(root, sections.last().unwrap()), expected);
    let counted = page.replace("3 files, 1", "4 files, 1");
    let sections = super::architecture::sections(root, &counted);
    let found = astray_in_walk(root, sections.last().unwrap());
    assert_eq!(found[3], "A walk: it has 3 files, 1 of which only carry it, and says \"4 files, 1 of which\"");
}
