//! Callbacks that only the timeline wants.

use super::arrive;
use crate::qemu::{ExecCallback, Hook};
use crate::state::State;

/// At the first instruction of a function that is traced.
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

/// Where such a function is to return to.
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
