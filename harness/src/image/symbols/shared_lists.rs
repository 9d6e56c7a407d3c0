// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounds on lists that many entries of the debug information share. A file of some hundred kilobytes can have 20,000
//! functions that refer to one list of 20,000 ranges, or as many units with one line program, and a reader expands the
//! list for each. Compilers write each list for one entry, so the lists together are as long as their sections.
//!
//! References beyond that bound are turned to an empty list. The rest of the file serves as usual.
//!
//! So are a partial unit's references to line programs. dwz moves what several units share into partial units, which have
//! the line program of a unit with code, for the files that entries are declared in. In DWARF 4 a partial unit's header is
//! that of any unit, and addr2line would look for the functions at the program's addresses there, and find none.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gimli::{
    self, Abbreviations, AttributeValue, DebugRngListsBase, Encoding, RangeListsOffset, Reader as _, Section as _,
    SectionId, UnitHeader, UnitType,
};

use super::patch::{Patch, Slice};

/// Bytes that any file's lists may have.
const ALWAYS: u64 = 1 << 16;

/// Line program without files and rows: DWARF 4, of 14 bytes after its length.
pub(super) const EMPTY_PROGRAM: [u8; 18] = [14, 0, 0, 0, 4, 0, 8, 0, 0, 0, 1, 1, 1, 0, 14, 1, 0, 0];

/// Offsets of empty lists.
#[derive(Clone, Copy)]
pub(super) struct EmptyLists {
    /// In `.debug_ranges`, and in `.debug_rnglists`.
    pub(super) ranges: [u32; 2],
    /// In `.debug_line`.
    pub(super) program: u32,
}

/// References that were found.
pub(super) struct References<'d, 'a> {
    dwarf: &'d gimli::Dwarf<Slice<'a>>,
    empty: EmptyLists,
    ranges: Budget,
    line_bytes: Budget,
    partial_bytes: Budget,
    partial_programs: BTreeMap<usize, usize>,
    /// Offsets of the line programs of partial units that are within the bound.
    read_programs: BTreeSet<usize>,
    /// Numbers of references beyond the bounds: to lists of ranges, and to line programs.
    cut: [u64; 2],
    patches: Vec<Patch>,
    /// Whether a reference beyond the bounds could not be changed.
    is_fixed: bool,
}

/// Result of the search.
pub(super) struct Found {
    /// Changes of the sections.
    pub(super) patches: Vec<Patch>,
    /// Sentence about what was left out; None: nothing was.
    pub(super) warning: Option<String>,
    /// Offsets of the line programs that partial units have in the file, by the unit's offset.
    pub(super) partial_programs: BTreeMap<usize, usize>,
}

/// Work that is left.
struct Budget {
    left: u64,
    /// Work that measuring lists may still take.
    looks: u64,
    /// Length of each list, by its offset, and whether that is all of it.
    known: HashMap<(usize, bool), (u64, bool)>,
}

impl Budget {
    fn of(bytes: usize) -> Budget {
        let left = (bytes as u64).saturating_add(ALWAYS);
        Budget { left, looks: left.saturating_mul(4), known: HashMap::new() }
    }

    /// Takes a list's length from what is left, if there is enough. `measure` counts up to a number, and returns whether
    /// that was all.
    fn take(&mut self, list: (usize, bool), measure: impl FnOnce(u64) -> (u64, bool)) -> bool {
        let known = self.known.get(&list).copied().filter(|&(length, is_all)| is_all || length > self.left);
        let (length, is_all) = known.unwrap_or_else(|| {
            let measured = measure((self.left + 1).min(self.looks));
            self.looks -= measured.0.min(self.looks);
            measured
        });
        self.known.insert(list, (length, is_all));
        let is_enough = is_all && length <= self.left;
        self.left -= if is_enough { length } else { 0 };
        is_enough
    }
}

impl<'d, 'a> References<'d, 'a> {
    /// Finds the references beyond the bounds. Damage ends the search in a unit: other readers stop there, too.
    pub(super) fn find(dwarf: &'d gimli::Dwarf<Slice<'a>>, range_bytes: usize, empty: EmptyLists) -> Self {
        let line_bytes = dwarf.debug_line.reader().slice().len();
        let mut references = References {
            dwarf,
            empty,
            ranges: Budget::of(range_bytes),
            line_bytes: Budget::of(line_bytes),
            partial_bytes: Budget::of(line_bytes),
            partial_programs: BTreeMap::new(),
            read_programs: BTreeSet::new(),
            cut: [0; 2],
            patches: Vec::new(),
            is_fixed: false,
        };
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if let Ok(abbreviations) = dwarf.abbreviations(&header) {
                let _ = references.unit(&header, &abbreviations);
            }
        }
        references
    }

    /// Ends the search.
    ///
    /// # Errors
    /// When the debug information cannot be used, with the reason.
    pub(super) fn finish(self) -> Result<Found, String> {
        let [ranges, programs] = self.cut;
        if self.is_fixed {
            return Err("its entries share lists of ranges more often than any compiler's do".to_owned());
        }
        let warning = (ranges + programs > 0).then(|| {
            format!(
                "the debug information refers to the same lists more often than any compiler's does: {ranges} lists of \
                 ranges and {programs} tables of lines are left out"
            )
        });
        Ok(Found { patches: self.patches, warning, partial_programs: self.partial_programs })
    }

    fn unit(&mut self, header: &UnitHeader<Slice<'a>>, abbreviations: &Abbreviations) -> Option<()> {
        let unit = header.debug_info_offset()?.0;
        let is_type = matches!(header.type_(), UnitType::Type { .. });
        let mut entries = header.entries_raw(abbreviations, None).ok()?;
        let mut base = DebugRngListsBase(0);
        let mut is_root = true;
        while !entries.is_empty() {
            let Some(abbreviation) = entries.read_abbreviation().ok()? else { continue };
            let has_ranges = || abbreviation.attributes().iter().any(|one| one.name() == gimli::DW_AT_ranges);
            if !is_root && !has_ranges() {
                entries.skip_attributes(abbreviation.attributes()).ok()?;
                continue;
            }
            let is_partial = is_root && abbreviation.tag() == gimli::DW_TAG_partial_unit;
            let (mut ranges, mut program) = (None, None);
            for specification in abbreviation.attributes() {
                let start = unit + entries.next_offset().0;
                let attribute = entries.read_attribute(*specification).ok()?;
                let place = start..unit + entries.next_offset().0;
                match (attribute.name(), attribute.value()) {
                    (gimli::DW_AT_ranges, value) => ranges = Some((value, place)),
                    (gimli::DW_AT_stmt_list, value) => program = Some((value, place)),
                    (gimli::DW_AT_rnglists_base, AttributeValue::DebugRngListsBase(own)) => base = own,
                    _ => {}
                }
            }
            if let Some((value, place)) = ranges {
                self.ranges(header.encoding(), base, value, place);
            }
            // A unit of types has the line program of another one, and nobody reads it for addresses.
            if let Some((AttributeValue::DebugLineRef(offset), place)) = program.filter(|_| is_root && !is_type) {
                match is_partial {
                    true => self.partial_program(unit, offset.0, place),
                    false => self.program(offset.0, place),
                }
            }
            is_root = false;
        }
        Some(())
    }

    fn ranges(
        &mut self,
        encoding: Encoding,
        base: DebugRngListsBase<usize>,
        value: AttributeValue<Slice<'a>>,
        place: std::ops::Range<usize>,
    ) {
        let dwarf = self.dwarf;
        let offset = match value {
            AttributeValue::RangeListsRef(offset) => RangeListsOffset(offset.0),
            AttributeValue::SecOffset(offset) => RangeListsOffset(offset),
            AttributeValue::DebugRngListsIndex(index) => match dwarf.ranges.get_offset(encoding, base, index) {
                Ok(offset) => offset,
                Err(_) => return,
            },
            _ => return,
        };
        let is_new = encoding.version >= 5;
        let measure = |most: u64| {
            let Ok(mut list) = dwarf.ranges.raw_ranges(offset, encoding) else { return (0, true) };
            for length in 0..most {
                if !matches!(list.next(), Ok(Some(_))) {
                    return (length, true);
                }
            }
            (most, false)
        };
        if !self.ranges.take((offset.0, is_new), measure) {
            self.cut[0] += 1;
            self.patch(place, self.empty.ranges[usize::from(is_new)]);
        }
    }

    /// Bytes of the line program at an offset, as far as there are any.
    fn program_bytes(&self, offset: usize) -> u64 {
        let mut section = *self.dwarf.debug_line.reader();
        let length = section.skip(offset).and_then(|()| section.read_initial_length());
        length.map_or(0, |(length, _)| length.min(section.slice().len())) as u64
    }

    /// Hides the line program of a partial unit. Its files are read once, however many units have it.
    fn partial_program(&mut self, unit: usize, offset: usize, place: std::ops::Range<usize>) {
        let bytes = self.program_bytes(offset);
        let is_read = self.read_programs.contains(&offset);
        if is_read || self.partial_bytes.take((offset, false), |_| (bytes, true)) {
            self.read_programs.insert(offset);
            self.partial_programs.insert(unit, offset);
        } else {
            self.cut[1] += 1;
        }
        self.patch(place, self.empty.program);
    }

    fn program(&mut self, offset: usize, place: std::ops::Range<usize>) {
        let bytes = self.program_bytes(offset);
        if !self.line_bytes.take((offset, false), |_| (bytes, true)) {
            self.cut[1] += 1;
            self.patch(place, self.empty.program);
        }
    }

    /// Turns a reference to an empty list, whose offset has as many bytes.
    fn patch(&mut self, place: std::ops::Range<usize>, offset: u32) {
        let bytes = match place.len() {
            4 => offset.to_le_bytes().to_vec(),
            8 => u64::from(offset).to_le_bytes().to_vec(),
            _ => {
                self.is_fixed = true;
                return;
            }
        };
        self.patches.push(Patch { section: SectionId::DebugInfo, start: place.start, bytes });
    }
}
