// SPDX-License-Identifier: MIT OR Apache-2.0
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
use wire::request::{Lives, Request};
use wire::timeline::{Life, What, Why};

use super::context::Core;
use super::tree::Tree;
use super::watched::{Call, Ended, Open, StackId, Watched};
use crate::guest::{Context, Guest, Vcpu};
use crate::ledger::{Counters, Ledger};

/// Most polls that are under way; the oldest is given up.
const MAX_OPEN: usize = 1 << 14;

/// Tasks of one vCPU's executors.
pub struct Polls {
    /// Names of the tasks, by their functions.
    names: BTreeMap<u64, String>,
    /// Tasks by function and argument.
    known: FxHashMap<(u64, u64), u32>,
    /// First counter of each task, and the argument of its function, by id.
    tasks: Vec<(u32, u64)>,
    /// Places at which the tasks' lives are seen.
    lives: Lives,
    /// The last change, and the outermost function that made it: see [`Polls::change`].
    last_change: Option<Change>,
    /// Polls that are under way, with the task of each.
    calls: Watched<u32>,
    /// Clock when the innermost poll began or continued, or when the last one ended.
    since: u64,
}

/// Change of a task's life, at the function that makes it.
#[derive(Clone, Copy)]
struct Change {
    life: Life,
    /// First address of the function.
    entry: u64,
    argument: u64,
    sp: u64,
    /// Clock at the function's first instruction.
    at_insns: u64,
}

/// Most instructions from such a function's start to that of another one that it calls for the same.
const MAX_PASSED_INSNS: u64 = 64;

impl Polls {
    /// No poll yet. None: the firmware has no such tasks, or a kernel whose tasks are followed instead.
    pub fn new(request: &Request, vcpus: u32) -> Option<Polls> {
        let measure = request.measure()?;
        let is_followed = !measure.polls.is_empty() && measure.kernel.is_none() && vcpus == 1;
        is_followed.then(|| Polls {
            names: measure.polls.iter().map(|poll| (poll.entry, poll.name.clone())).collect(),
            known: FxHashMap::default(),
            tasks: Vec::new(),
            lives: measure.lives.clone(),
            last_change: None,
            calls: Watched::new(false),
            since: 0,
        })
    }

    /// Whether a task's function starts at this address.
    pub fn begins_at(&self, pc: u64) -> bool {
        self.names.contains_key(&pc)
    }

    /// Whether a function that changes a task's life starts at this address.
    pub fn changes_at(&self, pc: u64) -> bool {
        self.lives.wakes.contains(&pc) || self.lives.spawns.contains(&pc)
    }

    /// Handles the start of a function that wakes or spawns a task.
    pub fn change(&mut self, vcpu: u32, pc: u64, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        let [first, second] = guest.arguments();
        let is_wake = self.lives.wakes.contains(&pc);
        let (life, argument) = if is_wake { (Life::Woken, first) } else { (Life::Spawned, second) };
        let (sp, at_insns) = (guest.stack_pointer(), ledger.insns(vcpu));
        // One that was called for the same by another function: it is as deep in the stack, or a frame deeper.
        let is_passed_on = |last: &Change| {
            (last.life, last.argument) == (life, argument)
                && last.entry != pc
                && last.sp >= sp
                && at_insns.saturating_sub(last.at_insns) <= MAX_PASSED_INSNS
        };
        if self.last_change.as_ref().is_some_and(is_passed_on) {
            return;
        }
        self.last_change = Some(Change { life, entry: pc, argument, sp, at_insns });
        let task = match life {
            Life::Spawned => self.spawned(argument, guest, ledger),
            _ => self.known.iter().find(|((_, known), _)| *known == argument).map(|(_, &task)| task),
        };
        if let Some(task) = task {
            ledger.happened(vcpu, What::Lives { task, change: life });
        }
    }

    /// The task that is spawned at an address, by its function. None: the memory does not say which that is.
    fn spawned(
        &mut self,
        argument: u64,
        guest: &mut Guest<impl Vcpu>,
        ledger: &mut Ledger<impl Counters>,
    ) -> Option<u32> {
        let poll = guest.pointer(argument.wrapping_add(self.lives.poll?))?;
        let poll = guest.code_address(poll);
        self.names.contains_key(&poll).then(|| self.task(poll, argument, ledger))
    }

    /// Tells the timeline of a task whose last poll has returned.
    fn check_end(&self, core: &Core, task: u32, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        let Some(alive) = self.lives.alive else { return };
        let Some(&(_, argument)) = task.checked_sub(1).and_then(|index| self.tasks.get(index as usize)) else {
            return;
        };
        if guest.memory_word(argument.wrapping_add(alive), 1).is_some_and(|byte| byte & 1 == 0) {
            ledger.happened(core.vcpu, What::Lives { task, change: Life::Finished });
        }
    }

    /// The counter of the polls that are to return to this address.
    pub fn awaited_at(&mut self, pc: u64, ledger: &mut Ledger<impl Counters>) -> u32 {
        self.calls.awaited_at(pc, ledger)
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
        let task = self.task(pc, argument, ledger);
        let place = StackId::shared(core);
        let call = Call { place, entry: pc, sp, return_addr, began_insns: ledger.insns(core.vcpu) };
        self.calls.forget_exceptions(core, ledger);
        let is_again = |open: &Open<u32>| open.payload == task && call.is_in_place_of(&open.call);
        // A loop to the function's start is not a poll.
        if self.calls.innermost(place).is_some_and(|index| is_again(&self.calls.open()[index])) {
            return self.go_on(core, tree, ledger);
        }
        // What began at or below this stack pointer has been left otherwise than by a return.
        while let Some(index) = self.calls.innermost(place)
            && self.calls.open()[index].call.sp <= sp
        {
            self.calls.remove(index, ledger);
        }
        if self.calls.open().len() >= MAX_OPEN {
            self.calls.remove(0, ledger);
        }
        self.calls.push(call, true, task, ledger);
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
        self.calls.forget_exceptions(core, ledger);
        let ended = self.calls.leave(StackId::shared(core), (pc, guest.stack_pointer()), core, ledger);
        if ended.is_empty() {
            return self.go_on(core, tree, ledger);
        }
        for ended in ended {
            if let Ended::Returned(Open { payload: task, .. }) = ended {
                self.check_end(core, task, guest, ledger);
            }
        }
        self.switch(core, tree, ledger);
    }

    /// The task of the innermost poll; 0: none is under way.
    fn polled(&self) -> u32 {
        self.calls.open().last().map_or(0, |open| open.payload)
    }

    /// No poll has begun or returned. One may have ended with the exception that it was in.
    fn go_on(&mut self, core: &mut Core, tree: Option<&mut Tree>, ledger: &mut Ledger<impl Counters>) {
        if core.task != self.polled() {
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
        let task = self.polled();
        core.task = task;
        ledger.happened(core.vcpu, What::Switched { task, why: Why::Polled });
        ledger.set(counters::TASK, core.vcpu, task.into());
        ledger.set(counters::TASK_SINCE, core.vcpu, insns);
    }

    fn count(&self, task: u32, counter: TaskCounter, amount: u64, ledger: &Ledger<impl Counters>) {
        if let Some((slot, _)) = task.checked_sub(1).and_then(|index| self.tasks.get(index as usize)) {
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
        self.tasks.push((slot, argument));
        let task = self.tasks.len() as u32;
        self.known.insert((poll, argument), task);
        task
    }

    /// Opens the window: polls under way began before it.
    pub fn restart(&mut self, ledger: &Ledger<impl Counters>) {
        self.calls.await_again(ledger);
        self.since = 0;
        ledger.set(counters::TASK_SINCE, 0, 0);
    }
}
