// SPDX-License-Identifier: MIT OR Apache-2.0
//! Console input and other changes from outside, and their times: a part of the [`crate::request`].

use crate::record::{Bytes, record};

/// Longest prompt or text, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

record! {
    /// Text to be typed, or changes from outside. It waits until all steps before it are done.
    pub struct Step {
        /// Instruction or prompt at which it begins.
        when: When,
        /// Bytes that are typed. Empty: those of the chip's [`Stimulus`](crate::chip::Stimulus) rows begin that have this step's
        /// number.
        bytes: Vec<u8> = Bytes,
    }
}

record! {
    /// Start of a text.
    pub enum When {
        /// Start once this many instructions of the run have started.
        1 = At(insns: u64),
        /// Start once the firmware has printed this prompt, not empty, after the prompt of the step before.
        2 = After(prompt: Vec<u8> = Bytes),
    }
}

impl Step {
    /// Whether the lengths of both texts are within their limits.
    pub(crate) fn is_meant(&self) -> bool {
        let prompt_fits = match &self.when {
            When::At(_) => true,
            When::After(prompt) => (1..=MAX_BYTES).contains(&prompt.len()),
        };
        prompt_fits && self.bytes.len() <= MAX_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Malformed;
    use crate::record;
    use crate::varint::Reader;

    fn steps() -> Vec<Step> {
        vec![
            Step { when: When::At(1_000_000), bytes: (0..=255).collect() },
            Step { when: When::After(b"login: ".to_vec()), bytes: b"root\n".to_vec() },
            Step { when: When::After(b"press".to_vec()), bytes: vec![] },
        ]
    }

    fn read(bytes: &[u8]) -> Result<Vec<Step>, Malformed> {
        record::rest(&mut Reader::new(bytes, "input"))
    }

    #[test]
    fn steps_survive_the_wire() {
        for steps in [steps(), vec![]] {
            assert_eq!(read(&record::bytes(&steps)), Ok(steps));
        }
    }

    #[test]
    fn impossible_steps_are_not_meant() {
        for (when, bytes) in [(When::After(vec![]), vec![1]), (When::At(1), vec![0; MAX_BYTES + 1])] {
            assert!(!Step { when, bytes }.is_meant());
        }
        assert!(steps().iter().all(Step::is_meant));
    }

    #[test]
    fn cut_and_flipped_bytes_never_panic() {
        let bytes = record::bytes(&steps());
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "cut at {cut}");
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[cut] ^= 1 << bit;
                assert_ne!(read(&flipped), Ok(steps()), "byte {cut} bit {bit} does not matter");
            }
        }
    }
}
