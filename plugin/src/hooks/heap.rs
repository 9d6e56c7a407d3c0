// SPDX-License-Identifier: GPL-2.0-or-later
//! Callbacks that follow the heap.

use engine::heap::Walk;

use super::arrive;
use crate::qemu::{ExecCallback, Hook};
use crate::state::State;

/// At the first instruction of a function that allocates or frees memory.
pub(crate) struct OnAllocator;

impl Hook for OnAllocator {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, code, ledger, follow, stacks, transfers, heap, .. } = &mut *state;
        let (Some(heap), Some(stacks)) = (heap, stacks) else { return };
        follow.leave_exceptions(here.vcpu, here.pc, guest, code, ledger);
        follow.check_task(here.vcpu, guest, ledger);
        let core = &follow.cores[here.vcpu as usize];
        let by_transfer = transfers.has_led_to(here.pc);
        heap.enter(here.pc, Walk { core, stacks, guest, code, ledger, by_transfer });
        state.report_heap(here.vcpu);
    };
}

/// At the address that such a function returns to.
pub(crate) struct OnAllocated;

impl Hook for OnAllocated {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, code, ledger, follow, heap, .. } = &mut *state;
        if let Some(heap) = heap {
            if heap.is_ambiguous(here.pc, guest.stack_pointer()) {
                follow.leave_exceptions(here.vcpu, here.pc, guest, code, ledger);
                follow.check_task(here.vcpu, guest, ledger);
            }
            heap.leave(here.pc, &follow.cores[here.vcpu as usize], guest, ledger);
        }
        state.report_heap(here.vcpu);
    };
}
