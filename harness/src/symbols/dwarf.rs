//! What DWARF says about an address: lines, inlined functions, where a function is defined. All of it
//! is welcome and none of it is needed, so every failure is a value.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;

use addr2line::gimli::{
    self, AttributeValue, DebuggingInformationEntry, EndianSlice, LineProgramHeader, LittleEndian, SectionId,
    UnitOffset, UnitRef,
};
use addr2line::{Context, LookupContinuation as _, LookupResult};
use object::{Object as _, ObjectSection as _};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// References that are followed from a function to its declaration.
const MAX_HOPS: usize = 8;

/// No function that the linker discards is larger; code above is never mistaken for one.
const DISCARDED_BYTES: u64 = 1 << 20;

/// The debug sections by name, decompressed where they were compressed.
pub(super) struct Sections<'data>(BTreeMap<&'static str, Cow<'data, [u8]>>);

/// One frame, as DWARF has it.
pub(super) struct Place<'a> {
    /// Linkage name, or the name in the source where there is none.
    pub(super) function: Option<&'a [u8]>,
    /// Directory and file name joined as DWARF spells them.
    pub(super) file: Option<&'a str>,
    /// Line in that file.
    pub(super) line: Option<u32>,
}

/// DWARF that can be asked.
pub(super) struct Dwarf<'a> {
    context: Context<Slice<'a>>,
}

impl<'data> Sections<'data> {
    /// The debug sections of a file whose first function is at `first`; None when it has none.
    ///
    /// # Errors
    /// When one is outside the file or cannot be decompressed.
    pub(super) fn load(elf: &object::File<'data>, first: Option<Range<u64>>) -> Result<Option<Self>, object::Error> {
        if elf.section_by_name(SectionId::DebugInfo.name()).is_none() {
            return Ok(None);
        }
        let mut sections = Sections(BTreeMap::new());
        gimli::Dwarf::load(|id| {
            if let Some(section) = elf.section_by_name(id.name()) {
                sections.0.insert(id.name(), section.uncompressed_data()?);
            }
            Ok(())
        })?;
        if let Some(first) = first.filter(|first| first.start < DISCARDED_BYTES) {
            sections.bury_discarded(first);
        }
        Ok(Some(sections))
    }

    fn dwarf(&self) -> gimli::Dwarf<Slice<'_>> {
        let load = |id: SectionId| {
            let bytes = self.0.get(id.name()).map_or(&[][..], |bytes| bytes);
            Ok(EndianSlice::new(bytes, LittleEndian))
        };
        let Ok(mut dwarf) = gimli::Dwarf::load::<_, Infallible>(load);
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        dwarf
    }

    /// GNU ld keeps the debug information of functions that `--gc-sections` has discarded and places
    /// all of them at address 0: on a Cortex-M whose flash is there, on top of those that are left.
    /// Moves them to the end of the address space, where other linkers place them (DWARF 5 has no word
    /// for it; "tombstone" in DWARF issue 200609.1).
    fn bury_discarded(&mut self, first: Range<u64>) {
        let mut graves = Vec::new();
        {
            let dwarf = self.dwarf();
            let mut headers = dwarf.units();
            // Damage ends the search; the look-ups will tell about it.
            while let Ok(Some(header)) = headers.next() {
                let Ok(unit) = dwarf.unit(header) else { continue };
                let unit = unit.unit_ref(&dwarf);
                // Where something of the unit is at address 0 indeed, its lines are not told apart.
                if discarded_functions(&unit, &first, &mut graves) == Some(false) {
                    discarded_lines(&unit, &dwarf.debug_line, &mut graves);
                }
            }
        }
        for (section, place) in graves {
            if let Some(bytes) = self.0.get_mut(section.name()).and_then(|bytes| bytes.to_mut().get_mut(place)) {
                bytes.fill(0xff);
            }
        }
    }
}

type Grave = (SectionId, Range<usize>);

/// Finds the functions of a unit that are at address 0 and are not the image's `first`. Whether that one
/// is here; None when the unit is damaged.
fn discarded_functions(unit: &UnitRef<'_, Slice<'_>>, first: &Range<u64>, graves: &mut Vec<Grave>) -> Option<bool> {
    let base = unit.header.debug_info_offset()?.0;
    let mut kept = false;
    let mut entries = unit.entries_raw(None).ok()?;
    while !entries.is_empty() {
        let Some(abbreviation) = entries.read_abbreviation().ok()? else { continue };
        let tag = abbreviation.tag();
        if tag != gimli::DW_TAG_subprogram && tag != gimli::DW_TAG_compile_unit {
            entries.skip_attributes(abbreviation.attributes()).ok()?;
            continue;
        }
        let (mut low, mut size, mut has_ranges) = (None, None, false);
        for specification in abbreviation.attributes() {
            let start = base + entries.next_offset().0;
            let attribute = entries.read_attribute(*specification).ok()?;
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_low_pc, AttributeValue::Addr(0)) => low = Some(start..base + entries.next_offset().0),
                (gimli::DW_AT_high_pc, AttributeValue::Addr(end)) => size = Some(end),
                (gimli::DW_AT_high_pc, value) => size = value.udata_value(),
                (gimli::DW_AT_ranges, _) => has_ranges = true,
                _ => {}
            }
        }
        let Some(place) = low else { continue };
        if tag == gimli::DW_TAG_compile_unit {
            // Assembly: one stretch of code, which need not end where the first function does.
            kept |= first.start == 0 && !has_ranges && size >= Some(first.end);
        } else if first.start == 0 && size == Some(first.end) {
            kept = true;
        } else {
            graves.push((SectionId::DebugInfo, place));
        }
    }
    Some(kept)
}

/// Finds where the line program of a unit sets its address to 0 (DWARF 5, 6.2.5).
fn discarded_lines<'a>(
    unit: &UnitRef<'_, Slice<'a>>,
    debug_line: &gimli::DebugLine<Slice<'a>>,
    graves: &mut Vec<Grave>,
) -> Option<()> {
    use gimli::{Reader as _, Section as _};

    let header = unit.line_program.as_ref()?.header();
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
                    && address.iter().all(|&byte| byte == 0)
                {
                    let start = operation.offset_from(*debug_line.reader()) + 1;
                    graves.push((SectionId::DebugLine, start..start + address_bytes));
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

impl<'a> Dwarf<'a> {
    /// Reads the unit headers.
    ///
    /// # Errors
    /// When they are damaged.
    pub(super) fn new(sections: &'a Sections<'_>) -> Result<Self, gimli::Error> {
        Ok(Dwarf { context: Context::from_dwarf(sections.dwarf())? })
    }

    /// The frames at an address, outermost first, and whether split DWARF would have told more.
    ///
    /// # Errors
    /// When what describes the address is damaged.
    pub(super) fn frames(&self, address: u64) -> Result<(Vec<Place<'_>>, bool), gimli::Error> {
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
            places.push(Place {
                function: frame.function.map(|function| function.name.slice()),
                file: location.and_then(|location| location.file),
                line: location.and_then(|location| location.line),
            });
        }
        places.reverse();
        Ok((places, split))
    }

    /// File and line at an address, whatever function is there.
    pub(super) fn line_at(&self, address: u64) -> Option<(String, Option<u32>)> {
        let location = self.context.find_location(address).ok()??;
        Some((location.file?.to_owned(), location.line))
    }

    /// File and line where the function that starts at an address is defined.
    pub(super) fn definition_at(&self, address: u64) -> Option<(String, u32)> {
        let offset = {
            let mut frames = self.context.find_frames(address).skip_all_loads().ok()?;
            let mut offset = None;
            while let Some(frame) = frames.next().ok()? {
                offset = frame.dw_die_offset;
            }
            offset?
        };
        let unit = self.context.find_dwarf_and_unit(address).skip_all_loads()?;
        let (mut file, mut line) = (None, None);
        let mut entry = unit.entry(offset).ok()?;
        for _ in 0..MAX_HOPS {
            file = file.or_else(|| match entry.attr_value(gimli::DW_AT_decl_file)? {
                AttributeValue::FileIndex(index) => Some(index),
                value => value.udata_value(),
            });
            line = line.or_else(|| entry.attr_value(gimli::DW_AT_decl_line)?.udata_value());
            if file.is_some() && line.is_some() {
                break;
            }
            let Some(origin) = origin(&unit, &entry) else { break };
            entry = unit.entry(origin).ok()?;
        }
        let header = unit.line_program.as_ref()?.header();
        Some((path(&unit, header, file?)?, u32::try_from(line?).ok().filter(|&line| line > 0)?))
    }
}

/// What an entry is an instance of, when that is in the same unit.
fn origin(unit: &UnitRef<'_, Slice<'_>>, entry: &DebuggingInformationEntry<Slice<'_>>) -> Option<UnitOffset> {
    let value = entry
        .attr_value(gimli::DW_AT_abstract_origin)
        .or_else(|| entry.attr_value(gimli::DW_AT_specification))?;
    match value {
        AttributeValue::UnitRef(offset) => Some(offset),
        AttributeValue::DebugInfoRef(offset) => offset.to_unit_offset(&unit.header),
        _ => None,
    }
}

/// A file of the line program, joined as addr2line joins those of its frames, so that one file has one
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
    Some(path)
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
