//! Slices file: the growth of counters from one cut of the run to the next. The run is cut at the end of each phase
//! and of each slice. Growth after the last cut is the rest of the counters' values.

use crate::sample::MAX_VCPUS;
use crate::varint::{self, Reader};
use crate::{Malformed, counters};

/// Name of the file.
pub const FILE_NAME: &str = "slices";

/// Part of the run between two cuts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Number of the phase's name; 0: no phase had begun.
    pub phase: u32,
    /// Whether a slice ends here, and not only a phase.
    pub is_full: bool,
    /// Growth of each vCPU's counters.
    pub vcpus: Vec<Growth>,
}

/// Growth of one vCPU's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Instructions of the vCPU in the window up to the cut.
    pub end_insns: u64,
    /// Changed counters by slot, with the difference from the cut before.
    pub counts: Vec<(u32, i64)>,
}

/// Encoder of slices; keeps the ends that the next slice is compared with.
#[derive(Clone, Debug, Default)]
pub struct Encoder(Vec<u64>);

impl Encoder {
    /// Appends a slice to `out`.
    ///
    /// # Errors
    /// When a vCPU's end lies before that of the last slice, or the slots are not counters in order; nothing is
    /// appended.
    pub fn put(&mut self, slice: &Slice, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let malformed = Malformed { what: "slice", offset: out.len() };
        self.0.resize(self.0.len().max(slice.vcpus.len()), 0);
        let is_sound = |(growth, &before): (&Growth, &u64)| {
            growth.end_insns >= before
                && growth.counts.iter().all(|&(slot, _)| slot >= counters::FIRST_DEFINED)
                && growth.counts.is_sorted_by(|one, next| one.0 < next.0)
        };
        if slice.vcpus.len() > MAX_VCPUS as usize || !slice.vcpus.iter().zip(&self.0).all(is_sound) {
            return Err(malformed);
        }
        varint::put(out, u64::from(slice.phase) << 1 | u64::from(slice.is_full));
        varint::put(out, slice.vcpus.len() as u64);
        for (growth, before) in slice.vcpus.iter().zip(&mut self.0) {
            varint::put(out, growth.end_insns - std::mem::replace(before, growth.end_insns));
            varint::put(out, growth.counts.len() as u64);
            let mut last = 0;
            for &(slot, count) in &growth.counts {
                varint::put(out, (slot - last).into());
                varint::put_delta(out, 0, count as u64);
                last = slot;
            }
        }
        Ok(())
    }
}

/// Decoder of the slices that [`Encoder`] wrote.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    reader: Reader<'a>,
    ends: Vec<u64>,
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte of the file.
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { reader: Reader::new(bytes), ends: Vec::new() }
    }

    fn slice(&mut self) -> Result<Slice, Malformed> {
        let malformed = Malformed { what: "slice", offset: self.reader.offset };
        let head = self.reader.varint("slice")?;
        let phase = u32::try_from(head >> 1).map_err(|_| malformed.clone())?;
        let vcpus = self.reader.varint("slice's vCPUs")?;
        if vcpus > u64::from(MAX_VCPUS) {
            return Err(malformed);
        }
        self.ends.resize(self.ends.len().max(vcpus as usize), 0);
        let mut slice = Slice { phase, is_full: head & 1 == 1, vcpus: Vec::new() };
        for end in &mut self.ends[..vcpus as usize] {
            let step = self.reader.varint("slice's end")?;
            *end = end.checked_add(step).ok_or(malformed.clone())?;
            let mut counts = Vec::new();
            let mut slot = 0_u32;
            for _ in 0..self.reader.varint("slice's length")? {
                let gap = u32::try_from(self.reader.varint("slice's slot")?).ok().filter(|&gap| gap > 0);
                slot = gap.and_then(|gap| slot.checked_add(gap)).ok_or(malformed.clone())?;
                if slot < counters::FIRST_DEFINED {
                    return Err(malformed);
                }
                counts.push((slot, self.reader.delta(0, "slice's count")? as i64));
            }
            slice.vcpus.push(Growth { end_insns: *end, counts });
        }
        Ok(slice)
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<Slice, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        Some(self.slice().inspect_err(|_| self.reader.stop()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices() -> Vec<Slice> {
        let growth = |end_insns, counts: &[(u32, i64)]| Growth { end_insns, counts: counts.to_vec() };
        vec![
            Slice { phase: 0, is_full: true, vcpus: vec![growth(1000, &[(20, 5), (21, -1)]), growth(7, &[])] },
            Slice { phase: 3, is_full: false, vcpus: vec![growth(1000, &[]), growth(9, &[(u32::MAX, i64::MIN)])] },
        ]
    }

    fn encode(slices: &[Slice]) -> Vec<u8> {
        let (mut out, mut encoder) = (Vec::new(), Encoder::default());
        slices.iter().for_each(|slice| encoder.put(slice, &mut out).unwrap());
        out
    }

    #[test]
    fn slices_survive_the_wire() {
        let decoded: Result<Vec<_>, _> = Decoder::new(&encode(&slices())).collect();
        assert_eq!(decoded.unwrap(), slices());
    }

    #[test]
    fn what_cannot_be_is_refused_when_written() {
        let (mut out, mut encoder) = (Vec::new(), Encoder::default());
        let slice = |end_insns, counts| Slice { vcpus: vec![Growth { end_insns, counts }], ..Slice::default() };
        encoder.put(&slice(10, vec![]), &mut out).unwrap();
        let length = out.len();
        for bad in [slice(9, vec![]), slice(10, vec![(21, 1), (20, 1)]), slice(10, vec![(counters::CLOCK, 1)])] {
            assert!(encoder.put(&bad, &mut out).is_err(), "{bad:?}");
        }
        assert_eq!(out.len(), length);
    }

    #[test]
    fn cut_and_flipped_bytes_never_panic() {
        let bytes = encode(&slices());
        for cut in 0..bytes.len() {
            let _ = Decoder::new(&bytes[..cut]).count();
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[cut] ^= 1 << bit;
                let decoded: Result<Vec<_>, _> = Decoder::new(&flipped).collect();
                assert_ne!(decoded.as_ref(), Ok(&slices()), "byte {cut} bit {bit} does not matter");
            }
        }
    }
}
