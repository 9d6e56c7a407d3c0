// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suggestions after a run: commands that show more of the profile, ready to be copied.

use crate::analysis::functions::{RowKind, Table};
use crate::text::printable::printable;
use crate::text::shell::quoted;

/// Suggests the profile's page, and the code of its hottest function; None: no instruction was executed.
pub fn sentence(table: &Table, profile: &str) -> Option<String> {
    let profile = quoted(profile);
    let page = format!("`harness report {profile}` makes a page of it");
    let hottest = table.rows.iter().find(|row| row.kind == RowKind::Function && row.self_insns > 0);
    let Some(row) = hottest else { return (!table.rows.is_empty()).then_some(page) };
    // An ambiguous name would be refused, and an unprintable one cannot be typed: use the address.
    let is_plain = table.rows.iter().filter(|other| other.name == row.name).count() == 1
        && printable(&row.name) == row.name.as_str();
    let name = match row.start {
        Some(start) if !is_plain => format!("{start:#x}"),
        _ => quoted(&row.name),
    };
    Some(format!("{page}, `harness annotate {profile} {name}` shows the code of the hottest function"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::functions;
    use crate::profile::Profile;
    use crate::profile::testing::empty;

    fn said(profile: &Profile) -> String {
        sentence(&functions::table(profile), "a b.profile").unwrap_or_default()
    }

    #[test]
    fn the_commands_can_be_copied_as_they_are() {
        let one = empty().function("crc32", 0x40, 4).function("main", 0x44, 4).insn(0x40, 7).insn(0x44, 3);
        assert_eq!(
            said(&one),
            "`harness report 'a b.profile'` makes a page of it, `harness annotate 'a b.profile' crc32` shows the code of \
             the hottest function"
        );
        let generic = empty().function("fold<u8>(int)", 0x40, 4).insn(0x40, 7);
        assert!(said(&generic).contains(" 'fold<u8>(int)'` shows"), "{}", said(&generic));
        let namesakes = empty().function("init", 0x40, 4).function("init", 0x44, 4).insn(0x40, 7).insn(0x44, 3);
        assert!(said(&namesakes).contains(" 0x40` shows"), "{}", said(&namesakes));
        assert!(said(&empty().function("a\u{202e}", 0x40, 4).insn(0x40, 7)).contains(" 0x40` shows"));
    }

    #[test]
    fn of_nothing_nothing_is_to_be_seen() {
        assert_eq!(said(&empty()), "");
        assert_eq!(said(&empty().insn(0x300, 1)), "`harness report 'a b.profile'` makes a page of it");
    }
}
