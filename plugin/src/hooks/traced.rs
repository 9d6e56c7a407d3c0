//! Callbacks for the timeline only.

use super::arrive;
use crate::qemu::{ExecCallback, Hook};
use crate::state::State;

/// At the first instruction of a traced function.
pub(crate) struct OnTraced;

impl Hook for OnTraced {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, code, ledger, follow, timeline, .. } = &mut *state;
        let Some(timeline) = timeline else { return };
        follow.leave_exceptions(here.vcpu, guest, ledger);
        follow.check_task(here.vcpu, guest, ledger);
        timeline.enter(here.pc, &follow.cores[here.vcpu as usize], guest, code, ledger);
    };
}

/// At the address that such a function returns to.
pub(crate) struct OnTracedReturn;

impl Hook for OnTracedReturn {
    const CALL: ExecCallback = |vcpu, id| {
        let (mut state, here) = arrive(vcpu, id);
        let State { guest, ledger, follow, timeline, .. } = &mut *state;
        let Some(timeline) = timeline else { return };
        follow.leave_exceptions(here.vcpu, guest, ledger);
        timeline.leave(here.pc, &follow.cores[here.vcpu as usize], guest, ledger);
    };
}
