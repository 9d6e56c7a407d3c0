// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections and symbols of an ELF file, for tables of sizes. Unlike [`crate::image::symbols`], it has data as well as
//! code, and each symbol with the size that the file states.

use std::collections::HashMap;

use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags, SectionIndex, SectionKind, SymbolFlags,
    SymbolSection, elf,
};

use super::symbols;
use super::{Arch, Image, Segment};

/// Sections that take memory, and the symbols in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Allocated sections by address.
    pub sections: Vec<Section>,
    /// Symbols of these sections, by address. Labels of the linker and of assembly have no size.
    pub symbols: Vec<Symbol>,
}

/// Allocated section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Name.
    pub name: String,
    /// Address while the firmware runs.
    pub address: u64,
    /// Size.
    pub bytes: u64,
    /// Address at which its bytes are loaded; None: it has no bytes in the file.
    pub load_address: Option<u64>,
    /// Whether the firmware may write to it.
    pub is_writable: bool,
    /// Whether the firmware may execute it.
    pub is_executable: bool,
    /// Whether it is the zero-initialised part of a thread's variables: it takes no memory itself.
    pub is_thread_template: bool,
}

/// Symbol in an allocated section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Index of its section.
    pub section: usize,
    /// Address; of a Thumb function without bit 0.
    pub address: u64,
    /// Size that the file states; 0: none.
    pub bytes: u64,
    /// Name in the symbol table.
    pub name: String,
    /// Whether it is a function or a variable, as opposed to a label.
    pub is_typed: bool,
    /// Whether other files may refer to it.
    pub is_global: bool,
    /// Name of the source file in the symbol table, which local symbols have.
    pub file: Option<String>,
}

impl Section {
    /// Whether the section takes memory that the firmware writes: variables, or code and constants that start-up code
    /// copies.
    pub fn is_ram(&self) -> bool {
        let is_copied = self.load_address.is_some_and(|load| load != self.address);
        !self.is_thread_template && (self.is_writable || self.load_address.is_none() || is_copied)
    }
}

/// Reads the sections of an ELF file, without symbols; empty for another file.
pub fn sections(bytes: &[u8], image: &Image) -> Layout {
    let Ok(file) = object::File::parse(bytes) else { return Layout::default() };
    let sections = allocated(&file, image).into_iter().map(|(_, section)| section).collect();
    Layout { sections, symbols: Vec::new() }
}

/// Sections that take memory, by address, with their indices in the file.
fn allocated(file: &object::File<'_>, image: &Image) -> Vec<(SectionIndex, Section)> {
    let mut segments: Vec<&Segment> = image.segments.iter().filter(|segment| !segment.data.is_empty()).collect();
    segments.sort_by_key(|segment| segment.run_addr);
    let mut kept: Vec<(SectionIndex, Section)> = Vec::new();
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        if !sh_flags.contains(elf::SHF_ALLOC) || section.size() == 0 {
            continue;
        }
        let has_bytes = !matches!(section.kind(), SectionKind::UninitializedData | SectionKind::UninitializedTls);
        kept.push((
            section.index(),
            Section {
                name: String::from_utf8_lossy(section.name_bytes().unwrap_or_default()).into_owned(),
                address: section.address(),
                bytes: section.size(),
                load_address: has_bytes.then(|| load_address(&segments, section.address(), section.size())).flatten(),
                is_writable: sh_flags.contains(elf::SHF_WRITE),
                is_executable: sh_flags.contains(elf::SHF_EXECINSTR),
                is_thread_template: section.kind() == SectionKind::UninitializedTls,
            },
        ));
    }
    kept.sort_by(|(_, one), (_, other)| {
        (one.address, &one.name, one.bytes).cmp(&(other.address, &other.name, other.bytes))
    });
    kept
}

/// Reads sections and symbols of an ELF file; empty for another file.
pub fn read(bytes: &[u8], image: &Image) -> Layout {
    let Ok(file) = object::File::parse(bytes) else { return Layout::default() };
    let mut layout = Layout::default();
    let kept = allocated(&file, image);
    let places: HashMap<SectionIndex, usize> =
        kept.iter().enumerate().map(|(place, (index, _))| (*index, place)).collect();
    let is_arm = image.arch == Some(Arch::CortexM);
    let mut source = None;
    for symbol in file.symbols() {
        let (SymbolFlags::Elf { st_info, .. }, Ok(name)) = (symbol.flags(), symbol.name_bytes()) else { continue };
        let name = String::from_utf8_lossy(name);
        if st_info.st_type() == elf::STT_FILE {
            source = Some(name.into_owned()).filter(|name| !name.is_empty());
            continue;
        }
        let SymbolSection::Section(index) = symbol.section() else { continue };
        let Some(&section) = places.get(&index) else { continue };
        let is_no_name = matches!(st_info.st_type(), elf::STT_SECTION) || symbols::is_mapping(name.as_bytes());
        // Assemblers' labels have no size; the compiler's constants, which have such names in Rust, do.
        if is_no_name || name.is_empty() || (name.starts_with(".L") && symbol.size() == 0) {
            continue;
        }
        let is_function = matches!(st_info.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
        // A thread's variable has its place in the section instead of an address.
        let begin = if st_info.st_type() == elf::STT_TLS { kept[section].1.address } else { 0 };
        let address = begin.wrapping_add(symbol.address());
        layout.symbols.push(Symbol {
            section,
            address: if is_arm && is_function { address & !1 } else { address },
            bytes: symbol.size(),
            name: name.into_owned(),
            is_typed: st_info.st_type() != elf::STT_NOTYPE,
            is_global: st_info.st_bind() == elf::STB_GLOBAL,
            file: source.clone().filter(|_| st_info.st_bind() == elf::STB_LOCAL),
        });
    }
    layout.symbols.sort_by(|one, other| {
        (one.address, one.section, one.bytes, &one.name).cmp(&(
            other.address,
            other.section,
            other.bytes,
            &other.name,
        ))
    });
    layout.sections = kept.into_iter().map(|(_, section)| section).collect();
    layout
}

/// Most segments that are looked at for a section: segments that begin at one address are overlays.
const MAX_OVERLAYS: usize = 64;

/// Load address of a section's bytes: that of the segment which contains them. `segments` are sorted by run address.
fn load_address(segments: &[&Segment], address: u64, bytes: u64) -> Option<u64> {
    let end = address.checked_add(bytes)?;
    let before = &segments[..segments.partition_point(|segment| segment.run_addr <= address)];
    let holds = |segment: &&&Segment| end <= segment.run_addr.saturating_add(segment.data.len() as u64);
    let segment = before.iter().rev().take(MAX_OVERLAYS).find(holds)?;
    Some(segment.load_addr + (address - segment.run_addr))
}
