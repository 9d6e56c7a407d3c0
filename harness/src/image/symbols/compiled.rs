// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the functions that a compiler has made. They keep the calling convention; assembly need not.

use std::collections::BTreeSet;

use gimli::{AttributeValue, UnitRef};

use super::dwarf::Slice;
use super::entry_ranges::EntryRanges;

/// First addresses of the functions in units of any language but assembly, and of each of their parts. Damage ends the
/// reading of a unit.
pub(super) fn starts(dwarf: &gimli::Dwarf<Slice<'_>>) -> BTreeSet<u64> {
    let mut starts = BTreeSet::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        let unit = unit.unit_ref(dwarf);
        if is_compiled(&unit) {
            let _ = read_unit(&unit, &mut starts);
        }
    }
    starts
}

fn is_compiled(unit: &UnitRef<'_, Slice<'_>>) -> bool {
    let root = unit.entries().next_dfs().ok().flatten().and_then(|entry| entry.attr_value(gimli::DW_AT_language));
    match root {
        Some(AttributeValue::Language(language)) => {
            !matches!(language, gimli::DW_LANG_Mips_Assembler | gimli::DW_LANG_ALTIUM_Assembler)
        }
        _ => false,
    }
}

fn read_unit(unit: &UnitRef<'_, Slice<'_>>, starts: &mut BTreeSet<u64>) -> Result<(), gimli::Error> {
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        if entry.tag() != gimli::DW_TAG_subprogram {
            continue;
        }
        let mut ranges = EntryRanges::of(unit, entry)?;
        while let Some(range) = ranges.next()? {
            starts.insert(range.begin);
        }
    }
    Ok(())
}
