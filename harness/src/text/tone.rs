// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tones of lines: headings, and the heat of counted code. They are the same in every table and on every screen.
//!
//! A table marks a line by a first character that no text has: Unicode reserves these for a program's own use (Unicode
//! Standard, 23.7, Noncharacters). The writer of the terminal takes the mark off and writes the line in its style. So
//! a line without a mark, and every line where there are no colours, is written as it is.

use std::borrow::Cow;
use std::iter;

use console::Style;

use crate::text::number::percent;

/// Share from which code is shown as hot, in percent.
const HOT_PERCENT: f64 = 5.0;

/// Share from which code is shown as warm, in percent.
const WARM_PERCENT: f64 = 0.5;

/// First of the characters that mark lines.
const FIRST_MARK: u32 = 0xfdd0;

/// Tone of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Heading of a table.
    Heading,
    /// Source line, or another heading between the rows of a table.
    Source,
    /// Large part of all instructions.
    Hot,
    /// Noticeable part of them.
    Warm,
    /// Small part of them, or a line without a count.
    #[default]
    Plain,
    /// Code that never executed.
    Never,
}

/// Tones that are marked.
const MARKED: [Tone; 5] = [Tone::Heading, Tone::Source, Tone::Hot, Tone::Warm, Tone::Never];

impl Tone {
    /// Heat of a number of instructions among all.
    pub fn of(insns: u64, all_insns: u64) -> Tone {
        match percent(insns, all_insns) {
            share if share >= HOT_PERCENT => Tone::Hot,
            share if share >= WARM_PERCENT => Tone::Warm,
            _ if insns == 0 => Tone::Never,
            _ => Tone::Plain,
        }
    }

    /// Its style on a terminal.
    pub fn style(self) -> Style {
        let style = Style::new();
        match self {
            Tone::Heading => style.bold(),
            Tone::Source => style.cyan(),
            Tone::Hot => style.red().bold(),
            Tone::Warm => style.yellow(),
            Tone::Plain => style,
            Tone::Never => style.dim(),
        }
    }

    fn mark(self) -> Option<char> {
        let number = MARKED.iter().position(|tone| *tone == self)?;
        char::from_u32(FIRST_MARK + number as u32)
    }

    /// Marks a line.
    pub(super) fn marked(self, text: &str) -> Cow<'_, str> {
        self.mark().map_or(Cow::Borrowed(text), |mark| Cow::Owned(format!("{mark}{text}")))
    }
}

/// Tones of a table's lines: its heading, its rows, and plain sums below them.
pub fn of_lines(rows: impl Iterator<Item = Tone>) -> impl Iterator<Item = Tone> {
    iter::once(Tone::Heading).chain(rows).chain(iter::repeat(Tone::Plain))
}

/// Tone of a marked line, and the line without its mark.
pub(super) fn unmarked(line: &str) -> (Tone, &str) {
    let marked = MARKED.into_iter().find_map(|tone| Some((tone, line.strip_prefix(tone.mark()?)?)));
    marked.unwrap_or((Tone::Plain, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::printable::is_command;

    #[test]
    fn a_mark_is_no_character_of_any_name_and_every_tone_is_read_back() {
        for tone in MARKED {
            let mark = tone.mark().unwrap();
            assert!(is_command(mark), "{tone:?}: a name could hold its mark");
            assert_eq!(unmarked(&format!("{mark}a  b")), (tone, "a  b"));
        }
        assert_eq!(unmarked("a  b"), (Tone::Plain, "a  b"));
        assert_eq!(Tone::Plain.marked("a  b"), "a  b");
    }

    #[test]
    fn heat_is_the_part_of_all() {
        let tones = [0, 1, 50, 499, 500].map(|insns| Tone::of(insns, 10_000));
        assert_eq!(tones, [Tone::Never, Tone::Plain, Tone::Warm, Tone::Warm, Tone::Hot]);
        assert_eq!(Tone::of(0, 0), Tone::Never);
    }
}
