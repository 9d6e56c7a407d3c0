// SPDX-License-Identifier: GPL-2.0-or-later
//! Time that the machine sleeps: the progress of its clock while no instruction executes.
//!
//! Virtual time advances by 2^shift ns for each instruction, and by what it is moved on for their cycles. When all CPUs wait for
//! an interrupt, QEMU moves virtual time to the next timer. So after a wait, the clock's further lead over the instructions is the time slept. After a wait
//! without sleep the clock may lag, since QEMU has not accounted for all instructions yet.

use wire::definition::Definition;
use wire::timeline::What;

use crate::qemu::AccountedTime;
use crate::records::Ledger;

/// Sleep of the only vCPU.
pub(crate) struct Sleep {
    time: AccountedTime,
    /// Binary logarithm of an instruction's time in ns.
    shift: u8,
    /// Time slept since reset.
    slept_ns: i128,
    /// Whether a wait was about to execute whose end has not been handled.
    waits: bool,
    /// Counter of the time slept in the window.
    slot: u32,
}

impl Sleep {
    /// Starts for a run whose instructions take 2^shift ns. None: this QEMU does not export its clock.
    pub(crate) fn new(shift: u8, ledger: &mut Ledger) -> Option<Sleep> {
        let time = AccountedTime::find()?;
        let slot = ledger.new_slots(1);
        ledger.note(&Definition::Slept { slot });
        Some(Sleep { time, shift, slept_ns: 0, waits: false, slot })
    }

    /// Notes that a wait is about to execute.
    pub(crate) fn begin(&mut self) {
        self.waits = true;
    }

    /// Whether [`Sleep::end`] has yet to handle a wait.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Handles the end of a wait, `insns_of_run` instructions after reset, all of them settled; the clock has been moved
    /// `ahead_ns` beyond them. Counts the time slept, and writes it to the timeline. Returns it in nanoseconds.
    pub(crate) fn end(&mut self, vcpu: u32, insns_of_run: u64, ahead_ns: u64, ledger: &mut Ledger) -> u64 {
        self.waits = false;
        let Some(now_ns) = self.time.ns() else { return 0 };
        let awake_ns = (i128::from(insns_of_run) << self.shift) + i128::from(ahead_ns);
        let ns = u64::try_from(i128::from(now_ns) - awake_ns - self.slept_ns).unwrap_or(0);
        if ns > 0 {
            self.slept_ns += i128::from(ns);
            ledger.add(self.slot, vcpu, ns);
            ledger.happened(vcpu, What::Slept { ns });
        }
        ns
    }
}
