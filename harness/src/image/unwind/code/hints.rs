// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hints from the symbol table about code: data among it, and runtime functions that treat the stack or their return
//! address in a special way.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionIndex, SectionKind};

/// Hints for following code; empty without symbols.
#[derive(Debug, Default)]
pub(in super::super) struct Hints {
    /// Data according to the assembler, load bias included, sorted.
    pub(super) data: Vec<Range<u64>>,
    /// Number of these data that start at or before the address that was asked for last: the next is mostly near.
    latest: Cell<usize>,
    /// Address of gcc's -pg runtime, which pops the word that was pushed before its call.
    pub(super) mcount: Option<u64>,
    /// libgcc's switches for processors without table branches; they continue by the table after their call.
    pub(super) switches: BTreeMap<u64, Entry>,
}

/// Entry of a switch's table: distance from the table's start in halfwords; words count bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Byte { is_signed: bool },
    Half { is_signed: bool },
    Word,
}

impl Hints {
    /// Reads the hints from an Arm image's symbols.
    pub(in super::super) fn read(file: &object::File<'_>, load_bias: u64) -> Hints {
        let mut hints = Hints::default();
        let mut marks: BTreeMap<u64, bool> = BTreeMap::new();
        // Debug sections have mapping symbols, too, whose values are not addresses.
        let is_code = |index: SectionIndex| {
            file.section_by_index(index).is_ok_and(|section| section.kind() == SectionKind::Text)
        };
        let code: BTreeSet<usize> = file
            .sections()
            .map(|section| section.index())
            .filter(|&index| is_code(index))
            .map(|index| index.0)
            .collect();
        for symbol in file.symbols() {
            let is_code = symbol.section_index().is_some_and(|index| code.contains(&index.0));
            let Some(name) = symbol.name().ok().filter(|_| is_code) else { continue };
            let address = (symbol.address() & !1).wrapping_add(load_bias);
            // Data may begin at any byte: the padding behind a table of an odd number of bytes has a mark of its own.
            let data = symbol.address().wrapping_add(load_bias);
            match name {
                "__gnu_mcount_nc" => hints.mcount = Some(address),
                _ if name == "$d" || name.starts_with("$d.") => drop(marks.entry(data).or_insert(true)),
                _ if name == "$t" || name.starts_with("$t.") => drop(marks.insert(address, false)),
                _ => {
                    let entry = match name.strip_prefix("__gnu_thumb1_case_") {
                        Some("uqi") => Entry::Byte { is_signed: false },
                        Some("sqi") => Entry::Byte { is_signed: true },
                        Some("uhi") => Entry::Half { is_signed: false },
                        Some("shi") => Entry::Half { is_signed: true },
                        Some("si") => Entry::Word,
                        _ => continue,
                    };
                    hints.switches.insert(address, entry);
                }
            }
        }
        let mut marks = marks.into_iter().peekable();
        while let Some((start, is_data)) = marks.next() {
            // The last mark extends to the next function; code is not followed into it.
            let end = marks.peek().map_or(start.saturating_add(4), |&(next, _)| next);
            if is_data {
                hints.data.push(start..end);
            }
        }
        hints
    }

    pub(super) fn is_data(&self, address: u64) -> bool {
        self.data_end(address).is_some()
    }

    /// End of the data that contain an address.
    pub(super) fn data_end(&self, address: u64) -> Option<u64> {
        let latest = self.latest.get();
        let is_before = |index: usize| self.data.get(index).is_some_and(|data| data.start <= address);
        let is_same = latest.checked_sub(1).is_none_or(is_before) && !is_before(latest);
        let after = if is_same { latest } else { self.data.partition_point(|data| data.start <= address) };
        self.latest.set(after);
        let data = &self.data[after.checked_sub(1)?];
        data.contains(&address).then_some(data.end)
    }
}
