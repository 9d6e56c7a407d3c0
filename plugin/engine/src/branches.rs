// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ways of branches, counted one by one: each branch is remembered until the next instruction starts. Only the oracle
//! does so; a profile's counts determine most of these numbers without it (`analysis/flow` in harness).

use rustc_hash::FxHashMap;

use crate::guest::{Guest, Vcpu};
use crate::ledger::{Counters, Ledger};

/// A branch, or a jump whose target is only known at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Branch {
    /// Address of the instruction.
    pub site: u64,
    /// Address after it, where it may go on.
    pub next: u64,
    /// Address that it goes to when taken; None: any.
    pub target: Option<u64>,
}

/// Counts the ways of branches.
#[derive(Default)]
pub struct Branches {
    known: Vec<Branch>,
    numbers: FxHashMap<Branch, usize>,
    /// Last instruction of each vCPU, where that is a branch.
    pending: FxHashMap<u32, Branch>,
    /// Counter of each way, by site and target.
    counters: FxHashMap<(u64, u64), u32>,
}

impl Branches {
    /// Number of a branch, for [`Branches::leave`].
    pub fn number(&mut self, branch: Branch) -> usize {
        *self.numbers.entry(branch).or_insert_with(|| {
            self.known.push(branch);
            self.known.len() - 1
        })
    }

    /// Notes that the vCPU has started a branch.
    pub fn leave(&mut self, vcpu: u32, number: usize) {
        if let Some(&branch) = self.known.get(number) {
            self.pending.insert(vcpu, branch);
        }
    }

    /// Counts the way that led to an instruction, which is about to start.
    pub fn arrive(&mut self, vcpu: u32, pc: u64, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        let Some(Branch { site, next, target }) = self.pending.remove(&vcpu) else { return };
        let is_way = |pc: u64| target.is_none_or(|target| pc == target || pc == next);
        let went_to = if !is_way(pc) || (target.is_none() && pc != next && guest.is_exception_entry(pc)) {
            // An exception came first. It returns to where the branch led.
            guest.interrupted_code().map(|interrupted| interrupted.pc).filter(|&pc| is_way(pc))
        } else {
            Some(pc)
        };
        let Some(went_to) = went_to else { return };
        let slot = *self.counters.entry((site, went_to)).or_insert_with(|| ledger.edge(site, went_to));
        ledger.add(slot, vcpu, 1);
    }

    /// Opens the window: earlier branches do not count.
    pub fn restart(&mut self) {
        self.pending.clear();
    }
}
