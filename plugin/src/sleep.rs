//! How long the machine sleeps: how far its clock goes on while no instruction executes.
//!
//! Virtual time is that of the instructions, 2^shift ns each, until all CPUs wait for an interrupt: then QEMU moves it
//! to the next timer. So when a vCPU goes on after a wait, what its clock is ahead of its instructions is how long it
//! has slept. Where the wait did not sleep, QEMU may not have accounted for all instructions yet: its clock is behind.

use wire::timeline::What;

use crate::qemu::AccountedTime;
use crate::records::Ledger;

/// The sleep of the only vCPU.
pub(crate) struct Sleep {
    time: AccountedTime,
    /// An instruction takes 2^shift ns.
    shift: u8,
    /// Slept since reset.
    slept_ns: i128,
    /// A wait was about to execute, and nothing has been seen after it.
    waits: bool,
}

impl Sleep {
    /// Of a run whose instructions take 2^shift ns. None: this QEMU does not show its clock.
    pub(crate) fn new(shift: u8) -> Option<Sleep> {
        Some(Sleep { time: AccountedTime::find()?, shift, slept_ns: 0, waits: false })
    }

    /// A wait is about to execute.
    pub(crate) fn begin(&mut self) {
        self.waits = true;
    }

    /// Whether a wait has not been looked at that was about to execute.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// After a wait something is about to execute, so many instructions after reset, all of which have been settled.
    /// Tells the timeline how long the machine has slept, if it has.
    pub(crate) fn end(&mut self, vcpu: u32, insns_of_run: u64, ledger: &mut Ledger) {
        self.waits = false;
        let Some(now_ns) = self.time.ns() else { return };
        let awake_ns = (i128::from(insns_of_run)) << self.shift;
        let ns = u64::try_from(i128::from(now_ns) - awake_ns - self.slept_ns).unwrap_or(0);
        if ns > 0 {
            self.slept_ns += i128::from(ns);
            ledger.happened(vcpu, What::Slept { ns });
        }
    }
}
