// SPDX-License-Identifier: MIT OR Apache-2.0
//! Test table: hostile texts, and the destinations of text. No hostile text gets through to any of them.

use crate::text::bracket::has_command;
use crate::text::printable::{is_command, printable};
use crate::text::{csv, github, markdown, markup, screen::Screen};

/// Names that firmware may give a function, a task or a file, and texts that it may print.
const HOSTILE: [&str; 23] = [
    "\x1b[2J\x1b]0;owned\x07",
    "\x1b[31mred\x1b[0m",
    "\u{9b}31m",
    "a\nb",
    "a\r::error::b",
    "::error file=a.c::pwned",
    "  ::stop-commands::token",
    "\n::add-mask::x",
    "##[error]pwned",
    "x ##[set-env name=PATH]/tmp",
    "x ##vso[task.setvariable variable=PATH]/tmp",
    "##TeamCity[buildStatus text='pwned']",
    "\u{202e}desrever\u{2066}",
    "\u{61c}\u{e0041}\u{fff9}",
    "zero\u{200b}width\u{feff}\u{ad}",
    "`code` and ```fence```",
    "ends in \\`",
    "@octocat see https://evil.example and #1",
    "<script>alert(1)</script> <!-- ",
    "a | b \\| c",
    "]]> & \u{0}\u{ffff}",
    "=HYPERLINK(\"http://evil.example\")",
    "\u{2028}\u{2029}\u{85}",
];

/// Whether a character must never be written raw.
fn is_raw(character: char) -> bool {
    is_command(character)
}

/// Returns the text outside code spans, by CommonMark's rules.
fn outside_code(markdown: &str) -> String {
    let mut outside = String::new();
    let mut rest = markdown;
    while let Some(at) = rest.find('`') {
        outside += &rest[..at];
        let run = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        let (fence, inside) = rest[at..].split_at(run);
        // A span ends at the next run of exactly as many backticks.
        let mut from = 0;
        let end = loop {
            let Some(found) = inside[from..].find('`').map(|found| from + found) else { break None };
            let length = inside[found..].len() - inside[found..].trim_start_matches('`').len();
            if length == fence.len() {
                break Some(found + length);
            }
            from = found + length;
        };
        match end {
            Some(end) => rest = &inside[end..],
            None => {
                outside += fence;
                rest = inside;
            }
        }
    }
    outside + rest
}

#[test]
fn no_text_gets_through_to_what_shows_it() {
    let colors = regex::Regex::new("\x1b\\[[0-9;:]*m").unwrap();
    for text in HOSTILE {
        let about = |destination: &str| format!("{text:?} to {destination}");

        let shown = printable(text);
        assert!(!shown.contains(is_raw), "{}", about("a terminal"));

        for line in printable(text).lines().map(github::line) {
            assert!(!line.trim_start().starts_with("::") && !has_command(&line), "{}", about("a job's log"));
        }
        let (message, property) = (github::message(text), github::property(text));
        assert!(!message.contains(is_raw) && !has_command(&message), "{}", about("a command's message"));
        assert!(!property.contains(is_raw) && !property.contains([':', ',']), "{}", about("a command's property"));

        for markdown in [markdown::code(text), markdown::cell(text)] {
            assert!(!markdown.contains(is_raw), "{}", about("Markdown"));
            assert_eq!(outside_code(&markdown).trim(), "", "{}", about("Markdown"));
        }
        let cell = markdown::cell(text);
        assert!(!cell.replace("\\|", "").contains('|'), "{}", about("a table"));
        let block = markdown::block([text].into_iter());
        let (fence, inside) = block.split_once('\n').unwrap();
        let inside = inside.strip_suffix(fence).unwrap();
        assert!(!inside.contains(fence) && inside.matches('\n').count() == 1, "{}", about("a block"));
        assert!(!inside.trim_end_matches('\n').contains(is_raw), "{}", about("a block"));

        let cell = csv::cell(text);
        assert!(!cell.contains(is_raw) && !cell.starts_with(['=', '+', '-', '@']), "{}", about("CSV"));

        let xml = markup::line(text);
        assert!(!xml.contains(is_raw) && !xml.contains(['\u{fffe}', '\u{ffff}']), "{}", about("XML"));

        let name = markup::escape(&markup::shown(text));
        assert!(!name.contains(is_raw) && !name.contains(['<', '\u{fffe}', '\u{ffff}']), "{}", about("a picture"));

        let mut json = serde_json::Serializer::with_formatter(Vec::new(), markup::PageJson);
        serde::Serialize::serialize(text, &mut json).unwrap();
        let json = String::from_utf8(json.into_inner()).unwrap();
        assert!(!json.contains(is_raw) && !json.contains('<'), "{}", about("a page"));
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text, "{}", about("a page"));

        let mut out = Vec::new();
        std::io::Write::write_all(&mut Screen::new(&mut out), text.as_bytes()).unwrap();
        let shown = String::from_utf8(out).unwrap();
        let rest = colors.replace_all(&shown, "").replace(['\r', '\n', '\t'], "");
        assert!(!rest.contains(is_raw), "{}", about("the console on a terminal"));
    }
}
