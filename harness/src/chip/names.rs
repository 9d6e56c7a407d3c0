// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names in a chip file, checked where the file is read. Names are shown in terminals, pages and job logs, and the file
//! may be a stranger's, so a name has neither a line's end nor a character of any format's syntax.

use wire::chip::{MAX_NAME_BYTES, is_name, is_of_name};

use super::file::File;

/// Most characters of a refused name that are shown.
const SHOWN: usize = 40;

/// Longest name of a learned register: that of a word that several small registers of an SVD share.
const MAX_LEARNED_BYTES: usize = 2048;

/// The first name of a file that is not one: the offset in the file, and a sentence.
pub(super) fn first_bad(file: &File) -> Option<(usize, String)> {
    let mut bad: Vec<(usize, String)> = Vec::new();
    let mut check = |offset: usize, field: &str, name: &str| {
        if !is_name(name) {
            bad.push((offset, refusal(field, name, MAX_NAME_BYTES, "-_. ")));
        }
    };
    for memory in &file.memory {
        check(memory.span().start, "the memory's `name`", &memory.get_ref().name);
    }
    for range in &file.undescribed {
        check(range.span().start, "the undescribed range's `name`", &range.get_ref().name);
    }
    file.clocks.iter().for_each(|(name, clock)| check(clock.span().start, "a name in [clocks]", name));
    file.csr.iter().for_each(|(name, csr)| check(csr.span().start, "a name in [csr]", name));
    for (name, peripheral) in &file.peripherals {
        check(peripheral.span().start, "a name in [peripherals]", name);
    }
    for (name, kind) in &file.kind {
        check(kind.span().start, "a name in [kind]", name);
        for (register, table) in &kind.get_ref().registers {
            check(table.span().start, "a register's name", register);
            let fields = table.get_ref().fields.keys();
            fields.for_each(|field| check(table.span().start, "a name in `fields`", field));
        }
        for (clock, table) in &kind.get_ref().clock {
            check(table.span().start, "a clock's name", clock);
        }
    }
    for register in file.learned.iter().flat_map(|learned| &learned.registers) {
        let name = &register.get_ref().name;
        let is_one = name.chars().all(|one| is_of_name(one) || matches!(one, '/' | '+'));
        if !is_one || !(1..=MAX_LEARNED_BYTES).contains(&name.len()) {
            let refusal = refusal("the learned register's `name`", name, MAX_LEARNED_BYTES, "-_. /+");
            bad.push((register.span().start, refusal));
        }
    }
    bad.into_iter().min()
}

fn refusal(field: &str, name: &str, most: usize, others: &str) -> String {
    let shown: String = name.chars().take(SHOWN).collect();
    let more = if name.chars().count() > SHOWN { "…" } else { "" };
    format!("{field} is {shown:?}{more}: a name has 1 to {most} letters (a to z, A to Z), digits and \"{others}\"")
}

/// A name of an SVD, with `_` for every character that a name may not have. Unlike a chip file, an SVD is a vendor's,
/// and is read as far as it can be.
pub(super) fn made_plain(name: impl Iterator<Item = char>) -> String {
    let name: String = name.map(|one| if is_of_name(one) { one } else { '_' }).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that ends a line of QEMU's memory tree and begins another one.
    const FORGED: &str = "z\n  0000000040000000-00000000400003ff (prio 0, ram): f";

    fn refused(text: &str, name: &str) -> Option<(usize, String)> {
        let quoted = format!("{name:?}").replace("\\u{", "\\u00").replace('}', "");
        let text = text.replace("NAME", &quoted);
        first_bad(&toml::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}")))
    }

    #[test]
    fn a_name_of_other_characters_is_refused_wherever_it_stands() {
        for (text, field) in [
            ("[[memory]]\nname = NAME\nstart = 0\nbytes = 1024", "the memory's `name`"),
            ("[[undescribed]]\nname = NAME\nstart = 0\nbytes = 4", "the undescribed range's `name`"),
            ("[clocks]\nNAME = 1", "a name in [clocks]"),
            ("[csr]\nNAME = { number = 1 }", "a name in [csr]"),
            ("[peripherals]\nNAME = { at = 0, kind = \"k\" }", "a name in [peripherals]"),
            ("[kind.NAME]\nbytes = 4", "a name in [kind]"),
            ("[kind.k.registers]\nNAME = { at = 0 }", "a register's name"),
            ("[kind.k.registers]\nR = { at = 0, fields = { NAME = 0 } }", "a name in `fields`"),
            ("[kind.k.clock]\nNAME = { of = [1] }", "a clock's name"),
            ("[learned]\nseen = []\n[[learned.registers]]\nat = 0\nname = NAME", "the learned register's `name`"),
        ] {
            assert_eq!(refused(text, "A-b_1. c"), None, "{text}");
            for name in [FORGED, "", "::error::x", "a\"b", "a,b", "\u{1b}[2J", "é", &"x".repeat(3000)] {
                let (_, said) = refused(text, name).unwrap_or_else(|| panic!("{text}: {name:?} passes"));
                assert!(said.starts_with(field) && !said.contains(char::is_control), "{said}");
            }
        }
    }

    #[test]
    fn names_of_an_svd_become_plain() {
        assert_eq!(made_plain("CR\n::1 é".chars()), "CR___1 _");
        assert_eq!(made_plain("".chars()), "_");
    }
}
