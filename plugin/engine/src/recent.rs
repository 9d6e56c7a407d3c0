// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cache of answers that never change, for the latest questions.
//!
//! Each question has one slot, where the next question with the same slot replaces it. An answer is given only for
//! exactly the question that it was kept for. Since answers never change, a kept answer cannot be out of date.

use std::cell::Cell;

/// A question with its answer; None: no question has come.
type Slot<Q, A> = Cell<Option<(Q, A)>>;

/// Recent questions with their answers.
pub struct Recent<Q, A> {
    slots: Box<[Slot<Q, A>]>,
}

impl<Q: Copy + Eq, A: Copy> Recent<Q, A> {
    /// Room for `count` answers, a power of two.
    pub fn new(count: usize) -> Recent<Q, A> {
        assert!(count.is_power_of_two());
        Recent { slots: vec![Cell::new(None); count].into() }
    }

    /// The answer that was kept for a question; `hash`: a number that depends on the question only.
    #[inline]
    pub fn get(&self, hash: u64, question: Q) -> Option<A> {
        self.slot(hash).get().filter(|&(known, _)| known == question).map(|(_, answer)| answer)
    }

    /// Keeps an answer.
    #[inline]
    pub fn keep(&self, hash: u64, question: Q, answer: A) {
        self.slot(hash).set(Some((question, answer)));
    }

    fn slot(&self, hash: u64) -> &Slot<Q, A> {
        &self.slots[hash as usize & (self.slots.len() - 1)]
    }
}
