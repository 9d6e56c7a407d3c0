//! Samples in time order, delta-coded: two or three bytes each where nothing but the pc changes.

use crate::Malformed;
use crate::varint::{self, Reader};

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

#[derive(Clone, Debug, Default)]
struct Previous {
    sample: Sample,
    /// Instructions at the last sample and the step that led there, by vCPU.
    at: Vec<(u64, u64)>,
}

impl Previous {
    fn at(&mut self, vcpu: u32) -> &mut (u64, u64) {
        let index = vcpu as usize;
        if index >= self.at.len() {
            self.at.resize(index + 1, (0, 0));
        }
        &mut self.at[index]
    }
}

/// Encoder of samples; keeps the values that the next delta refers to.
#[derive(Clone, Debug, Default)]
pub struct Encoder(Previous);

impl Encoder {
    /// Appends one sample to `out`.
    ///
    /// # Errors
    /// When the sample lies before the vCPU's previous one or its vCPU is above the limit; nothing is appended.
    pub fn put(&mut self, sample: &Sample, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let malformed = Malformed { what: "sample", offset: out.len() };
        if sample.vcpu >= MAX_VCPUS {
            return Err(malformed);
        }
        let (at_insns, last_step) = *self.0.at(sample.vcpu);
        let step = sample.at_insns.checked_sub(at_insns).filter(|&step| step > 0).ok_or(malformed)?;
        let last = self.0.sample;
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
            varint::put(out, sample.vcpu.into());
        }
        if fields & STEP != 0 {
            varint::put(out, step);
        }
        varint::put_delta(out, last.pc, sample.pc);
        for (flag, value) in [(STACK, sample.stack), (TASK, sample.task), (NODE, sample.node), (ZONE, sample.zone)] {
            if fields & flag != 0 {
                varint::put(out, value.into());
            }
        }
        *self.0.at(sample.vcpu) = (sample.at_insns, step);
        self.0.sample = *sample;
        Ok(())
    }
}

/// Decoder of the samples that [`Encoder`] wrote.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    reader: Reader<'a>,
    previous: Previous,
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte of a stream.
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { reader: Reader::new(bytes), previous: Previous::default() }
    }

    fn sample(&mut self) -> Result<Sample, Malformed> {
        let malformed = Malformed { what: "sample", offset: self.reader.offset };
        let small = |value: u64| u32::try_from(value).map_err(|_| malformed.clone());
        let mut sample = self.previous.sample;
        let fields = self.reader.byte("sample")?;
        if fields >= ZONE << 1 {
            return Err(malformed);
        }
        if fields & VCPU != 0 {
            sample.vcpu = small(self.reader.varint("sample's vcpu")?)?;
            if sample.vcpu >= MAX_VCPUS {
                return Err(malformed);
            }
        }
        let (at_insns, last_step) = *self.previous.at(sample.vcpu);
        let step = if fields & STEP != 0 { self.reader.varint("sample's step")? } else { last_step };
        sample.at_insns = at_insns.checked_add(step).filter(|_| step > 0).ok_or(malformed.clone())?;
        sample.pc = self.reader.delta(self.previous.sample.pc, "sample's pc")?;
        if fields & STACK != 0 {
            sample.stack = small(self.reader.varint("sample's stack")?)?;
        }
        if fields & TASK != 0 {
            sample.task = small(self.reader.varint("sample's task")?)?;
        }
        if fields & NODE != 0 {
            sample.node = small(self.reader.varint("sample's node")?)?;
        }
        if fields & ZONE != 0 {
            sample.zone = small(self.reader.varint("sample's zone")?)?;
        }
        *self.previous.at(sample.vcpu) = (sample.at_insns, step);
        self.previous.sample = sample;
        Ok(sample)
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<Sample, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        Some(self.sample().inspect_err(|_| self.reader.stop()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn encode(samples: &[Sample]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::default();
        for sample in samples {
            encoder.put(sample, &mut out).unwrap();
        }
        out
    }

    #[test]
    fn samples_survive_the_wire() {
        let decoded: Result<Vec<_>, _> = Decoder::new(&encode(&samples())).collect();
        assert_eq!(decoded.unwrap(), samples());
    }

    #[test]
    fn an_unchanged_step_costs_two_bytes() {
        let steady: Vec<_> =
            (1..=1000).map(|n| Sample { at_insns: n * 10_007, pc: 0x100 + n % 8, ..Sample::default() }).collect();
        assert!(encode(&steady).len() <= 2 * 1000 + 4);
    }

    #[test]
    fn a_sample_out_of_order_is_refused_when_written() {
        let mut encoder = Encoder::default();
        let mut out = Vec::new();
        encoder.put(&Sample { at_insns: 5, ..Sample::default() }, &mut out).unwrap();
        let len = out.len();
        assert!(encoder.put(&Sample { at_insns: 5, ..Sample::default() }, &mut out).is_err());
        assert!(encoder.put(&Sample { at_insns: 9, vcpu: MAX_VCPUS, ..Sample::default() }, &mut out).is_err());
        assert_eq!(out.len(), len);
    }

    #[test]
    fn any_cut_or_flipped_byte_is_an_error_or_other_samples_and_never_a_panic() {
        let bytes = encode(&samples());
        for cut in 0..bytes.len() {
            let _ = Decoder::new(&bytes[..cut]).count();
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[cut] ^= 1 << bit;
                let decoded: Result<Vec<_>, _> = Decoder::new(&flipped).collect();
                assert_ne!(decoded.as_ref(), Ok(&samples()), "byte {cut} bit {bit} does not matter");
            }
        }
        assert!(Decoder::new(&[0x40]).next().unwrap().is_err());
    }
}
