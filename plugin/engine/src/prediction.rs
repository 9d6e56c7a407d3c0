//! Calls through pointers that generated code counts by itself.
//!
//! A call through a register sets the alarm, and the next block's callback sees where it went. A function that the code
//! seems to reach through pointers only ([`crate::code::Code::is_pointed`]) is mostly called from one place. The block at its start
//! is translated because such a call arrives, so it predicts that the next one comes from there, too, and its
//! generated code, in this order ([`crate::translate`]),
//!
//! 1. counts the arc, and takes the alarm off the clock;
//! 2. calls back when the clock is not below what is due then: something is, or there was no alarm (it is below zero);
//! 3. calls back when the last transfer was another one;
//! 4. calls back when traps have been moved, so that an exception could start here now.
//!
//! Each of these takes the arc back and does what any block's callback does. So a prediction that is wrong costs time
//! and nothing else.

use std::collections::HashMap;
use std::num::NonZeroU16;

use wire::counters::{ALARM, CLOCK, DUE, LAST, VECTOR_MOVES};

use crate::block::Step;
use crate::ledger::{Counters, Ledger};

/// What a block predicts of the transfer that leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prediction {
    /// The block.
    pub block: usize,
    /// The time in which no exception starts at it.
    pub epoch: NonZeroU16,
    /// The site's number, as the LAST cell has it.
    pub site: u64,
    /// The arc's counter.
    pub slot: u32,
}

/// What generated code does where a block starts that predicts: a step, or a call where the prediction may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// A step.
    Does(Step),
    /// A call where something is due, or there was no alarm: the cell is at least so much.
    Due {
        /// The cell.
        slot: u32,
        /// The number.
        least: u64,
    },
    /// A call where the last transfer was another one: the cell is not this.
    Elsewhere {
        /// The cell.
        slot: u32,
        /// The number.
        value: u64,
    },
    /// A call where traps have been moved: the cell is at least so much.
    Unsure {
        /// The cell.
        slot: u32,
        /// The number.
        least: u64,
    },
}

impl Prediction {
    /// What generated code does first, at the start of its block of so many instructions.
    pub fn at_events(&self, insns: u64) -> [Check; 3] {
        [
            Check::Does(Step::Add { slot: self.slot, amount: 1 }),
            Check::Does(Step::Add { slot: CLOCK, amount: ALARM.wrapping_neg() }),
            Check::Due { slot: CLOCK, least: DUE - insns },
        ]
    }

    /// What it does then; so often traps have been moved.
    pub fn at_arrival(&self, vector_moves: u64) -> [Check; 3] {
        [
            Check::Elsewhere { slot: LAST, value: self.site },
            Check::Unsure { slot: VECTOR_MOVES, least: vector_moves + 1 },
            Check::Does(Step::Store { slot: LAST, value: 0 }),
        ]
    }

    /// Takes the arc back that generated code has counted.
    pub fn uncount(&self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        ledger.add(self.slot, vcpu, 1u64.wrapping_neg());
    }

    /// Gives the clock the alarm back.
    pub fn restore_clock(&self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        ledger.set(CLOCK, vcpu, ledger.get(CLOCK, vcpu).wrapping_add(ALARM));
    }
}

/// Predictions by number. Each is kept once however often its block is translated.
#[derive(Default)]
pub struct Predictions {
    list: Vec<Prediction>,
    numbers: HashMap<Prediction, usize>,
    /// Where traps have been moved: a callback has already told how control came to the block that is starting.
    pub is_told: bool,
}

impl Predictions {
    /// The number of a prediction.
    pub fn number(&mut self, prediction: Prediction) -> usize {
        *self.numbers.entry(prediction).or_insert_with(|| {
            self.list.push(prediction);
            self.list.len() - 1
        })
    }

    /// The prediction of that number.
    pub fn get(&self, number: usize) -> Prediction {
        self.list[number]
    }
}
