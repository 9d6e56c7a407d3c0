//! Tasks without stacks: futures that an executor polls. A task executes from the call of its function to that call's
//! return.
//!
//! The function names the task; the object that its argument points to distinguishes tasks of one function. An
//! interrupt of a task is above it; an executor that runs in an interrupt polls its tasks within the interrupted
//! ones.
//!
//! The return is noticed at its target: blocks after calls compare their address with the one that is awaited.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use wire::counters;
use wire::definition::{Definition, TASK_COUNTERS, TaskCounter};
use wire::request::Request;
use wire::timeline::{What, Why};

use super::context::Core;
use super::tree::Tree;
use crate::guest::{Context, Guest, Vcpu};
use crate::ledger::{Counters, Ledger};

/// Tasks of one vCPU's executors.
pub struct Polls {
    /// Names of the tasks, by their functions.
    names: BTreeMap<u64, String>,
    /// Tasks by function and argument.
    known: FxHashMap<(u64, u64), u32>,
    /// First counter of each task, by id.
    slots: Vec<u32>,
    /// Polls that have begun, the innermost last.
    open: Vec<Open>,
    /// Clock when the innermost poll began or continued, or when the last one ended.
    since: u64,
}

/// A poll that has begun.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Open {
    task: u32,
    sp: u64,
    return_addr: u64,
    /// The exception in whose handler it is; 0: none. None: the processor does not tell.
    exception: Option<u64>,
}

impl Polls {
    /// No poll yet. None: the firmware has no such tasks, or a kernel whose tasks are followed instead.
    pub fn new(request: &Request, vcpus: u32) -> Option<Polls> {
        let measure = request.measure()?;
        let is_followed = !measure.polls.is_empty() && measure.kernel.is_none() && vcpus == 1;
        is_followed.then(|| Polls {
            names: measure.polls.iter().map(|poll| (poll.entry, poll.name.clone())).collect(),
            known: FxHashMap::default(),
            slots: Vec::new(),
            open: Vec::new(),
            since: 0,
        })
    }

    /// Whether a task's function starts at this address.
    pub fn begins_at(&self, pc: u64) -> bool {
        self.names.contains_key(&pc)
    }

    /// Handles the start of a task's function, before it is counted.
    pub fn begin(
        &mut self,
        core: &mut Core,
        tree: Option<&mut Tree>,
        pc: u64,
        guest: &mut Guest<impl Vcpu>,
        ledger: &mut Ledger<impl Counters>,
    ) {
        let Context { sp, return_addr, .. } = guest.context(pc);
        let return_addr = guest.code_address(return_addr);
        let [argument, _] = guest.arguments();
        let exception = guest.active_exception();
        let task = self.task(pc, argument, ledger);
        let open = Open { task, sp, return_addr, exception };
        // A loop to the function's start is no poll.
        if self.open.last() == Some(&open) {
            return;
        }
        // A poll that began at or below this stack pointer was left without a return.
        while self.open.pop_if(|below| below.exception == exception && below.sp <= sp).is_some() {}
        self.open.push(open);
        self.switch(core, tree, ledger);
        self.count(task, TaskCounter::Switches, 1, ledger);
    }

    /// Handles the return of the innermost poll, before its target is counted.
    pub fn end(
        &mut self,
        core: &mut Core,
        tree: Option<&mut Tree>,
        pc: u64,
        guest: &mut Guest<impl Vcpu>,
        ledger: &mut Ledger<impl Counters>,
    ) {
        let sp = guest.stack_pointer();
        if self.open.pop_if(|open| (open.return_addr, open.sp) == (pc, sp)).is_some() {
            self.switch(core, tree, ledger);
        }
    }

    /// Makes another poll the innermost one.
    fn switch(&mut self, core: &mut Core, tree: Option<&mut Tree>, ledger: &mut Ledger<impl Counters>) {
        core.advance(ledger);
        if let Some(tree) = tree {
            tree.attribute(core, ledger);
        }
        let insns = ledger.insns(core.vcpu);
        self.count(core.task, TaskCounter::Insns, insns - self.since, ledger);
        self.since = insns;
        let (task, return_addr) = self.open.last().map_or((0, 0), |open| (open.task, open.return_addr));
        core.task = task;
        ledger.happened(core.vcpu, What::Switched { task, why: Why::Polled });
        ledger.set(counters::TASK, core.vcpu, task.into());
        ledger.set(counters::TASK_SINCE, core.vcpu, insns);
        ledger.set(counters::POLLED, core.vcpu, return_addr);
    }

    fn count(&self, task: u32, counter: TaskCounter, amount: u64, ledger: &Ledger<impl Counters>) {
        if let Some(slot) = task.checked_sub(1).and_then(|index| self.slots.get(index as usize)) {
            ledger.add(slot + counter as u32, 0, amount);
        }
    }

    fn task(&mut self, poll: u64, argument: u64, ledger: &mut Ledger<impl Counters>) -> u32 {
        if let Some(&task) = self.known.get(&(poll, argument)) {
            return task;
        }
        let slot = ledger.new_slots(TASK_COUNTERS);
        let name = self.names.get(&poll).cloned().unwrap_or_default();
        ledger.note(&Definition::Task {
            slot,
            tcb: argument,
            name,
            stack_start: 0,
            stack_end: 0,
            is_idle: false,
            poll,
        });
        self.slots.push(slot);
        let task = self.slots.len() as u32;
        self.known.insert((poll, argument), task);
        task
    }

    /// Opens the window: polls under way began before it.
    pub fn restart(&mut self, ledger: &Ledger<impl Counters>) {
        self.since = 0;
        ledger.set(counters::TASK_SINCE, 0, 0);
    }
}
