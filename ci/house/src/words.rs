// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a doc comment begins with a noun for the thing or with a verb, and a negation is `is not a`, so that one
//! reading is enough.

use regex::Regex;

use super::complete::all_sources;

/// First words that say nothing about the thing: questions, and pointers to another comment.
const EMPTY_WORDS: [&str; 10] = ["What", "Who", "Whose", "Where", "Which", "How", "That", "Those", "Of", "As"];

/// Mark and text of a line with a doc comment.
fn doc_comment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let mark = ["///", "//!"].into_iter().find(|mark| line.starts_with(mark) && !line.starts_with("////"))?;
    Some((mark, line[mark.len()..].trim_start()))
}

/// Doc comments of a source file that begin with one of the words, one line each: `path:line: …`.
fn complaints(file: &str, text: &str) -> Vec<String> {
    let mut before = None;
    let mut is_after_heading = false;
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let comment = doc_comment(line);
        let mark = comment.map(|(mark, _)| mark);
        if let Some((_, words)) = comment.filter(|_| mark != before || is_after_heading) {
            let first = words.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
            if EMPTY_WORDS.contains(&first) {
                complaints.push(format!("{file}:{number}: begin with the thing's noun or a verb: {words}"));
            }
        }
        before = mark;
        is_after_heading = comment.is_some_and(|(_, words)| words.starts_with("# "));
    }
    complaints
}

/// Lines with a negation that is read twice, `it is no call` for `it is not a call`. After `there` it is English.
fn negations(file: &str, text: &str) -> Vec<String> {
    let negation = Regex::new(r"(?i)(\bthere\s+)?\bis no (longer|such)?").unwrap();
    let lines = (1..).zip(text.lines());
    let is_found = |line: &str| negation.captures_iter(line).any(|found| found.get(1).or(found.get(2)).is_none());
    lines
        .filter(|(_, line)| is_found(line))
        .map(|(number, line)| format!("{file}:{number}: {}", line.trim()))
        .collect()
}

#[test]
fn negations_are_read_once() {
    let sources = all_sources();
    // This file has some as examples.
    let others = sources.iter().filter(|(file, _)| !file.ends_with("house/words.rs"));
    let found: Vec<String> = others.flat_map(|(file, text)| negations(file, text)).collect();
    assert!(sources.len() > 300 && found.is_empty(), "write `is not a`:\n{}", found.join("\n"));
    for (text, count) in [
        ("// It IS NO call.", 1),
        ("// There is no call, and it is no fault.\n\n// Is no call.", 2),
        ("\"it is no such\" and is no longer\nthere  is no call", 0),
    ] {
        assert_eq!(negations("f", text).len(), count, "{text}");
    }
}

#[test]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    let sources = all_sources();
    let found: Vec<String> = sources.iter().flat_map(|(file, text)| complaints(file, text)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_first_word_of_a_doc_comment_and_after_a_heading_counts() {
    for (text, expected) in [
        ("/// What it is.\nfn a() {}\n", vec![1]),
        ("//! How it works.\n\n/// Returns a number.\n///\n/// What follows is no first line.\nfn a() {}\n", vec![1]),
        ("    /// Whether it is so.\n    a: bool,\n    /// Of the rest.\n    b: u8,\n", vec![3]),
        ("// What a plain comment says.\n/// Ofcom's number.\n//// As a rule.\n", vec![]),
        ("//! Title.\n/// As [`a`].\nfn b() {}\n", vec![2]),
        ("/// Reads.\n///\n/// # Errors\n/// Those of `out`.\nfn r() {}\n", vec![4]),
        ("let text = \"/// What a text holds\";\n", vec![]),
    ] {
        let lines: Vec<usize> = expected;
        let prefixes: Vec<String> = lines.iter().map(|line| format!("f:{line}: ")).collect();
        let found = complaints("f", text);
        assert_eq!(found.len(), prefixes.len(), "{text:?}: {found:?}");
        assert!(found.iter().zip(&prefixes).all(|(one, prefix)| one.starts_with(prefix)), "{text:?}: {found:?}");
    }
}
