//! Text for a cell of a table that spreadsheets open, which take some texts for formulas.

use std::borrow::Cow;

use crate::text::terminal::printable;

/// Text as it may stand in a cell. The writer of the file sees to commas and quotes.
pub fn cell(text: &str) -> Cow<'_, str> {
    let text = printable(text);
    if text.starts_with(['=', '+', '-', '@']) { Cow::Owned(format!("'{text}")) } else { text }
}
