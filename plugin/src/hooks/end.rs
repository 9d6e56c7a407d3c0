// SPDX-License-Identifier: GPL-2.0-or-later
//! Callbacks at the ends of a run, caused or observed by the plugin.

use std::sync::OnceLock;

use engine::guest::{FaultReader, Stored};
use wire::control::{End, Word};
use wire::counters::FAULTED;

use super::{arrive, find};
use crate::qemu::{
    self, AbortHook, Access, AccessCallback, AccessHook, ExecCallback, ExitHook, FaultBuffer, Hook, Registers,
};
use crate::records::Control;
use crate::state::{self, State};

/// After a store that was the last instruction of its block, as every device access is.
pub(crate) struct OnStore;

impl AccessHook for OnStore {
    const CALL: AccessCallback = |vcpu, Access { address, value, bytes }, id| {
        let (mut state, here) = find(vcpu, id);
        state.polled.iter_mut().for_each(|polled| polled.stored(address, value, bytes));
        if !state.guest.is_memory(address) {
            state.may_print(here.vcpu);
            state.unmodelled.iter_mut().for_each(|unmodelled| unmodelled.note(here.pc));
            state.note_write(here.vcpu, here.pc, address);
            state.settle(here.vcpu);
            let insns = state.ledger.insns(here.vcpu);
            state.follow.device.stored(here.pc, address, value, insns);
            if let Some(polled) = &mut state.polled {
                let written = polled.written(address, value);
                state.ledger.written(written);
            }
            if state.console.is_some() {
                state.look_at_console(here.vcpu);
            }
        }
        let is_pending = match state.guest.stored(address, value) {
            None => return,
            Some(Stored::Exit(status)) => {
                state.settle(here.vcpu);
                state.exit(status, here.pc)
            }
            Some(Stored::Reset) => {
                state.settle(here.vcpu);
                if let Some(polled) = &state.polled {
                    let written = polled.write_stored();
                    state.ledger.written(written);
                }
                state.end(End::Reset, 0, here.pc)
            }
            Some(Stored::Pend) => true,
            Some(Stored::Unpend) => false,
        };
        let state = &mut *state;
        state.follow.pend_switch(here.vcpu, is_pending);
        if let Some(tree) = &mut state.follow.tree {
            tree.spans.pend(here.vcpu, is_pending, here.pc, &state.ledger);
        }
    };
}

/// After a load that was the last instruction of its block, as every device access is.
pub(crate) struct OnLoad;

impl AccessHook for OnLoad {
    const CALL: AccessCallback = |vcpu, Access { address, value, .. }, id| {
        let (mut state, here) = find(vcpu, id);
        if state.guest.is_memory(address) {
            return;
        }
        state.unmodelled.iter_mut().for_each(|unmodelled| unmodelled.note(here.pc));
        state.settle(here.vcpu);
        let State { follow, ledger, accesses, .. } = &mut *state;
        let insns = ledger.insns(here.vcpu);
        follow.device.read(here.pc, address, value, insns);
        accesses.iter_mut().for_each(|accesses| accesses.read(here.pc, address, value, insns));
        if state.polled.as_mut().is_some_and(|polled| polled.read(here.pc, address, value, insns)) {
            state.end_at_poll((here.pc, address, value), insns);
        }
    };
}

/// At the first instruction of `_exit`. Destructors of static objects and the like come between it and its loop.
pub(crate) struct OnExit;

impl Hook for OnExit {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let [status, _] = state.guest.arguments();
        state.exit_status = Some(status);
        // Its loop is watched from now on.
        state.ledger.set(FAULTED, here.vcpu, 1);
    };
}

/// At a jump of a loop that only an interrupt can leave, after `_exit` or the handler of a fault has started.
pub(crate) struct OnSpin;

impl Hook for OnSpin {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        state.settle(here.vcpu);
        state.spin(here.vcpu, here.pc);
    };
}

/// Called when QEMU exits, because harness ended the run or for QEMU's own reasons.
struct OnQemuExit;

impl ExitHook for OnQemuExit {
    const CALL: fn() = || {
        // If QEMU exits out of one of our callbacks, the state is locked.
        if let Some(mut state) = state::try_lock() {
            // A limit that is settled now needs no snapshot: harness took one before it made QEMU quit.
            state.guest.vanish();
            state.settle_all();
            state.follow.device.note(&state.ledger);
            state.note_fault();
        }
    };
}

/// For the abort handler: the reader of the processor's fault registers, its buffer, and the control page for the
/// result.
static WITNESS: OnceLock<(FaultReader<Registers>, FaultBuffer, &'static Control)> = OnceLock::new();

/// Registers the callbacks that complete the records when QEMU exits or aborts.
pub(crate) fn watch(id: u64) {
    qemu::on_exit::<OnQemuExit>(id);
    qemu::on_abort::<OnAbort>();
    let state = state::lock();
    WITNESS.get_or_init(|| (state.guest.fault_reader(), FaultBuffer::new(), state.ledger.records().control));
}

/// Called as QEMU aborts on a Cortex-M lock-up: records the fault status registers, which have the cause.
struct OnAbort;

impl AbortHook for OnAbort {
    const CALL: fn() = || {
        // If the abort came out of one of our callbacks, the state is locked.
        let mut state = state::try_lock();
        if let Some(state) = &mut state {
            state.guest.read_here();
            state.settle_all();
            state.note_fault();
            state.aborts();
        }
        record_fault();
        if let Some(state) = &mut state {
            // Nothing can be done if this fails, too.
            let _ = state.take_snapshot(wire::SNAPSHOT_END);
        }
        // The state is never unlocked: parts of it lie in the reserve now, and the vCPU must not execute further.
        std::mem::forget(state);
    };
}

/// Records the registers that have the cause of a fault.
fn record_fault() {
    if !qemu::Thread::current().is_guests() {
        return;
    }
    let Some((reader, buffer, control)) = WITNESS.get() else { return };
    let Some((address, length)) = reader.registers() else { return };
    let Some(words) = buffer.read(address, length).and_then(|registers| reader.words(registers)) else { return };
    words.into_iter().for_each(|(word, value)| control.set(word, value));
    control.set(Word::Fault, 1);
}
