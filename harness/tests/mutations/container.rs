// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firmware in a container: UF2, DfuSe, and Universal Hex, made of a small image as their tools make them.

use std::fmt::Write as _;
use std::path::Path;

use harness::image::{Board, Image, LoadOptions};

use super::random::Random;
use super::session::Seed;
use super::{image, mutate};
use crate::common::{self, containers};

/// Bytes of a DfuSe file's end, of which the last four are its checksum.
const SUM_BYTES: usize = 4;

pub(crate) fn seeds(_: &Path) -> Vec<Seed> {
    let segments = containers::loaded(&common::image("cortex-m3-exit0"));
    let pieces = containers::pieces(&segments, 600);
    let seed = |name: &str, bytes: Vec<u8>| Seed { name: name.to_owned(), bytes };
    vec![
        seed("firmware.uf2", containers::uf2(&pieces, containers::RP2040)),
        seed("firmware.dfu", containers::dfu(&pieces)),
        seed("one board.hex", universal(&pieces, &[0x9903])),
        seed("two boards.hex", universal(&pieces, &[0x9900, 0x9903])),
    ]
}

/// A line of a HEX file.
fn line(text: &mut String, kind: u8, offset: u16, data: &[u8]) {
    let [high, low] = offset.to_be_bytes();
    let bytes = [&[data.len() as u8, high, low, kind], data].concat();
    let sum = bytes.iter().fold(0_u8, |sum, &byte| sum.wrapping_sub(byte));
    text.push(':');
    for byte in bytes.iter().chain([&sum]) {
        let _ = write!(text, "{byte:02X}");
    }
    text.push('\n');
}

/// Blocks of each board, as "Universal Hex File Format Specification" has them.
fn universal(pieces: &[(u32, &[u8])], boards: &[u16]) -> Vec<u8> {
    let mut text = String::new();
    for &board in boards {
        for (start, data) in pieces {
            line(&mut text, 4, 0, &((start >> 16) as u16).to_be_bytes());
            let [high, low] = board.to_be_bytes();
            line(&mut text, 0x0a, 0, &[high, low, 0xc0, 0xde]);
            let kind = if board == 0x9903 { 0x0d } else { 0 };
            for (offset, bytes) in (*start as u16..).step_by(16).zip(data.chunks(16)) {
                line(&mut text, kind, offset, bytes);
            }
            line(&mut text, 0x0b, 0, &[]);
        }
    }
    line(&mut text, 1, 0, &[]);
    text.into_bytes()
}

pub(crate) fn mutated(random: &mut Random, seeds: &[Seed], seed: usize) -> Vec<u8> {
    if seeds[seed].name.ends_with("hex") {
        return image::mutated_hex(random, seeds, seed);
    }
    let mut bytes = seeds[seed].bytes.clone();
    mutate::bytes(random, &mut bytes);
    // What lies behind the checksum is read only if that is right.
    if bytes.starts_with(b"DfuSe") && bytes.len() > SUM_BYTES && random.percent(90) {
        bytes.truncate(bytes.len() - SUM_BYTES);
        bytes.extend((!crc32fast::hash(&bytes)).to_le_bytes());
    }
    bytes
}

/// Reads a container as `harness` does for any board.
pub(crate) fn read(seed: &Seed, bytes: &[u8], _: &Path) -> bool {
    let path = Path::new(&seed.name);
    let boards = [None, Some(Board::MicrobitV1), Some(Board::MicrobitV2)];
    let read = boards.map(|board| {
        let options = LoadOptions { board, ..LoadOptions::default() };
        let image = Image::from_bytes(path, bytes, &options, None);
        image.map(|image| image::read_image(&image, bytes)).is_ok()
    });
    read.contains(&true)
}
