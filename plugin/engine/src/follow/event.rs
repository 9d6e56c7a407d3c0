// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that a `wfe` waits for (Armv7-M ARM B1.5.18).
//!
//! QEMU before 11.0 continues at once after a `wfe`. A processor whose event register is clear would sleep until an
//! interrupt or a `sev` comes. So firmware that idles in this way repeats its idle loop, and executes instructions
//! that no chip would. The event register is tracked here, and those instructions are counted: from the `wfe` to the
//! event that would have woken the processor.

use wire::counters::{ASLEEP, ASLEEP_SINCE, EVENT, SLEEPS, SLEPT};

use crate::ledger::{Counters, Ledger};

/// Handles a `wfe`, counted by the clock, of a processor that is awake. `sleeps`: the emulated processor sleeps as a
/// chip would, and executes nothing meanwhile. Returns whether it waits.
pub fn wait(vcpu: u32, sleeps: bool, ledger: &Ledger<impl Counters>) -> bool {
    if ledger.get(EVENT, vcpu) != 0 {
        ledger.set(EVENT, vcpu, 0);
        return false;
    }
    ledger.add(SLEEPS, vcpu, 1);
    if !sleeps {
        ledger.set(ASLEEP, vcpu, 1);
        ledger.set(ASLEEP_SINCE, vcpu, ledger.insns(vcpu));
    }
    true
}

/// Handles an event that wakes the processor, before its instruction is counted. `idles`: the executing code counts
/// as idle already.
pub(super) fn wake(vcpu: u32, idles: bool, ledger: &Ledger<impl Counters>) {
    stir(vcpu, idles, ledger);
    ledger.set(EVENT, vcpu, 1);
}

/// Ends a sleep, before the instruction that shows it is counted.
pub(super) fn stir(vcpu: u32, idles: bool, ledger: &Ledger<impl Counters>) {
    if ledger.get(ASLEEP, vcpu) != 0 {
        ledger.set(ASLEEP, vcpu, 0);
        if !idles {
            ledger.add(SLEPT, vcpu, ledger.insns(vcpu) - ledger.get(ASLEEP_SINCE, vcpu));
        }
    }
}

/// Opens the window.
pub(super) fn restart(vcpu: u32, ledger: &Ledger<impl Counters>) {
    for slot in [ASLEEP_SINCE, SLEEPS, SLEPT] {
        ledger.set(slot, vcpu, 0);
    }
}
