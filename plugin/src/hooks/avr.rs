//! Callbacks of AVR alone.

use engine::clock::take_back;

use super::arrive;
use crate::qemu::{self, ExecCallback, Hook};
use crate::state::{self, State};

/// At a load or store that starts again, since it found a device.
pub(crate) struct OnDevice;

impl Hook for OnDevice {
    const CALL: ExecCallback = |vcpu, _| {
        let mut state = state::lock();
        state.may_print(vcpu);
        state.follow.device.forget();
        qemu::set_device_time(None);
    };
}

/// At an instruction that accesses a device within its block.
pub(crate) struct OnPort;

impl Hook for OnPort {
    const CALL: ExecCallback = |vcpu, id| {
        let (state, here) = arrive(vcpu, id);
        let ns = state.avr.as_ref().and_then(|avr| avr.ns(state.clock.insns_of_run(here.vcpu, &state.ledger)));
        qemu::set_device_time(ns);
    };
}

/// At an interrupt's vector.
pub(crate) struct OnInterrupted;

impl Hook for OnInterrupted {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, avr, ledger, clock, .. } = &mut *state;
        let starts_again = avr.as_mut().is_some_and(|avr| avr.interrupted(guest));
        let taken = guest.taken_exception(here.pc);
        // The instruction's first start has been counted.
        if starts_again && let Some(interrupted) = guest.interrupted_code() {
            ledger.unstart(here.vcpu, interrupted.pc);
            take_back(here.vcpu, 1, ledger);
        }
        let ns = avr.as_ref().and_then(|avr| avr.ns(clock.insns_of_run(here.vcpu, ledger)));
        // The device's lock comes after QEMU's, and the device may print.
        drop(state);
        if let (Some(taken), Some(ns)) = (taken, ns) {
            // The number's low half is the vector, of which the first is the reset's.
            qemu::take_interrupt(taken.number as u32 - 1, ns);
        }
    };
}

/// At a `sleep`. While interrupts are masked nothing ends it but a reset, so that the firmware has ended. Otherwise it ends
/// at once: QEMU has no wait for this processor.
pub(crate) struct OnSleep;

impl Hook for OnSleep {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        if state.guest.is_masked() {
            state.exit(0, here.pc);
        }
        let State { guest, avr, blocks, .. } = &mut *state;
        if let Some(avr) = avr {
            avr.wake(blocks.get(here.block), here.index, guest);
        }
    };
}

/// At the loop in which avr-libc's `exit` ends.
pub(crate) struct OnStop;

impl Hook for OnStop {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let [status, _] = state.guest.arguments();
        state.exit(status & 0xff, here.pc);
    };
}
