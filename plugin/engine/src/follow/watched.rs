// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls under way whose returns are awaited, on any stack.
//!
//! A call is noticed at its function's first instruction. A return is awaited at its address alone: each block that a
//! call may return to has a counter of the expected returns, which generated code tests. So calls under way in other
//! tasks and in interrupted code cost nothing; their stack pointers distinguish them.
//!
//! This file has the tasks common to its clients: the stack of a call, the calls that a return ends, and calls that
//! have gone from their stack. A call's meaning is in its payload, which is the client's.

use rustc_hash::FxHashMap;

use super::context::Core;
use crate::ledger::{Counters, Ledger};

/// Most bytes that a function removes from its caller's stack as it returns; `__gnu_mcount_nc` removes a word.
const MAX_TAKEN_BYTES: u64 = 8;

/// Stack that a call is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackId {
    /// Stack of a task of the firmware's kernel.
    Task(u32),
    /// Stack of code outside known tasks: a vCPU's own, or a thread's, identified by its root.
    Thread {
        /// The vCPU.
        vcpu: u32,
        /// Stack pointer at its root; 0: unknown.
        root_sp: u64,
    },
    /// Stack of an exception's handler.
    Exception {
        /// The vCPU.
        vcpu: u32,
        /// See [`super::context::Active::number`].
        number: u64,
        /// The vCPU's instructions as it was taken.
        began_insns: u64,
    },
}

impl StackId {
    /// Stack that a vCPU executes on.
    pub fn of(core: &Core) -> StackId {
        let vcpu = core.vcpu;
        match core.exceptions.last() {
            Some(active) => StackId::Exception { vcpu, number: active.number, began_insns: active.began_at },
            None if core.task != 0 => StackId::Task(core.task),
            None => StackId::Thread { vcpu, root_sp: 0 },
        }
    }

    /// The same where tasks have no stacks of their own: an executor polls them on its own.
    pub fn shared(core: &Core) -> StackId {
        match StackId::of(core) {
            StackId::Task(_) => StackId::Thread { vcpu: core.vcpu, root_sp: 0 },
            place => place,
        }
    }

    /// Whether a vCPU may execute on it.
    pub fn may_be_on(self, executing: u32) -> bool {
        match self {
            StackId::Task(_) => true,
            StackId::Thread { vcpu, .. } | StackId::Exception { vcpu, .. } => vcpu == executing,
        }
    }

    /// Whether it belongs to an exception of this vCPU that is over.
    fn is_over(self, core: &Core) -> bool {
        let StackId::Exception { vcpu, number, began_insns } = self else { return false };
        vcpu == core.vcpu
            && !core.exceptions.iter().any(|active| (active.number, active.began_at) == (number, began_insns))
    }
}

/// A call, at its function's first instruction.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Stack that it is on.
    pub place: StackId,
    /// First address of the function.
    pub entry: u64,
    /// The stack pointer there.
    pub sp: u64,
    /// Its return address.
    pub return_addr: u64,
    /// The vCPU's instructions before it.
    pub began_insns: u64,
}

impl Call {
    /// Whether this call replaces the other one: it has the same stack pointer and return address.
    pub fn is_in_place_of(&self, other: &Call) -> bool {
        (self.sp, self.return_addr) == (other.sp, other.return_addr)
    }

    /// Whether this is the other call again: an exception came before its first instruction, which was then repeated.
    pub fn is_again(&self, other: &Call) -> bool {
        self.is_in_place_of(other)
            && self.entry == other.entry
            && self.began_insns.wrapping_sub(other.began_insns) <= 1
    }

    /// Bytes that it removes from the stack, if it returns to an instruction with this stack pointer. None: it does
    /// not.
    fn taken_bytes(&self, pc: u64, sp: u64) -> Option<u64> {
        let taken = sp.wrapping_sub(self.sp);
        (self.return_addr == pc && taken <= MAX_TAKEN_BYTES).then_some(taken)
    }
}

/// A call that is under way.
#[derive(Clone, Debug)]
pub struct Open<P> {
    /// Number of the call; later calls have higher ones.
    pub id: u64,
    /// The call.
    pub call: Call,
    /// Whether it seems to have gone from its stack; on an unknown thread's stack it may still exist.
    pub is_gone: bool,
    /// Counter of the calls expected to return to its address; None: it returns to no known block.
    awaited: Option<u32>,
    /// The client's data.
    pub payload: P,
}

/// Call that a return ends.
#[derive(Debug)]
pub enum Ended<P> {
    /// A call that has returned, by itself or through later tail calls.
    Returned(Open<P>),
    /// A call above it that was not seen to return.
    Left(Open<P>),
}

/// Calls under way, in the order in which they began.
pub struct Watched<P> {
    open: Vec<Open<P>>,
    /// Counters of expected returns, by address.
    awaited: FxHashMap<u64, u32>,
    ids: u64,
    /// Whether tasks are distinguished, so that a call gone from its task's stack cannot return.
    knows_tasks: bool,
}

impl<P> Watched<P> {
    /// No calls yet; `knows_tasks`: the firmware's tasks are distinguished.
    pub fn new(knows_tasks: bool) -> Watched<P> {
        Watched { open: Vec::new(), awaited: FxHashMap::default(), ids: 0, knows_tasks }
    }

    /// Counter of the calls expected to return to an address.
    pub fn awaited_at(&mut self, pc: u64, ledger: &mut Ledger<impl Counters>) -> u32 {
        *self.awaited.entry(pc).or_insert_with(|| ledger.new_slots(1))
    }

    /// Calls under way.
    pub fn open(&self) -> &[Open<P>] {
        &self.open
    }

    /// Calls under way, to be changed.
    pub fn open_mut(&mut self) -> &mut [Open<P>] {
        &mut self.open
    }

    /// Index of the call with an id, if it is under way.
    pub fn index_of(&self, id: u64) -> Option<usize> {
        self.open.binary_search_by_key(&id, |open| open.id).ok()
    }

    /// Index of the innermost call on a stack.
    pub fn innermost(&self, place: StackId) -> Option<usize> {
        self.open.iter().rposition(|open| open.call.place == place && !open.is_gone)
    }

    /// Whether tasks are distinguished.
    pub fn knows_tasks(&self) -> bool {
        self.knows_tasks
    }

    /// Whether a call gone from this stack cannot be on another one.
    pub fn is_certain(&self, place: StackId) -> bool {
        self.knows_tasks || !matches!(place, StackId::Thread { root_sp: 0, .. })
    }

    /// Adds a call that begins; `awaits`: it returns to a known block. Returns its id. Earlier calls may enclose it
    /// or be on other stacks.
    pub fn push(&mut self, call: Call, awaits: bool, payload: P, ledger: &mut Ledger<impl Counters>) -> u64 {
        let awaited = awaits.then(|| self.awaited_at(call.return_addr, ledger));
        self.ids += 1;
        let open = Open { id: self.ids, call, is_gone: false, awaited, payload };
        self.insert(open, ledger);
        self.ids
    }

    /// Puts back a removed call that may be on an unknown stack, and may return.
    pub fn park(&mut self, open: Open<P>, ledger: &Ledger<impl Counters>) {
        self.insert(Open { is_gone: true, ..open }, ledger);
    }

    fn insert(&mut self, open: Open<P>, ledger: &Ledger<impl Counters>) {
        open.awaited.into_iter().for_each(|awaited| ledger.await_one(awaited));
        let at = self.open.partition_point(|other| other.id < open.id);
        self.open.insert(at, open);
    }

    /// Removes a call, whose return is no longer awaited.
    pub fn remove(&mut self, index: usize, ledger: &Ledger<impl Counters>) -> Open<P> {
        let open = self.open.remove(index);
        open.awaited.into_iter().for_each(|awaited| ledger.await_one_less(awaited));
        open
    }

    /// Whether several calls may have returned to here with this stack pointer: one of a deleted task, and one of the
    /// task whose stack replaced it.
    pub fn is_ambiguous(&self, pc: u64, sp: u64) -> bool {
        let fits = self.open.iter().filter(|open| open.call.taken_bytes(pc, sp) == Some(0));
        let mut places = fits.map(|open| open.call.place);
        places.next().is_some_and(|first| places.any(|other| other != first))
    }

    /// Code goes on at an instruction that calls may return to, on this stack: takes out those that do, the innermost
    /// first.
    pub fn leave(
        &mut self,
        here: StackId,
        (pc, sp): (u64, u64),
        core: &Core,
        ledger: &Ledger<impl Counters>,
    ) -> Vec<Ended<P>> {
        let Some(index) = self.returning(here, (pc, sp), core) else { return Vec::new() };
        let Open { call, is_gone, .. } = self.open[index];
        let is_with = |open: &Open<P>| open.call.place == call.place && open.call.is_in_place_of(&call);
        let first = self.open.iter().position(is_with).unwrap_or(index);
        let mut ended = Vec::new();
        for index in (first..self.open.len()).rev() {
            let open = &self.open[index];
            if is_with(open) {
                ended.push(Ended::Returned(self.remove(index, ledger)));
            } else if !is_gone && !open.is_gone && open.call.place == call.place {
                ended.push(Ended::Left(self.remove(index, ledger)));
            }
        }
        ended
    }

    /// The call that returns: the innermost on the stack of what executes, and one of another place only where there is
    /// none. What takes nothing off the stack comes before what does: of two calls from the same place one may be a few
    /// bytes within the other.
    fn returning(&self, here: StackId, (pc, sp): (u64, u64), core: &Core) -> Option<usize> {
        let find = |takes: bool, is_meant: &dyn Fn(&Open<P>) -> bool| {
            self.open.iter().rposition(|open| {
                open.call.taken_bytes(pc, sp).is_some_and(|taken| (taken != 0) == takes) && is_meant(open)
            })
        };
        [false, true].into_iter().find_map(|takes| {
            find(takes, &|open| open.call.place == here && !open.is_gone)
                .or_else(|| find(takes, &|open| open.call.place == here))
                .or_else(|| {
                    find(takes, &|open| open.call.place.may_be_on(core.vcpu) && !open.call.place.is_over(core))
                })
        })
    }

    /// Removes the calls of a vCPU's exceptions that are over.
    pub fn forget_exceptions(&mut self, core: &Core, ledger: &Ledger<impl Counters>) {
        for index in (0..self.open.len()).rev() {
            if self.open[index].call.place.is_over(core) {
                self.remove(index, ledger);
            }
        }
    }

    /// Counts the calls under way again after the counters have been cleared.
    pub fn await_again(&self, ledger: &Ledger<impl Counters>) {
        self.open.iter().filter_map(|open| open.awaited).for_each(|awaited| ledger.await_one(awaited));
    }

    /// Removes all calls; their counters have been cleared.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}
