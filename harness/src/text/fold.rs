// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folds sentences to the width of a terminal, between words, so that no word is cut in two. Rows of tables stay as
//! they are.

use std::io::{self, Write};

use crate::text::columns::columns;

/// Minimum width of terminals for which text is folded: on narrower ones most words do not fit.
const MIN_COLUMNS: usize = 10;

/// Minimum room, in columns, for a sentence after a head.
const MIN_ROOM_COLUMNS: usize = 30;

/// Extra indent, in spaces, of a folded line's continuations.
const INDENT: usize = 2;

/// Folds text into lines of at most `width_columns` columns; only a longer word makes a longer line. Text in backticks
/// counts as one word, since users copy it.
pub fn words(text: &str, width_columns: usize) -> Vec<String> {
    fill(text, width_columns, width_columns)
}

/// [`words`] with a different width for the first line.
fn fill(text: &str, first_columns: usize, other_columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in unbroken(text) {
        let width_columns = if lines.len() == 1 { first_columns } else { other_columns };
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(&word),
            Some(line) if columns(line) + 1 + columns(&word) <= width_columns => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Folds a sentence after a head: its further lines begin below its first word. If there is too little room for that,
/// the whole sentence follows below the head, indented by `indent` columns.
pub fn behind(head: &str, text: &str, indent: usize, width_columns: Option<usize>) -> Vec<String> {
    let line = format!("{head}{text}");
    let head_columns = columns(head);
    let Some(width_columns) = width_columns.filter(|width| columns(&line) > *width && *width >= MIN_COLUMNS + indent)
    else {
        return vec![line.trim_end().to_owned()];
    };
    let room = width_columns.saturating_sub(head_columns);
    let below =
        |lines: Vec<String>, indent: usize| lines.into_iter().map(move |line| format!("{:indent$}{line}", ""));
    if room < MIN_ROOM_COLUMNS {
        let text = words(text, width_columns - indent);
        return [head.trim_end().to_owned()].into_iter().chain(below(text, indent)).collect();
    }
    let mut lines: Vec<String> = below(words(text, room), head_columns).collect();
    if let Some(first) = lines.first_mut() {
        *first = format!("{head}{}", first.trim_start());
    }
    lines
}

/// Words of a text. Text in backticks is one word, and so is a number with its `%`.
fn unbroken(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_open = false;
    let is_unit = |word: &str| word.starts_with('%');
    for word in text.split_whitespace() {
        match words.last_mut().filter(|_| is_open || is_unit(word)) {
            Some(last) => {
                last.push(' ');
                last.push_str(word);
            }
            None => words.push(word.to_owned()),
        }
        is_open ^= word.matches('`').count() % 2 == 1;
    }
    // Without a closing backtick, a backtick is an ordinary character.
    if is_open { text.split_whitespace().map(str::to_owned).collect() } else { words }
}

/// Folds one line, without its line end, for a terminal of `width_columns` columns.
fn folded(line: &str, width_columns: usize) -> Vec<String> {
    let text = line.trim_start_matches(' ');
    let indent = line.len() - text.len();
    // Two adjacent spaces separate a table's columns.
    let is_row = text.contains("  ") || text.contains('\t');
    if is_row || columns(line) <= width_columns || width_columns < MIN_COLUMNS + indent {
        return vec![line.to_owned()];
    }
    let lines = fill(text, width_columns - indent, width_columns - indent - INDENT).into_iter().enumerate();
    let indented = lines.map(|(index, line)| {
        let indent = if index == 0 { indent } else { indent + INDENT };
        format!("{:indent$}{line}", "")
    });
    indented.collect()
}

/// Writer that passes lines on, folded if there is a width. An incomplete line waits for its end.
#[derive(Debug)]
pub struct Folded<W: Write> {
    out: W,
    /// Columns of the terminal; None: the output is not a terminal, and lines stay whole.
    width_columns: Option<usize>,
    line: Vec<u8>,
}

impl<W: Write> Folded<W> {
    /// Wraps `out`, folding to `width_columns` columns.
    pub fn new(out: W, width_columns: Option<usize>) -> Folded<W> {
        Folded { out, width_columns, line: Vec::new() }
    }

    /// Writes the incomplete last line.
    fn finish(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.out.write_all(&line)
    }
}

impl<W: Write> Write for Folded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(width_columns) = self.width_columns else { return self.out.write(bytes) };
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.last() == Some(&b'\n') {
                let line = std::mem::take(&mut self.line);
                let text = String::from_utf8_lossy(&line[..line.len() - 1]);
                for line in folded(&text, width_columns) {
                    self.out.write_all(line.as_bytes())?;
                    self.out.write_all(b"\n")?;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.finish()?;
        self.out.flush()
    }
}

impl<W: Write> Drop for Folded<W> {
    fn drop(&mut self) {
        // If a write failed before, this one would fail, too.
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, width_columns: Option<usize>) -> String {
        let mut out = Vec::new();
        let mut folded = Folded::new(&mut out, width_columns);
        // Written in pieces, as the write macros do.
        for piece in text.as_bytes().chunks(7) {
            folded.write_all(piece).unwrap();
        }
        drop(folded);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn sentences_are_folded_and_rows_and_pipes_are_not() {
        let text = "a sentence of words that has more of them than forty columns hold\n\
                    name        1,234,567  89.00%  and a long place in some file\n\
                    \x20 further in, and as long as the first one of these is\nno end";
        assert_eq!(shown(text, None), text);
        assert_eq!(shown(text, Some(100)), text);
        assert_eq!(
            shown(text, Some(40)),
            "a sentence of words that has more of\n  them than forty columns hold\n\
             name        1,234,567  89.00%  and a long place in some file\n\
             \x20 further in, and as long as the first\n    one of these is\nno end"
        );
    }

    #[test]
    fn a_sentence_behind_a_head_goes_on_below_itself_or_in_the_next_line() {
        let (head, text) =
            ("FAIL  image  1,234  ", "total instructions +0.82 %, allowed 0.1 % (1 \u{2192} 2) and so on");
        assert_eq!(behind(head, text, 6, None), [format!("{head}{text}")]);
        assert_eq!(
            behind(head, text, 6, Some(51)),
            [
                "FAIL  image  1,234  total instructions +0.82 %,",
                "                    allowed 0.1 % (1 \u{2192} 2) and so on",
            ]
        );
        assert_eq!(
            behind(head, text, 6, Some(40)),
            [
                "FAIL  image  1,234",
                "      total instructions +0.82 %,",
                "      allowed 0.1 % (1 \u{2192} 2) and so on",
            ]
        );
        // A number stays with its unit, whatever the width.
        for width in 36..70 {
            let lines = behind(head, text, 6, Some(width));
            assert!(
                lines.iter().all(|line| columns(line) <= width && !line.trim_start().starts_with('%')),
                "{lines:?}"
            );
            assert_eq!(
                lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" "),
                "FAIL image 1,234 total \
                instructions +0.82 %, allowed 0.1 % (1 \u{2192} 2) and so on"
            );
        }
    }

    #[test]
    fn a_command_stays_in_one_piece() {
        let line = "note: `harness annotate firmware.profile crc32` shows it, `as` words\n";
        assert_eq!(
            shown(line, Some(50)),
            "note: `harness annotate firmware.profile crc32`\n  shows it, `as` words\n"
        );
        assert_eq!(words("one ` two", 5), ["one `", "two"]);
        for width in 12..100 {
            assert!(shown(line, Some(width)).lines().all(|line| columns(line) <= width.max(45)), "{width}");
        }
    }
}
