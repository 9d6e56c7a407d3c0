// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads UF2: blocks of 512 bytes, each with an address, up to 476 bytes and the family of chips that it is for. Format:
//! <https://github.com/microsoft/uf2>.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Segment;
use crate::error::InputError;
use crate::text::number::Hex;

/// First word of each block.
pub(super) const MAGIC: &[u8] = b"UF2\n";

const BLOCK_BYTES: usize = 512;
const SECOND_MAGIC: u32 = 0x9e5d_5157;
const LAST_MAGIC: u32 = 0x0ab1_6f30;

/// Most bytes of a block that are loaded.
const MAX_PAYLOAD: u32 = 476;

/// Flags: the block is not for the flash; it belongs to a file; its last word but the data is a family.
const NOT_FLASH: u32 = 0x1;
const OF_FILE: u32 = 0x1000;
const HAS_FAMILY: u32 = 0x2000;

/// Family of a block that boot loaders of the RP2350 take and others ignore.
const ABSOLUTE: u32 = 0xe48b_ff57;

/// Families and the chips' names, as their HALs write them; those of one vendor's family end in `xx`.
const FAMILIES: [(u32, &str); 24] = [
    (0x00ff_6919, "STM32L4xx"),
    (0x0424_0bdf, "STM32L5xx"),
    (0x1b57_745f, "nRF52832"),
    (0x1e1f_432d, "STM32L1xx"),
    (0x202e_3a91, "STM32L0xx"),
    (0x300f_5633, "STM32G0xx"),
    (0x4c71_240a, "STM32G4xx"),
    (0x4fb2_d5bd, "MIMXRT10xx"),
    (0x53b8_0f00, "STM32F7xx"),
    (0x5511_4460, "SAMD51"),
    (0x5775_5a57, "STM32F4xx"),
    (0x5d1a_0a2e, "STM32F2xx"),
    (0x5ee2_1072, "STM32F1xx"),
    (0x621e_937a, "nRF52833"),
    (0x6478_24b6, "STM32F0xx"),
    (0x68ed_2b88, "SAMD21"),
    (0x6b84_6188, "STM32F3xx"),
    (0x6d09_22fa, "STM32F407"),
    (0x6db6_6082, "STM32H7xx"),
    (0x70d1_6653, "STM32WBxx"),
    (0x8fb0_60fe, "STM32F407VG"),
    (0xada5_2840, "nRF52840"),
    (0xe48b_ff56, "RP2040"),
    (0xe48b_ff59, "RP2350"),
];

/// Family of chips of a UF2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Family(u32);

impl Family {
    /// Name of its chip or chips, as HALs write it.
    pub fn name(self) -> Option<&'static str> {
        FAMILIES.iter().find(|(id, _)| *id == self.0).map(|(_, name)| *name)
    }

    /// Whether a chip, by its name in lower case, may be of the family.
    fn has(self, chip: &str) -> bool {
        let name = self.name().unwrap_or_default().to_lowercase();
        let family = name.trim_end_matches("xx");
        !family.is_empty() && (chip.starts_with(family) || family.starts_with(chip))
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({:#010x})", self.0),
            None => write!(f, "the family {:#010x}, which harness does not know", self.0),
        }
    }
}

/// Contents of a UF2 file.
pub(super) struct Contents {
    /// Segments by address, neighbours joined.
    pub(super) segments: Vec<Segment>,
    /// The family of chips that they are for; None: the file names none.
    pub(super) family: Option<Family>,
}

/// Blocks of one family.
#[derive(Default)]
struct Part {
    /// Bytes by address.
    pieces: BTreeMap<u64, Vec<u8>>,
    /// Number of blocks, as they say, and the numbers of those that are there.
    count: u32,
    seen: BTreeSet<u32>,
}

/// A block's fields.
struct Block<'a> {
    flags: u32,
    address: u64,
    number: u32,
    count: u32,
    family: Option<Family>,
    data: &'a [u8],
}

/// Reads a block.
fn block(bytes: &[u8]) -> Result<Block<'_>, String> {
    let word = |at: usize| bytes[at..at + 4].iter().rev().fold(0u32, |word, &byte| word << 8 | u32::from(byte));
    if !bytes.starts_with(MAGIC) || word(4) != SECOND_MAGIC || word(508) != LAST_MAGIC {
        return Err("there is no block of a UF2 file here (its magic numbers differ)".to_owned());
    }
    let (flags, address, payload) = (word(8), word(12), word(16));
    if payload > MAX_PAYLOAD {
        return Err(format!("the block says that it has {payload} bytes; {MAX_PAYLOAD} fit"));
    }
    if u64::from(address) + u64::from(payload) > 1 << 32 {
        return Err(format!("the block's {payload} bytes at {} end beyond 32-bit addresses", Hex(address.into())));
    }
    let (number, count) = (word(20), word(24));
    if number >= count {
        return Err(format!("the block says that it is number {number} of {count}"));
    }
    Ok(Block {
        flags,
        address: address.into(),
        number,
        count,
        family: (flags & HAS_FAMILY != 0).then_some(Family(word(28))),
        data: &bytes[32..32 + payload as usize],
    })
}

impl Part {
    fn add(&mut self, block: &Block<'_>) -> Result<(), String> {
        let Block { flags, address, number, count, data, .. } = *block;
        if !self.seen.insert(number) {
            return Err(format!("block number {number} is there twice"));
        }
        if self.count != 0 && self.count != count {
            return Err(format!("the block says that there are {count} of them; others say {}", self.count));
        }
        self.count = count;
        if flags & (NOT_FLASH | OF_FILE) == 0
            && !data.is_empty()
            && self.pieces.insert(address, data.to_vec()).is_some()
        {
            return Err(format!("another block has bytes at {}, too", Hex(address)));
        }
        Ok(())
    }

    fn segments(self) -> Vec<Segment> {
        let mut segments = Vec::new();
        self.pieces.into_iter().for_each(|(address, data)| Segment::append(&mut segments, address, data));
        segments
    }
}

/// Chooses a family: the only one, or the one of the chip.
fn choose(
    path: &Path,
    parts: &BTreeMap<Option<Family>, Part>,
    chip: Option<&str>,
) -> Result<Option<Family>, InputError> {
    let loads: Vec<Option<Family>> =
        parts.iter().filter(|(_, part)| !part.pieces.is_empty()).map(|(family, _)| *family).collect();
    let is_absolute = |family: &&Option<Family>| **family == Some(Family(ABSOLUTE));
    let families: Vec<Option<Family>> = loads.iter().filter(|family| !is_absolute(family)).copied().collect();
    match families.as_slice() {
        [] => Err(InputError::about(path, "no block of this UF2 file loads anything into flash")),
        [only] => Ok(*only),
        several => {
            let of_chip =
                |family: &&Option<Family>| chip.zip(**family).is_some_and(|(chip, family)| family.has(chip));
            let mut found = several.iter().filter(of_chip);
            if let (Some(family), None) = (found.next(), found.next()) {
                return Ok(*family);
            }
            let name = |family: &Option<Family>| family.map_or("no family".to_owned(), |family| family.to_string());
            let names: Vec<String> = several.iter().map(name).collect();
            let reason = format!("this UF2 file is for each of {}; --chip says which is meant", names.join(", "));
            Err(InputError::about(path, reason))
        }
    }
}

/// Reads all blocks; of several families, those of the chip.
///
/// # Errors
/// When a block is damaged, missing, there twice, or lies outside of 32-bit addresses, or several families are meant.
pub(super) fn parse(path: &Path, bytes: &[u8], chip: Option<&str>) -> Result<Contents, InputError> {
    let mut parts: BTreeMap<Option<Family>, Part> = BTreeMap::new();
    for (index, bytes) in bytes.chunks(BLOCK_BYTES).enumerate() {
        let at = Hex((index * BLOCK_BYTES) as u64);
        let fail = |reason: String| InputError::about(path, format_args!("at offset {at} (block {index}): {reason}"));
        if bytes.len() < BLOCK_BYTES {
            return Err(fail(format!("the file ends {} bytes before the block does", BLOCK_BYTES - bytes.len())));
        }
        let block = block(bytes).map_err(fail)?;
        parts.entry(block.family).or_default().add(&block).map_err(fail)?;
    }
    let family = choose(path, &parts, chip)?;
    let part = parts.remove(&family).unwrap_or_default();
    if part.seen.len() as u64 != u64::from(part.count) {
        let reason = format!("{} of its {} blocks are there; was the file cut off?", part.seen.len(), part.count);
        return Err(InputError::about(path, reason));
    }
    Ok(Contents { segments: part.segments(), family })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RP2040: u32 = 0xe48b_ff56;

    /// A block of so many bytes, as fields: flags, address, payload, number, count, family.
    fn bytes(fields: [u32; 6]) -> Vec<u8> {
        let [flags, address, payload, number, count, family] = fields;
        let head = [0x0a32_4655, SECOND_MAGIC, flags, address, payload, number, count, family];
        let mut all: Vec<u8> = head.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        all.resize(508, number as u8 + 1);
        all.extend(LAST_MAGIC.to_le_bytes());
        all
    }

    fn parsed(blocks: &[[u32; 6]], chip: Option<&str>) -> Result<Contents, String> {
        let file: Vec<u8> = blocks.iter().flat_map(|&fields| bytes(fields)).collect();
        parse(Path::new("f.uf2"), &file, chip).map_err(|error| error.to_string())
    }

    #[test]
    fn blocks_in_any_order_become_segments_of_their_family() {
        let contents = parsed(
            &[
                [0x2000, 0x1000_0100, 256, 1, 3, RP2040],
                [0x2000, 0x1000_0000, 256, 0, 3, RP2040],
                [0x2001, 0x1000_0200, 256, 2, 3, RP2040],
                [0x2000, 0x10ff_ff00, 256, 0, 2, ABSOLUTE],
            ],
            None,
        )
        .unwrap();
        assert_eq!(contents.family.and_then(Family::name), Some("RP2040"));
        let [segment] = contents.segments.as_slice() else { panic!("one segment") };
        assert_eq!((segment.load_addr, segment.data.len()), (0x1000_0000, 512));
        assert_eq!((segment.data[0], segment.data[511]), (1, 2));
    }

    #[test]
    fn of_several_families_the_chips_is_taken() {
        let both = [[0x2000, 0x1000_0000, 256, 0, 1, RP2040], [0x2000, 0, 256, 0, 1, 0xada5_2840]];
        assert_eq!(parsed(&both, Some("nrf52840")).unwrap().segments[0].load_addr, 0);
        let error = parsed(&both, None).err().unwrap();
        assert!(error.contains("nRF52840 (0xada52840), RP2040 (0xe48bff56); --chip says which"), "{error}");
        assert!(Family(0x5775_5a57).has("stm32f407") && !Family(0x5775_5a57).has("stm32f103"));
    }

    #[test]
    fn a_hostile_file_ends_in_an_offset_and_a_reason() {
        let good = [0x2000, 0x1000_0000, 256, 0, 2, RP2040];
        for (second, wanted) in [
            (
                [0x2000, 0x1000_0100, 477, 1, 2, RP2040],
                "at offset 0x00000200 (block 1): the block says that it has 477",
            ),
            (
                [0x2000, 0xffff_ff01, 256, 1, 2, RP2040],
                "at offset 0x00000200 (block 1): the block's 256 bytes at 0xffffff01 end",
            ),
            ([0x2000, 0x1000_0100, 256, 2, 2, RP2040], "number 2 of 2"),
            ([0x2000, 0x1000_0100, 256, 0, 2, RP2040], "block number 0 is there twice"),
            ([0x2000, 0x1000_0000, 256, 1, 2, RP2040], "another block has bytes at 0x10000000, too"),
            ([0x2000, 0x1000_0100, 256, 1, u32::MAX, RP2040], "others say 2"),
        ] {
            let error = parsed(&[good, second], None).err().unwrap();
            assert!(error.contains(wanted), "{error}, not {wanted}");
        }
        assert!(parsed(&[good], None).err().unwrap().contains("1 of its 2 blocks are there"));
        assert!(parsed(&[[0x2001, 0, 256, 0, 1, RP2040]], None).err().unwrap().contains("no block of this UF2"));
        for cut in [1, 100, 511] {
            let error = parse(Path::new("f.uf2"), &bytes(good)[..cut], None).err().unwrap().to_string();
            assert!(error.contains("at offset 0x00000000 (block 0): the file ends"), "{error}");
        }
        let mut other = bytes(good);
        other[508] ^= 1;
        assert!(parse(Path::new("f.uf2"), &other, None).err().unwrap().to_string().contains("magic numbers differ"));
    }
}
