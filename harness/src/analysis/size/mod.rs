// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flash and static RAM of an image: by region, section, library, source file and symbol. The levels divide the same
//! pieces, so the rows of each level add up to the totals.

mod compare;
mod library;
mod pieces;
mod used;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::path::Path;

pub use compare::{Change, compare};
pub use library::NO_SOURCE;
use pieces::BETWEEN;
pub use pieces::PieceKind;
pub use used::{Used, used};

use crate::error::InputError;
use crate::image::layout::{self, Layout, Section, Symbol};
use crate::image::linker_map::{Brought, LinkerMap};
use crate::image::linker_memory::LinkerRegion;
use crate::image::symbols::{SourceFiles, Symbols, demangle};
use crate::image::{Arch, Image};
use crate::machine::{Choice, MemoryKind, Region};
use crate::profile::Sizes;
use crate::text::symbol_name::key_name;

/// Region of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Name.
    pub name: String,
    /// First address.
    pub start: u64,
    /// Size.
    pub bytes: u64,
    /// Whether the firmware may write to it.
    pub is_writable: bool,
}

impl From<LinkerRegion> for Memory {
    fn from(LinkerRegion { name, start, bytes, is_writable }: LinkerRegion) -> Memory {
        Memory { name, start, bytes, is_writable }
    }
}

impl From<&Region> for Memory {
    fn from(region: &Region) -> Memory {
        let is_writable = region.kind == MemoryKind::Ram || region.kind == MemoryKind::NonSecure;
        Memory { name: region.name.to_owned(), start: region.start, bytes: region.bytes, is_writable }
    }
}

/// Bytes in flash and in RAM. A byte that start-up code copies takes both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes {
    /// Bytes of the load image.
    pub flash: u64,
    /// Bytes of static RAM.
    pub ram: u64,
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.flash = self.flash.saturating_add(other.flash);
        self.ram = self.ram.saturating_add(other.ram);
    }
}

/// Piece of the image with one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Kind.
    pub kind: PieceKind,
    /// Index of its section; None: outside of all sections.
    pub section: Option<usize>,
    /// Region in which it is loaded, and region in which it runs; None: unknown, or it has no bytes there.
    pub regions: [Option<usize>; 2],
    /// First address while the firmware runs.
    pub address: u64,
    /// Size.
    pub bytes: u64,
    /// Bytes of flash and RAM that it takes.
    pub takes: Bytes,
    /// Whether a section before it takes some of its RAM: overlays use the same addresses in turn.
    pub is_overlay: bool,
    /// Name: demangled symbol, or the kind in brackets.
    pub name: String,
    /// Name in the symbol table; empty: none.
    pub linkage_name: String,
    /// Name across builds: without suffixes that compilers add.
    pub key: String,
    /// Source file.
    pub file: Option<String>,
    /// Archive, if a linker map names it; or else the crate, or the directory of the source file.
    pub library: String,
}

/// Use of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionUse {
    /// Region.
    pub memory: Memory,
    /// Bytes that the image takes there.
    pub used_bytes: u64,
}

/// Symbol as the file states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedSymbol {
    /// Name in the symbol table.
    pub linkage_name: String,
    /// Address.
    pub address: u64,
    /// Size that the file states.
    pub bytes: u64,
    /// Bytes of it that belong to no symbol within it, or at the same place.
    pub own_bytes: u64,
    /// Index of its section.
    pub section: usize,
}

/// Sizes of one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// File name of the image.
    pub image: String,
    /// SHA-256 of the image.
    pub image_sha256: String,
    /// Origin of the regions, in words.
    pub regions_from: String,
    /// Bytes added to the image's addresses when it is loaded.
    pub load_bias: u64,
    /// Regions by address; empty: unknown.
    pub regions: Vec<RegionUse>,
    /// Allocated sections.
    pub sections: Vec<Section>,
    /// All pieces, by address.
    pub pieces: Vec<Piece>,
    /// Symbols with a size.
    pub symbols: Vec<StatedSymbol>,
    /// Sums of all pieces.
    pub total: Bytes,
    /// Flash by use: code, constants, initial values of variables, the rest.
    pub flash_by_use: [u64; 4],
    /// Fullest of the regions with the load image, and of those with static RAM; None: unknown.
    pub fullest: [Option<Full>; 2],
    /// Room for the load image, and for static RAM; None: unknown.
    pub room: Room,
    /// Bytes that are neither flash nor RAM, by section.
    pub elsewhere: BTreeMap<String, u64>,
    /// Whether the processor is an AVR, and whether a part of the image is loaded to memory that is not writable.
    is_avr: bool,
    has_flash: bool,
    /// Oddities, each one sentence.
    pub warnings: Vec<String>,
}

/// Memory that is available. The total's share of it is the share of the fullest region: a second region that is almost
/// empty takes nothing of what the first one lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes for the load image; of one region its size, without other uses.
    pub flash: Option<u64>,
    /// Bytes for static RAM; of one region its size, without other uses.
    pub ram: Option<u64>,
}

/// Region with the highest share of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Index of the region.
    pub region: usize,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Size of the region, without other uses.
    pub room_bytes: u64,
    /// Whether no other region is in use.
    pub is_only: bool,
}

/// Place of bytes.
#[derive(Clone, Copy)]
struct Placed {
    load: Option<u64>,
    address: u64,
    /// Whether they have an address in RAM, as far as the file tells.
    is_written: bool,
    is_writable: bool,
}

/// First of AVR's addresses that are neither flash nor data: EEPROM, fuses, lock bits, signatures (avr-libc's linker scripts).
const AVR_OTHERS: u64 = 0x81_0000;

/// Level of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Region of memory.
    Region,
    /// Section of the file.
    Section,
    /// Archive, crate, or directory.
    Library,
    /// Source file.
    File,
    /// Symbol.
    Symbol,
}

impl Level {
    /// All levels, the coarsest first.
    pub const ALL: [Level; 5] = [Level::Region, Level::Section, Level::Library, Level::File, Level::Symbol];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Level::Region => "region",
            Level::Section => "section",
            Level::Library => "library",
            Level::File => "file",
            Level::Symbol => "symbol",
        }
    }
}

/// Row of a level: its name and its bytes.
pub type Rows = BTreeMap<String, Bytes>;

/// Name of the row of what is in no known region.
pub const NO_REGION: &str = "[no region]";

/// Regions for an image, with their origin in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions {
    /// Origin.
    pub from: String,
    /// Regions.
    pub memory: Vec<Memory>,
    /// Bytes added to the image's addresses when it is loaded.
    pub load_bias: u64,
}

impl Regions {
    /// Regions of the machine that was chosen for an image.
    pub fn of(choice: &Choice) -> Regions {
        Regions {
            from: choice.machine.title(),
            memory: choice.machine.memory.iter().map(Memory::from).collect(),
            load_bias: choice.load_bias,
        }
    }
}

/// Finds the sizes of an image; `bytes` is its file.
pub fn of(bytes: &[u8], image: &Image, regions: Regions) -> Size {
    let layout = layout::read(bytes, image);
    let sources = sources(bytes, image, &layout);
    divided(&layout, image, regions, &sources, &[])
}

/// Finds the sizes as [`of`], with the archives that a linker map names. `path` is the map's, for messages.
///
/// # Errors
/// When the map is of another build.
pub fn with_map(
    bytes: &[u8],
    image: &Image,
    regions: Regions,
    (path, map): (&Path, &LinkerMap),
) -> Result<Size, InputError> {
    let layout = layout::read(bytes, image);
    let brought = map.brought(path, &image.path, &layout.sections)?;
    Ok(divided(&layout, image, regions, &sources(bytes, image, &layout), &brought))
}

/// Divides an image into its pieces, and adds them up. `brought`: what archives bring, by section; empty: unknown.
fn divided(
    layout: &Layout,
    image: &Image,
    regions: Regions,
    sources: &SourceFiles,
    brought: &[Vec<Brought<'_>>],
) -> Size {
    let mut size = Size {
        image: image.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        image_sha256: image.sha256.clone(),
        regions_from: regions.from,
        load_bias: regions.load_bias,
        regions: regions.memory.into_iter().map(|memory| RegionUse { memory, used_bytes: 0 }).collect(),
        sections: layout.sections.clone(),
        pieces: Vec::new(),
        symbols: Vec::new(),
        total: Bytes::default(),
        flash_by_use: [0; 4],
        fullest: [None; 2],
        room: Room::default(),
        elsewhere: BTreeMap::new(),
        is_avr: image.arch == Some(Arch::Avr),
        has_flash: false,
        warnings: Vec::new(),
    };
    size.regions.sort_by_key(|region| region.memory.start);
    let loads = image.segments.iter().filter(|segment| !segment.data.is_empty()).map(|segment| segment.load_addr);
    size.has_flash =
        loads.filter_map(|load| size.region_at(load)).any(|region| !size.regions[region].memory.is_writable);
    size.divide(image, layout, sources, brought);
    size.add_outside(image);
    size.pieces.sort_by_key(|piece| (piece.address, piece.section));
    size.sum();
    size.check_sections();
    size
}

/// Finds the totals of an image on its machine, without names; `bytes` is the image's file.
pub fn totals(bytes: &[u8], image: &Image, choice: &Choice) -> Sizes {
    let layout = layout::sections(bytes, image);
    let size = divided(&layout, image, Regions::of(choice), &SourceFiles::default(), &[]);
    Sizes {
        flash_bytes: size.total.flash,
        ram_bytes: size.total.ram,
        flash_room_bytes: size.room.flash,
        ram_room_bytes: size.room.ram,
    }
}

impl Size {
    fn region_at(&self, address: u64) -> Option<usize> {
        let is_in = |region: &RegionUse| {
            address
                .wrapping_add(self.load_bias)
                .checked_sub(region.memory.start)
                .is_some_and(|offset| offset < region.memory.bytes)
        };
        self.regions.iter().position(is_in)
    }

    /// Whether code or constants run where they are loaded, in the region of an address.
    fn runs_in_place_beside(&self, address: u64) -> bool {
        let region = self.region_at(address);
        let is_in_place = |section: &Section| !section.is_writable && section.load_address == Some(section.address);
        region.is_some()
            && self.sections.iter().any(|section| is_in_place(section) && self.region_at(section.address) == region)
    }

    /// Flash and RAM that bytes take. Memory of other kinds is neither: AVR's EEPROM and fuses, room in flash that the
    /// firmware's start-up code leaves as it is.
    fn takes(&self, placed: Placed, bytes: u64) -> Bytes {
        let Placed { load, address, is_written, is_writable } = placed;
        if self.is_avr && address >= AVR_OTHERS {
            return Bytes::default();
        }
        let is_writable_at =
            |address: u64| self.region_at(address).map(|region| self.regions[region].memory.is_writable);
        // A debugger or a loader writes these bytes into RAM, so they are in no flash.
        let is_loaded_to_ram = self.has_flash && load.and_then(is_writable_at) == Some(true);
        // An emulator's board may let the firmware write to all memory. What it reserves beside code, and says that it does not
        // write, is like that code.
        let is_beside_code = !is_writable && load.is_none() && self.runs_in_place_beside(address);
        let is_ram =
            is_written && !is_beside_code && is_writable_at(address).unwrap_or(is_writable || load.is_some());
        Bytes {
            flash: if load.is_some() && !is_loaded_to_ram { bytes } else { 0 },
            ram: if is_ram || is_loaded_to_ram { bytes } else { 0 },
        }
    }

    /// Divides all sections into pieces.
    fn divide(&mut self, image: &Image, layout: &Layout, sources: &SourceFiles, brought: &[Vec<Brought<'_>>]) {
        let mut by_section: BTreeMap<usize, Vec<(usize, &Symbol)>> = BTreeMap::new();
        for (index, symbol) in layout.symbols.iter().enumerate() {
            by_section.entry(symbol.section).or_default().push((index, symbol));
        }
        let mut own: BTreeMap<usize, u64> = BTreeMap::new();
        let names = Naming { layout, sources };
        let mut pieces = Vec::new();
        // End of the RAM that the sections so far take; they are in the order of their addresses.
        let mut reach = 0;
        for (number, section) in layout.sections.iter().enumerate() {
            let taken = reach;
            let symbols = by_section.get(&number).map_or(&[][..], Vec::as_slice);
            let brought = brought.get(number).map_or(&[][..], Vec::as_slice);
            let ranges = pieces::divide(section, symbols, image);
            for (range, archive) in pieces::by_archive(ranges, brought) {
                if let Some(symbol) = range.symbol {
                    *own.entry(symbol).or_default() += range.bytes;
                }
                let load = section.load_address.map(|load| load + (range.start - section.address));
                let (name, key, file) = names.of(&range, section);
                let is_written = section.is_ram();
                let place = Placed { load, address: range.start, is_written, is_writable: section.is_writable };
                let mut takes = self.takes(place, range.bytes);
                let is_overlay = takes.ram > 0 && range.start < taken;
                if takes.ram > 0 {
                    reach = reach.max(range.start.saturating_add(range.bytes));
                    takes.ram = takes.ram.saturating_sub(taken.saturating_sub(range.start));
                }
                // A piece that takes neither is room that the section reserves.
                let is_run = takes.ram > 0 || (takes.flash == 0 && !section.is_thread_template);
                pieces.push(Piece {
                    kind: range.kind,
                    section: Some(number),
                    regions: [
                        load.and_then(|load| self.region_at(load)),
                        is_run.then(|| self.region_at(range.start)).flatten(),
                    ],
                    address: range.start,
                    bytes: range.bytes,
                    takes,
                    is_overlay,
                    library: archive.unwrap_or_default().to_owned(),
                    linkage_name: range.symbol.map_or_else(String::new, |symbol| layout.symbols[symbol].name.clone()),
                    name,
                    key,
                    file,
                });
            }
        }
        name_libraries(&mut pieces);
        self.pieces = pieces;
        let stated = layout.symbols.iter().enumerate().filter(|(_, symbol)| symbol.bytes > 0);
        self.symbols = stated
            .map(|(index, symbol)| StatedSymbol {
                linkage_name: symbol.name.clone(),
                address: symbol.address,
                bytes: symbol.bytes,
                own_bytes: own.get(&index).copied().unwrap_or(0),
                section: symbol.section,
            })
            .collect();
    }

    /// Adds the loaded bytes that lie in no section.
    fn add_outside(&mut self, image: &Image) {
        let mut covered: Vec<(u64, u64)> = self
            .sections
            .iter()
            .filter(|section| section.load_address.is_some())
            .map(|section| (section.address, section.address.saturating_add(section.bytes)))
            .collect();
        covered.sort_unstable();
        covered.dedup_by(|next, last| {
            let overlaps = next.0 <= last.1;
            if overlaps {
                last.1 = last.1.max(next.1);
            }
            overlaps
        });
        for segment in &image.segments {
            let (start, end) = (segment.run_addr, segment.run_addr.saturating_add(segment.data.len() as u64));
            let mut at = start;
            let first = covered.partition_point(|&(_, to)| to <= start);
            let inside = covered[first..].iter().copied().take_while(|&(from, _)| from < end);
            let gaps: Vec<(u64, u64)> = inside.chain([(end, end)]).collect();
            let mut found = Vec::new();
            for (from, to) in gaps {
                if at < from.min(end) {
                    found.push((at, from.min(end) - at));
                }
                at = at.max(to);
            }
            for (address, bytes) in found {
                let load = segment.load_addr + (address - start);
                let is_written = segment.writable || load != address;
                let is_writable = segment.writable;
                let takes = self.takes(Placed { load: Some(load), address, is_written, is_writable }, bytes);
                let run = (takes.ram > 0 || takes.flash == 0).then(|| self.region_at(address)).flatten();
                self.pieces.push(Piece {
                    kind: PieceKind::Outside,
                    section: None,
                    regions: [self.region_at(load), run],
                    address,
                    bytes,
                    takes,
                    is_overlay: false,
                    name: BETWEEN.to_owned(),
                    linkage_name: String::new(),
                    key: BETWEEN.to_owned(),
                    file: None,
                    library: BETWEEN.to_owned(),
                });
            }
        }
    }

    /// Adds the pieces up.
    fn sum(&mut self) {
        for piece in &self.pieces {
            self.total += piece.takes;
            let section = piece.section.map(|section| &self.sections[section]);
            let kind = match section {
                Some(section) if section.is_executable => 0,
                Some(section) if !section.is_ram() => 1,
                Some(_) => 2,
                None => 3,
            };
            self.flash_by_use[kind] = self.flash_by_use[kind].saturating_add(piece.takes.flash);
            let [load, run] = piece.regions;
            // Variables that are loaded where they are used take their memory once.
            let is_in_place = piece.takes.flash > 0 && piece.takes.ram > 0 && self.is_in_place(piece);
            let is_template = section.is_some_and(|section| section.is_thread_template);
            let is_elsewhere = piece.takes == Bytes::default() && !is_template && !piece.is_overlay;
            if is_elsewhere {
                let section = section.map_or(BETWEEN, |section| &section.name);
                let bytes = self.elsewhere.entry(section.to_owned()).or_default();
                *bytes = bytes.saturating_add(piece.bytes);
            }
            let run_bytes = if piece.is_overlay { piece.takes.ram } else { piece.bytes };
            let places = [
                load.filter(|_| piece.takes.flash > 0).map(|region| (region, piece.bytes)),
                run.filter(|_| !is_in_place).map(|region| (region, run_bytes)),
            ];
            for (region, bytes) in places.into_iter().flatten() {
                let used = &mut self.regions[region].used_bytes;
                *used = used.saturating_add(bytes);
            }
        }
        self.fullest = [self.fullest(0), self.fullest(1)];
        self.room = Room { flash: self.room(0), ram: self.room(1) };
    }

    fn is_in_place(&self, piece: &Piece) -> bool {
        let section = piece.section.map(|section| &self.sections[section]);
        section.is_none_or(|section| section.load_address == Some(section.address))
    }
}

impl Size {
    /// Room by which the total's share is that of the fullest region.
    fn room(&self, which: usize) -> Option<u64> {
        let Full { used_bytes, room_bytes, .. } = self.fullest[which]?;
        let total = if which == 0 { self.total.flash } else { self.total.ram };
        let room = u128::from(total) * u128::from(room_bytes) / u128::from(used_bytes.max(1));
        Some(u64::try_from(room).unwrap_or(u64::MAX))
    }

    /// Fullest of the regions that the image is loaded to (0) or has variables in (1). None: some of it is in no known one.
    fn fullest(&self, which: usize) -> Option<Full> {
        let taken = |piece: &Piece| if which == 0 { piece.takes.flash } else { piece.takes.ram };
        let mut own: BTreeMap<usize, u64> = BTreeMap::new();
        for piece in self.pieces.iter().filter(|piece| taken(piece) > 0) {
            let bytes = own.entry(piece.regions[which]?).or_default();
            *bytes = bytes.saturating_add(taken(piece));
        }
        let is_only = own.len() == 1;
        let full = own.into_iter().map(|(region, own)| {
            let RegionUse { memory, used_bytes } = &self.regions[region];
            let room_bytes = memory.bytes.saturating_sub(used_bytes.saturating_sub(own));
            Full { region, used_bytes: own, room_bytes, is_only }
        });
        full.max_by(|one, other| {
            let product = |used: &Full, room: &Full| u128::from(used.used_bytes) * u128::from(room.room_bytes);
            product(one, other).cmp(&product(other, one)).then(other.region.cmp(&one.region))
        })
    }

    /// Notes sections that overlap.
    fn check_sections(&mut self) {
        let mut reach: Option<&Section> = None;
        let mut found = None;
        for section in self.sections.iter().filter(|section| !section.is_thread_template) {
            if let Some(before) = reach.filter(|before| section.address < before.address.saturating_add(before.bytes))
            {
                found.get_or_insert_with(|| (before.name.clone(), section.name.clone()));
            }
            let end = |section: &Section| section.address.saturating_add(section.bytes);
            if reach.is_none_or(|before| end(before) <= end(section)) {
                reach = Some(section);
            }
        }
        self.warnings.extend(found.map(|(one, other)| {
            format!("sections {one} and {other} lie at the same addresses (overlays?): their RAM is counted once")
        }));
        if !self.regions.is_empty() && self.pieces.iter().any(|piece| self.is_homeless(piece)) {
            let bytes = self.rows(Level::Region).remove(NO_REGION).unwrap_or_default();
            self.warnings.push(format!(
                "{} bytes of flash and {} of RAM lie in no region of {}",
                bytes.flash, bytes.ram, self.regions_from
            ));
        }
    }

    fn is_homeless(&self, piece: &Piece) -> bool {
        (piece.takes.flash > 0 && piece.regions[0].is_none()) || (piece.takes.ram > 0 && piece.regions[1].is_none())
    }

    /// Name of a region.
    pub fn region_name(&self, region: Option<usize>) -> &str {
        region.map_or(NO_REGION, |region| &self.regions[region].memory.name)
    }

    /// Name of a section.
    pub fn section_name(&self, section: Option<usize>) -> &str {
        section.map_or(BETWEEN, |section| &self.sections[section].name)
    }

    /// Rows of a level. Namesakes among the symbols are distinguished by their files.
    pub fn rows(&self, level: Level) -> Rows {
        let mut rows = Rows::new();
        let mut add = |name: String, takes: Bytes| {
            if takes != Bytes::default() {
                *rows.entry(name).or_default() += takes;
            }
        };
        let namesakes = if level == Level::Symbol { self.namesakes() } else { BTreeSet::new() };
        for piece in &self.pieces {
            match level {
                Level::Region => {
                    add(self.region_name(piece.regions[0]).to_owned(), Bytes { ram: 0, ..piece.takes });
                    add(self.region_name(piece.regions[1]).to_owned(), Bytes { flash: 0, ..piece.takes });
                }
                Level::Section => add(self.section_name(piece.section).to_owned(), piece.takes),
                Level::Library => add(piece.library.clone(), piece.takes),
                Level::File => add(piece.file_name().to_owned(), piece.takes),
                Level::Symbol => add(symbol_row(piece, &namesakes), piece.takes),
            }
        }
        rows
    }

    /// Keys that symbols of several files have.
    fn namesakes(&self) -> BTreeSet<&str> {
        let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for piece in self.pieces.iter().filter(|piece| piece.takes != Bytes::default()) {
            files.entry(&piece.key).or_default().insert(piece.file_name());
        }
        files.into_iter().filter(|(_, files)| files.len() > 1).map(|(key, _)| key).collect()
    }
}

impl Piece {
    /// Source file, or the words for none.
    pub fn file_name(&self) -> &str {
        self.file.as_deref().unwrap_or(if self.kind == PieceKind::Symbol { NO_SOURCE } else { &self.library })
    }
}

fn symbol_row(piece: &Piece, namesakes: &BTreeSet<&str>) -> String {
    match namesakes.contains(&*piece.key) {
        true => format!("{} ({})", piece.key, piece.file_name()),
        false => piece.key.clone(),
    }
}

/// Source files of all symbols with a size, and of labels of code.
fn sources(bytes: &[u8], image: &Image, layout: &Layout) -> SourceFiles {
    let is_code = |symbol: &&Symbol| layout.sections[symbol.section].is_executable;
    let code: BTreeSet<u64> = layout.symbols.iter().filter(is_code).map(|symbol| symbol.address).collect();
    Symbols::new(Some(bytes), 0, image.arch == Some(Arch::CortexM)).sources(&code)
}

/// Names of pieces.
struct Naming<'a> {
    layout: &'a Layout,
    sources: &'a SourceFiles,
}

impl Naming<'_> {
    /// Name, name across builds, and file of a piece.
    fn of(&self, range: &pieces::Range, section: &Section) -> (String, String, Option<String>) {
        let Some(symbol) = range.symbol.map(|symbol| &self.layout.symbols[symbol]) else {
            let name = match range.kind {
                PieceKind::Unattributed => format!("[no symbol in {}]", section.name),
                kind => kind.word().to_owned(),
            };
            return (name.clone(), name, None);
        };
        let name = demangle(&symbol.name).into_owned();
        let key = key_name(&name);
        let variable = || {
            let named = self.sources.variables.get(&symbol.address)?;
            let is_own = |name: &str| {
                let rest = symbol.name.strip_prefix(name);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            // Discarded variables are described as if they were at address 0.
            let only = named.first().filter(|_| named.len() == 1 && symbol.address != 0);
            let own = named.iter().find(|(name, _)| is_own(name)).or(only);
            own.map(|(_, file)| file.clone())
        };
        let function = || self.sources.functions.get(&symbol.address).cloned();
        let file = if section.is_executable { function().or_else(variable) } else { variable() };
        (name, key, file.or_else(|| symbol.file.clone()))
    }
}

/// Names each piece's library, and shortens the files' paths by the beginning that the project's own have in common.
fn name_libraries(pieces: &mut [Piece]) {
    let own = |piece: &Piece| {
        let file = piece.file.as_deref().filter(|file| file.contains(['/', '\\']))?;
        library::crate_of_path(file).is_none().then(|| library::directory(file))
    };
    let directories: BTreeSet<String> = pieces.iter().filter_map(own).collect();
    let prefix = library::common_prefix(directories.iter().map(String::as_str));
    for piece in pieces {
        let of_map = Some(std::mem::take(&mut piece.library)).filter(|archive| !archive.is_empty());
        let of_symbol = library::crate_of_symbol(&piece.linkage_name, &piece.name);
        let of_path = piece.file.as_deref().and_then(library::crate_of_path);
        let directory = own(piece).map(|directory| library::shortened(&directory, &prefix));
        piece.library = of_map.or(of_path).or(of_symbol).or(directory).unwrap_or_else(|| match piece.kind {
            PieceKind::Symbol | PieceKind::Label => NO_SOURCE.to_owned(),
            PieceKind::Padding | PieceKind::Unattributed | PieceKind::Outside => piece.kind.word().to_owned(),
        });
        piece.file = piece.file.take().map(|file| library::shortened(&file.replace('\\', "/"), &prefix));
    }
}
