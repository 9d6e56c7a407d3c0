// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text for a terminal: names and source lines come from the firmware, and must neither command the terminal nor
//! break its columns.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use clap::ValueEnum;
use console::{Style, Term};

use crate::text::fold::Folded;
use crate::text::github::Log;
use crate::text::printable::printable;
use crate::text::tone::{self, Tone};

/// Width of a table if standard output is not a terminal: fixed, so that logs are the same everywhere.
pub const DEFAULT_WIDTH_COLUMNS: usize = 100;

/// Condition for writing in colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also into a file or pipe
    Always,
    /// Not at all
    Never,
}

/// Choice for the whole process: it holds for every line that is written.
static CHOSEN: OnceLock<Color> = OnceLock::new();

impl Color {
    /// Sets the choice for the whole process; only the first call counts.
    pub fn choose(self) {
        let _ = CHOSEN.set(self);
    }

    /// Whether standard output is written in colour (<https://no-color.org>).
    pub fn for_stdout() -> bool {
        Color::is_for(&Term::stdout())
    }

    /// Whether standard error is written in colour.
    pub fn for_stderr() -> bool {
        Color::is_for(&Term::stderr())
    }

    /// Whether the program chose when to use colour, and standard output is written in colour. So tables in unit tests
    /// never are.
    pub fn is_chosen_for_stdout() -> bool {
        CHOSEN.get().is_some() && Color::for_stdout()
    }

    fn is_for(term: &Term) -> bool {
        match CHOSEN.get().copied().unwrap_or_default() {
            Color::Auto => term.features().colors_supported(),
            Color::Always => true,
            Color::Never => false,
        }
    }
}

impl Tone {
    /// Marks a line for standard output, if that has colours.
    pub fn line(self, text: &str) -> Cow<'_, str> {
        if Color::is_chosen_for_stdout() { self.marked(text) } else { Cow::Borrowed(text) }
    }
}

/// Words for outcomes with their styles, which apply at the beginning of a line.
fn styles() -> [(&'static str, Style); 5] {
    let style = || Style::new().bold().force_styling(true);
    [
        ("error:", style().red()),
        ("warning:", style().yellow()),
        ("note:", style().cyan()),
        ("FAIL ", style().red()),
        ("PASS ", style().green()),
    ]
}

/// Prefix of the lines that `harness run` itself writes.
const OWN: &str = "harness: ";

/// Columns of the terminal on standard output; None: it is not a terminal.
pub fn width_columns() -> Option<usize> {
    let columns = Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    columns.filter(|_| io::stdout().is_terminal())
}

/// Writes notes for the user to standard error. A closed standard error is not an error, since notes are not the
/// result.
pub fn notes(notes: &[String]) {
    for note in notes {
        let _ = writeln!(stderr(), "note: {note}");
    }
}

/// Opens standard output for text: printable, and without lines that a CI job's log would take for commands.
pub fn stdout() -> Printable<Log<io::StdoutLock<'static>>> {
    Printable { has_colors: Color::for_stdout(), ..Printable::new(Log::new(io::stdout().lock())) }
}

/// Opens standard error for text, as [`stdout`] does; sentences are folded to the terminal's width.
pub fn stderr() -> Folded<Printable<Log<io::StderrLock<'static>>>> {
    let columns = Term::stderr().size_checked().map(|(_, columns)| usize::from(columns));
    let columns = columns.filter(|_| io::stderr().is_terminal());
    let out = Printable { has_colors: Color::for_stderr(), ..Printable::new(Log::new(io::stderr().lock())) };
    Folded::new(out, columns)
}

/// Writer that passes lines on without characters that a terminal would not show. A word for an outcome at a line's
/// beginning gets its colour.
#[derive(Debug)]
pub struct Printable<W> {
    out: W,
    has_colors: bool,
    /// Whether the next byte begins a line.
    is_at_start: bool,
}

impl<W> Printable<W> {
    /// Wraps `out`, without colours.
    pub fn new(out: W) -> Printable<W> {
        Printable { out, has_colors: false, is_at_start: true }
    }
}

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        for line in text.split_inclusive('\n') {
            let (mut line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            let is_colored = self.has_colors && self.is_at_start;
            let (tone, unmarked) = if self.is_at_start { tone::unmarked(line) } else { (Tone::Plain, line) };
            line = unmarked;
            self.is_at_start = !end.is_empty() || line == OWN;
            if let Some(rest) = line.strip_prefix(OWN).filter(|_| is_colored) {
                self.out.write_all(OWN.as_bytes())?;
                line = rest;
            }
            if is_colored {
                let found =
                    styles().into_iter().find_map(|(word, style)| Some((word, style, line.strip_prefix(word)?)));
                if let Some((word, style, rest)) = found {
                    write!(self.out, "{}", style.apply_to(word))?;
                    line = rest;
                }
            }
            if is_colored && tone != Tone::Plain {
                write!(self.out, "{}", tone.style().force_styling(true).apply_to(printable(line)))?;
            } else {
                self.out.write_all(printable(line).as_bytes())?;
            }
            self.out.write_all(end.as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::printable::source;

    #[test]
    fn the_word_that_begins_a_line_is_in_colour_and_nothing_else() {
        let written = |has_colors| {
            let mut out = Printable { has_colors, ..Printable::new(Vec::new()) };
            let [what, line] = ["an error: \x1b[1m", "warning: it"];
            writeln!(out, "error: {what}").unwrap();
            writeln!(out, "{OWN}{line}").unwrap();
            writeln!(out, "PASS  a  1\nFAIL  b  2\nPASSED").unwrap();
            String::from_utf8(out.out).unwrap()
        };
        assert_eq!(
            written(false),
            "error: an error: \u{fffd}[1m\nharness: warning: it\nPASS  a  1\nFAIL  b  2\nPASSED\n"
        );
        assert_eq!(
            written(true),
            "\x1b[31m\x1b[1merror:\x1b[0m an error: \u{fffd}[1m\nharness: \x1b[33m\x1b[1mwarning:\x1b[0m it\n\
             \x1b[32m\x1b[1mPASS \x1b[0m a  1\n\x1b[31m\x1b[1mFAIL \x1b[0m b  2\nPASSED\n"
        );
    }

    #[test]
    fn a_marked_line_is_in_its_style_or_as_it_is() {
        let lines = [(Tone::Heading, "Function  Share"), (Tone::Hot, "a\x1b[2J  9 %"), (Tone::Plain, "b  1 %")];
        let written = |has_colors| {
            let mut out = Printable { has_colors, ..Printable::new(Vec::new()) };
            lines.iter().for_each(|(tone, line)| writeln!(out, "{}", tone.marked(line)).unwrap());
            String::from_utf8(out.out).unwrap()
        };
        assert_eq!(written(false), "Function  Share\na\u{fffd}[2J  9 %\nb  1 %\n");
        assert_eq!(written(true), "\x1b[1mFunction  Share\x1b[0m\n\x1b[31m\x1b[1ma\u{fffd}[2J  9 %\x1b[0m\nb  1 %\n");
    }

    #[test]
    fn nothing_commands_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\u{9b}c\u{202e}d\r\n"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}d\u{fffd}\u{fffd}");
        let mut out = Printable::new(Vec::new());
        write!(out, "größe\x07\n寸法\x1b]0;\n").unwrap();
        assert_eq!(String::from_utf8(out.out).unwrap(), "größe\u{fffd}\n寸法\u{fffd}]0;\n");
        assert_eq!(source("\tif\t(x)\x08"), "        if      (x)\u{fffd}");
    }
}
