// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of tables, shared by all of them.

use crate::text::terminal;

/// Limits of a table's length and width.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableSize {
    /// Most rows; None: all.
    pub top_rows: Option<usize>,
    /// Columns that names are shortened to; None: names are whole.
    pub width_columns: Option<usize>,
}

impl TableSize {
    /// Limits on the terminal: its width, unless names are wanted whole.
    pub fn on_terminal(top_rows: Option<usize>, is_wide: bool) -> TableSize {
        TableSize { top_rows, width_columns: terminal::width_columns().filter(|_| !is_wide) }
    }
}
