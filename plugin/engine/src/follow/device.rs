//! Devices that are asked over and over: firmware that waits for a bit which never comes looks busy otherwise.

use wire::control::Word;

use crate::ledger::{Counters, Ledger};

/// The read of a device that has been repeated, with nothing else done to any device since.
#[derive(Default)]
pub struct DevicePoll(Option<Poll>);

struct Poll {
    pc: u64,
    address: u64,
    value: u64,
    since_insns: u64,
    times: u64,
}

impl DevicePoll {
    /// An instruction has read a device. `insns` is only asked for where that is another read than the last one.
    pub fn read(&mut self, pc: u64, address: u64, value: u64, insns: impl FnOnce() -> u64) {
        match &mut self.0 {
            Some(poll) if (poll.pc, poll.address, poll.value) == (pc, address, value) => poll.times += 1,
            poll => *poll = Some(Poll { pc, address, value, since_insns: insns(), times: 1 }),
        }
    }

    /// A device has been written to, or the window opens.
    pub fn forget(&mut self) {
        self.0 = None;
    }

    /// Lets the harness know.
    pub fn note(&self, ledger: &Ledger<impl Counters>) {
        let Some(Poll { pc, address, value, since_insns, times }) = self.0 else { return };
        ledger.say(Word::PollAddress, address);
        ledger.say(Word::PollValue, value);
        ledger.say(Word::PollPc, pc);
        ledger.say(Word::PollSince, since_insns);
        ledger.say(Word::PollTimes, times);
    }
}
