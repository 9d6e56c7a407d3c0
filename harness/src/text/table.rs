// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table printer: columns as wide as their widest cell.

use std::io::{self, Write};

use crate::text::columns::{columns, pad};
use crate::text::printable::printable;
use crate::text::tone::{self, Tone};

/// Writes a table between two empty lines, its heading in bold on a terminal. The first column is flush left, all others
/// are flush right.
///
/// # Errors
/// Errors of `out`.
pub fn write_table<const COLUMNS: usize>(lines: &[[String; COLUMNS]], out: &mut impl Write) -> io::Result<()> {
    write_toned_table(lines, &[], out)
}

/// Writes a table as [`write_table`] does, its rows after the heading in these tones; the others are plain.
///
/// # Errors
/// Errors of `out`.
pub fn write_toned_table(lines: &[impl AsRef<[String]>], tones: &[Tone], out: &mut impl Write) -> io::Result<()> {
    write_toned_rows(lines, 1, tones, out)
}

/// Writes a table between two empty lines, from rows with equally many cells. The first `left` columns are flush left, all
/// others are flush right.
///
/// # Errors
/// Errors of `out`.
pub fn write_rows(lines: &[Vec<String>], left: usize, out: &mut impl Write) -> io::Result<()> {
    write_toned_rows(lines, left, &[], out)
}

fn write_toned_rows(
    lines: &[impl AsRef<[String]>],
    left: usize,
    tones: &[Tone],
    out: &mut impl Write,
) -> io::Result<()> {
    // Each cell is made one line.
    let lines: Vec<Vec<String>> =
        lines.iter().map(|line| line.as_ref().iter().map(|cell| printable(cell).into_owned()).collect()).collect();
    let widths: Vec<usize> = (0..lines.first().map_or(0, Vec::len))
        .map(|column| lines.iter().map(|line| columns(&line[column])).max().unwrap_or(0))
        .collect();
    writeln!(out)?;
    for (line, tone) in lines.iter().zip(tone::of_lines(tones.iter().copied())) {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column < left {
            true => pad(cell, width),
            false => format!("{cell:>width$}"),
        });
        writeln!(out, "{}", tone.line(cells.collect::<Vec<_>>().join("  ").trim_end()))?;
    }
    writeln!(out)
}
