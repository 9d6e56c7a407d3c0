// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a chip file can be written from its page alone. Each key of the format is in docs/chips.md, as code.

use std::collections::BTreeSet;
use std::fs;

use regex::Regex;

use super::root;

/// Keys of the format, from the fields of its tables.
fn keys(source: &str) -> BTreeSet<String> {
    let field = Regex::new(r"(?m)^    pub\(super\) (\w+):").unwrap();
    field.captures_iter(source).map(|found| found[1].replace('_', "-")).collect()
}

/// Words of a page that are code: between backticks, or on lines with four spaces before them.
fn code(page: &str) -> BTreeSet<String> {
    let inline = Regex::new("`([^`\n]+)`").unwrap();
    let word = Regex::new(r"[\w-]+").unwrap();
    let lines = page.lines().filter(|line| line.starts_with("    "));
    let spans = inline.captures_iter(page).map(|found| found.get(1).unwrap().as_str());
    lines.chain(spans).flat_map(|text| word.find_iter(text)).map(|word| word.as_str().to_owned()).collect()
}

#[test]
fn each_key_of_a_chip_file_is_on_its_page() {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let keys = keys(&read("harness/src/chip/file.rs"));
    assert!(keys.len() > 100, "only {} keys are seen", keys.len());
    let code = code(&read("docs/chips.md"));
    let absent: Vec<&String> = keys.difference(&code).collect();
    assert!(absent.is_empty(), "docs/chips.md lacks {absent:?}");
}

#[test]
fn a_key_that_is_not_on_the_page_is_seen() {
    let source = "struct A {\n    pub(super) two_way: u32,\n    pub(super) field: Text,\n    other: u8,\n}\n";
    let keys = keys(source);
    assert_eq!(keys, ["field", "two-way"].map(str::to_owned).into());
    for (page, count) in
        [("`two-way = \"A\"` and field", 1), ("two-way\n    field = 1\n", 1), ("`field`, `two-way`", 0)]
    {
        assert_eq!(keys.difference(&code(page)).count(), count, "{page}");
    }
}
