// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flash and static RAM as JSON (`harness size --json`).

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::size::{self, Bytes, Level, Piece, Size, StatedSymbol, Used, compare};
use crate::export::json::{Address, VERSION, document};

/// Sizes of an image, or the difference of two images.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Size")]
struct Document<'a> {
    /// Always "harness-size".
    format: &'static str,
    /// Version of the format. Profiles as JSON have the same version.
    version: u32,
    /// The image; of two images the second.
    image: Image<'a>,
    /// The first of two images; null: there is only one.
    before: Option<Image<'a>>,
    /// Differences of the two images; empty without a second one.
    changes: Vec<LevelChanges>,
    /// Memory that a run used; empty without a profile.
    used: Vec<JsonUsed<'a>>,
}

/// Sizes of one image.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SizeOfImage")]
struct Image<'a> {
    /// File name of the image.
    name: &'a str,
    /// SHA-256 of the image.
    sha256: &'a str,
    /// Bytes of the load image. Exact.
    flash_bytes: u64,
    /// Bytes of static RAM: variables, reserved stacks and heaps, and what start-up code copies. Exact.
    ram_bytes: u64,
    /// Bytes available for the load image; of several regions as many as give the share of the fullest; null: unknown.
    flash_room_bytes: Option<u64>,
    /// Bytes available for static RAM, in the same way; null: unknown.
    ram_room_bytes: Option<u64>,
    /// Origin of the regions.
    regions_from: &'a str,
    /// Used regions, by address.
    regions: Vec<JsonRegion<'a>>,
    /// Sections that take memory, by address.
    sections: Vec<JsonSection<'a>>,
    /// Bytes by name, for each level. The rows of each level add up to `flash_bytes` and `ram_bytes`.
    levels: Vec<JsonLevel>,
    /// Symbols with a size, by address.
    symbols: Vec<JsonSymbol<'a>>,
    /// Pieces without overlap, by address. Each byte of a section is in one piece.
    pieces: Vec<JsonPiece<'a>>,
    /// Bytes that are neither flash nor RAM, by section: room reserved in memory that the firmware does not write, AVR's EEPROM
    /// and fuses.
    neither: &'a BTreeMap<String, u64>,
    /// Oddities.
    warnings: &'a [String],
}

/// Region of memory.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SizeRegion")]
struct JsonRegion<'a> {
    /// Name.
    name: &'a str,
    /// First address.
    start: Address,
    /// Size.
    bytes: u64,
    /// Bytes that the image takes there.
    used_bytes: u64,
}

/// Section.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SizeSection")]
struct JsonSection<'a> {
    /// Name.
    name: &'a str,
    /// Address while the firmware runs.
    address: Address,
    /// Address at which it is loaded; null: it has no bytes in the file.
    load_address: Option<Address>,
    /// Size.
    bytes: u64,
}

/// Level of a division.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SizeLevel")]
struct JsonLevel {
    /// "region", "section", "library", "file" or "symbol".
    level: &'static str,
    /// Rows, by name.
    rows: Vec<Row>,
}

/// Bytes of a name.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SizeRow")]
struct Row {
    /// Name.
    name: String,
    /// Bytes of flash.
    flash_bytes: u64,
    /// Bytes of RAM.
    ram_bytes: u64,
}

/// Symbol as the file states it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SizeSymbol")]
struct JsonSymbol<'a> {
    /// Name in the symbol table.
    name: &'a str,
    /// Address.
    address: Address,
    /// Size that the file states.
    bytes: u64,
    /// Part of it that counts as this symbol's: not that of symbols within it, or of another name at the same place.
    own_bytes: u64,
    /// Name of its section.
    section: &'a str,
}

/// Piece of the image with one owner.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SizePiece")]
struct JsonPiece<'a> {
    /// "symbol", "label" (without a size: up to the next symbol), "padding", "no symbol" or "between sections".
    kind: &'a str,
    /// "exact", or "estimated" for a label without a size.
    certainty: &'static str,
    /// Name.
    name: &'a str,
    /// First address while the firmware runs.
    address: Address,
    /// Bytes of flash.
    flash_bytes: u64,
    /// Bytes of RAM.
    ram_bytes: u64,
    /// Region in which it is loaded.
    flash_region: Option<&'a str>,
    /// Region in which it runs.
    ram_region: Option<&'a str>,
    /// Name of its section; null: outside of all sections.
    section: Option<&'a str>,
    /// Source file.
    file: Option<&'a str>,
    /// Archive, with --map; else crate, or directory of the source file.
    library: &'a str,
}

/// Changes of a level.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SizeChanges")]
struct LevelChanges {
    /// Level.
    level: &'static str,
    /// Rows that differ, the largest change first.
    rows: Vec<JsonChange>,
}

/// Row that differs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SizeChange")]
struct JsonChange {
    /// Name.
    name: String,
    /// Bytes of flash before; null: it was not there.
    flash_before: Option<u64>,
    /// Bytes of flash after; null: it is gone.
    flash_after: Option<u64>,
    /// Bytes of RAM before.
    ram_before: Option<u64>,
    /// Bytes of RAM after.
    ram_after: Option<u64>,
}

/// Memory that a run used.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SizeUsed")]
struct JsonUsed<'a> {
    /// Description.
    what: &'a str,
    /// First address of the reserved memory.
    start: Option<Address>,
    /// Size of the reserved memory.
    reserved_bytes: Option<u64>,
    /// Bytes that the run used at most.
    used_bytes: Option<u64>,
    /// "exact", or "at least".
    certainty: &'static str,
}

impl<'a> From<&'a Size> for Image<'a> {
    fn from(size: &'a Size) -> Image<'a> {
        let regions = size.regions.iter().filter(|region| region.used_bytes > 0).map(|region| JsonRegion {
            name: &region.memory.name,
            start: Address(region.memory.start),
            bytes: region.memory.bytes,
            used_bytes: region.used_bytes,
        });
        let sections = size.sections.iter().map(|section| JsonSection {
            name: &section.name,
            address: Address(section.address),
            load_address: section.load_address.map(Address),
            bytes: section.bytes,
        });
        let symbol = |symbol: &'a StatedSymbol| JsonSymbol {
            name: &symbol.linkage_name,
            address: Address(symbol.address),
            bytes: symbol.bytes,
            own_bytes: symbol.own_bytes,
            section: &size.sections[symbol.section].name,
        };
        Image {
            name: &size.image,
            sha256: &size.image_sha256,
            flash_bytes: size.total.flash,
            ram_bytes: size.total.ram,
            flash_room_bytes: size.room.flash,
            ram_room_bytes: size.room.ram,
            regions_from: &size.regions_from,
            regions: regions.collect(),
            sections: sections.collect(),
            levels: Level::ALL.into_iter().map(|level| level_rows(size, level)).collect(),
            symbols: size.symbols.iter().map(symbol).collect(),
            pieces: size.pieces.iter().map(|piece| json_piece(size, piece)).collect(),
            neither: &size.elsewhere,
            warnings: &size.warnings,
        }
    }
}

fn level_rows(size: &Size, level: Level) -> JsonLevel {
    let row = |(name, Bytes { flash, ram })| Row { name, flash_bytes: flash, ram_bytes: ram };
    JsonLevel { level: level.word(), rows: size.rows(level).into_iter().map(row).collect() }
}

fn json_piece<'a>(size: &'a Size, piece: &'a Piece) -> JsonPiece<'a> {
    let region = |region: Option<usize>| region.map(|region| size.regions[region].memory.name.as_str());
    JsonPiece {
        kind: piece.kind.word().trim_matches(['[', ']']),
        certainty: piece.kind.certainty(),
        name: &piece.name,
        address: Address(piece.address),
        flash_bytes: piece.takes.flash,
        ram_bytes: piece.takes.ram,
        flash_region: region(piece.regions[0]),
        ram_region: region(piece.regions[1]),
        section: piece.section.map(|section| size.sections[section].name.as_str()),
        file: piece.file.as_deref(),
        library: &piece.library,
    }
}

fn level_changes(before: &Size, after: &Size, level: Level) -> LevelChanges {
    let change = |change: size::Change| JsonChange {
        flash_before: change.before.map(|bytes| bytes.flash),
        flash_after: change.after.map(|bytes| bytes.flash),
        ram_before: change.before.map(|bytes| bytes.ram),
        ram_after: change.after.map(|bytes| bytes.ram),
        name: change.name,
    };
    LevelChanges { level: level.word(), rows: compare(before, after, level).into_iter().map(change).collect() }
}

/// Writes the sizes of an image; `before` is an earlier build, `used` the memory that a run used.
///
/// # Errors
/// Errors of `out`.
pub fn write(size: &Size, before: Option<&Size>, used: &[Used], out: &mut dyn Write) -> Result<()> {
    let document = Document {
        format: "harness-size",
        version: VERSION,
        image: Image::from(size),
        before: before.map(Image::from),
        changes: before.map_or_else(Vec::new, |before| {
            Level::ALL.into_iter().map(|level| level_changes(before, size, level)).collect()
        }),
        used: used
            .iter()
            .map(|row| JsonUsed {
                what: &row.what,
                start: row.reserved.map(|(start, _)| Address(start)),
                reserved_bytes: row.reserved.map(|(_, bytes)| bytes),
                used_bytes: row.used_bytes,
                certainty: row.certainty,
            })
            .collect(),
    };
    document::write_line(&document, out)
}

/// JSON Schema of the output.
///
/// # Errors
/// No known errors.
pub fn schema() -> Result<String> {
    document::schema::<Document<'_>>()
}
