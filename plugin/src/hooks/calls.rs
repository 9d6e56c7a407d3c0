// SPDX-License-Identifier: GPL-2.0-or-later
//! Callbacks at calls of the chosen functions: those that the timeline shows, and those that are zones.

use engine::calls::Over;
use engine::follow::zone::{Happened, Zones};
use wire::timeline::What;

use super::arrive;
use crate::qemu::{ExecCallback, Hook};
use crate::state::State;

/// At the first instruction of a chosen function.
pub(crate) struct OnCalled;

impl Hook for OnCalled {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, code, ledger, follow, calls, .. } = &mut *state;
        let Some(calls) = calls else { return };
        follow.leave_exceptions(here.vcpu, here.pc, guest, code, ledger);
        follow.check_task(here.vcpu, guest, ledger);
        let entered = calls.enter(here.pc, &follow.cores[here.vcpu as usize], guest, code, ledger);
        end(&mut state, here.vcpu, &entered.over);
        let Some(id) = entered.zone else { return };
        let State { guest, code, ledger, follow, .. } = &mut *state;
        let core = &mut follow.cores[here.vcpu as usize];
        let zones = follow.zones.as_mut();
        let begun = zones.and_then(|zones| zones.begin_call(core, (here.pc, id), guest, code, ledger));
        if let Some(Happened::Begun { name }) = begun {
            ledger.happened(here.vcpu, What::Begun { name });
        }
    };
}

/// At the address that such a function returns to.
pub(crate) struct OnReturned;

impl Hook for OnReturned {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, code, ledger, follow, calls, .. } = &mut *state;
        let Some(calls) = calls else { return };
        follow.leave_exceptions(here.vcpu, here.pc, guest, code, ledger);
        let over = calls.leave(here.pc, &follow.cores[here.vcpu as usize], guest, ledger);
        end(&mut state, here.vcpu, &over);
    };
}

/// Ends zones of the vCPU that executes.
fn end(state: &mut State, vcpu: u32, over: &[Over]) {
    let State { ledger, follow, .. } = state;
    for &Over { id, has_returned } in over {
        let ended = Zones::end_call(&mut follow.cores[vcpu as usize], (id, has_returned), ledger);
        if let Some(Happened::Ended { name }) = ended {
            ledger.happened(vcpu, What::Ended { name });
        }
    }
}
