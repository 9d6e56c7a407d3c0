//! The table printer: columns as wide as their widest cell.

use std::io::{self, Write};

use crate::text::columns::{columns, pad};
use crate::text::printable::printable;

/// Writes a table between two empty lines. The first column is flush left, all others are flush right.
///
/// # Errors
/// Errors of `out`.
pub fn write_table<const COLUMNS: usize>(lines: &[[String; COLUMNS]], out: &mut impl Write) -> io::Result<()> {
    // Each cell is made one line.
    let lines: Vec<[String; COLUMNS]> =
        lines.iter().map(|line| line.each_ref().map(|cell| printable(cell).into_owned())).collect();
    let width = |column: usize| lines.iter().map(|line| columns(&line[column])).max().unwrap_or(0);
    writeln!(out)?;
    for line in &lines {
        let mut text = pad(&line[0], width(0));
        for (column, cell) in line.iter().enumerate().skip(1) {
            text += &format!("  {cell:>width$}", width = width(column));
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    writeln!(out)
}
