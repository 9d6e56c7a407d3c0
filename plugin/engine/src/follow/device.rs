// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polled devices: firmware that waits for a bit which never comes would look busy otherwise. Firmware that prints polls,
//! too, but what it stores to devices changes.

use rustc_hash::FxHashMap;
use wire::control::Word;
use wire::definition::Definition;

use crate::ledger::{Counters, Ledger};

/// Most instructions between two reads of a register in a loop that only waits for it.
const MOST_INSNS_PER_READ: u64 = 4096;

/// Most registers that are reported to the harness.
const MAX_TOLD: usize = 64;

/// Repeated reads of devices.
#[derive(Default)]
pub struct DevicePoll {
    /// The read since which no other access of a device was made.
    alone: Option<Poll>,
    /// Reads by instruction, for each that has read one value from one register only.
    by_pc: FxHashMap<u64, Poll>,
    /// Last store of each instruction.
    stores: FxHashMap<u64, Store>,
}

#[derive(Clone, Copy)]
struct Store {
    address: u64,
    value: u64,
    last_insns: u64,
    changed_insns: u64,
}

#[derive(Clone, Copy)]
struct Poll {
    pc: u64,
    address: u64,
    value: u64,
    since_insns: u64,
    times: u64,
}

impl Poll {
    fn is(&self, pc: u64, address: u64, value: u64) -> bool {
        (self.pc, self.address, self.value) == (pc, address, value)
    }
}

impl DevicePoll {
    /// Notes a read of a device, at instruction `insns`.
    pub fn read(&mut self, pc: u64, address: u64, value: u64, insns: u64) {
        let first = Poll { pc, address, value, since_insns: insns, times: 0 };
        for poll in [self.alone.get_or_insert(first), self.by_pc.entry(pc).or_insert(first)] {
            if !poll.is(pc, address, value) {
                *poll = first;
            }
            poll.times += 1;
        }
    }

    /// Notes an access of a device that is not told any nearer.
    pub fn forget(&mut self) {
        self.alone = None;
    }

    /// Notes a store to a device, at instruction `insns`.
    pub fn stored(&mut self, pc: u64, address: u64, value: u64, insns: u64) {
        self.forget();
        let first = Store { address, value: !value, last_insns: insns, changed_insns: insns };
        let store = self.stores.entry(pc).or_insert(first);
        if (store.address, store.value) != (address, value) {
            (store.address, store.value, store.changed_insns) = (address, value, insns);
        }
        store.last_insns = insns;
    }

    /// Opens the window.
    pub fn restart(&mut self) {
        *self = DevicePoll::default();
    }

    /// Reports the only register that was read.
    pub fn note(&self, ledger: &Ledger<impl Counters>) {
        let Some(Poll { pc, address, value, since_insns, times }) = self.alone else { return };
        ledger.say(Word::PollAddress, address);
        ledger.say(Word::PollValue, value);
        ledger.say(Word::PollPc, pc);
        ledger.say(Word::PollSince, since_insns);
        ledger.say(Word::PollTimes, times);
    }

    /// Reports the last stores of instructions, the latest ones.
    pub fn note_stores(&self, ledger: &mut Ledger<impl Counters>) {
        let mut stores: Vec<(&u64, &Store)> = self.stores.iter().collect();
        stores.sort_unstable_by_key(|&(pc, store)| (std::cmp::Reverse(store.last_insns), pc));
        for (&pc, &Store { address, last_insns, changed_insns, .. }) in stores.into_iter().take(MAX_TOLD) {
            ledger.note(&Definition::Written { pc, address, last_insns, changed_insns });
        }
    }

    /// Reports all registers that were read often, up to instruction `insns`.
    pub fn note_all(&self, insns: u64, ledger: &mut Ledger<impl Counters>) {
        let is_often = |poll: &&Poll| {
            poll.times > 1 && insns.saturating_sub(poll.since_insns) / poll.times <= MOST_INSNS_PER_READ
        };
        let mut often: Vec<&Poll> = self.by_pc.values().filter(is_often).collect();
        often.sort_unstable_by_key(|poll| (std::cmp::Reverse(poll.times), poll.pc));
        for &Poll { pc, address, value, since_insns, times } in often.into_iter().take(MAX_TOLD) {
            ledger.note(&Definition::Poll { pc, address, value, since_insns, times });
        }
    }
}
