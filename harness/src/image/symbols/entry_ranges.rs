// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address ranges of an entry of debug information. gimli adds the length of one to its start without a check, which ends a debug
//! build; a linker's mark of discarded code is the highest address.

use gimli::{self, AttributeValue, DebuggingInformationEntry, Range, RangeIter, UnitRef};

use super::patch::Slice;

/// Ranges of an entry, of which one that ends behind the last address is none.
pub(crate) struct EntryRanges<'a>(Option<RangeIter<Slice<'a>>>);

impl<'a> EntryRanges<'a> {
    /// Ranges of an entry.
    ///
    /// # Errors
    /// When they are damaged.
    pub(crate) fn of(
        unit: &UnitRef<'_, Slice<'a>>,
        entry: &DebuggingInformationEntry<Slice<'a>>,
    ) -> Result<EntryRanges<'a>, gimli::Error> {
        let length = match entry.attr_value(gimli::DW_AT_high_pc) {
            Some(AttributeValue::Udata(length)) => length,
            _ => 0,
        };
        let start = match entry.attr_value(gimli::DW_AT_low_pc) {
            Some(value) => unit.attr_address(value)?.unwrap_or(0),
            None => 0,
        };
        let is_sound = start.checked_add(length).is_some();
        Ok(EntryRanges(is_sound.then(|| unit.die_ranges(entry)).transpose()?))
    }

    /// The next range.
    ///
    /// # Errors
    /// When it is damaged.
    pub(crate) fn next(&mut self) -> Result<Option<Range>, gimli::Error> {
        self.0.as_mut().map_or(Ok(None), RangeIter::next)
    }
}
