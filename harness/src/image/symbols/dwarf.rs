// SPDX-License-Identifier: MIT OR Apache-2.0
//! DWARF about an address: lines, inlined functions, the place of a function's definition. All of it is optional, so
//! every failure is a value.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use addr2line::{Context, LookupContinuation as _, LookupResult};
use gimli::{
    self, AttributeValue, DebuggingInformationEntry, EndianSlice, LineProgramHeader, LittleEndian, Reader as _,
    Section as _, SectionId, UnitOffset, UnitRef,
};
use object::Object as _;

use super::entry_ranges::EntryRanges;
use super::patch::Patch;
pub(crate) use super::patch::Slice;
use super::shared_lists::{EMPTY_PROGRAM, EmptyLists, References};
use super::stabs;
use crate::image::section::uncompressed;
use crate::text::path::normal;

pub(crate) type Unit<'a> = gimli::Unit<Slice<'a>>;

/// Alignment of Thumb's and compressed RISC-V's instructions in bytes.
const CODE_ALIGNMENT: usize = 2;

/// Most references that are followed from a function to its declaration.
pub(super) const MAX_HOPS: usize = 8;

/// Most functions that may be inlined into each other. addr2line calls itself once for each, and has no bound of its
/// own.
const MAX_INLINED: usize = 256;

/// Largest size of a function that the linker discards; code at higher addresses is never taken for a discarded
/// function.
const DISCARDED_BYTES: u64 = 1 << 20;

/// Debug sections by name, decompressed.
pub(crate) struct Sections<'data> {
    bytes: BTreeMap<&'static str, Cow<'data, [u8]>>,
    /// Sentence about the parts that were left out.
    warning: Option<String>,
    /// Whether they were made of stabs.
    is_of_stabs: bool,
    /// Whether the file has functions in stabs and in DWARF, of which these are one.
    has_both: bool,
    /// Offsets of the line programs of partial units, by the unit's offset.
    partial_programs: BTreeMap<usize, usize>,
}

/// Frame of an address, from DWARF.
pub(super) struct DwarfFrame<'a> {
    /// Linkage name, or the name in the source if there is none.
    pub(super) function: Option<&'a [u8]>,
    /// Directory and file name, joined as DWARF spells them.
    pub(super) file: Option<&'a str>,
    /// Line in that file.
    pub(super) line: Option<u32>,
}

/// Debug information, ready for look-ups.
pub(super) struct Dwarf<'a> {
    context: Context<Slice<'a>>,
    sections: Arc<gimli::Dwarf<Slice<'a>>>,
    /// The readable units before the first damaged header, in order.
    units: Vec<Unit<'a>>,
    /// Offsets of the line programs of partial units, by the unit's offset, and those programs.
    partial_programs: &'a BTreeMap<usize, usize>,
    programs: BTreeMap<usize, gimli::IncompleteLineProgram<Slice<'a>>>,
    /// Whether it was made of stabs: the first line of a function may be that of one which is inlined.
    is_of_stabs: bool,
}

impl<'data> Sections<'data> {
    /// Loads the debug sections of a file, or makes them of its stabs; None when it has neither. `first` is the address range
    /// of its first function, `names` are that function's names.
    ///
    /// # Errors
    /// When a section is outside the file or cannot be decompressed.
    pub(crate) fn load(
        elf: &object::File<'data>,
        first: &Range<u64>,
        names: &[&str],
    ) -> Result<Option<Self>, String> {
        let mut own = Sections::read(elf)?.map(Sections::bounded).transpose()?;
        let made = match (stabs::as_dwarf(elf), &mut own) {
            (Ok(made), _) => made.map(Sections::of_stabs).map(Sections::bounded).transpose()?,
            (Err(error), None) => return Err(error),
            (Err(error), Some((own, _))) => {
                own.warning.get_or_insert(format!("only the ELF file's DWARF is read: {error}"));
                None
            }
        };
        let (mut sections, empty) = match (own, made) {
            (None, None) => return Ok(None),
            (Some(one), None) | (None, Some(one)) => one,
            (Some(own), Some(made)) => {
                let (own_functions, made_functions) = (own.0.functions(), made.0.functions());
                let (sections, empty) = if made_functions > own_functions { made } else { own };
                (Sections { has_both: own_functions > 0, ..sections }, empty)
            }
        };
        sections.mend(first, names, empty.ranges);
        Ok(Some(sections))
    }

    fn new(bytes: BTreeMap<&'static str, Cow<'data, [u8]>>) -> Self {
        Sections { bytes, warning: None, is_of_stabs: false, has_both: false, partial_programs: BTreeMap::new() }
    }

    fn of_stabs(made: stabs::Made) -> Self {
        let bytes = made.into_iter().map(|(name, bytes)| (name, Cow::Owned(bytes))).collect();
        Sections { is_of_stabs: true, ..Sections::new(bytes) }
    }

    /// Bounds what entries share, before anything reads them; also returns the offsets of empty lists.
    fn bounded(mut self) -> Result<(Self, EmptyLists), String> {
        let empty = self.append_empty_lists();
        self.bound(empty)?;
        Ok((self, empty))
    }

    /// Reads the sections of DWARF in a file.
    fn read(elf: &object::File<'data>) -> Result<Option<Self>, String> {
        if elf.section_by_name(SectionId::DebugInfo.name()).is_none() {
            return Ok(None);
        }
        let mut bytes = BTreeMap::new();
        gimli::Dwarf::load(|id| {
            if let Some(section) = elf.section_by_name(id.name()) {
                bytes.insert(id.name(), uncompressed(elf, &section)?);
            }
            Ok::<_, String>(())
        })?;
        Ok(Some(Sections::new(bytes)))
    }

    /// Number of functions that have code. Damage ends the count.
    fn functions(&self) -> usize {
        let dwarf = self.dwarf();
        let (mut headers, mut functions) = (dwarf.units(), 0);
        while let Ok(Some(header)) = headers.next() {
            let Ok(unit) = dwarf.unit(header) else { continue };
            let mut entries = unit.entries();
            while let Ok(Some(entry)) = entries.next_dfs() {
                let has_code =
                    [gimli::DW_AT_low_pc, gimli::DW_AT_ranges].iter().any(|&at| entry.attr_value(at).is_some());
                functions += usize::from(entry.tag() == gimli::DW_TAG_subprogram && has_code);
            }
        }
        functions
    }

    /// Whether the debug information was made of stabs, which have no inlined functions.
    pub(super) fn is_of_stabs(&self) -> bool {
        self.is_of_stabs
    }

    /// Sentences about what was left out.
    pub(super) fn warnings(&self) -> Vec<String> {
        let of_stabs = self.is_of_stabs.then(|| {
            "the ELF file's debug information is stabs, as gcc before 12 writes it for an AVR by -g: its lines are read, but it \
             has no inlined functions; compile and link with -gdwarf-4 for these"
                .to_owned()
        });
        let both = self.has_both.then(|| {
            let read = if self.is_of_stabs { "stabs" } else { "DWARF" };
            format!("the ELF file has functions in stabs and in DWARF: only the {read}, with more of them, are read")
        });
        of_stabs.into_iter().chain(both).chain(self.warning.clone()).collect()
    }

    /// Appends an empty list to each of the sections with lists, and returns the offsets.
    fn append_empty_lists(&mut self) -> EmptyLists {
        let mut append = |section: SectionId, list: &[u8]| {
            let bytes = self.bytes.entry(section.name()).or_default().to_mut();
            let offset = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            bytes.extend(list);
            offset
        };
        EmptyLists {
            ranges: [SectionId::DebugRanges, SectionId::DebugRngLists].map(|section| append(section, &[0; 16])),
            program: append(SectionId::DebugLine, &EMPTY_PROGRAM),
        }
    }

    /// Turns references to lists that are shared too often, and to line programs of partial units, to empty lists.
    fn bound(&mut self, empty: EmptyLists) -> Result<(), String> {
        let lengths = [SectionId::DebugRanges, SectionId::DebugRngLists].map(|id| self.bytes[id.name()].len());
        let found = References::find(&self.dwarf(), lengths.iter().sum(), empty).finish()?;
        self.warning = found.warning;
        self.partial_programs = found.partial_programs;
        self.apply(found.patches);
        Ok(())
    }

    fn apply(&mut self, patches: Vec<Patch>) {
        for Patch { section, start, bytes } in patches {
            if let Some(place) =
                self.bytes.get_mut(section.name()).and_then(|section| section.to_mut().get_mut(start..))
                && let Some(place) = place.get_mut(..bytes.len())
            {
                place.copy_from_slice(&bytes);
            }
        }
    }

    pub(crate) fn dwarf(&self) -> gimli::Dwarf<Slice<'_>> {
        let load = |id: SectionId| {
            let bytes = self.bytes.get(id.name()).map_or(&[][..], |bytes| bytes);
            Ok(EndianSlice::new(bytes, LittleEndian))
        };
        let Ok(mut dwarf) = gimli::Dwarf::load::<_, Infallible>(load);
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        dwarf
    }

    /// Corrects errors that GNU tools leave behind. `first` is the range of the image's first function, `names` are
    /// its names.
    ///
    /// * The linker keeps the debug information of functions that `--gc-sections` has discarded, and places all of
    ///   them at address 0. On a Cortex-M with flash at 0, they overlap the real functions.
    /// * The RISC-V linker makes code shorter, and the assembler's own ranges are not updated. A file in assembly
    ///   then seems to contain the start of the code after it.
    ///
    /// Both kinds of wrong ranges are removed, and the units concerned get their ranges from their lines, which are
    /// right. addr2line must not have two units to choose from: it would look for the frames of the second in the
    /// files of the first.
    fn mend(&mut self, first: &Range<u64>, names: &[&str], empty_lists: [u32; 2]) {
        let mut mender = Mender {
            first,
            names,
            empty_lists,
            kept_units: BTreeSet::new(),
            read_programs: BTreeSet::new(),
            patches: Vec::new(),
        };
        {
            let dwarf = self.dwarf();
            let mut headers = dwarf.units();
            // Damage ends the search here; look-ups of addresses will report it.
            while let Ok(Some(header)) = headers.next() {
                if let Ok(unit) = dwarf.unit(header) {
                    mender.unit(&unit.unit_ref(&dwarf), &dwarf.debug_line);
                }
            }
            if mender.is_low() {
                mender.ranges(*dwarf.debug_aranges.reader());
            }
        }
        let patches = mender.patches;
        self.apply(patches);
    }
}

/// Collector of the bytes that [`Sections::mend`] writes.
struct Mender<'m> {
    first: &'m Range<u64>,
    names: &'m [&'m str],
    /// Offsets of empty lists in `.debug_ranges` and `.debug_rnglists`.
    empty_lists: [u32; 2],
    /// Offsets of units that have code at address 0.
    kept_units: BTreeSet<usize>,
    /// Offsets of the line programs that have been read.
    read_programs: BTreeSet<usize>,
    patches: Vec<Patch>,
}

/// Addresses of an entry, each with the position of its attribute.
#[derive(Default)]
struct Extent<'a> {
    at_zero: bool,
    size: Option<u64>,
    high: Option<Patch>,
    ranges: Option<Range<usize>>,
    name: Option<AttributeValue<Slice<'a>>>,
    is_assembly: bool,
}

impl Mender<'_> {
    /// Whether the image has code at the addresses of discarded functions.
    fn is_low(&self) -> bool {
        self.first.start < DISCARDED_BYTES
    }

    /// Searches one unit; None if it is damaged.
    fn unit<'a>(&mut self, unit: &UnitRef<'_, Slice<'a>>, debug_line: &gimli::DebugLine<Slice<'a>>) -> Option<()> {
        let offset = unit.header.debug_info_offset()?.0;
        let mut entries = unit.entries_raw(None).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        let whole = extent(&mut entries, abbreviation, offset)?;
        let is_assembly = whole.is_assembly;
        if !is_assembly && !self.is_low() {
            return Some(());
        }
        self.patches.extend(whole.high);
        let empty_list = self.empty_lists[usize::from(unit.header.version() >= 5)].to_le_bytes();
        if let Some(ranges) = whole.ranges.filter(|ranges| ranges.len() == empty_list.len()) {
            self.patches.push(Patch {
                section: SectionId::DebugInfo,
                start: ranges.start,
                bytes: empty_list.to_vec(),
            });
        }

        // For assembly, debug information does not say which code is left.
        let mut kept = is_assembly && self.first.start == 0;
        while !entries.is_empty() {
            let Some(abbreviation) = entries.read_abbreviation().ok()? else { continue };
            if abbreviation.tag() != gimli::DW_TAG_subprogram {
                entries.skip_attributes(abbreviation.attributes()).ok()?;
                continue;
            }
            let function = extent(&mut entries, abbreviation, offset)?;
            let is_first = || {
                let name = function.name.and_then(|name| unit.attr_string(name).ok());
                let is_named =
                    name.is_some_and(|name| self.names.iter().any(|known| known.as_bytes() == name.slice()));
                self.first.start == 0 && (is_named || function.size == Some(self.first.end))
            };
            if is_assembly {
                self.patches.extend(function.high);
            } else if function.at_zero && function.size.is_some() {
                if is_first() {
                    kept = true;
                } else {
                    self.patches.extend(function.high);
                }
            }
        }
        if kept {
            self.kept_units.insert(offset);
        } else if self.is_low() {
            self.lines(unit, debug_line);
        }
        Some(())
    }

    /// Finds where the line program of a unit sets its address to 0 (DWARF 5, 6.2.5).
    fn lines<'a>(&mut self, unit: &UnitRef<'_, Slice<'a>>, debug_line: &gimli::DebugLine<Slice<'a>>) -> Option<()> {
        let header = unit.line_program.as_ref()?.header();
        if !self.read_programs.insert(header.offset().0) {
            return Some(());
        }
        let address_bytes = usize::from(header.address_size());
        let mut program = header.raw_program_buf();
        while !program.is_empty() {
            match program.read_u8().ok()? {
                0 => {
                    let bytes = usize::try_from(program.read_uleb128().ok()?).ok()?;
                    let operation = program.split(bytes).ok()?;
                    if let Some((&code, address)) = operation.slice().split_first()
                        && code == gimli::DW_LNE_set_address.0
                        && address.len() == address_bytes
                        && is_zero(address)
                    {
                        let start = operation.offset_from(*debug_line.reader()) + 1;
                        self.bury(SectionId::DebugLine, start, address_bytes);
                    }
                }
                code if code == gimli::DW_LNS_fixed_advance_pc.0 => program.skip(2).ok()?,
                code if code < header.opcode_base() => {
                    let operands = header.standard_opcode_lengths().slice().get(usize::from(code) - 1)?;
                    for _ in 0..*operands {
                        program.read_uleb128().ok()?;
                    }
                }
                _ => {}
            }
        }
        Some(())
    }

    /// Finds the address ranges at 0 of all units without code there (DWARF 5, 6.1.2).
    fn ranges(&mut self, aranges: Slice<'_>) -> Option<()> {
        let mut sets = aranges;
        while !sets.is_empty() {
            let start = sets;
            let (bytes, format) = sets.read_initial_length().ok()?;
            let mut set = sets.split(bytes).ok()?;
            set.skip(2).ok()?;
            let unit = set.read_offset(format).ok()?;
            let address_bytes = usize::from(set.read_u8().ok()?);
            set.skip(1).ok()?;
            let misaligned = set.offset_from(start) % (2 * address_bytes).max(1);
            if misaligned > 0 {
                set.skip(2 * address_bytes - misaligned).ok()?;
            }
            while !self.kept_units.contains(&unit) && address_bytes > 0 && set.len() >= 2 * address_bytes {
                let place = set.offset_from(aranges);
                let (address, length) = set.split(2 * address_bytes).ok()?.slice().split_at(address_bytes);
                if is_zero(address) && !is_zero(length) {
                    self.bury(SectionId::DebugAranges, place, address_bytes);
                }
            }
        }
        Some(())
    }

    /// Moves an address to the end of the address space, where other linkers place discarded code.
    fn bury(&mut self, section: SectionId, start: usize, address_bytes: usize) {
        self.patches.push(Patch { section, start, bytes: vec![0xff; address_bytes] });
    }
}

/// Beginning of the names that rustc gives to closures made from async functions and blocks.
const ASYNC: &[u8] = b"{async_";

/// Adds the async bodies of one unit. rustc's debug information names such a closure's function `{async_fn#0}`,
/// `{async_block#0}` and so on.
fn unit_async_bodies(unit: &UnitRef<'_, Slice<'_>>, bodies: &mut BTreeSet<String>) -> Result<(), gimli::Error> {
    let mut entries = unit.entries();
    let Some(root) = entries.next_dfs()? else { return Ok(()) };
    if root.attr_value(gimli::DW_AT_language) != Some(AttributeValue::Language(gimli::DW_LANG_Rust)) {
        return Ok(());
    }
    while let Some(entry) = entries.next_dfs()? {
        let text = |of| entry.attr_value(of).and_then(|value| unit.attr_string(value).ok());
        if entry.tag() == gimli::DW_TAG_subprogram
            && text(gimli::DW_AT_name).is_some_and(|name| name.slice().starts_with(ASYNC))
            && let Some(linkage_name) = text(gimli::DW_AT_linkage_name)
        {
            bodies.insert(super::demangle(&linkage_name.to_string_lossy()).into_owned());
        }
    }
    Ok(())
}

/// Whether more functions are inlined into each other than [`MAX_INLINED`]. Entries after damage do not matter:
/// addr2line reads the entries in the same order, and stops there, too.
fn is_too_deep(unit: &Unit<'_>) -> bool {
    let Ok(mut entries) = unit.entries_raw(None) else { return false };
    // Depths in the tree of the inlined functions around the current entry, outermost first.
    let mut around: Vec<isize> = Vec::new();
    while !entries.is_empty() && around.len() <= MAX_INLINED {
        let depth = entries.next_depth();
        let Ok(abbreviation) = entries.read_abbreviation() else { return false };
        let Some(abbreviation) = abbreviation else { continue };
        while around.pop_if(|outer| *outer >= depth).is_some() {}
        if abbreviation.tag() == gimli::DW_TAG_inlined_subroutine {
            around.push(depth);
        }
        if entries.skip_attributes(abbreviation.attributes()).is_err() {
            return false;
        }
    }
    around.len() > MAX_INLINED
}

/// Whether a compiler that recorded its options did not optimise C or C++.
fn says_unoptimised(producer: &str) -> bool {
    let mut options = producer.split_whitespace().filter(|word| word.starts_with('-'));
    let level = options.clone().rfind(|word| word.starts_with("-O"));
    // gcc before 4.7, and later ones with -gno-record-gcc-switches, write only their version, whatever the level is.
    let is_recorded = options.next().is_some();
    producer.starts_with("GNU C") && is_recorded && level.is_none_or(|level| level == "-O0")
}

/// Name of a unit's compiler, with its options.
pub(super) fn producer(unit: &UnitRef<'_, Slice<'_>>) -> Option<String> {
    let mut entries = unit.entries();
    let value = entries.next_dfs().ok()??.attr_value(gimli::DW_AT_producer)?;
    Some(unit.attr_string(value).ok()?.to_string_lossy().into_owned())
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// Reads the attributes of an entry; `unit` is the offset of its unit.
fn extent<'a>(
    entries: &mut gimli::EntriesRaw<'_, Slice<'a>>,
    abbreviation: &gimli::Abbreviation,
    unit: usize,
) -> Option<Extent<'a>> {
    let mut extent = Extent::default();
    for specification in abbreviation.attributes() {
        let start = unit + entries.next_offset().0;
        let attribute = entries.read_attribute(*specification).ok()?;
        let place = start..unit + entries.next_offset().0;
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_low_pc, AttributeValue::Addr(0)) => extent.at_zero = true,
            (gimli::DW_AT_high_pc, value) => {
                extent.size = match value {
                    AttributeValue::Addr(end) => Some(end),
                    _ => value.udata_value(),
                };
                let mut bytes = vec![0; place.len()];
                if specification.form() == gimli::DW_FORM_udata
                    && let Some((_, more)) = bytes.split_last_mut()
                {
                    more.fill(0x80);
                }
                extent.high = Some(Patch { section: SectionId::DebugInfo, start, bytes });
            }
            (gimli::DW_AT_ranges, _) => extent.ranges = Some(place),
            (gimli::DW_AT_linkage_name, name) => extent.name = Some(name),
            (gimli::DW_AT_name, name) => {
                extent.name.get_or_insert(name);
            }
            (gimli::DW_AT_language, AttributeValue::Language(language)) => {
                extent.is_assembly = language == gimli::DW_LANG_Mips_Assembler;
            }
            _ => {}
        }
    }
    Some(extent)
}

impl<'a> Dwarf<'a> {
    /// Reads the unit headers.
    ///
    /// # Errors
    /// When the headers are damaged, or functions are inlined too deep.
    pub(super) fn new(sections: &'a Sections<'_>) -> Result<Self, String> {
        let (partial_programs, is_of_stabs) = (&sections.partial_programs, sections.is_of_stabs);
        let sections = Arc::new(sections.dwarf());
        let mut units = Vec::new();
        let mut headers = sections.units();
        while let Ok(Some(header)) = headers.next() {
            units.extend(sections.unit(header));
        }
        if units.iter().any(is_too_deep) {
            return Err(format!("functions are inlined into each other more than {MAX_INLINED} deep"));
        }
        let mut programs = BTreeMap::new();
        for unit in &units {
            let own = unit.header.debug_info_offset().and_then(|offset| partial_programs.get(&offset.0));
            let Some(&own) = own.filter(|own| !programs.contains_key(*own)) else { continue };
            let program = sections.debug_line.program(gimli::DebugLineOffset(own), unit.address_size(), None, None);
            programs.extend(program.ok().map(|program| (own, program)));
        }
        let context = Context::from_arc_dwarf(sections.clone()).map_err(|error| error.to_string())?;
        Ok(Dwarf { context, sections, units, partial_programs, programs, is_of_stabs })
    }

    /// Lines of a range of code: address, bytes, file, line.
    pub(super) fn lines(&self, range: Range<u64>) -> Vec<(u64, u64, &str, u32)> {
        let mut lines: Vec<(u64, u64, &str, u32)> = Vec::new();
        // addr2line's own iterator is not used: damaged tables make it panic.
        for start in range.step_by(CODE_ALIGNMENT) {
            let location = self.context.find_location(start).ok().flatten();
            let named = location.and_then(|location| Some((location.file?, location.line.filter(|&line| line > 0)?)));
            let Some((file, line)) = named else { continue };
            match lines.last_mut() {
                Some((first, size_bytes, last_file, last_line))
                    if *first + *size_bytes == start && *last_line == line && *last_file == file =>
                {
                    *size_bytes += CODE_ALIGNMENT as u64;
                }
                _ => lines.push((start, CODE_ALIGNMENT as u64, file, line)),
            }
        }
        lines
    }

    /// Compilers of the units, with their options.
    pub(super) fn producers(&self) -> BTreeSet<String> {
        self.units().filter_map(|unit| producer(&unit)).collect()
    }

    /// Offsets of the units whose compiler says that it did not optimise. gcc writes its options into the debug
    /// information, and the last level counts.
    pub(super) fn unoptimised(&self) -> BTreeSet<usize> {
        let is_unoptimised =
            |unit: &UnitRef<'_, Slice<'a>>| producer(unit).is_some_and(|producer| says_unoptimised(&producer));
        let units = self.units().filter(is_unoptimised);
        units.filter_map(|unit| Some(unit.header.debug_info_offset()?.0)).collect()
    }

    /// Offset of the unit that the code at an address belongs to.
    pub(super) fn unit_at(&self, address: u64) -> Option<usize> {
        let unit = self.context.find_dwarf_and_unit(address).skip_all_loads()?;
        Some(unit.header.debug_info_offset()?.0)
    }

    /// Closures that Rust has made from async functions and blocks, by demangled path.
    pub(super) fn async_bodies(&self) -> BTreeSet<String> {
        let mut bodies = BTreeSet::new();
        // Most firmware has none, and a search for the name is faster than reading all entries.
        if self.may_name(ASYNC) {
            for unit in &self.units {
                // Damage ends the search in this unit.
                let _ = unit_async_bodies(&unit.unit_ref(&self.sections), &mut bodies);
            }
        }
        bodies
    }

    /// Whether a string of the debug information may contain this text.
    fn may_name(&self, text: &[u8]) -> bool {
        let sections = &self.sections;
        [*sections.debug_str.reader(), *sections.debug_line_str.reader(), *sections.debug_info.reader()]
            .into_iter()
            .any(|section| memchr::memmem::find(section.slice(), text).is_some())
    }

    /// Variables with an address: their names with the source files that declare them.
    pub(super) fn variables(&self) -> BTreeMap<u64, Vec<(String, String)>> {
        let mut variables = BTreeMap::new();
        for unit in &self.units {
            // Damage ends the search in this unit.
            let _ = self.unit_variables(&unit.unit_ref(&self.sections), &mut variables);
        }
        variables
    }

    fn unit_variables(
        &self,
        unit: &UnitRef<'_, Slice<'a>>,
        variables: &mut BTreeMap<u64, Vec<(String, String)>>,
    ) -> Result<(), gimli::Error> {
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            if entry.tag() != gimli::DW_TAG_variable {
                continue;
            }
            let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(gimli::DW_AT_location) else { continue };
            let mut operations = expression.operations(unit.encoding());
            let address = match operations.next()? {
                Some(gimli::Operation::Address { address }) => address,
                Some(gimli::Operation::AddressIndex { index }) => unit.address(index)?,
                _ => continue,
            };
            if let Some(named) = self.declaration(unit, entry.offset()) {
                variables.entry(address).or_default().push(named);
            }
        }
        Ok(())
    }

    /// Ranges of inlined functions with certain names, and their names.
    pub(super) fn inlined(&self, is_meant: impl Fn(&str) -> bool) -> Vec<(Range<u64>, String)> {
        let mut found = Vec::new();
        for unit in &self.units {
            // Damage ends the search in this unit.
            let _ = self.unit_inlined(&unit.unit_ref(&self.sections), &is_meant, &mut found);
        }
        found
    }

    fn unit_inlined(
        &self,
        unit: &UnitRef<'_, Slice<'a>>,
        is_meant: &impl Fn(&str) -> bool,
        found: &mut Vec<(Range<u64>, String)>,
    ) -> Result<(), gimli::Error> {
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            if entry.tag() != gimli::DW_TAG_inlined_subroutine {
                continue;
            }
            let named = self.declaration(unit, entry.offset());
            let Some((name, _)) = named.filter(|(name, _)| is_meant(name)) else { continue };
            let mut ranges = EntryRanges::of(unit, entry)?;
            while let Some(range) = ranges.next()? {
                if range.begin < range.end {
                    found.push((range.begin..range.end, name.clone()));
                }
            }
        }
        Ok(())
    }

    /// Name and source file of a variable or function: its own, or those of its declaration.
    fn declaration(&self, unit: &UnitRef<'_, Slice<'a>>, offset: UnitOffset) -> Option<(String, String)> {
        let (mut name, mut file) = (None, None);
        let (mut other_unit, mut offset) = (None::<&Unit<'_>>, offset);
        for _ in 0..MAX_HOPS {
            let unit = other_unit.map_or(*unit, |other| other.unit_ref(&self.sections));
            let entry = unit.entry(offset).ok()?;
            let text = |of| unit.attr_string(entry.attr_value(of)?).ok();
            let own = text(gimli::DW_AT_linkage_name).or_else(|| text(gimli::DW_AT_name));
            name = name.or_else(|| own.map(|own| own.to_string_lossy().into_owned()));
            if file.is_none() {
                file = self.declared_in(&unit, &entry);
            }
            let Some(origin) = self.origin(&unit, &entry).filter(|_| name.is_none() || file.is_none()) else { break };
            offset = origin.1;
            if let Some(other) = origin.0 {
                other_unit = Some(other);
            }
        }
        Some((name?, file?))
    }

    /// Frames at an address, outermost first, and whether split DWARF would have more frames.
    ///
    /// # Errors
    /// When the address's debug information is damaged.
    pub(super) fn frames(&self, address: u64) -> Result<(Vec<DwarfFrame<'_>>, bool), gimli::Error> {
        let mut split = false;
        let mut lookup = self.context.find_frames(address);
        let mut frames = loop {
            match lookup {
                LookupResult::Output(frames) => break frames?,
                LookupResult::Load { continuation, .. } => {
                    split = true;
                    lookup = continuation.resume(None);
                }
            }
        };
        let mut places = Vec::new();
        while let Some(frame) = frames.next()? {
            let location = frame.location.as_ref();
            places.push(DwarfFrame {
                function: frame.function.map(|function| function.name.slice()),
                file: location.and_then(|location| location.file),
                line: location.and_then(|location| location.line),
            });
        }
        // The innermost frame's line is the address's own. If the function's unit lacks a line, another unit may have
        // one: assemblers do not notice that the linker made their code shorter.
        if let Some(place) = places.first_mut().filter(|place| place.file.is_none() && place.line.is_none())
            && let Some(location) = self.context.find_location(address)?
        {
            (place.file, place.line) = (location.file, location.line);
        }
        places.reverse();
        Ok((places, split))
    }

    /// File and line at an address, without regard to the function there.
    pub(super) fn line_at(&self, address: u64) -> Option<(String, Option<u32>)> {
        let location = self.context.find_location(address).ok()??;
        Some((normal(location.file?).into_owned(), location.line))
    }

    /// File and line of the definition of the function that starts at an address.
    ///
    /// gcc gives a function that a system header declares the header's line. Its code is somewhere else.
    pub(super) fn definition_at(&self, address: u64) -> Option<(String, u32)> {
        let (offset, code) = {
            let mut frames = self.context.find_frames(address).skip_all_loads().ok()?;
            let mut outermost = (None, None);
            while let Some(frame) = frames.next().ok()? {
                let location = frame.location.and_then(|location| Some((location.file?, location.line?)));
                outermost = (frame.dw_die_offset, location);
            }
            (outermost.0?, outermost.1.map(|(file, line)| (normal(file).into_owned(), line)))
        };
        let unit = self.context.find_dwarf_and_unit(address).skip_all_loads()?;
        let (mut file, mut line) = (None, None);
        let (mut other_unit, mut offset) = (None::<&Unit<'_>>, offset);
        for _ in 0..MAX_HOPS {
            let unit = other_unit.map_or(unit, |other| other.unit_ref(&self.sections));
            let entry = unit.entry(offset).ok()?;
            if file.is_none() {
                file = self.declared_in(&unit, &entry);
            }
            line = line.or_else(|| entry.attr_value(gimli::DW_AT_decl_line)?.udata_value());
            if file.is_some() && line.is_some() {
                break;
            }
            let Some(origin) = self.origin(&unit, &entry) else { break };
            offset = origin.1;
            if let Some(other) = origin.0 {
                other_unit = Some(other);
            }
        }
        let file = file?;
        if let Some(code) = code.filter(|(of_code, line)| !self.is_of_stabs && *of_code != file && *line > 0) {
            return Some(code);
        }
        Some((file, u32::try_from(line?).ok().filter(|&line| line > 0)?))
    }

    /// Size of the entries and line programs in bytes.
    pub(super) fn size_bytes(&self) -> usize {
        self.sections.debug_info.reader().slice().len() + self.sections.debug_line.reader().slice().len()
    }

    /// All units, in order.
    pub(super) fn units(&self) -> impl Iterator<Item = UnitRef<'_, Slice<'a>>> {
        self.units.iter().map(|unit| self.unit_ref(unit))
    }

    /// One of the units, with its sections.
    pub(super) fn unit_ref<'s>(&'s self, unit: &'s Unit<'a>) -> UnitRef<'s, Slice<'a>> {
        unit.unit_ref(&self.sections)
    }

    /// Abstract origin of an entry: in the same unit, or in another one (link-time optimisation).
    pub(super) fn origin(
        &self,
        unit: &UnitRef<'_, Slice<'a>>,
        entry: &DebuggingInformationEntry<Slice<'a>>,
    ) -> Option<(Option<&Unit<'a>>, UnitOffset)> {
        let value = entry
            .attr_value(gimli::DW_AT_abstract_origin)
            .or_else(|| entry.attr_value(gimli::DW_AT_specification))?;
        let offset = match value {
            AttributeValue::UnitRef(offset) => return Some((None, offset)),
            AttributeValue::DebugInfoRef(offset) => offset,
            _ => return None,
        };
        if let Some(offset) = offset.to_unit_offset(&unit.header) {
            return Some((None, offset));
        }
        self.units.iter().find_map(|unit| Some((Some(unit), offset.to_unit_offset(&unit.header)?)))
    }

    /// Path of the file that declares an entry, if the entry states it.
    fn declared_in(
        &self,
        unit: &UnitRef<'_, Slice<'a>>,
        entry: &DebuggingInformationEntry<Slice<'a>>,
    ) -> Option<String> {
        let index = match entry.attr_value(gimli::DW_AT_decl_file)? {
            AttributeValue::FileIndex(index) => index,
            value => value.udata_value()?,
        };
        // A file index refers to the files of its own unit.
        let program = match self.partial_programs.get(&unit.header.debug_info_offset()?.0) {
            Some(offset) => self.programs.get(offset)?,
            None => unit.line_program.as_ref()?,
        };
        path(unit, program.header(), index)
    }
}

/// Path of a line program's file, joined as addr2line joins its frames' paths, so that each file has a single
/// spelling.
fn path<'a>(unit: &UnitRef<'_, Slice<'a>>, header: &LineProgramHeader<Slice<'a>>, index: u64) -> Option<String> {
    let file = header.file(index)?;
    let mut path = unit.comp_dir.map_or_else(String::new, |dir| dir.to_string_lossy().into_owned());
    if file.directory_index() != 0
        && let Some(directory) = file.directory(header)
    {
        push(&mut path, &unit.attr_string(directory).ok()?.to_string_lossy());
    }
    push(&mut path, &unit.attr_string(file.path_name()).ok()?.to_string_lossy());
    Some(normal(&path).into_owned())
}

fn push(path: &mut String, part: &str) {
    let rooted_at_backslash = |path: &str| path.starts_with('\\') || path.get(1..3) == Some(":\\");
    if part.starts_with('/') || part.get(1..3) == Some(":/") || rooted_at_backslash(part) {
        path.clear();
    } else {
        let separator = if rooted_at_backslash(path) { '\\' } else { '/' };
        if !path.is_empty() && !path.ends_with(separator) {
            path.push(separator);
        }
    }
    path.push_str(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_compiler_that_says_so_did_not_optimise() {
        for producer in ["GNU C11 12.2.0 -mthumb -g -O2 -O0", "GNU C++17 12.2.0 -g"] {
            assert!(says_unoptimised(producer), "{producer}");
        }
        for producer in ["GNU C11 12.2.0 -O0 -Os", "GNU C11 12.2.0 -O", "GNU AS 2.40", "clang version 14.0.6", ""] {
            assert!(!says_unoptimised(producer), "{producer}");
        }
        // Without recorded options, the level is not known.
        for producer in ["GNU C17 12.2.0", "GNU C 4.6.3", "GNU C++14 12.2.1 20221205"] {
            assert!(!says_unoptimised(producer), "{producer}");
        }
    }
}
