// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ELF file beside a HEX, UF2, DFU or raw file: builds write both, and only the ELF has names. It is taken by its name, and
//! only if all of its code is in the image, byte for byte: a file of another build names nothing.

use std::path::{Path, PathBuf};

use super::{Format, Image, LoadOptions, elf, read};

/// Endings of ELF files that builds write, of which the second is Keil's.
const ENDINGS: [&str; 3] = ["elf", "axf", "out"];

/// Ending of the stem of Arduino's second HEX file, which has the bootloader, too.
const WITH_BOOTLOADER: &str = ".with_bootloader";

/// Finds the ELF file beside a firmware file that has no symbols; None also if the firmware cannot be read.
pub fn elf_with_its_code(firmware: &Path, options: &LoadOptions<'_>) -> Option<PathBuf> {
    let stem = firmware.file_stem()?.to_str()?;
    let stem = stem.strip_suffix(WITH_BOOTLOADER).unwrap_or(stem);
    let beside = ENDINGS.iter().map(|ending| firmware.with_file_name(format!("{stem}.{ending}")));
    let mut beside = beside.filter(|path| path != firmware && path.is_file()).peekable();
    // Most firmware is an ELF file, which need not be read twice.
    beside.peek()?;
    let image = Image::from_bytes(firmware, &read(firmware, "firmware").ok()?, options, None).ok()?;
    beside.find(|path| image.format != Format::Elf && has_its_code(path, &image))
}

fn has_its_code(path: &Path, image: &Image) -> bool {
    let facts = read(path, "symbol file").and_then(|bytes| elf::parse(path, &bytes, elf::Purpose::Symbols));
    facts.is_ok_and(|facts| {
        let found = image.compared(&facts.segments);
        found.code_bytes > 0 && found.bytes == found.code_bytes && found.different == 0
    })
}
