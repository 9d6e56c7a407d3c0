// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ranges of the console that are the firmware's standard error, in the order of printing.

/// Ending of the range file's name, in place of the console's own ending.
pub const FILE_ENDING: &str = ".err";

/// Size of a range in the file.
pub const RANGE_BYTES: usize = 16;

/// Range of bytes of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Offset of the first byte.
    pub begin: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Range {
    /// Encodes the range as in the file: two little-endian words.
    pub fn to_bytes(self) -> [u8; RANGE_BYTES] {
        let mut bytes = [0; RANGE_BYTES];
        bytes[..8].copy_from_slice(&self.begin.to_le_bytes());
        bytes[8..].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    /// Decodes the whole ranges at the beginning of `bytes`; a cut last one is left out.
    pub fn read(bytes: &[u8]) -> impl Iterator<Item = Range> {
        bytes.as_chunks::<RANGE_BYTES>().0.iter().map(|range| {
            let word = |at: usize| range[at..].first_chunk().map_or(0, |&word| u64::from_le_bytes(word));
            Range { begin: word(0), bytes: word(8) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_read_back_as_far_as_they_are_whole() {
        let ranges = [Range { begin: 5, bytes: 7 }, Range { begin: 1 << 40, bytes: 1 }];
        let bytes = ranges.map(Range::to_bytes).concat();
        assert!(Range::read(&bytes).eq(ranges));
        assert!(Range::read(&bytes[..31]).eq([ranges[0]]));
    }
}
