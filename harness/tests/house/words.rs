//! The promise: a doc comment begins with a noun for the thing or with a verb, so that one reading is enough.

use crate::complete::all_sources;

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
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let comment = doc_comment(line);
        let mark = comment.map(|(mark, _)| mark);
        if let Some((_, words)) = comment.filter(|_| mark != before) {
            let first = words.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
            if EMPTY_WORDS.contains(&first) {
                complaints.push(format!("{file}:{number}: begin with the thing's noun or a verb: {words}"));
            }
        }
        before = mark;
    }
    complaints
}

#[test]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    let sources = all_sources();
    let found: Vec<String> = sources.iter().flat_map(|(file, text)| complaints(file, text)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn only_the_first_word_of_a_doc_comment_counts() {
    for (text, expected) in [
        ("/// What it is.\nfn a() {}\n", vec![1]),
        ("//! How it works.\n\n/// Returns a number.\n///\n/// What follows is no first line.\nfn a() {}\n", vec![1]),
        ("    /// Whether it is so.\n    a: bool,\n    /// Of the rest.\n    b: u8,\n", vec![3]),
        ("// What a plain comment says.\n/// Ofcom's number.\n//// As a rule.\n", vec![]),
        ("//! Title.\n/// As [`a`].\nfn b() {}\n", vec![2]),
        ("let text = \"/// What a text holds\";\n", vec![]),
    ] {
        let lines: Vec<usize> = expected;
        let prefixes: Vec<String> = lines.iter().map(|line| format!("f:{line}: ")).collect();
        let found = complaints("f", text);
        assert_eq!(found.len(), prefixes.len(), "{text:?}: {found:?}");
        assert!(found.iter().zip(&prefixes).all(|(one, prefix)| one.starts_with(prefix)), "{text:?}: {found:?}");
    }
}
