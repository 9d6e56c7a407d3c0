// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names with explanations, laid out like a help text: a long explanation continues below itself.

use crate::text::columns::{columns, pad};
use crate::text::fold::words;

/// Minimum width of a column of explanations beside their names. On narrower terminals explanations begin below the
/// names.
const MIN_COLUMNS: usize = 30;

/// Indent, in spaces, of an explanation below its name.
const INDENT: usize = 2;

/// Lays out each name and its explanation, folded to the width.
pub fn glossary(rows: &[(&str, &str)], width_columns: usize) -> String {
    let names = rows.iter().map(|(name, _)| columns(name)).max().unwrap_or(0) + INDENT;
    let is_beside = width_columns >= names + MIN_COLUMNS;
    let (indent, room) =
        if is_beside { (names, width_columns - names) } else { (INDENT, width_columns.saturating_sub(INDENT)) };
    let mut text = String::new();
    for (name, explanation) in rows {
        text += &pad(name, if is_beside { names } else { 0 });
        for (index, line) in words(explanation, room).into_iter().enumerate() {
            if index > 0 || !is_beside {
                text += &format!("\n{:indent$}", "");
            }
            text += &line;
        }
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_goes_on_below_itself() {
        let rows = [("csv", "The table of functions, for spreadsheets"), ("folded-stacks", "For pictures")];
        assert_eq!(
            glossary(&rows, 80),
            "csv            The table of functions, for spreadsheets\nfolded-stacks  For pictures\n"
        );
        assert_eq!(
            glossary(&rows, 45),
            "csv            The table of functions, for\n               spreadsheets\nfolded-stacks  For pictures\n"
        );
        assert_eq!(
            glossary(&rows, 30),
            "csv\n  The table of functions, for\n  spreadsheets\nfolded-stacks\n  For pictures\n"
        );
        for width in 14..100 {
            assert!(glossary(&rows, width).lines().all(|line| columns(line) <= width.max(15)), "{width}");
        }
    }
}
