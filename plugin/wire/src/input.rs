//! Console input and its times: a part of the [`crate::request`].

use crate::Malformed;
use crate::varint::{self, Reader};

/// Longest prompt or text, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// Text to be typed. It waits until all texts before it have been typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Instruction or prompt at which it begins.
    pub when: When,
    /// Bytes that are typed, not empty.
    pub bytes: Vec<u8>,
}

/// Start of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// Start once this number of instructions of the run has started.
    At(u64),
    /// Start once the firmware has printed this prompt, not empty, after the prompt of the step before.
    After(Vec<u8>),
}

const AT: u8 = 1;
const AFTER: u8 = 2;

impl Step {
    /// Appends the step to `out`.
    ///
    /// # Errors
    /// When a text is empty or too long; nothing is appended.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let fits = |bytes: &[u8]| (1..=MAX_BYTES).contains(&bytes.len());
        let prompt_fits = match &self.when {
            When::At(_) => true,
            When::After(prompt) => fits(prompt),
        };
        if !prompt_fits || !fits(&self.bytes) {
            return Err(Malformed { what: "input", offset: out.len() });
        }
        match &self.when {
            When::At(insns) => {
                out.push(AT);
                varint::put(out, *insns);
            }
            When::After(prompt) => {
                out.push(AFTER);
                put_bytes(out, prompt);
            }
        }
        put_bytes(out, &self.bytes);
        Ok(())
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn read_bytes(reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let malformed = Malformed { what: "input's length", offset: reader.offset };
    let len = reader.varint("input's length")?;
    if !(1..=MAX_BYTES as u64).contains(&len) {
        return Err(malformed);
    }
    Ok(reader.bytes(len, "input")?.to_vec())
}

/// Reads all steps.
///
/// # Errors
/// When the file is damaged.
pub fn read(bytes: &[u8]) -> Result<Vec<Step>, Malformed> {
    let mut reader = Reader::new(bytes);
    let mut steps = Vec::new();
    while !reader.is_empty() {
        let malformed = Malformed { what: "input", offset: reader.offset };
        let when = match reader.byte("input")? {
            AT => When::At(reader.varint("input's instruction")?),
            AFTER => When::After(read_bytes(&mut reader)?),
            _ => return Err(malformed),
        };
        steps.push(Step { when, bytes: read_bytes(&mut reader)? });
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Vec<Step> {
        vec![
            Step { when: When::At(1_000_000), bytes: (0..=255).collect() },
            Step { when: When::After(b"login: ".to_vec()), bytes: b"root\n".to_vec() },
        ]
    }

    fn encode(steps: &[Step]) -> Vec<u8> {
        let mut out = Vec::new();
        steps.iter().for_each(|step| step.put(&mut out).unwrap());
        out
    }

    #[test]
    fn steps_survive_the_wire() {
        assert_eq!(read(&encode(&steps())), Ok(steps()));
        assert_eq!(read(&[]), Ok(vec![]));
    }

    #[test]
    fn impossible_steps_are_refused_when_written() {
        let mut out = Vec::new();
        for (when, bytes) in
            [(When::At(1), vec![]), (When::After(vec![]), vec![1]), (When::At(1), vec![0; MAX_BYTES + 1])]
        {
            assert!(Step { when, bytes }.put(&mut out).is_err());
        }
        assert!(out.is_empty());
    }

    #[test]
    fn cut_and_flipped_bytes_never_panic() {
        let bytes = encode(&steps());
        for cut in 0..bytes.len() {
            let _ = read(&bytes[..cut]);
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[cut] ^= 1 << bit;
                let _ = read(&flipped);
            }
        }
    }
}
