// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prefetch of a Cortex-M3 or M4: a queue of three words, filled by one aligned word a cycle, out of which the decoder takes the
//! half-words of an instruction.
//!
//! A word whose address goes out in a cycle comes in the next, is decoded in the one behind, and executes in the third. Three
//! words, one a cycle, aligned: Arm's article 103488664.

/// Words of the queue.
const WORDS: u8 = 3;

/// State of the prefetch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Prefetch {
    /// Half-words in the queue, from the instruction on that is decoded.
    halves: u8,
    /// Half-words of the word that comes in this cycle; 0: none comes.
    coming: u8,
    /// Whether that instruction begins in the upper half of its word.
    is_upper: bool,
    /// Whether the decoder was held up in the last cycle.
    is_held: bool,
}

impl Prefetch {
    /// A queue for which the word of an address is on its way.
    pub(crate) fn at(pc: u64) -> Prefetch {
        let is_upper = pc & 2 != 0;
        Prefetch { halves: 0, coming: if is_upper { 1 } else { 2 }, is_upper, is_held: false }
    }

    /// Decodes an instruction of so many half-words, which executes behind this cycle. Returns the cycles until then, beyond
    /// one. A branch `leads` elsewhere: the address of its target goes out in the place of the next word's.
    pub(crate) fn decode(&mut self, halves: usize, leads: bool) -> u64 {
        let mut starved = 0;
        while usize::from(self.halves) < halves {
            self.pass();
            starved += 1;
        }
        // The place of a word that is given on is used at once, unless the decoder was held up until now.
        let freed = if self.is_held { 0 } else { (u8::from(self.is_upper) + halves as u8) / 2 };
        self.cycle(freed, leads);
        self.halves -= halves as u8;
        self.is_upper ^= halves & 1 == 1;
        self.is_held = false;
        starved
    }

    /// A cycle in which the decoder keeps what it has.
    pub(crate) fn hold(&mut self) {
        self.cycle(0, false);
        self.is_held = true;
    }

    /// A cycle for which the decoder knows before that it will keep what it has.
    pub(crate) fn pass(&mut self) {
        self.cycle(0, false);
        self.is_held = false;
    }

    /// One cycle, in which so many words become free.
    fn cycle(&mut self, freed: u8, leads: bool) {
        let words = (u8::from(self.is_upper) + self.halves).div_ceil(2) + u8::from(self.coming > 0);
        let asks = words - freed < WORDS && !leads;
        self.halves += self.coming;
        self.coming = if asks { 2 } else { 0 };
    }
}
