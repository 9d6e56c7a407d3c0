// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the made machine: the ranges that can be read without a device noticing.
//!
//! QEMU makes the machine after it has loaded the plugin, which has read its [`crate::request`] by then. So harness
//! makes QEMU hold the machine, asks for its memory, writes this file, and lets the machine go. The plugin reads the
//! file before the first instruction; without it, the request's memory is used.

use std::ops::Range;

use crate::Malformed;
use crate::record::{self, Record};
use crate::varint::Reader;

/// Name of the file.
pub const FILE_NAME: &str = "memory";

/// First eight bytes of the file.
const MAGIC: [u8; 8] = *b"fwmem\r\n\0";

/// Version of the file; changes when any byte of it changes its meaning.
const VERSION: u64 = 1;

/// Appends the file's bytes.
///
/// # Errors
/// When the ranges are not in ascending order with a gap between each two, or one is empty.
pub fn put(out: &mut Vec<u8>, memory: &[Range<u64>]) -> Result<(), Malformed> {
    check(memory)?;
    out.extend_from_slice(&MAGIC);
    VERSION.put(out);
    memory.to_vec().put(out);
    Ok(())
}

/// Reads the file.
///
/// # Errors
/// When the bytes are not such a file.
pub fn read(bytes: &[u8]) -> Result<Vec<Range<u64>>, Malformed> {
    let mut reader = Reader::new(bytes, "memory");
    if reader.bytes(MAGIC.len() as u64)? != MAGIC {
        return Err(Malformed { what: "memory's magic", offset: 0 });
    }
    if reader.varint()? != VERSION {
        return Err(Malformed { what: "memory's version", offset: MAGIC.len() });
    }
    let memory: Vec<Range<u64>> = record::rest(&mut reader)?;
    check(&memory)?;
    Ok(memory)
}

fn check(memory: &[Range<u64>]) -> Result<(), Malformed> {
    let holds = memory.iter().all(|range| range.start < range.end) && memory.is_sorted_by(|a, b| a.end < b.start);
    if holds { Ok(()) } else { Err(Malformed { what: "memory's ranges", offset: 0 }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SSRAM: [Range<u64>; 2] = [0..0x80_0000, 0x2000_0000..0x2080_0000];

    fn encode(memory: &[Range<u64>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, memory).unwrap();
        bytes
    }

    #[test]
    fn memory_survives_the_wire() {
        #[expect(clippy::single_range_in_vec_init, reason = "a machine with one memory")]
        for memory in [vec![], SSRAM.to_vec(), vec![1..u64::MAX]] {
            assert_eq!(read(&encode(&memory)), Ok(memory));
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_when_written_and_when_read() {
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        let bad = [[0..4, 4..8], [4..8, 0..2], [0..8, 4..12], [0..0, 4..8], [0..4, 8..6]];
        for memory in bad {
            let mut bytes = Vec::new();
            assert!(put(&mut bytes, &memory).is_err() && bytes.is_empty(), "{memory:?}");
        }
        // Touching ranges are refused.
        let mut bytes = encode(&[0..4, 6..8]);
        let start = bytes.len() - 2;
        bytes[start] = 4;
        assert_eq!(read(&bytes), Err(Malformed { what: "memory's ranges", offset: 0 }));
    }

    #[test]
    fn every_cut_a_rest_and_flipped_bits_are_refused_or_something_else() {
        let bytes = encode(&SSRAM);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "cut at {cut}");
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[cut] ^= 1 << bit;
                assert_ne!(read(&flipped), Ok(SSRAM.to_vec()), "byte {cut} bit {bit} does not matter");
            }
        }
        assert!(read(&[&bytes[..], &[0]].concat()).is_err());
    }
}
