//! Calls that are under way and whose returns are awaited, on whatever stacks.
//!
//! A call is seen at its function's first instruction. A return is awaited at its address alone: each block that a call
//! may return to has a counter of the calls that are to return there, and generated code compares that. So calls that are
//! under way in other tasks and in what an interrupt has interrupted cost nothing, and are told apart by their stack
//! pointers.
//!
//! What several look for alike is here: which stack a call is on, which calls a return ends, and what becomes of one that
//! is on its stack no more. What a call means is its payload, and the client's.

use rustc_hash::FxHashMap;

use super::context::Core;
use crate::ledger::{Counters, Ledger};

/// What a function may take off its caller's stack as it returns: `__gnu_mcount_nc` a word.
const MAX_TAKEN_BYTES: u64 = 8;

/// Whose stack a call is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A task's of the firmware's kernel.
    Task(u32),
    /// What is no known kernel's task is a vCPU's own, and a thread by where its stack begins.
    Thread {
        /// The vCPU.
        vcpu: u32,
        /// Where the stack begins; 0: that is not known.
        root_sp: u64,
    },
    /// An exception's handler.
    Exception {
        /// The vCPU.
        vcpu: u32,
        /// See [`super::context::Active::number`].
        number: u64,
        /// The vCPU's instructions as it was taken.
        began_insns: u64,
    },
}

impl Place {
    /// Whose stack a vCPU is on.
    pub fn of(core: &Core) -> Place {
        let vcpu = core.vcpu;
        match core.exceptions.last() {
            Some(active) => Place::Exception { vcpu, number: active.number, began_insns: active.began_at },
            None if core.task != 0 => Place::Task(core.task),
            None => Place::Thread { vcpu, root_sp: 0 },
        }
    }

    /// The same where tasks have no stacks of their own: an executor polls them on its own.
    pub fn shared(core: &Core) -> Place {
        match Place::of(core) {
            Place::Task(_) => Place::Thread { vcpu: core.vcpu, root_sp: 0 },
            place => place,
        }
    }

    /// Whether a vCPU may execute it.
    pub fn may_be_on(self, executing: u32) -> bool {
        match self {
            Place::Task(_) => true,
            Place::Thread { vcpu, .. } | Place::Exception { vcpu, .. } => vcpu == executing,
        }
    }

    /// Whether it is that of an exception of this vCPU's that is over.
    fn is_over(self, core: &Core) -> bool {
        let Place::Exception { vcpu, number, began_insns } = self else { return false };
        vcpu == core.vcpu
            && !core.exceptions.iter().any(|active| (active.number, active.began_at) == (number, began_insns))
    }
}

/// A call, at its function's first instruction.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Whose stack it is on.
    pub place: Place,
    /// First address of the function.
    pub entry: u64,
    /// The stack pointer there.
    pub sp: u64,
    /// Where it is to return.
    pub return_addr: u64,
    /// The vCPU's instructions before it.
    pub began_insns: u64,
}

impl Call {
    /// Whether another one was made in place of this: it has its stack pointer, and is to return there, too.
    pub fn is_in_place_of(&self, other: &Call) -> bool {
        (self.sp, self.return_addr) == (other.sp, other.return_addr)
    }

    /// Whether this is the other one, for which an instruction was executed again: an exception came first.
    pub fn is_again(&self, other: &Call) -> bool {
        self.is_in_place_of(other)
            && self.entry == other.entry
            && self.began_insns.wrapping_sub(other.began_insns) <= 1
    }

    /// What it takes off the stack where it returns to an instruction with this stack pointer. None: it does not.
    fn taken_bytes(&self, pc: u64, sp: u64) -> Option<u64> {
        let taken = sp.wrapping_sub(self.sp);
        (self.return_addr == pc && taken <= MAX_TAKEN_BYTES).then_some(taken)
    }
}

/// A call that is under way.
#[derive(Clone, Debug)]
pub struct Open<P> {
    /// Later ones have higher numbers.
    pub id: u64,
    /// The call.
    pub call: Call,
    /// It is on its stack no more, as far as can be seen; in another thread that is not known it may be.
    pub is_gone: bool,
    /// The counter of the calls that are to return there; None: no block can be looked at.
    awaited: Option<u32>,
    /// What it is to the client.
    pub payload: P,
}

/// What a return ends.
#[derive(Debug)]
pub enum Ended<P> {
    /// A call that has returned: that which did, and those that it followed by tail calls.
    Returned(Open<P>),
    /// A call above, which has not been seen to return.
    Left(Open<P>),
}

/// The calls that are under way, in the order in which they began.
pub struct Watched<P> {
    open: Vec<Open<P>>,
    /// Counters of the calls that are to return to an address, by the address.
    awaited: FxHashMap<u64, u32>,
    ids: u64,
    /// Tasks are told apart, so that what is gone from its task's stack cannot return.
    knows_tasks: bool,
}

impl<P> Watched<P> {
    /// None yet; `knows_tasks`: the firmware's tasks are told apart.
    pub fn new(knows_tasks: bool) -> Watched<P> {
        Watched { open: Vec::new(), awaited: FxHashMap::default(), ids: 0, knows_tasks }
    }

    /// The counter of the calls that are to return to this address.
    pub fn awaited_at(&mut self, pc: u64, ledger: &mut Ledger<impl Counters>) -> u32 {
        *self.awaited.entry(pc).or_insert_with(|| ledger.new_slots(1))
    }

    /// All of them.
    pub fn open(&self) -> &[Open<P>] {
        &self.open
    }

    /// All of them.
    pub fn open_mut(&mut self) -> &mut [Open<P>] {
        &mut self.open
    }

    /// The call of an id, while it is under way.
    pub fn index_of(&self, id: u64) -> Option<usize> {
        self.open.binary_search_by_key(&id, |open| open.id).ok()
    }

    /// The last call on a stack.
    pub fn innermost(&self, place: Place) -> Option<usize> {
        self.open.iter().rposition(|open| open.call.place == place && !open.is_gone)
    }

    /// Whether tasks are told apart.
    pub fn knows_tasks(&self) -> bool {
        self.knows_tasks
    }

    /// Whether what is on a stack no more cannot be on another one.
    pub fn is_certain(&self, place: Place) -> bool {
        self.knows_tasks || !matches!(place, Place::Thread { root_sp: 0, .. })
    }

    /// A call begins; `awaits`: it returns to a block. The calls so far are those that it is within, and others.
    pub fn push(&mut self, call: Call, awaits: bool, payload: P, ledger: &mut Ledger<impl Counters>) -> u64 {
        let awaited = awaits.then(|| self.awaited_at(call.return_addr, ledger));
        self.ids += 1;
        let open = Open { id: self.ids, call, is_gone: false, awaited, payload };
        self.insert(open, ledger);
        self.ids
    }

    /// A call that was taken out may be on a stack that is not known, and return.
    pub fn park(&mut self, open: Open<P>, ledger: &Ledger<impl Counters>) {
        self.insert(Open { is_gone: true, ..open }, ledger);
    }

    fn insert(&mut self, open: Open<P>, ledger: &Ledger<impl Counters>) {
        open.awaited.into_iter().for_each(|awaited| ledger.await_one(awaited));
        let at = self.open.partition_point(|other| other.id < open.id);
        self.open.insert(at, open);
    }

    /// Takes a call out: its return is awaited no more.
    pub fn remove(&mut self, index: usize, ledger: &Ledger<impl Counters>) -> Open<P> {
        let open = self.open.remove(index);
        open.awaited.into_iter().for_each(|awaited| ledger.await_one_less(awaited));
        open
    }

    /// Whether several calls may have returned to here with this stack pointer: a task's that has been deleted, and that of
    /// one whose stack is in its place.
    pub fn is_ambiguous(&self, pc: u64, sp: u64) -> bool {
        let fits = self.open.iter().filter(|open| open.call.taken_bytes(pc, sp) == Some(0));
        let mut places = fits.map(|open| open.call.place);
        places.next().is_some_and(|first| places.any(|other| other != first))
    }

    /// Code goes on at an instruction that calls may return to, on this stack: takes out those that do, the innermost
    /// first.
    pub fn leave(
        &mut self,
        here: Place,
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
    fn returning(&self, here: Place, (pc, sp): (u64, u64), core: &Core) -> Option<usize> {
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

    /// Takes out the calls of a vCPU's exceptions that are over: they are, too.
    pub fn forget_exceptions(&mut self, core: &Core, ledger: &Ledger<impl Counters>) {
        for index in (0..self.open.len()).rev() {
            if self.open[index].call.place.is_over(core) {
                self.remove(index, ledger);
            }
        }
    }

    /// The counters have been cleared: they count what is under way.
    pub fn await_again(&self, ledger: &Ledger<impl Counters>) {
        self.open.iter().filter_map(|open| open.awaited).for_each(|awaited| ledger.await_one(awaited));
    }

    /// Forgets all of them; their counters have been cleared.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}
