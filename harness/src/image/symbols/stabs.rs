// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stabs, the debug information that avr-gcc writes for `-g` before release 12, and so of every sketch that Arduino's IDE builds.
//! It is turned into DWARF, so that nothing else knows of it: functions with the lines of their definitions, and a line table.
//! Stabs do not have inlined functions.
//!
//! An entry has twelve bytes: the offset of a string, a type, a line number and a value (`stab.def` of binutils, "The stabs debug
//! format"). Offsets of lines count from the start of the function around them, or from 0 outside of functions, where only an
//! assembler writes them.

use std::convert::Infallible;

use gimli::{
    self, Encoding, Format, LineEncoding,
    constants::{
        DW_AT_comp_dir, DW_AT_decl_file, DW_AT_decl_line, DW_AT_high_pc, DW_AT_language, DW_AT_linkage_name,
        DW_AT_low_pc, DW_AT_name, DW_AT_ranges, DW_LANG_C_plus_plus, DW_LANG_C99, DW_LANG_Mips_Assembler,
        DW_TAG_subprogram,
    },
    write::{
        Address, AttributeValue, Dwarf, EndianVec, FileId, LineProgram, LineString, Range, RangeList, Sections, Unit,
    },
};
use object::{Object as _, ObjectSection as _};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::image::section::uncompressed;

/// Names of the sections of entries and of their strings.
const ENTRIES: &str = ".stab";
const STRINGS: &str = ".stabstr";

/// Size of an entry in bytes.
const ENTRY_BYTES: usize = 12;

/// Longest name or path in bytes.
const MAX_NAME_BYTES: usize = 4096;

/// Bytes of strings beyond the size of their section: entries that begin in the middle of others' strings could need any number.
const SPARE_BYTES: usize = 64 << 10;

/// Most units with code: each takes some kilobytes, and its entries may be three.
const MAX_UNITS: usize = 1 << 16;

/// Most bytes of an instruction.
const MAX_INSN_BYTES: u32 = 4;

/// Most bytes of one line outside of functions, where an assembler has one for each instruction.
const MAX_LINE_BYTES: u32 = 64;

/// Types of entries.
const STRINGS_OF_FILE: u8 = 0;
const FUNCTION: u8 = 0x24;
const OPTION: u8 = 0x3c;
const LINE: u8 = 0x44;
const UNIT: u8 = 0x64;
const FILE: u8 = 0x84;

/// Option by which gcc marks the units that it has compiled.
const COMPILED: &[u8] = b"gcc2_compiled.";

/// Sections of DWARF, by name.
pub(super) type Made = Vec<(&'static str, Vec<u8>)>;

/// Makes the sections with what the stabs of a file say; None: there are none.
///
/// # Errors
/// When a section is outside of the file or cannot be decompressed, or the stabs say more than DWARF can hold.
pub(super) fn as_dwarf(elf: &object::File<'_>) -> Result<Option<Made>, String> {
    // Beside DWARF an empty one may be left.
    if elf.section_by_name(ENTRIES).is_none_or(|section| section.size() <= ENTRY_BYTES as u64) {
        return Ok(None);
    }
    let read = |name| {
        elf.section_by_name(name)
            .map_or_else(|| Ok(Vec::new()), |section| Ok::<_, String>(uncompressed(elf, &section)?.into_owned()))
    };
    let (entries, strings) = (read(ENTRIES)?, read(STRINGS)?);
    let address_size = if elf.is_64() { 8 } else { 4 };
    let encoding = Encoding { format: Format::Dwarf32, version: 5, address_size };
    let mut writer = Writer {
        strings: &strings,
        base: 0,
        next_base: 0,
        taken: FxHashSet::default(),
        spare_bytes: strings.len().saturating_add(SPARE_BYTES),
        encoding,
        dwarf: Dwarf::default(),
        unit: None,
    };
    for entry in entries.chunks_exact(ENTRY_BYTES).map(Entry::read) {
        writer.add(entry)?;
    }
    writer.end_unit(None)?;
    if writer.dwarf.units.count() == 0 {
        return Ok(None);
    }
    let mut sections = Sections::new(EndianVec::new(gimli::LittleEndian));
    writer.dwarf.write(&mut sections).map_err(|error| format!("its stabs: {error}"))?;
    let mut named = Vec::new();
    let Ok(()) = sections.for_each_mut(|id, bytes| {
        named.push((id.name(), bytes.take()));
        Ok::<_, Infallible>(())
    });
    Ok(Some(named))
}

#[derive(Clone, Copy)]
struct Entry {
    string: u32,
    kind: u8,
    line: u16,
    value: u32,
}

impl Entry {
    fn read(bytes: &[u8]) -> Entry {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Entry { string: word(0), kind: bytes[4], line: u16::from_le_bytes([bytes[6], bytes[7]]), value: word(8) }
    }
}

struct Writer<'s> {
    strings: &'s [u8],
    /// Starts of the strings of this and of the next object file, unless the linker has merged them.
    base: usize,
    next_base: usize,
    /// Offsets of strings that were taken, and how many bytes more may be.
    taken: FxHashSet<usize>,
    spare_bytes: usize,
    encoding: Encoding,
    dwarf: Dwarf,
    unit: Option<Open<'s>>,
}

/// Unit whose end has not come yet.
struct Open<'s> {
    directory: &'s [u8],
    file: &'s [u8],
    is_compiled: bool,
    /// File of the lines that follow.
    current: FileId,
    /// Files by the offsets of their names.
    files: FxHashMap<usize, FileId>,
    lines: LineProgram,
    functions: Vec<Function<'s>>,
    ranges: Vec<Range>,
    /// Code whose end has not come yet: a function, or lines outside of functions.
    code: Option<Code<'s>>,
    /// Whether the lines that follow are of a function that is not known.
    is_lost: bool,
}

struct Function<'s> {
    linkage_name: &'s [u8],
    start: u32,
    bytes: u32,
    file: FileId,
    line: u16,
}

struct Code<'s> {
    start: u32,
    /// Linkage name, and file and line of the definition.
    function: Option<(&'s [u8], FileId, u16)>,
    /// Offsets from the start, with file and line.
    rows: Vec<(u32, FileId, u16)>,
}

impl<'s> Writer<'s> {
    /// String of an entry; None: it is outside of the section, or too long.
    fn string(&mut self, at: u32) -> Result<Option<&'s [u8]>, String> {
        let start = self.base.saturating_add(at as usize);
        let bytes = self.strings.get(start..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(MAX_NAME_BYTES)];
        let Some(end) = bytes.iter().position(|&byte| byte == 0) else { return Ok(None) };
        if self.taken.insert(start) {
            let left = self.spare_bytes.checked_sub(end);
            self.spare_bytes = left.ok_or("its stabs share their strings in more ways than any compiler's do")?;
        }
        Ok(Some(&bytes[..end]))
    }

    fn add(&mut self, entry: Entry) -> Result<(), String> {
        match entry.kind {
            STRINGS_OF_FILE => {
                self.base = self.next_base;
                self.next_base = self.next_base.saturating_add(entry.value as usize);
            }
            UNIT => self.add_unit(entry)?,
            LINE => self.unit.iter_mut().for_each(|unit| unit.add_line(entry)),
            OPTION | FILE | FUNCTION => {
                let text = self.string(entry.string)?;
                let Writer { unit: Some(unit), encoding, dwarf, base, .. } = self else { return Ok(()) };
                match (entry.kind, text) {
                    (OPTION, text) => unit.is_compiled |= text == Some(COMPILED),
                    (FILE, Some(text)) => {
                        let directory = unit.lines.default_directory();
                        let mut path = || LineString::new(text, *encoding, &mut dwarf.line_strings);
                        let known = unit.files.entry(base.saturating_add(entry.string as usize));
                        unit.current = *known.or_insert_with(|| unit.lines.add_file(path(), directory, None));
                    }
                    (FUNCTION, Some([])) => unit.end_code(entry.value),
                    (FUNCTION, text) => {
                        unit.end_code_at(entry.value);
                        // Without a name, its lines have no start.
                        let name = text.and_then(|text| text.split(|&byte| byte == b':').next());
                        unit.is_lost = name.is_none();
                        unit.code = name.map(|name| Code {
                            start: entry.value,
                            function: Some((name, unit.current, entry.line)),
                            rows: Vec::new(),
                        });
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_unit(&mut self, entry: Entry) -> Result<(), String> {
        let Some(text) = self.string(entry.string)?.filter(|text| !text.is_empty()) else {
            return self.end_unit(Some(entry.value));
        };
        let directory = self.unit.as_ref().filter(|unit| unit.file.is_empty()).map(|unit| unit.directory);
        if directory.is_none() {
            self.end_unit(Some(entry.value))?;
        }
        let name = self.base.saturating_add(entry.string as usize);
        self.unit = Some(match directory {
            Some(directory) => self.open(directory, text, name),
            // A directory comes before its file.
            None if text.ends_with(b"/") => self.open(text, &[], name),
            None => self.open(&[], text, name),
        });
        Ok(())
    }

    fn open(&mut self, directory: &'s [u8], file: &'s [u8], name: usize) -> Open<'s> {
        let mut string = |text: &[u8]| LineString::new(text, self.encoding, &mut self.dwarf.line_strings);
        let (directory_string, file_string) = (string(directory), string(file));
        let encoding = LineEncoding::default();
        let mut lines = LineProgram::new(self.encoding, encoding, directory_string, None, file_string.clone(), None);
        let current = lines.add_file(file_string, lines.default_directory(), None);
        Open {
            directory,
            file,
            is_compiled: false,
            current,
            files: FxHashMap::from_iter([(name, current)]),
            lines,
            functions: Vec::new(),
            ranges: Vec::new(),
            code: None,
            is_lost: false,
        }
    }

    /// Writes the unit that is open, whose code ends at an address.
    fn end_unit(&mut self, end: Option<u32>) -> Result<(), String> {
        let Some(mut open) = self.unit.take() else { return Ok(()) };
        open.end_code_at(end.unwrap_or_default());
        if open.ranges.is_empty() {
            return Ok(());
        }
        if self.dwarf.units.count() == MAX_UNITS {
            return Err(format!("its stabs are of more than {MAX_UNITS} units"));
        }
        let language = match open.is_compiled {
            false => DW_LANG_Mips_Assembler,
            true if open.file.ends_with(b".c") => DW_LANG_C99,
            true => DW_LANG_C_plus_plus,
        };
        let mut unit = Unit::new(self.encoding, open.lines);
        let ranges = unit.ranges.add(RangeList(open.ranges));
        let strings = &mut self.dwarf.strings;
        let root = unit.get_mut(unit.root());
        root.set(DW_AT_language, AttributeValue::Language(language));
        root.set(DW_AT_name, AttributeValue::StringRef(strings.add(open.file)));
        root.set(DW_AT_comp_dir, AttributeValue::StringRef(strings.add(open.directory)));
        root.set(DW_AT_ranges, AttributeValue::RangeListRef(ranges));
        for function in open.functions {
            let id = unit.add(unit.root(), DW_TAG_subprogram);
            let entry = unit.get_mut(id);
            entry.set(DW_AT_linkage_name, AttributeValue::StringRef(strings.add(function.linkage_name)));
            entry.set(DW_AT_low_pc, AttributeValue::Address(Address::Constant(function.start.into())));
            entry.set(DW_AT_high_pc, AttributeValue::Udata(function.bytes.into()));
            entry.set(DW_AT_decl_file, AttributeValue::FileIndex(Some(function.file)));
            entry.set(DW_AT_decl_line, AttributeValue::Udata(function.line.into()));
        }
        self.dwarf.units.add(unit);
        Ok(())
    }
}

impl Open<'_> {
    fn add_line(&mut self, entry: Entry) {
        if self.is_lost {
            return;
        }
        if let Some(Code { start, function: None, rows }) = &self.code {
            // Lines outside of functions may be of several sections.
            let last = rows.last().map_or(*start, |row| start + row.0);
            if !(last..=last.saturating_add(MAX_LINE_BYTES)).contains(&entry.value) {
                self.end_code_at(u32::MAX);
            }
        }
        let code = self.code.get_or_insert_with(|| Code { start: entry.value, function: None, rows: Vec::new() });
        let offset = if code.function.is_some() { entry.value } else { entry.value - code.start };
        code.rows.push((offset, self.current, entry.line));
    }

    /// Ends the code that is open where other code begins.
    fn end_code_at(&mut self, end: u32) {
        if let Some(code) = &self.code {
            self.end_code(end.saturating_sub(code.start));
        }
    }

    /// Ends the code that is open, whose size in bytes is known.
    fn end_code(&mut self, bytes: u32) {
        self.is_lost = false;
        let Some(mut code) = self.code.take() else { return };
        let last = code.rows.last().map_or(0, |row| row.0);
        let bytes = if code.function.is_none() { bytes.min(last.saturating_add(MAX_INSN_BYTES)) } else { bytes };
        let is_in_space = code.start.checked_add(bytes).is_some();
        if bytes == 0 || !is_in_space {
            return;
        }
        if let Some((linkage_name, file, line)) = code.function {
            // The definition's file is that of its first line: gcc names it behind the function.
            let file = code.rows.first().map_or(file, |row| row.1);
            self.functions.push(Function { linkage_name, start: code.start, bytes, file, line });
        }
        self.ranges.push(Range::StartLength { begin: Address::Constant(code.start.into()), length: bytes.into() });
        code.rows.retain(|row| row.0 < bytes);
        code.rows.sort_by_key(|row| row.0);
        self.lines.begin_sequence(Some(Address::Constant(code.start.into())));
        for (index, &(offset, file, line)) in code.rows.iter().enumerate() {
            // Of the lines at one address, the last is the code's.
            if code.rows.get(index + 1).is_some_and(|next| next.0 == offset) {
                continue;
            }
            let row = self.lines.row();
            (row.address_offset, row.file, row.line) = (offset.into(), file, line.into());
            self.lines.generate_row();
        }
        self.lines.end_sequence(bytes.into());
    }
}
