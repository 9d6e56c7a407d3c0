// SPDX-License-Identifier: MIT OR Apache-2.0
//! LEB128 integers and zigzag deltas: most fields of most records fit one byte.

use crate::Malformed;

/// Appends `value` as LEB128, 1 to 10 bytes.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the signed difference `to - from` (wrapping), small in either direction.
pub fn put_delta(out: &mut Vec<u8>, from: u64, to: u64) {
    let delta = to.wrapping_sub(from) as i64;
    put(out, ((delta << 1) ^ (delta >> 63)) as u64);
}

/// Position in a byte stream, with the name of the value that is read, for errors.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    pub(crate) offset: usize,
    pub(crate) what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Reader { bytes, offset: 0, what }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.offset >= self.bytes.len()
    }

    /// Ends the stream: after a malformed record no position is right.
    pub(crate) fn stop(&mut self) {
        self.offset = self.bytes.len();
    }

    /// Error about the value that begins here.
    #[inline]
    pub(crate) fn malformed(&self) -> Malformed {
        Malformed { what: self.what, offset: self.offset }
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let byte = *self.bytes.get(self.offset).ok_or(self.malformed())?;
        self.offset += 1;
        Ok(byte)
    }

    pub(crate) fn bytes(&mut self, len: u64) -> Result<&'a [u8], Malformed> {
        let malformed = self.malformed();
        let end = usize::try_from(len).ok().and_then(|len| self.offset.checked_add(len)).ok_or(malformed.clone())?;
        let bytes = self.bytes.get(self.offset..end).ok_or(malformed)?;
        self.offset = end;
        Ok(bytes)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let malformed = self.malformed();
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte holds one bit; higher bits would be silently lost.
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(malformed)
    }

    #[inline]
    pub(crate) fn delta(&mut self, from: u64) -> Result<u64, Malformed> {
        let zigzag = self.varint()?;
        Ok(from.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_integer_and_every_difference_survives() {
        let edges = [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::MAX / 2, u64::MAX - 1, u64::MAX];
        for from in edges {
            for to in edges {
                let mut out = Vec::new();
                put(&mut out, to);
                put_delta(&mut out, from, to);
                let mut reader = Reader::new(&out, "t");
                assert_eq!(reader.varint(), Ok(to));
                assert_eq!(reader.delta(from), Ok(to));
                assert!(reader.is_empty());
            }
        }
    }

    #[test]
    fn overlong_and_cut_integers_are_refused() {
        assert!(Reader::new(&[0xff; 11], "t").varint().is_err());
        assert!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], "t").varint().is_err());
        assert!(Reader::new(&[0x80], "t").varint().is_err());
    }
}
