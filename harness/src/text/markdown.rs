// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text for Markdown as GitHub and GitLab show it. The firmware's text appears only as code: in code, `@name` notifies
//! nobody, an address does not become a link, and `#12` refers to nothing.

use crate::text::printable::printable;

/// Formats text as inline code.
pub fn code(text: &str) -> String {
    let text = printable(text);
    if text.trim().is_empty() {
        return String::new();
    }
    // The fence is longer than any run of backticks inside.
    let fence = "`".repeat(longest_run(&text) + 1);
    // Markdown drops one space on each side of the code.
    let space = if text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// Formats text as code in a table cell.
pub fn cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// Formats lines as a code block.
pub fn block<'a>(lines: impl Iterator<Item = &'a str> + Clone) -> String {
    let fence = "`".repeat(lines.clone().map(longest_run).max().unwrap_or(0).max(2) + 1);
    let lines: String = lines.map(|line| format!("{}\n", printable(line))).collect();
    format!("{fence}\n{lines}{fence}")
}

fn longest_run(text: &str) -> usize {
    text.split(|c: char| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_ends_where_the_text_does() {
        for (text, shown) in [
            ("crc32", "`crc32`"),
            ("a`b", "``a`b``"),
            ("`@user`", "`` `@user` ``"),
            ("``` ", "```` ```  ````"),
            ("a\nb", "`a\u{fffd}b`"),
            (" ", ""),
        ] {
            assert_eq!(code(text), shown, "{text:?}");
        }
        assert_eq!(cell("a|`b`"), "`` a\\|`b` ``");
        assert_eq!(block(["x", "````", "\u{1b}[31m"].into_iter()), "`````\nx\n````\n\u{fffd}[31m\n`````");
        assert_eq!(block(["x"].into_iter()), "```\nx\n```");
    }
}
