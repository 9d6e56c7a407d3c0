//! Events: what a `wfe` waits for (Armv7-M ARM B1.5.18).
//!
//! Before 11.0 QEMU goes on at once after a `wfe`, where a processor whose event register is not set would sleep until
//! an interrupt or a `sev` comes. So firmware that idles that way executes its idle loop over and over, and these are
//! instructions that no chip would execute. The event register is followed here, and they are counted: from the `wfe`
//! to what would have woken the processor.

use wire::counters::{ASLEEP, ASLEEP_SINCE, EVENT, SLEEPS, SLEPT};

use crate::ledger::{Counters, Ledger};

/// At a `wfe`, which the clock has counted, while the processor is not asleep. `sleeps`: the emulated one does where a
/// chip would, and then executes nothing. Whether it waits.
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

/// At what wakes the processor, before it is counted. `idles`: what executes counts as idle already.
pub(super) fn wake(vcpu: u32, idles: bool, ledger: &Ledger<impl Counters>) {
    stir(vcpu, idles, ledger);
    ledger.set(EVENT, vcpu, 1);
}

/// At what shows that it does not sleep, before that is counted.
pub(super) fn stir(vcpu: u32, idles: bool, ledger: &Ledger<impl Counters>) {
    if ledger.get(ASLEEP, vcpu) != 0 {
        ledger.set(ASLEEP, vcpu, 0);
        if !idles {
            ledger.add(SLEPT, vcpu, ledger.insns(vcpu) - ledger.get(ASLEEP_SINCE, vcpu));
        }
    }
}

/// The window opens.
pub(super) fn restart(vcpu: u32, ledger: &Ledger<impl Counters>) {
    for slot in [ASLEEP_SINCE, SLEEPS, SLEPT] {
        ledger.set(slot, vcpu, 0);
    }
}
