// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls through pointers that generated code counts by itself.
//!
//! A call through a register sets the alarm, and the next block's callback finds its target. A function that is
//! reached only through pointers ([`crate::code::Code::is_pointed`]) is mostly called from one place. The block at
//! its start is translated because such a call arrives, so it predicts that the next call comes from the same place.
//! Its generated code, in this order (the plugin's `translate`),
//!
//! 1. counts the arc, and takes the alarm off the clock;
//! 2. calls back when the clock has reached the next event: one is due, or there was no alarm (then the clock is
//!    below zero);
//! 3. calls back when the last transfer was another one;
//! 4. calls back when the trap vector has moved, so that an exception could start here now.
//!
//! Each of these callbacks takes the arc back and then acts as any block's callback. So a wrong prediction only costs
//! time.

use std::collections::HashMap;
use std::num::NonZeroU16;

use wire::counters::{ALARM, CLOCK, DUE, LAST, VECTOR_MOVES};

use crate::block::Step;
use crate::ledger::{Counters, Ledger};

/// Prediction of the transfer that leads to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prediction {
    /// The block.
    pub block: usize,
    /// Epoch in which no exception starts at it.
    pub epoch: NonZeroU16,
    /// Number of the site, as in the LAST cell.
    pub site: u64,
    /// The arc's counter.
    pub slot: u32,
}

/// Operation of generated code at the start of a block with a prediction: a step, or a call if the prediction may be
/// wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// A step.
    Does(Step),
    /// A call if an event is due, or there was no alarm: the cell is at least `least`.
    Due {
        /// The cell.
        slot: u32,
        /// The least value.
        least: u64,
    },
    /// A call if the last transfer was another one: the cell differs from `value`.
    Elsewhere {
        /// The cell.
        slot: u32,
        /// The expected value.
        value: u64,
    },
    /// A call if the trap vector has moved: the cell is at least `least`.
    Unsure {
        /// The cell.
        slot: u32,
        /// The least value.
        least: u64,
    },
}

impl Prediction {
    /// First operations at the start of a block of `insns` instructions.
    pub fn at_events(&self, insns: u64) -> [Check; 3] {
        [
            Check::Does(Step::Add { slot: self.slot, amount: 1 }),
            Check::Does(Step::Add { slot: CLOCK, amount: ALARM.wrapping_neg() }),
            Check::Due { slot: CLOCK, least: DUE - insns },
        ]
    }

    /// Operations after those of [`Prediction::at_events`]; `vector_moves`: number of moves of the trap vector so
    /// far.
    pub fn at_arrival(&self, vector_moves: u64) -> [Check; 3] {
        [
            Check::Elsewhere { slot: LAST, value: self.site },
            Check::Unsure { slot: VECTOR_MOVES, least: vector_moves + 1 },
            Check::Does(Step::Store { slot: LAST, value: 0 }),
        ]
    }

    /// Takes back the arc that generated code has counted.
    pub fn uncount(&self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        ledger.add(self.slot, vcpu, 1u64.wrapping_neg());
    }

    /// Puts the alarm back on the clock.
    pub fn restore_clock(&self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        ledger.set(CLOCK, vcpu, ledger.get(CLOCK, vcpu).wrapping_add(ALARM));
    }
}

/// Predictions by number. Each is kept once however often its block is translated.
#[derive(Default)]
pub struct Predictions {
    list: Vec<Prediction>,
    numbers: HashMap<Prediction, usize>,
    /// Whether a callback has already determined the arrival at the starting block, after the trap vector moved.
    pub is_told: bool,
}

impl Predictions {
    /// Number of a prediction. A new prediction is added.
    pub fn number(&mut self, prediction: Prediction) -> usize {
        *self.numbers.entry(prediction).or_insert_with(|| {
            self.list.push(prediction);
            self.list.len() - 1
        })
    }

    /// The prediction with this number.
    pub fn get(&self, number: usize) -> Prediction {
        self.list[number]
    }
}
