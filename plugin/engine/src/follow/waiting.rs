// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that code makes which only waits (`delay()` of Arduino's core): until such a call has returned, the instructions of
//! its context are waiting, too. Those of the code itself are known by their addresses, and not counted here.

use rustc_hash::{FxHashMap, FxHashSet};
use wire::definition::Definition;
use wire::request::Request;
use wire::zone::Row;

use super::context::Core;
use super::open_zones::Waits;
use crate::guest::{Guest, Vcpu};
use crate::ledger::{Counters, Ledger};

/// Calls of an image that belong to waiting.
pub struct Waiting {
    /// Addresses that the calls return to, by the calls' addresses.
    calls: FxHashMap<u64, u64>,
    returns: FxHashSet<u64>,
    /// Beginnings of waiting code.
    code: FxHashSet<u64>,
    /// Counter of calls whose end is not sure, once there are any.
    unsure: Option<u32>,
}

impl Waiting {
    /// Nothing waits yet. None: the image has no such calls.
    pub fn new(request: &Request) -> Option<Waiting> {
        let measure = request.measure()?;
        let calls = &measure.waiting_calls;
        (!calls.is_empty()).then(|| Waiting {
            calls: calls.iter().map(|call| (call.site, call.next)).collect(),
            returns: calls.iter().map(|call| call.next).collect(),
            code: measure.waiting_code.iter().copied().collect(),
            unsure: None,
        })
    }

    /// Whether the instruction at an address is such a call, comes after one, or begins waiting code.
    pub fn is_event(&self, pc: u64) -> bool {
        self.calls.contains_key(&pc) || self.returns.contains(&pc) || self.code.contains(&pc)
    }

    /// Handles such an instruction, before it is counted.
    pub fn at(&mut self, core: &mut Core, pc: u64, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        core.advance(ledger);
        let (vcpu, sp) = (core.vcpu, guest.stack_pointer());
        let Some(nest) = core.nest() else { return };
        if nest.waiting == Some(Waits { next: pc, sp }) {
            nest.waiting = None;
        }
        let before = nest.waiting;
        let call = self.calls.get(&pc);
        // A call within another one is part of it.
        if let Some(&next) = call
            && before.is_none_or(|before| before.sp <= sp)
        {
            nest.waiting = Some(Waits { next, sp });
        }
        // Waiting code within a call counts twice: by its addresses, and with the call.
        if before.is_some() && (call.is_some() || self.code.contains(&pc)) {
            let define = || ledger.define(|slot| Definition::Row { slot, row: Row::WaitingUnsure });
            let slot = *self.unsure.get_or_insert_with(define);
            ledger.add(slot, vcpu, 1);
        }
    }
}
