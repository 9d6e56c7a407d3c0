// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples in time order, delta-coded: two or three bytes each if nothing but the pc changes.

use crate::Malformed;
use crate::record::{Codec, Record, since};
use crate::stream::{self, Stream};
use crate::varint::Reader;

/// Sample: the instruction at which the clock reached a multiple of the period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Instructions of this vCPU since the window opened, up to and including this one.
    pub at_insns: u64,
    /// Address of the instruction.
    pub pc: u64,
    /// Index of the vCPU.
    pub vcpu: u32,
    /// Callers: the id of the innermost [`crate::definition::Definition::Frame`]; 0: there are none.
    pub stack: u32,
    /// Running task, the id of a [`crate::definition::Definition::Task`]; 0: none.
    pub task: u32,
    /// Place in the exact call tree, the id of a [`crate::definition::Definition::Node`]; 0: no tree is kept.
    pub node: u32,
    /// Innermost zone, the id of a [`crate::definition::Definition::ZonePath`]; 0: none.
    pub zone: u32,
}

/// Most vCPUs in a stream: bounds the memory that a malformed stream can allocate.
pub const MAX_VCPUS: u32 = 4096;

const STEP: u8 = 1;
const VCPU: u8 = 2;
const STACK: u8 = 4;
const TASK: u8 = 8;
const NODE: u8 = 16;
const ZONE: u8 = 32;

/// Stream of samples: the values that the next one's differences refer to.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    sample: Sample,
    /// Instructions at the last sample and the step that led there, by vCPU.
    at: Vec<(u64, u64)>,
}

/// Encoder of samples.
pub type Encoder = stream::Encoder<Samples>;

/// Decoder of the samples that an [`Encoder`] wrote.
pub type Decoder<'a> = stream::Decoder<'a, Samples>;

impl Samples {
    #[inline]
    fn at(&self, vcpu: u32) -> (u64, u64) {
        self.at.get(vcpu as usize).copied().unwrap_or_default()
    }
}

impl Stream for Samples {
    type Item = Sample;
    const WHAT: &'static str = "sample";

    #[inline]
    fn allows(&self, sample: &Sample) -> bool {
        sample.vcpu < MAX_VCPUS && sample.at_insns > self.at(sample.vcpu).0
    }

    #[inline]
    fn put(&self, sample: &Sample, out: &mut Vec<u8>) {
        let (at_insns, last_step) = self.at(sample.vcpu);
        let (last, step) = (&self.sample, sample.at_insns - at_insns);
        let mut fields = 0;
        for (flag, changed) in [
            (STEP, step != last_step),
            (VCPU, sample.vcpu != last.vcpu),
            (STACK, sample.stack != last.stack),
            (TASK, sample.task != last.task),
            (NODE, sample.node != last.node),
            (ZONE, sample.zone != last.zone),
        ] {
            if changed {
                fields |= flag;
            }
        }
        out.push(fields);
        if fields & VCPU != 0 {
            sample.vcpu.put(out);
        }
        if fields & STEP != 0 {
            step.put(out);
        }
        since(last.pc).put(&sample.pc, out);
        for (flag, value) in [(STACK, sample.stack), (TASK, sample.task), (NODE, sample.node), (ZONE, sample.zone)] {
            if fields & flag != 0 {
                value.put(out);
            }
        }
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Sample, Malformed> {
        let malformed = reader.malformed();
        let mut sample = self.sample;
        let fields = reader.byte()?;
        if fields >= ZONE << 1 {
            return Err(malformed);
        }
        if fields & VCPU != 0 {
            sample.vcpu = u32::read(reader)?;
        }
        let (at_insns, last_step) = self.at(sample.vcpu);
        let step = if fields & STEP != 0 { reader.varint()? } else { last_step };
        sample.at_insns = at_insns.checked_add(step).ok_or(malformed)?;
        sample.pc = since(self.sample.pc).read(reader)?;
        for (flag, value) in
            [(STACK, &mut sample.stack), (TASK, &mut sample.task), (NODE, &mut sample.node), (ZONE, &mut sample.zone)]
        {
            if fields & flag != 0 {
                *value = u32::read(reader)?;
            }
        }
        Ok(sample)
    }

    #[inline]
    fn note(&mut self, sample: &Sample) {
        let index = sample.vcpu as usize;
        if index >= self.at.len() {
            self.at.resize(index + 1, (0, 0));
        }
        let at = &mut self.at[index];
        *at = (sample.at_insns, sample.at_insns - at.0);
        self.sample = *sample;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::promises;

    fn samples() -> Vec<Sample> {
        let plain = |at_insns, pc| Sample { at_insns, pc, ..Sample::default() };
        vec![
            plain(10_007, 0x8000_0000),
            plain(20_014, 0x8000_0004),
            plain(30_021, 0),
            Sample { vcpu: 3, ..plain(1, u64::MAX) },
            Sample { stack: 7, task: u32::MAX, node: 16, zone: 9, ..plain(30_022, 0x10) },
            Sample { vcpu: 3, ..plain(2, 0x10) },
        ]
    }

    #[test]
    fn samples_survive_the_wire_and_no_cut_or_flipped_bit_goes_unseen() {
        promises::hold::<Samples>(&samples());
        assert!(Decoder::new(&[0x40]).next().unwrap().is_err());
    }

    #[test]
    fn an_unchanged_step_costs_two_bytes() {
        let steady: Vec<_> =
            (1..=1000).map(|n| Sample { at_insns: n * 10_007, pc: 0x100 + n % 8, ..Sample::default() }).collect();
        assert!(promises::encode::<Samples>(&steady).len() <= 2 * 1000 + 4);
    }

    #[test]
    fn a_sample_out_of_order_is_refused_when_written_and_when_read() {
        let first = Sample { at_insns: 5, ..Sample::default() };
        promises::refuse::<Samples>(&[first], &[first, Sample { at_insns: 9, vcpu: MAX_VCPUS, ..first }]);
        let mut encoder = Encoder::default();
        encoder.put(&first, &mut Vec::new()).unwrap();
        assert!(encoder.put(&Sample { at_insns: 4, ..first }, &mut Vec::new()).is_err());
    }

    /// Profiles are saved in these bytes.
    #[test]
    fn samples_of_saved_profiles_stay_readable() {
        promises::stay::<Samples>(
            &samples(),
            "01974e80808080100008008780808010030301013f00012207ffffffff0f10093e030000000000",
        );
    }
}
