// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures and cuts text by the columns that it takes on a terminal.

use std::borrow::Cow;

use console::measure_text_width;

/// Columns that a terminal needs for text.
pub fn columns(text: &str) -> usize {
    measure_text_width(text)
}

/// Pads text with spaces to a number of columns.
pub fn pad(text: &str, width_columns: usize) -> String {
    let spaces = width_columns.saturating_sub(columns(text));
    format!("{text}{:spaces$}", "")
}

/// Cuts text to at most this number of columns, keeping its beginning.
pub fn clip(text: &str, width_columns: usize) -> Cow<'_, str> {
    if columns(text) <= width_columns {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", first(text, width_columns.saturating_sub(1))))
}

/// Shortens text to at most this number of columns by cutting its middle, since names in the same namespace differ at
/// their ends.
pub fn shorten(text: &str, width_columns: usize) -> Cow<'_, str> {
    if columns(text) <= width_columns {
        return Cow::Borrowed(text);
    }
    let kept = width_columns.saturating_sub(1);
    let reversed: String = text.chars().rev().collect();
    let tail: String = first(&reversed, kept - kept / 3).chars().rev().collect();
    Cow::Owned(format!("{}…{tail}", first(text, kept / 3)))
}

/// Longest beginning of text that fits into this number of columns.
fn first(text: &str, width_columns: usize) -> &str {
    let mut used = 0;
    let mut buffer = [0; 4];
    let end = text.char_indices().find(|&(_, character)| {
        used += columns(character.encode_utf8(&mut buffer));
        used > width_columns
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_columns_not_by_characters() {
        assert_eq!(columns("寸法größe"), 9);
        assert_eq!(clip("寸法寸法", 6), "寸法…");
        assert_eq!(shorten("寸法寸法寸法", 8), "寸…寸法");
        assert_eq!(pad("寸法", 6), "寸法  ");
        for width in 1..20 {
            assert!(columns(&shorten("namespace::寸法::größe::寸法", width)) <= width);
            assert!(columns(&clip("namespace::寸法::größe::寸法", width)) <= width);
        }
    }
}
