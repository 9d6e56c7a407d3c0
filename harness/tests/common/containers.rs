// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firmware in containers, made of pieces of memory as the containers' tools make them.

use std::path::Path;

use harness::image::{Image, LoadOptions, Segment};

/// Family of the RP2040 in a UF2 file.
pub const RP2040: u32 = 0xe48b_ff56;

/// Segments of an ELF file that have bytes.
pub fn loaded(elf: &Path) -> Vec<Segment> {
    let segments = Image::open(elf, &LoadOptions::default()).unwrap().segments;
    segments.into_iter().filter(|segment| !segment.data.is_empty()).collect()
}

/// Addresses and bytes of segments, of each at most so many.
pub fn pieces(segments: &[Segment], most_bytes: usize) -> Vec<(u32, &[u8])> {
    let piece = |segment: &'_ Segment| segment.data.len().min(most_bytes);
    segments.iter().map(|segment| (segment.load_addr as u32, &segment.data[..piece(segment)])).collect()
}

/// A UF2 file of blocks of 256 bytes each, for a family.
pub fn uf2(pieces: &[(u32, &[u8])], family: u32) -> Vec<u8> {
    let blocks: Vec<(u32, &[u8])> =
        pieces.iter().flat_map(|(start, data)| (*start..).step_by(256).zip(data.chunks(256))).collect();
    let mut file = Vec::new();
    for (number, (address, data)) in blocks.iter().enumerate() {
        let head = [0x0a32_4655, 0x9e5d_5157, 0x2000, *address, data.len() as u32, number as u32];
        let begin = file.len();
        file.extend(head.into_iter().chain([blocks.len() as u32, family]).flat_map(u32::to_le_bytes));
        file.extend(*data);
        file.resize(begin + 508, 0);
        file.extend(0x0ab1_6f30_u32.to_le_bytes());
    }
    file
}

/// A DfuSe file of one target.
pub fn dfu(pieces: &[(u32, &[u8])]) -> Vec<u8> {
    let mut file = b"DfuSe\x01\0\0\0\0\x01Target\0".to_vec();
    file.resize(11 + 270, 0);
    file.extend((pieces.len() as u32).to_le_bytes());
    for (address, data) in pieces {
        file.extend(address.to_le_bytes());
        file.extend((data.len() as u32).to_le_bytes());
        file.extend(*data);
    }
    ended(file)
}

/// Bytes with the suffix of DFU files.
pub fn ended(mut file: Vec<u8>) -> Vec<u8> {
    file.extend(b"\0\0\x11\xdf\x83\x04\x1a\x01UFD\x10");
    file.extend((!crc32fast::hash(&file)).to_le_bytes());
    file
}
