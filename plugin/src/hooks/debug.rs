// SPDX-License-Identifier: GPL-2.0-or-later
//! Callbacks of a run that is debugged.

use super::find;
use crate::debug;
use crate::qemu::{Access, AccessCallback, AccessHook, ExecCallback, Hook};

/// At the start of a block in which an event may be due; the instruction of the event has a callback, too.
pub(crate) struct OnDueBlock;

impl Hook for OnDueBlock {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        state.await_in_block(here.vcpu, here.block);
    };
}

/// At an instruction with a breakpoint, or at which an event may be due.
pub(crate) struct OnHold;

impl Hook for OnHold {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        state.stop_at(here.vcpu, here.block, here.index);
    };
}

/// At an instruction of a run with several vCPUs. Its number in the order of all vCPUs is not known before it
/// executes.
pub(crate) struct OnStep;

impl Hook for OnStep {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = find(vcpu, id);
        state.step_to(here.vcpu, here.block, here.index);
    };
}

/// After a load, in a run that watches memory.
pub(crate) struct OnWatchedLoad;

impl AccessHook for OnWatchedLoad {
    const CALL: AccessCallback = |vcpu, access, id| on_access(vcpu, access, false, id);
}

/// After a store, in a run that watches memory.
pub(crate) struct OnWatchedStore;

impl AccessHook for OnWatchedStore {
    const CALL: AccessCallback = |vcpu, access, id| on_access(vcpu, access, true, id);
}

fn on_access(vcpu: u32, access: Access, is_store: bool, id: usize) {
    // Most accesses touch no watched memory.
    if debug::may_be_watched(access.address) {
        let (mut state, here) = find(vcpu, id);
        state.accessed(here.vcpu, here.block, here.index, access, is_store);
    }
}
