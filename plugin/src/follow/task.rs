//! The tasks of the firmware's kernel: which one runs, since when, on which stack.
//!
//! FreeRTOS names the running task in one variable, which few of its functions store to. A callback after
//! the stores of those sees every switch at its instruction, so that instructions per task are exact; and
//! each sample looks whether the variable is still what the last switch made it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::Ordering;

use wire::control::Word;
use wire::counters;
use wire::definition::{Definition, MAX_TEXT_BYTES, TaskCounter};
use wire::request::Kernel;

use crate::clock::from_insn_id;
use crate::follow::span::Calls;
use crate::follow::tree::Shadow;
use crate::qemu::{ExecCallback, Hook, StoreCallback, StoreHook};
use crate::stack::Context;
use crate::state::{self, State};

/// Longest stack that is searched for the kernel's paint.
const MAX_STACK_BYTES: u64 = 1 << 20;

/// The tasks seen so far.
#[derive(Default)]
pub(crate) struct Tasks {
    /// Tasks by the address of their control block.
    live: HashMap<u64, u32>,
    /// Control blocks whose task was deleted: the next one there is another task.
    deleted: HashSet<u64>,
    /// First counter and stack of each, by id.
    list: Vec<(u32, u64)>,
    /// What goes on when a task that was switched out in an exception is switched in again.
    waiting: HashMap<u32, (Option<Context>, Vec<Shadow>, Calls)>,
    unseen_switches: u64,
}

impl Tasks {
    /// The window opens: calls of the waiting tasks began before it.
    pub(crate) fn forget_calls(&mut self) {
        self.waiting.values_mut().for_each(|(_, _, calls)| calls.forget());
    }
}

/// After a store of the kernel's that may switch tasks.
pub(crate) struct OnSwitch;

impl StoreHook for OnSwitch {
    const CALL: StoreCallback = |vcpu, address, _, id| {
        let mut state = state::lock();
        let Some(Kernel { current, running, .. }) = &state.args.kernel else { return };
        if !current.contains(&address) && !running.as_ref().is_some_and(|running| running.contains(&address)) {
            return;
        }
        let vcpu = state.running_vcpu(vcpu);
        let (block, index) = from_insn_id(id);
        state.settle(vcpu);
        state.leave_exceptions(vcpu);
        state.switch_task(vcpu);
        // What is sampled in the rest of the block belongs to the new task.
        if state.counts_inline() && !state.args.is_oracle {
            state.suspect(vcpu, block, index + 1);
        }
    };
}

/// At the start of the function that deletes a task.
pub(crate) struct OnDelete;

impl Hook for OnDelete {
    const CALL: ExecCallback = |vcpu, _| {
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        let argument = if state.args.isa.is_riscv() { 10 } else { 0 };
        let handle = state.general_register(argument);
        let tcb = if handle == 0 { state.cores[vcpu as usize].tcb } else { handle };
        if let Some(&task) = state.tasks.live.get(&tcb) {
            state.note_paint(task);
        }
        state.tasks.deleted.insert(tcb);
    };
}

impl State {
    /// A pointer-sized variable of the firmware's.
    fn pointer(&mut self, address: u64) -> Option<u64> {
        self.memory_word(address, self.pointer_bytes())
    }

    fn pointer_bytes(&self) -> u64 {
        if self.args.isa == decode::Isa::Riscv64 { 8 } else { 4 }
    }

    /// The control block of the task that a vCPU runs; 0: none.
    fn current_tcb(&mut self, vcpu: u32) -> u64 {
        let Some(Kernel { current, running, .. }) = &self.args.kernel else { return 0 };
        let at = current.start + u64::from(vcpu) * self.pointer_bytes();
        if !current.contains(&at) {
            return 0;
        }
        if let Some(Range { start, end }) = running.clone()
            && self.memory_word(start, end - start).unwrap_or(0) == 0
        {
            return 0;
        }
        self.pointer(at).unwrap_or(0)
    }

    /// Looks whether the running task is still the one that was switched in last.
    pub(crate) fn check_task(&mut self, vcpu: u32) {
        let Some(Kernel { current, .. }) = &self.args.kernel else { return };
        let at = current.start + u64::from(vcpu) * self.pointer_bytes();
        let tcb = self.cores[vcpu as usize].tcb;
        // Nearly always, and cheaper than the rest.
        if tcb != 0 && self.pointer(at) == Some(tcb) {
            return;
        }
        if self.current_tcb(vcpu) != self.cores[vcpu as usize].tcb {
            self.tasks.unseen_switches += 1;
            self.records.control.set(Word::UnseenSwitches, self.tasks.unseen_switches);
            self.switch_task(vcpu);
        }
    }

    fn switch_task(&mut self, vcpu: u32) {
        let tcb = self.current_tcb(vcpu);
        let before = &self.cores[vcpu as usize];
        let (old, old_tcb) = (before.task, before.tcb);
        if tcb == old_tcb {
            return;
        }
        self.attribute(vcpu);
        let saved_sp = self.args.kernel.as_ref().and_then(|kernel| kernel.saved_sp);
        if old != 0
            && let Some(offset) = saved_sp
            && let Some(sp) = self.pointer(old_tcb + offset)
        {
            // The kernel has saved the task's registers, and this is the lowest of them.
            self.note_stack_pointer(vcpu, sp);
        }
        let insns = self.insns(vcpu);
        let since = std::mem::replace(&mut self.cores[vcpu as usize].task_since, insns);
        self.count_task(vcpu, old, TaskCounter::Insns, insns - since);
        let task = self.task(tcb);
        self.count_task(vcpu, task, TaskCounter::Switches, 1);
        let core = &mut self.cores[vcpu as usize];
        (core.task, core.tcb) = (task, tcb);
        self.records.counter(counters::TASK, vcpu).store(task.into(), Ordering::Relaxed);
        self.records.counter(counters::TASK_SINCE, vcpu).store(insns, Ordering::Relaxed);
        if let Some(outermost) = core.exceptions.first_mut() {
            let (interrupted, thread, calls) = self.tasks.waiting.remove(&task).unwrap_or_default();
            let interrupted = std::mem::replace(&mut outermost.interrupted, interrupted);
            let thread = std::mem::replace(&mut core.thread, thread);
            let calls = std::mem::replace(&mut core.thread_calls, calls);
            self.tasks.waiting.insert(old, (interrupted, thread, calls));
        }
        self.rebase(vcpu);
    }

    fn count_task(&self, vcpu: u32, task: u32, counter: TaskCounter, amount: u64) {
        if let Some((slot, _)) = task.checked_sub(1).and_then(|index| self.tasks.list.get(index as usize)) {
            self.records.add(slot + counter as u32, vcpu, amount);
        }
    }

    /// A stack pointer of the running task's, outside exceptions.
    pub(crate) fn note_stack_pointer(&self, vcpu: u32, sp: u64) {
        let task = self.cores[vcpu as usize].task;
        let Some(&(slot, stack_start)) = task.checked_sub(1).and_then(|index| self.tasks.list.get(index as usize))
        else {
            return;
        };
        // Before its first instruction the processor is still on another stack.
        if sp < stack_start {
            return;
        }
        let counter = self.records.counter(slot + TaskCounter::DeepestSp as u32, vcpu);
        let depth = sp.wrapping_neg();
        if depth > counter.load(Ordering::Relaxed) {
            counter.store(depth, Ordering::Relaxed);
        }
    }

    /// The task with this control block, which is new where the one before was deleted.
    fn task(&mut self, tcb: u64) -> u32 {
        if tcb == 0 {
            return 0;
        }
        if self.tasks.deleted.remove(&tcb) {
            self.tasks.live.remove(&tcb);
        }
        if let Some(&task) = self.tasks.live.get(&tcb) {
            return task;
        }
        // Few tasks are ever new.
        let Some(kernel) = self.args.kernel.clone() else { return 0 };
        let name = kernel.name.and_then(|name| self.memory(tcb + name.start, (name.end - name.start) as usize));
        let name = name.unwrap_or_default();
        let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        let mut name = String::from_utf8_lossy(&name[..length]).replace(char::is_control, "?");
        while name.len() > MAX_TEXT_BYTES {
            name.pop();
        }
        let field = |state: &mut State, offset: Option<u64>| state.pointer(tcb + offset?);
        let stack_start = field(self, kernel.stack).unwrap_or(0);
        let stack_end = kernel.stack_end.and_then(|end| Some(field(self, Some(end.offset))? + end.plus_bytes));
        let stack_end = stack_end.unwrap_or(0);
        let is_idle = kernel.idle.iter().any(|&variable| self.pointer(variable) == Some(tcb));
        let slot = self.new_slots(wire::definition::TASK_COUNTERS);
        self.note(&Definition::Task { slot, tcb, name, stack_start, stack_end, is_idle });
        self.tasks.list.push((slot, stack_start));
        let task = self.tasks.list.len() as u32;
        self.tasks.live.insert(tcb, task);
        task
    }

    /// Notes how much of a task's stack was never written to.
    fn note_paint(&mut self, task: u32) {
        let Some(&(slot, start)) = task.checked_sub(1).and_then(|index| self.tasks.list.get(index as usize)) else {
            return;
        };
        let Some(paint) = self.args.kernel.as_ref().and_then(|kernel| kernel.paint) else { return };
        let mut bytes = 0;
        while start != 0 && bytes < MAX_STACK_BYTES {
            // A piece never crosses the end of a memory that ends at a multiple of its size.
            let piece = 256 - (start + bytes) % 256;
            let Some(piece) = self.memory(start + bytes, piece as usize) else { break };
            let painted = piece.iter().take_while(|&&byte| byte == paint).count();
            bytes += painted as u64;
            if painted < piece.len() {
                break;
            }
        }
        self.records.counter(slot + TaskCounter::Painted as u32, 0).store(bytes + 1, Ordering::Relaxed);
    }

    /// The same for all tasks that live as the run ends.
    pub(crate) fn note_paints(&mut self) {
        let mut live: Vec<u32> = self
            .tasks
            .live
            .iter()
            .filter(|(tcb, _)| !self.tasks.deleted.contains(tcb))
            .map(|(_, &task)| task)
            .collect();
        live.sort_unstable();
        if self.memory_readable {
            live.into_iter().for_each(|task| self.note_paint(task));
        }
    }

    /// Measuring starts: the running task was switched in before.
    pub(crate) fn restart_tasks(&mut self) {
        for vcpu in 0..self.cores.len() as u32 {
            let core = &mut self.cores[vcpu as usize];
            (core.task_since, core.tree_insns) = (0, 0);
            self.records.counter(counters::TASK_SINCE, vcpu).store(0, Ordering::Relaxed);
        }
    }
}
