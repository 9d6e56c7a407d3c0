// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a link leads somewhere. Each relative link of a Markdown file names a file, and a heading if it has an anchor;
//! so does each page that a source or a message names. The site has each page of `docs/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use regex::Regex;

use super::root;

/// Folders of what is built, installed or saved.
const MADE: [&str; 5] = ["target", "build", "node_modules", "out", ".git"];

/// Folders whose sources and messages name pages.
const NAMING: [&str; 7] = [".ci", "ci", "editors", "harness", "plugin", "python", "west"];

/// Files below a folder, which are not built, installed or saved.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_file() {
            found.push(path);
        } else if path.is_dir() && !path.is_symlink() && !MADE.contains(&&*name) && !name.ends_with(".profile") {
            found.extend(files(&path));
        }
    }
    found.sort();
    found
}

/// Whether a file is Markdown.
fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// Lines outside of fenced code, each with its number.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Anchors of a document's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let heading = Regex::new("^#{1,6} +(.*)$").unwrap();
    let link = Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap();
    let mut seen = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for (_, line) in lines(text) {
        let Some(found) = heading.captures(line) else { continue };
        let words = link.replace_all(&found[1], "$1").trim().to_lowercase();
        let kept = words.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_' | ' '));
        let anchor: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
        let times: &mut usize = seen.entry(anchor.clone()).or_default();
        anchors.insert(if *times == 0 { anchor } else { format!("{anchor}-{times}") });
        *times += 1;
    }
    anchors
}

/// Relative links of a document, each with its line. What is in backticks is code, also over the end of a line of a
/// paragraph.
fn links(text: &str) -> Vec<(usize, String)> {
    let code = Regex::new(r"`(?:[^`\n]|\n[^`\n])*`").unwrap();
    let link = Regex::new(r"\]\(<?([^)\s>]+)").unwrap();
    let scheme = Regex::new("^[a-z+.-]+:").unwrap();
    // Each line keeps its place.
    let mut kept: Vec<&str> = vec![""; text.lines().count()];
    for (number, line) in lines(text) {
        kept[number - 1] = line;
    }
    let joined = kept.join("\n");
    let plain = code.replace_all(&joined, |code: &regex::Captures| "\n".repeat(code[0].matches('\n').count()));
    let line = |at: usize| 1 + plain[..at].matches('\n').count();
    let all = link.captures_iter(&plain).map(|found| (line(found.get(0).unwrap().start()), found[1].to_owned()));
    all.filter(|(_, target)| !scheme.is_match(target)).collect()
}

/// Path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// Complaint about a link of a file to `target`, a path with or without an anchor.
fn complaint(root: &Path, from: &Path, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let to = if path.is_empty() { from.to_owned() } else { normal(&from.parent().unwrap().join(path)) };
    if !to.starts_with(root) || !to.exists() {
        return Some(format!("{target}: no such file"));
    }
    let is_there = || is_markdown(&to) && anchors(&fs::read_to_string(&to).unwrap()).contains(anchor);
    (!anchor.is_empty() && !is_there()).then(|| format!("{target}: no such heading"))
}

/// Pages of `docs/` that a source names, each with its line.
fn named_pages(text: &str) -> Vec<(usize, String)> {
    let page = Regex::new(r"(?:^|[^/\w.-])(docs/[\w-]+\.md\b(?:#[\w-]+)?)").unwrap();
    // Most lines name none, and a search for a text is much faster.
    let lines = (1..).zip(text.lines()).filter(|(_, words)| words.contains("docs/"));
    let names = lines.flat_map(|(line, words)| page.captures_iter(words).map(move |name| (line, name)));
    names.map(|(line, name)| (line, name[1].to_owned())).collect()
}

#[test]
fn each_link_of_each_document_leads_somewhere() {
    let root = root();
    let mut count = 0;
    let mut complaints = Vec::new();
    for file in files(&root).into_iter().filter(|file| is_markdown(file)) {
        let shown = file.strip_prefix(&root).unwrap().display();
        for (line, target) in links(&fs::read_to_string(&file).unwrap()) {
            count += 1;
            complaints.extend(complaint(&root, &file, &target).map(|why| format!("{shown}:{line}: {why}")));
        }
    }
    assert!(count > 300, "only {count} links are seen");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn each_page_that_a_source_names_is_there() {
    let root = root();
    let mut count = 0;
    let mut complaints = Vec::new();
    // The house's own sources have pages that do not exist, as examples.
    let house = root.join("ci/house");
    let sources = NAMING.iter().flat_map(|folder| files(&root.join(folder)));
    for file in sources.filter(|file| !is_markdown(file) && !file.starts_with(&house)) {
        let text = fs::read(&file).unwrap();
        let Some(text) = String::from_utf8(text).ok().filter(|text| text.contains("docs/")) else { continue };
        let shown = file.strip_prefix(&root).unwrap().display();
        for (line, target) in named_pages(&text) {
            count += 1;
            let why = complaint(&root, &root.join("README.md"), &target);
            complaints.extend(why.map(|why| format!("{shown}:{line}: {why}")));
        }
    }
    assert!(count > 40, "only {count} names of pages are seen");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Complaints about the site's list of pages: each page is in it once, by the heading with which it begins.
fn unlisted(summary: &str, pages: &BTreeMap<String, String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, text) in pages.iter().filter(|(name, _)| *name != "SUMMARY.md") {
        let heading = text.lines().next().unwrap_or_default().trim_start_matches("# ");
        let count = summary.lines().filter(|line| line.trim_start() == format!("- [{heading}]({name})")).count();
        if count != 1 {
            complaints.push(format!("docs/{name}: docs/SUMMARY.md has `- [{heading}]({name})` {count} times"));
        }
    }
    complaints
}

#[test]
fn each_page_is_in_the_sites_list_by_its_heading() {
    let docs = root().join("docs");
    let markdown = files(&docs).into_iter().filter(|file| is_markdown(file));
    let pages: BTreeMap<String, String> = markdown
        .map(|file| (file.strip_prefix(&docs).unwrap().display().to_string(), fs::read_to_string(&file).unwrap()))
        .collect();
    assert!(pages.len() > 20, "only {} pages are seen", pages.len());
    let found = unlisted(&pages["SUMMARY.md"], &pages);
    assert!(found.is_empty(), "{}", found.join("\n"));
    let pages =
        BTreeMap::from([("a.md".to_owned(), "# A page\n".to_owned()), ("b.md".to_owned(), "# B\n".to_owned())]);
    let listed = "# Part\n- [A page](a.md)\n  - [B](b.md)\n";
    assert_eq!(unlisted(listed, &pages), [""; 0]);
    let expected = ["docs/b.md: docs/SUMMARY.md has `- [B](b.md)` 0 times"];
    assert_eq!(unlisted(&listed.replace("[B]", "[C]"), &pages), expected);
    assert_eq!(unlisted(&format!("{listed}- [A page](a.md)\n"), &pages).len(), 1);
}

#[test]
fn a_link_that_leads_nowhere_is_seen() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    fs::create_dir(root.join("docs")).unwrap();
    let page = "# A page\n## `harness top`, and [more](x.md)\n```text\n## code\n```\n## A page\n";
    fs::write(root.join("docs/a.md"), page).unwrap();
    fs::write(root.join("b.md"), "# B\n").unwrap();
    let expected = ["a-page", "a-page-1", "harness-top-and-more"];
    assert_eq!(anchors(page).iter().map(String::as_str).collect::<Vec<_>>(), expected);
    for (from, target, expected) in [
        ("docs/a.md", "../b.md#b", None),
        ("docs/a.md", "#a-page-1", None),
        ("docs/a.md", ".", None),
        ("docs/a.md", "#code", Some("#code: no such heading")),
        ("b.md", "a.md", Some("a.md: no such file")),
        ("b.md", "docs/a.md#b", Some("docs/a.md#b: no such heading")),
        ("b.md", "docs#b", Some("docs#b: no such heading")),
        ("b.md", "../../b.md", Some("../../b.md: no such file")),
    ] {
        assert_eq!(complaint(root, &root.join(from), target).as_deref(), expected, "{from}: {target}");
    }
    let text = "[a](a.md#x) `[b](b.md)` `c\n[d](d.md)`\n[e](https://e.org) ![f](f.png)\n```\n[g](g.md)\n```\n\nA ` and\n\n[h](h.md) `\n";
    let expected = [(1, "a.md#x"), (3, "f.png"), (10, "h.md")].map(|(line, target)| (line, target.to_owned()));
    assert_eq!(links(text), expected);
    let text = "see docs/a.md#x,\n(docs/b.md) https://e.org/docs/c.md docs/d.mdx ../docs/e.md";
    let expected = [(1, "docs/a.md#x"), (2, "docs/b.md")];
    assert_eq!(named_pages(text), expected.map(|(line, target)| (line, target.to_owned())));
}
