// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text for a table cell. Spreadsheets that open the table take some texts for formulas.

use std::borrow::Cow;

use crate::text::printable::printable;

/// Makes text safe for a cell. Commas and quotes are left to the file's writer.
pub fn cell(text: &str) -> Cow<'_, str> {
    let text = printable(text);
    if text.starts_with(['=', '+', '-', '@']) { Cow::Owned(format!("'{text}")) } else { text }
}
