// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slices file: the growth of counters from one cut of the run to the next. The run is cut at the end of each phase
//! and of each slice. Growth after the last cut is the rest of the counters' values.

use crate::record::{AtMost, Codec, Record};
use crate::sample::MAX_VCPUS;
use crate::stream::{self, Stream};
use crate::varint::Reader;
use crate::{Malformed, counters};

/// Name of the file.
pub const FILE_NAME: &str = "slices";

/// Part of the run between two cuts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Number of the phase's name; 0: no phase had begun.
    pub phase: u32,
    /// Whether a slice ends here, not only a phase.
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

/// Stream of slices: the ends that the next one is compared with, by vCPU.
#[derive(Clone, Debug, Default)]
pub struct Slices(Vec<u64>);

/// Encoder of slices.
pub type Encoder = stream::Encoder<Slices>;

/// Decoder of the slices that an [`Encoder`] wrote.
pub type Decoder<'a> = stream::Decoder<'a, Slices>;

impl Slices {
    fn of(&self, vcpu: usize) -> u64 {
        self.0.get(vcpu).copied().unwrap_or(0)
    }
}

impl Stream for Slices {
    type Item = Slice;
    const WHAT: &'static str = "slice";

    fn allows(&self, slice: &Slice) -> bool {
        slice.vcpus.len() <= MAX_VCPUS as usize
            && slice.vcpus.iter().enumerate().all(|(vcpu, growth)| {
                growth.end_insns >= self.of(vcpu)
                    && growth.counts.iter().all(|&(slot, _)| slot >= counters::FIRST_DEFINED)
                    && growth.counts.is_sorted_by(|one, next| one.0 < next.0)
            })
    }

    fn put(&self, slice: &Slice, out: &mut Vec<u8>) {
        (u64::from(slice.phase) << 1 | u64::from(slice.is_full)).put(out);
        (slice.vcpus.len() as u64).put(out);
        for (vcpu, growth) in slice.vcpus.iter().enumerate() {
            (growth.end_insns - self.of(vcpu)).put(out);
            (growth.counts.len() as u64).put(out);
            let mut last = 0;
            for &(slot, count) in &growth.counts {
                (slot - last).put(out);
                count.put(out);
                last = slot;
            }
        }
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Slice, Malformed> {
        let malformed = reader.malformed();
        let head = reader.varint()?;
        let phase = u32::try_from(head >> 1).map_err(|_| malformed.clone())?;
        let vcpus = AtMost(MAX_VCPUS.into()).read(reader)?;
        let mut slice = Slice { phase, is_full: head & 1 == 1, vcpus: Vec::new() };
        for vcpu in 0..vcpus as usize {
            let end_insns = self.of(vcpu).checked_add(reader.varint()?).ok_or(malformed.clone())?;
            let mut counts = Vec::new();
            let mut slot = 0_u32;
            for _ in 0..reader.varint()? {
                slot = slot.checked_add(u32::read(reader)?).ok_or(malformed.clone())?;
                counts.push((slot, i64::read(reader)?));
            }
            slice.vcpus.push(Growth { end_insns, counts });
        }
        Ok(slice)
    }

    fn note(&mut self, slice: &Slice) {
        self.0.resize(self.0.len().max(slice.vcpus.len()), 0);
        self.0.iter_mut().zip(&slice.vcpus).for_each(|(end, growth)| *end = growth.end_insns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::promises;

    fn slices() -> Vec<Slice> {
        let growth = |end_insns, counts: &[(u32, i64)]| Growth { end_insns, counts: counts.to_vec() };
        vec![
            Slice { phase: 0, is_full: true, vcpus: vec![growth(1000, &[(20, 5), (21, -1)]), growth(7, &[])] },
            Slice { phase: 3, is_full: false, vcpus: vec![growth(1000, &[]), growth(9, &[(u32::MAX, i64::MIN)])] },
        ]
    }

    #[test]
    fn slices_survive_the_wire_and_no_cut_or_flipped_bit_goes_unseen() {
        promises::hold::<Slices>(&slices());
    }

    #[test]
    fn what_cannot_be_is_refused_when_written_and_when_read() {
        let slice = |end_insns, counts| Slice { vcpus: vec![Growth { end_insns, counts }], ..Slice::default() };
        let many = vec![Growth { end_insns: 10, counts: vec![] }; MAX_VCPUS as usize + 1];
        let many = Slice { vcpus: many, ..Slice::default() };
        let bad = [slice(10, vec![(21, 1), (21, 1)]), slice(10, vec![(counters::CLOCK, 1)]), many];
        promises::refuse::<Slices>(&[slice(10, vec![])], &bad);
        let mut encoder = Encoder::default();
        encoder.put(&slice(10, vec![]), &mut Vec::new()).unwrap();
        for bad in [slice(9, vec![]), slice(10, vec![(21, 1), (20, 1)])] {
            assert!(encoder.put(&bad, &mut Vec::new()).is_err(), "{bad:?}");
        }
    }
}
