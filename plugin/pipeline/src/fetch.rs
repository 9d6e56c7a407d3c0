// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fetch of instructions ahead of their execution: words that are on their way, a queue of words, the half-words that the
//! decoder sees, and a predictor with one entry for a backward branch.
//!
//! Everything is in words of 32 bits, of which each half may be code to be executed or not. A word that is asked for comes in
//! the next cycle. In each cycle the decoder takes the half-words of the instruction that leaves it, and one word may follow
//! them, out of the queue or past it. A word is asked for while there is room for it.

use arrayvec::ArrayVec;
use wire::core::Queue;

use crate::insn::{Class, Insn};

/// Most words of a queue.
const MAX_WORDS: usize = wire::core::MAX_WORDS as usize;

/// Most half-words that the decoder can hold.
const MAX_HALVES: usize = 4;

/// State of the fetch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fetch {
    /// Words that the queue holds.
    room: u8,
    has_predictor: bool,
    /// Half-words in the decoder, the next one first: whether each belongs to a branch that is predicted as taken.
    halves: ArrayVec<bool, MAX_HALVES>,
    /// Words in the queue, the oldest first.
    queue: ArrayVec<Word, MAX_WORDS>,
    /// Word that comes in this cycle.
    coming: Option<Word>,
    /// Address of the next word to ask for.
    next: u64,
    /// The last word that was asked for begins a branch that is predicted as taken and ends in the next word.
    is_within_branch: bool,
    /// The next word is a predicted target in its upper half.
    skips_lower: bool,
    /// Predicted branch.
    predicted: Option<Predicted>,
}

/// Fetched word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Word {
    /// Whether each half is to be executed, the lower one first.
    counts: [bool; 2],
    /// Whether each half belongs to a branch that is predicted as taken.
    predicted: [bool; 2],
}

/// Branch that was taken backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Predicted {
    /// Address of the branch.
    pc: u64,
    is_wide: bool,
    target: u64,
}

impl Fetch {
    /// A fetch that begins at an address.
    pub fn at(queue: &Queue, pc: u64) -> Fetch {
        let mut fetch = Fetch {
            room: queue.words.clamp(1, wire::core::MAX_WORDS) as u8,
            has_predictor: queue.has_predictor,
            halves: ArrayVec::new(),
            queue: ArrayVec::new(),
            coming: None,
            next: 0,
            is_within_branch: false,
            skips_lower: false,
            predicted: None,
        };
        fetch.jump(pc);
        fetch
    }

    /// Fetches until so many half-words are there. Returns the cycles that this takes.
    pub fn fill(&mut self, halves: usize) -> u64 {
        let mut cycles = 0;
        while self.halves.len() < halves {
            self.cycle(0, None);
            cycles += 1;
        }
        cycles
    }

    /// Whether an instruction that is there gives up the words behind it.
    pub fn redirects(&self, insn: &Insn, is_taken: bool) -> bool {
        is_taken != (insn.class == Class::Branch && self.halves[0])
    }

    /// Executes an instruction that is there; `target`: where control goes, unless it goes on behind the instruction. Returns
    /// cycles beyond the instruction's own.
    pub fn execute(&mut self, pc: u64, insn: &Insn, target: Option<u64>) -> u64 {
        let halves = insn.halves();
        let behind = pc.wrapping_add(u64::from(insn.len_bytes));
        let is_predicted = self.halves[0];
        if halves == 2 && is_predicted != self.halves[1] {
            // The entry was made for code that overlaps this instruction: it starts again from its own address.
            self.cycle(0, Some(pc));
            // With only its second half marked, the entry stays; in the middle of two words the core would then never go on.
            if is_predicted || pc & 2 != 0 {
                self.forget();
            }
            return 1 + self.fill(halves) + self.execute(pc, insn, target);
        }
        let redirects = self.redirects(insn, target.is_some());
        self.cycle(halves, redirects.then(|| target.unwrap_or(behind)));
        match (insn.class, target) {
            (Class::Branch, Some(target)) if self.has_predictor && !is_predicted && target < pc => {
                self.predicted = Some(Predicted { pc, is_wide: halves == 2, target });
            }
            (Class::Branch, None) if is_predicted => self.forget(),
            _ => {}
        }
        0
    }

    /// Forgets the predicted branch.
    pub fn forget(&mut self) {
        self.predicted = None;
    }

    /// One cycle, in which the decoder takes so many half-words, and control goes elsewhere if there is a `jump`.
    pub fn cycle(&mut self, taken: usize, jump: Option<u64>) {
        let waiting = self.queue.len();
        let is_full =
            waiting == usize::from(self.room) || (waiting + 1 == usize::from(self.room) && self.coming.is_some());
        self.halves.drain(..taken.min(self.halves.len()));
        if let Some(target) = jump {
            return self.jump(target);
        }
        let mut coming = self.coming.take();
        let front = self.queue.first().copied().or(coming);
        if let Some(word) = front.filter(|word| self.halves.len() + word.halves() <= 3) {
            word.append_to(&mut self.halves);
            if waiting > 0 {
                self.queue.remove(0);
            } else {
                coming = None;
            }
        }
        if let Some(word) = coming {
            self.queue.push(word);
        }
        if !is_full {
            self.coming = Some(self.ask());
        }
    }

    /// Gives up everything, and asks for the word of an address, which the predictor does not look at.
    fn jump(&mut self, target: u64) {
        self.halves = ArrayVec::new();
        self.queue = ArrayVec::new();
        self.coming = Some(Word { counts: [target & 2 == 0, true], predicted: [false; 2] });
        self.next = (target & !3) + 4;
        self.is_within_branch = false;
        self.skips_lower = false;
    }

    /// Asks for the next word.
    fn ask(&mut self) -> Word {
        let ends_here = std::mem::take(&mut self.is_within_branch);
        let skips_lower = std::mem::take(&mut self.skips_lower);
        let mut word = Word { counts: [!skips_lower, true], predicted: [ends_here, false] };
        let hit = self.predicted.filter(|branch| branch.pc >> 2 == self.next >> 2);
        let mut leads_to = self.predicted.filter(|_| ends_here);
        if let Some(branch) = hit {
            let is_upper = branch.pc & 2 != 0;
            word.predicted = [!is_upper, is_upper || branch.is_wide];
            self.is_within_branch = is_upper && branch.is_wide;
            // Control may have come in behind a branch of one half-word.
            let is_passed = !is_upper && !branch.is_wide && skips_lower;
            leads_to = leads_to.or(hit.filter(|_| !self.is_within_branch && !is_passed));
        }
        if let Some(branch) = leads_to {
            word.counts[1] &= (branch.pc & 2 != 0) != branch.is_wide;
            self.skips_lower = branch.target & 2 != 0;
        }
        self.next = leads_to.map_or(self.next + 4, |branch| branch.target & !3);
        word
    }
}

impl Word {
    /// Half-words to be executed.
    fn halves(&self) -> usize {
        self.counts.iter().filter(|counts| **counts).count()
    }

    fn append_to(&self, halves: &mut ArrayVec<bool, MAX_HALVES>) {
        let both = self.counts.into_iter().zip(self.predicted);
        both.filter(|(counts, _)| *counts).for_each(|(_, predicted)| halves.push(predicted));
    }
}
