// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads DFU: what bootloaders take by USB. ST's form (DfuSe, UM0391) has pieces with addresses, for each memory of the
//! chip; the USB forum's own form (DFU 1.1, appendix B) is bytes without an address. A suffix with a checksum ends both.

use std::collections::BTreeMap;
use std::path::Path;

use super::Segment;
use crate::error::InputError;
use crate::text::number::Hex;

/// First bytes of a file in ST's form.
pub(super) const MAGIC: &[u8] = b"DfuSe\x01";

/// First bytes of a target: the pieces for one memory.
const TARGET: &[u8] = b"Target";

const PREFIX_BYTES: usize = 11;
const TARGET_BYTES: usize = 274;
const ELEMENT_BYTES: usize = 8;
const SUFFIX_BYTES: usize = 16;

/// Offsets in the suffix of its signature and its length.
const SIGNATURE: (usize, &[u8]) = (8, b"UFD\x10");

/// The alternate setting of a chip's own flash; others are its option bytes, or memory outside of the chip.
const FLASH: u8 = 0;

/// Whether a file ends in a suffix.
pub(super) fn looks_like(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || suffix(bytes).is_some_and(|suffix| suffix[SIGNATURE.0..].starts_with(SIGNATURE.1))
}

/// Whether a file says where its bytes belong.
pub(super) fn says_addresses(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

fn suffix(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(bytes.len().checked_sub(SUFFIX_BYTES)?..)
}

/// Part of a file that is still to be read, with its place.
struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Rest<'a> {
    /// Takes the next bytes, `what` of which the file says that they are there.
    fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8], String> {
        let here = self.at;
        let taken = self.bytes.split_at_checked(count).ok_or_else(|| {
            format!("at offset {}: {what} has {count} bytes, and {} are left", Hex(here as u64), self.bytes.len())
        })?;
        (self.bytes, self.at) = (taken.1, self.at + count);
        Ok(taken.0)
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

/// Reads the pieces for the chip's flash. A file without addresses is placed at `load_addr`.
///
/// # Errors
/// When the file is cut off or altered, has no piece for the flash, loads a byte twice, or says no address and none is
/// given.
pub(super) fn parse(path: &Path, bytes: &[u8], load_addr: Option<u64>) -> Result<Vec<Segment>, InputError> {
    let fail = |reason: String| InputError::about(path, reason);
    let contents = without_suffix(bytes).map_err(fail)?;
    let pieces = if contents.starts_with(MAGIC) {
        pieces(contents).map_err(fail)?
    } else {
        let Some(address) = load_addr else {
            return Err(fail(
                "this DFU file does not say where it is loaded (it has no DfuSe header); say it: --load-addr ADDRESS"
                    .to_owned(),
            ));
        };
        BTreeMap::from([(address, contents.to_vec())])
    };
    let mut segments = Vec::new();
    let mut end = 0;
    for (address, data) in pieces {
        if address < end {
            return Err(fail(format!("two pieces have bytes at {}", Hex(address))));
        }
        end = address.checked_add(data.len() as u64).filter(|&end| end <= 1 << 32).ok_or_else(|| {
            fail(format!("{} bytes from {} on end beyond 32-bit addresses", data.len(), Hex(address)))
        })?;
        Segment::append(&mut segments, address, data);
    }
    Ok(segments)
}

/// The file without its suffix, whose checksum is compared.
fn without_suffix(bytes: &[u8]) -> Result<&[u8], String> {
    let Some(suffix) = suffix(bytes).filter(|suffix| suffix[SIGNATURE.0..].starts_with(SIGNATURE.1)) else {
        return Err("this DFU file has no suffix at its end; was it cut off?".to_owned());
    };
    let said = word(suffix, SUFFIX_BYTES - 4);
    // The checksum is a CRC-32 without its last inversion.
    let is = !crc32fast::hash(&bytes[..bytes.len() - 4]);
    if said != is {
        return Err(format!(
            "this DFU file is damaged: its checksum is {is:#010x}, and its suffix says {said:#010x}"
        ));
    }
    Ok(&bytes[..bytes.len() - SUFFIX_BYTES])
}

/// Pieces of ST's form for the flash, by address.
fn pieces(contents: &[u8]) -> Result<BTreeMap<u64, Vec<u8>>, String> {
    let mut rest = Rest { bytes: contents, at: 0 };
    let targets = rest.take(PREFIX_BYTES, "the header")?[PREFIX_BYTES - 1];
    let (mut pieces, mut others) = (BTreeMap::new(), Vec::new());
    for _ in 0..targets {
        let begin = rest.at;
        let target = rest.take(TARGET_BYTES, "a target")?;
        if !target.starts_with(TARGET) {
            return Err(format!("at offset {}: no target begins here", Hex(begin as u64)));
        }
        let alternate = target[TARGET.len()];
        for _ in 0..word(target, TARGET_BYTES - 4) {
            let element = rest.take(ELEMENT_BYTES, "a piece's header")?;
            let (address, count) = (u64::from(word(element, 0)), word(element, 4));
            let data = rest.take(count as usize, "a piece")?;
            if alternate != FLASH || data.is_empty() {
                others.push(alternate);
            } else if pieces.insert(address, data.to_vec()).is_some() {
                return Err(format!("two pieces have bytes at {}", Hex(address)));
            }
        }
    }
    if pieces.is_empty() {
        return Err(format!(
            "no piece of this DFU file is for the chip's own flash (alternate setting {FLASH}); {} are for others",
            others.len()
        ));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Alternate setting of a target, and its pieces by address.
    type Target<'a> = (u8, &'a [(u32, &'a [u8])]);

    /// A file of targets.
    fn file(targets: &[Target<'_>]) -> Vec<u8> {
        let mut all = [MAGIC, &[0; 4], &[targets.len() as u8]].concat();
        for (alternate, pieces) in targets {
            let mut target = [TARGET, &[*alternate]].concat();
            target.resize(TARGET_BYTES - 4, 0);
            target.extend((pieces.len() as u32).to_le_bytes());
            for (address, data) in *pieces {
                target.extend(address.to_le_bytes());
                target.extend((data.len() as u32).to_le_bytes());
                target.extend(*data);
            }
            all.extend(target);
        }
        ended(all)
    }

    fn ended(mut contents: Vec<u8>) -> Vec<u8> {
        contents.extend([0, 0, 0x11, 0xdf, 0x83, 4, 0x1a, 1]);
        contents.extend(SIGNATURE.1);
        let sum = !crc32fast::hash(&contents);
        contents.extend(sum.to_le_bytes());
        contents
    }

    fn parsed(bytes: &[u8], load_addr: Option<u64>) -> Result<Vec<(u64, Vec<u8>)>, String> {
        let segments = parse(Path::new("f.dfu"), bytes, load_addr).map_err(|error| error.to_string())?;
        Ok(segments.into_iter().map(|segment| (segment.load_addr, segment.data)).collect())
    }

    #[test]
    fn pieces_for_the_flash_become_segments() {
        let flash: Target<'_> = (0, &[(0x800_0004, b"5678"), (0x800_0000, b"1234"), (0x802_0000, b"9")]);
        let bytes = file(&[(1, &[(0x1fff_c000, b"option")]), flash]);
        assert!(looks_like(&bytes));
        let expected = vec![(0x800_0000, b"12345678".to_vec()), (0x802_0000, b"9".to_vec())];
        assert_eq!(parsed(&bytes, None), Ok(expected));
    }

    #[test]
    fn bytes_without_an_address_are_placed_by_the_user() {
        let bytes = ended(b"firmware".to_vec());
        assert!(looks_like(&bytes) && !looks_like(b"firmware without a suffix"));
        assert_eq!(parsed(&bytes, Some(0x2000)), Ok(vec![(0x2000, b"firmware".to_vec())]));
        assert!(parsed(&bytes, None).unwrap_err().contains("--load-addr ADDRESS"));
    }

    #[test]
    fn a_hostile_file_ends_in_a_place_and_a_reason() {
        let good = file(&[(0, &[(0x800_0000, b"1234")])]);
        for cut in [0, 5, 11, 100, 289, good.len() - 1] {
            assert!(parsed(&good[..cut], None).unwrap_err().contains("has no suffix"), "{cut}");
        }
        let mut changed = good.clone();
        changed[290] ^= 1;
        assert!(parsed(&changed, None).unwrap_err().contains("is damaged: its checksum is"));
        let body = &good[..good.len() - SUFFIX_BYTES];
        let altered = |at: usize, bytes: &[u8]| {
            let mut body = body.to_vec();
            body[at..at + bytes.len()].copy_from_slice(bytes);
            parsed(&ended(body), None).unwrap_err()
        };
        let long = [0xff; 4];
        assert!(altered(289, &long).contains("at offset 0x00000125: a piece has 4294967295 bytes, and 4 are left"));
        assert!(altered(281, &long).contains("a piece's header has 8 bytes, and 0 are left"));
        assert!(altered(10, &[2]).contains("a target has 274 bytes, and 0 are left"));
        assert!(altered(11, b"targeT").contains("at offset 0x0000000b: no target begins here"));
        assert!(altered(17, &[3]).contains("no piece of this DFU file is for the chip's own flash"));
        assert!(altered(285, &[0xff, 0xff, 0xff, 0xff]).contains("end beyond 32-bit addresses"));
        let twice = file(&[(0, &[(0x800_0000, b"1234"), (0x800_0002, b"56")])]);
        assert!(parsed(&twice, None).unwrap_err().contains("two pieces have bytes at 0x08000002"));
    }
}
