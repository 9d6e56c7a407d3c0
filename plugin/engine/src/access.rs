// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses of registers: who reads and writes each of them, and the instructions spent in polling it.

use rustc_hash::FxHashMap;
use wire::chip::{ACCESS_ROWS, Access, MAX_POLL_INSNS, OTHERS};

/// Accesses by instruction and register.
#[derive(Default)]
pub struct Accesses {
    /// Rows by instruction and address of the register's word.
    index: FxHashMap<(u64, u64), usize>,
    rows: Vec<Access>,
    /// The latest access, if it was a read.
    last: Option<Read>,
}

#[derive(Clone, Copy)]
struct Read {
    pc: u64,
    address: u64,
    value: u64,
    insns: u64,
    is_poll: bool,
}

impl Accesses {
    /// Counts a read at instruction `insns` of the window. Returns the changed row, with its number.
    pub fn read(&mut self, pc: u64, address: u64, value: u64, insns: u64) -> (usize, Access) {
        let last = self.last.filter(|last| (last.pc, last.address) == (pc, address));
        let last = last.filter(|last| insns.saturating_sub(last.insns) <= MAX_POLL_INSNS);
        let polled = last.filter(|last| last.value == value || last.is_poll);
        let is_poll = last.is_some_and(|last| last.value == value);
        self.last = Some(Read { pc, address, value, insns, is_poll });
        self.change(pc, address, insns, |row| {
            row.reads += 1;
            if let Some(last) = polled {
                row.polls += 1;
                row.poll_insns += insns.saturating_sub(last.insns);
                let shift = 8 * (address & 3);
                row.ending_bits |= ((last.value ^ value) << shift) & u64::from(u32::MAX);
            }
        })
    }

    /// Counts a write at instruction `insns` of the window. Returns the changed row, with its number.
    pub fn write(&mut self, pc: u64, address: u64, insns: u64) -> (usize, Access) {
        self.last = None;
        self.change(pc, address, insns, |row| row.writes += 1)
    }

    /// Opens the window: nothing was accessed yet. Returns the number of rows until then.
    pub fn restart(&mut self) -> usize {
        std::mem::take(self).rows.len()
    }

    fn change(&mut self, pc: u64, address: u64, insns: u64, how: impl FnOnce(&mut Access)) -> (usize, Access) {
        let word = address & !3;
        let next = self.rows.len();
        let row = match self.index.get(&(pc, word)) {
            Some(&row) => row,
            None if next < ACCESS_ROWS - 1 => {
                self.index.insert((pc, word), next);
                self.rows.push(Access { address: word, pc, first_insns: insns, ..Access::default() });
                next
            }
            None => {
                if next < ACCESS_ROWS {
                    self.rows.push(Access { address: OTHERS, pc, first_insns: insns, ..Access::default() });
                }
                ACCESS_ROWS - 1
            }
        };
        how(&mut self.rows[row]);
        self.rows[row].last_insns = insns;
        (row, self.rows[row])
    }
}
