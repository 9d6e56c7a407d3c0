// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections of an ELF file, decompressed. A compressed section states its decompressed size, and a file of a few
//! megabytes can state gigabytes. So the sum of the sizes is bounded before any section is decompressed.

use std::borrow::Cow;

use object::{CompressionFormat, File, Object as _, ObjectSection, Section};

/// Limit of the decompressed length of all compressed sections of a file, in lengths of the file. Compression shrinks
/// debug information to a third or a quarter; zlib's best ratio is about a thousand.
const MOST_TIMES: u64 = 32;

/// Decompressed length that is always permitted.
const ALWAYS_BYTES: u64 = 16 << 20;

/// The bytes of a section, decompressed if they are compressed.
///
/// # Errors
/// When the bytes lie outside of the file or cannot be decompressed, or all sections together would be too long.
pub(crate) fn uncompressed<'data>(
    file: &File<'data>,
    section: &Section<'data, '_>,
) -> Result<Cow<'data, [u8]>, String> {
    let data = section.compressed_data().map_err(|error| error.to_string())?;
    if data.format != CompressionFormat::None {
        let all = file.sections().filter_map(|section| section.compressed_file_range().ok());
        let compressed = all.filter(|range| range.format != CompressionFormat::None);
        let bytes = compressed.fold(0, |sum: u64, range| sum.saturating_add(range.uncompressed_size));
        let most_bytes = file_bytes(file).saturating_mul(MOST_TIMES).max(ALWAYS_BYTES);
        if bytes > most_bytes {
            return Err(format!("its compressed sections would take {bytes} bytes, and {most_bytes} are believed"));
        }
    }
    data.decompress().map_err(|error| error.to_string())
}

fn file_bytes(file: &File<'_>) -> u64 {
    let bytes = match file {
        File::Elf32(elf) => elf.data(),
        File::Elf64(elf) => elf.data(),
        // No other file is an image.
        _ => &[],
    };
    bytes.len() as u64
}
