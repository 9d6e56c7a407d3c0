// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks of the firmware's kernel: the running one, the time of its switch, and its stack.
//!
//! A kernel names the running task in one variable, which few of its functions store to. A callback after their
//! stores notices every switch at its instruction, so that instructions per task are exact. Each sample checks
//! whether the variable has changed since the last switch.
//!
//! The first task is named long before it runs, by code on the firmware's first stack. It begins after the
//! instruction that switches the stack pointer to its stack.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use wire::control::Word;
use wire::counters;
use wire::definition::{Definition, MAX_TEXT_BYTES, TASK_COUNTERS, TaskCounter};
use wire::request::{Kernel, Request, TaskName};
use wire::timeline::{Life, What, Why};

use super::context::{Core, Handed, Parked, Path};
use super::reason::Reasons;
use super::tree::Tree;
use super::watermark::Watermark;
use crate::guest::{Context, Guest, Vcpu};
use crate::ledger::{Counters, Ledger};

/// Tasks seen so far.
pub struct Tasks {
    kernel: Kernel,
    /// Tasks by the address of their control block.
    live: FxHashMap<u64, u32>,
    /// Control blocks of deleted tasks: the next task at such an address is a new one.
    deleted: FxHashSet<u64>,
    /// Contexts of the tasks by their control blocks, if the kernel saves them before it names the next task.
    contexts: FxHashMap<u64, Saved>,
    /// Idle tasks, by id.
    idle: FxHashSet<u32>,
    /// Tasks whose stack pointer has left their stack.
    overflowed: FxHashSet<u32>,
    /// Counters and stack of each task, by id.
    list: Vec<Watermark>,
    /// State of tasks that were switched out in an exception: the interrupted code, and its functions.
    waiting: FxHashMap<u32, (Option<Context>, Path)>,
    unseen_switches: u64,
    /// Reasons why tasks stop; None: not asked for, or not available.
    reasons: Option<Reasons>,
    /// Tasks that live and do not execute, by id, if there are reasons.
    apart: BTreeMap<u32, Apart>,
    /// Running task of each vCPU.
    running: Vec<Running>,
    /// Task that stands for the time in which the kernel idles outside of all tasks.
    outside: Option<u32>,
}

/// A stack pointer below its task's stack; see [`Definition::Overflow`].
pub struct Seen {
    /// Address of the instruction that took it there, or at which the task was interrupted; 0: not known.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// Instructions of the window so far.
    pub at_insns: u64,
    /// Whether the instruction itself was seen.
    pub is_first: bool,
}

/// Name of the task that stands for the time in which the kernel idles outside of all tasks.
const OUTSIDE: &str = "idle";

/// A task that does not execute.
#[derive(Clone, Copy, Debug)]
struct Apart {
    /// Address of its control block.
    tcb: u64,
    /// Whether it could execute, as the timeline has it so far. None: not known.
    is_ready: Option<bool>,
}

/// Stack pointers that a kernel has saved for a task.
#[derive(Clone, Copy, Debug)]
struct Saved {
    /// With which it began.
    first_sp: u64,
    /// Lowest address of its stack; 0: unknown.
    stack_start: u64,
    /// With which it stopped; None: it has not stopped.
    last_sp: Option<u64>,
}

/// The task that a vCPU runs.
#[derive(Clone, Copy, Default)]
struct Running {
    /// Address of its control block; 0: none.
    tcb: u64,
    /// Instructions when it was switched in.
    since: u64,
    /// Whether the first task has been started.
    has_started: bool,
}

/// Greatest offset of registers that a kernel saves in a task's control block.
const MAX_CONTEXT_OFFSET: u64 = 512;

/// Most bytes popped off a task's stack before it runs: its registers.
const MAX_SAVED_BYTES: u64 = 1024;

impl Apart {
    /// The timeline's event for its state.
    fn told(&self, task: u32) -> What {
        let change = if self.is_ready == Some(true) { Life::Woken } else { Life::Unready };
        What::Lives { task, change }
    }
}

impl Tasks {
    /// No task yet. None: the firmware's kernel is not known.
    pub fn new(request: &Request, vcpus: u32) -> Option<Tasks> {
        let kernel = request.measure()?.kernel.clone()?;
        let is_first_running = kernel.is_first_running;
        Some(Tasks {
            kernel,
            live: FxHashMap::default(),
            deleted: FxHashSet::default(),
            contexts: FxHashMap::default(),
            idle: FxHashSet::default(),
            overflowed: FxHashSet::default(),
            list: Vec::new(),
            waiting: FxHashMap::default(),
            unseen_switches: 0,
            reasons: Reasons::new(request, vcpus),
            apart: BTreeMap::new(),
            // With several vCPUs, it is not known which one starts which task.
            running: vec![
                Running { has_started: vcpus > 1 || is_first_running, ..Running::default() };
                vcpus as usize
            ],
            outside: None,
        })
    }

    /// Whether the function that starts at this address deletes tasks, or the running one.
    pub fn deletes_at(&self, pc: u64) -> bool {
        [self.kernel.delete, self.kernel.exit].contains(&Some(pc))
    }

    /// Whether an idle task begins at this address.
    pub fn idles_at(&self, pc: u64) -> bool {
        self.kernel.idle_entries.contains(&pc)
    }

    /// Whether a task is one of the kernel's idle tasks.
    pub fn is_idle(&self, task: u32) -> bool {
        self.idle.contains(&task)
    }

    /// Whether the kernel goes on with tasks out of an exception by ordinary jumps.
    pub fn leave_by_jumps(&self) -> bool {
        self.kernel.leaves_by_jumps
    }

    /// Whether a store at this address may switch tasks.
    pub fn may_switch_at(&self, pc: u64) -> bool {
        self.kernel.switchers.iter().any(|code| code.contains(&pc))
    }

    /// Whether a store to this address may have switched tasks.
    pub fn may_switch_by(&self, address: u64) -> bool {
        let Kernel { current, running, .. } = &self.kernel;
        current.contains(&address) || running.as_ref().is_some_and(|running| running.contains(&address))
    }

    /// Whether the first task has yet to start.
    pub fn waits_for_first(&self) -> bool {
        self.running.iter().any(|running| !running.has_started)
    }

    /// Whether the stack pointer can be that of a starting task: at or slightly above the one that the kernel saved
    /// for it. True for a kernel of unknown layout.
    fn is_on_stack(&self, tcb: u64, guest: &mut Guest<impl Vcpu>) -> bool {
        let Some(saved_sp) = self.saved_sp(tcb, guest) else { return true };
        guest.thread_stack_pointer().checked_sub(saved_sp).is_some_and(|above| above <= MAX_SAVED_BYTES)
    }

    /// Stack pointer that the kernel has saved for a task, if it is known where.
    fn saved_sp(&self, tcb: u64, guest: &mut Guest<impl Vcpu>) -> Option<u64> {
        guest.pointer(tcb + self.kernel.saved_sp?)
    }

    /// Address of the kernel's variable for the task that a vCPU runs.
    fn current_at(&self, vcpu: u32, guest: &Guest<impl Vcpu>) -> u64 {
        self.kernel.current.start + u64::from(vcpu) * guest.pointer_bytes()
    }

    /// Control block of the task that a vCPU runs; 0: none.
    fn current_tcb(&self, vcpu: u32, guest: &mut Guest<impl Vcpu>) -> u64 {
        let at = self.current_at(vcpu, guest);
        if !self.kernel.current.contains(&at) {
            return 0;
        }
        if let Some(Range { start, end }) = self.kernel.running
            && guest.memory_word(start, end - start).unwrap_or(0) == 0
        {
            return 0;
        }
        guest.pointer(at).unwrap_or(0)
    }

    /// Whether the kernel, which runs no task, idles: no task is to run next.
    fn idles_outside(&self, vcpu: u32, guest: &mut Guest<impl Vcpu>) -> bool {
        let at = |next: &Range<u64>| next.start + u64::from(vcpu) * guest.pointer_bytes();
        let at = self.kernel.next.as_ref().map(at);
        self.running[vcpu as usize].has_started && at.is_some_and(|at| guest.pointer(at) == Some(0))
    }

    /// Checks whether the running task is still the one last switched in.
    pub fn check(
        &mut self,
        core: &mut Core,
        tree: Option<&mut Tree>,
        guest: &mut Guest<impl Vcpu>,
        ledger: &mut Ledger<impl Counters>,
    ) {
        let at = self.current_at(core.vcpu, guest);
        let tcb = self.running[core.vcpu as usize].tcb;
        // Nearly always equal, and cheaper than the rest. A task in user mode may not read the kernel's memory.
        if guest.pointer(at).is_none_or(|current| tcb != 0 && current == tcb) {
            return;
        }
        let now = self.current_tcb(core.vcpu, guest);
        if now != tcb && (self.running[core.vcpu as usize].has_started || self.is_on_stack(now, guest)) {
            self.unseen_switches += 1;
            ledger.say(Word::UnseenSwitches, self.unseen_switches);
            self.switch_for(|_, _, _, _| Why::Unknown, core, tree, guest, ledger);
        }
    }

    /// Tells the timeline of tasks that have become ready while they do not execute, or no longer are.
    pub fn look(&mut self, vcpu: u32, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        let Some(reasons) = &self.reasons else { return };
        for (&task, apart) in &mut self.apart {
            let is_ready = reasons.is_ready(apart.tcb, guest);
            if is_ready.is_some() && is_ready != apart.is_ready {
                apart.is_ready = is_ready;
                ledger.happened(vcpu, apart.told(task));
            }
        }
    }

    /// Tells the timeline, as it begins, which of the tasks that do not execute are ready.
    pub fn open_timeline(&self, ledger: &mut Ledger<impl Counters>) {
        for (&task, apart) in self.apart.iter().filter(|(_, apart)| apart.is_ready.is_some()) {
            ledger.happened(0, apart.told(task));
        }
    }

    /// Notes that the old task does not execute from here on, and for what reason, and that the new one does.
    fn change_apart(&mut self, (old, old_tcb): (u32, u64), why: Why, new: u32) {
        if self.reasons.is_some() && old != 0 && old_tcb != 0 && !self.deleted.contains(&old_tcb) {
            let is_ready = match why {
                Why::Unknown | Why::First => None,
                Why::Preempted | Why::Yielded => Some(true),
                _ => Some(false),
            };
            self.apart.insert(old, Apart { tcb: old_tcb, is_ready });
        }
        self.apart.remove(&new);
    }

    /// Notes a store to the interrupt controller that asks for a switch of tasks, or cancels it.
    pub fn pend(&mut self, core: &Core, is_pending: bool) {
        if let Some(reasons) = &mut self.reasons {
            reasons.pend(core, is_pending);
        }
    }

    /// Handles a store that may have switched tasks, or a point where the first task may have started.
    pub fn switch<V: Vcpu, C: Counters>(
        &mut self,
        core: &mut Core,
        tree: Option<&mut Tree>,
        guest: &mut Guest<V>,
        ledger: &mut Ledger<C>,
    ) {
        self.look(core.vcpu, guest, ledger);
        let why = |tasks: &mut Tasks, core: &Core, guest: &mut Guest<V>, ledger: &mut Ledger<C>| {
            let tcb = tasks.running[core.vcpu as usize].tcb;
            match &mut tasks.reasons {
                _ if tcb == 0 && core.task != 0 => Why::Preempted,
                _ if tcb == 0 => Why::First,
                // It has begun to end itself, however far it came.
                Some(_) if tasks.deleted.contains(&tcb) => Why::Deleted,
                Some(reasons) => reasons.of(tcb, core, guest, ledger),
                None => Why::Unknown,
            }
        };
        self.switch_for(why, core, tree, guest, ledger);
        if let Some(reasons) = &mut self.reasons {
            reasons.chosen(core.vcpu);
        }
    }

    /// Does what [`Tasks::switch`] does, with the reason why the previous task stops.
    fn switch_for<V: Vcpu, C: Counters>(
        &mut self,
        why: impl FnOnce(&mut Tasks, &Core, &mut Guest<V>, &mut Ledger<C>) -> Why,
        core: &mut Core,
        mut tree: Option<&mut Tree>,
        guest: &mut Guest<V>,
        ledger: &mut Ledger<C>,
    ) {
        let vcpu = core.vcpu;
        let tcb = self.current_tcb(vcpu, guest);
        let Running { tcb: old_tcb, since, has_started } = self.running[vcpu as usize];
        let is_outside = tcb == 0 && self.idles_outside(vcpu, guest);
        let is_same = tcb == old_tcb && (tcb != 0 || is_outside == (core.task != 0));
        if is_same || (!has_started && !self.is_on_stack(tcb, guest)) {
            return;
        }
        let why = why(self, core, guest, ledger);
        core.advance(ledger);
        if let Some(tree) = &mut tree {
            tree.attribute(core, ledger);
        }
        let old = core.task;
        let stopped_sp = if old_tcb == 0 { None } else { self.saved_sp(old_tcb, guest) };
        if let Some(sp) = stopped_sp {
            // The kernel has saved the task's registers; this is its lowest stack pointer.
            core.note_stack_pointer(sp, ledger);
            ledger.happened(vcpu, What::Stack { sp });
            // FreeRTOS's ports for memory protection save registers in the control block.
            let is_in_tcb = sp.wrapping_sub(old_tcb) < MAX_CONTEXT_OFFSET;
            if !is_in_tcb && self.watermark(old).is_some_and(|stack| stack.is_below(sp)) {
                let interrupted = core.exceptions.first().and_then(|active| active.interrupted.as_ref());
                let pc = interrupted.map_or(0, |context| context.pc);
                let at_insns = ledger.insns(vcpu);
                self.overflow(old, Seen { pc, sp, at_insns, is_first: false }, ledger);
            }
        }
        let insns = ledger.insns(vcpu);
        self.count(vcpu, old, TaskCounter::Insns, insns - since, ledger);
        let saved = if tcb == 0 { None } else { self.saved_sp(tcb, guest) };
        if self.kernel.saves_first {
            self.note_contexts((old_tcb, stopped_sp), (tcb, saved), guest);
        }
        let is_known = self.live.contains_key(&tcb) && !self.deleted.contains(&tcb);
        let saved = saved.filter(|_| is_known);
        let task = if is_outside { self.outside(ledger) } else { self.task(tcb, guest, ledger) };
        if !is_known {
            self.note_first(task, tcb, core, guest);
        }
        self.count(vcpu, task, TaskCounter::Switches, 1, ledger);
        self.running[vcpu as usize] = Running { tcb, since: insns, has_started: true };
        (core.task, core.watermark) = (task, self.watermark(task).filter(|_| !is_outside));
        core.last_sp = None;
        if let Some(sp) = saved {
            // A kernel may have named this task's successor before it saved the registers.
            core.note_stack_pointer(sp, ledger);
        }
        ledger.happened(vcpu, What::Switched { task, why });
        self.change_apart((old, old_tcb), why, task);
        ledger.set(counters::TASK, vcpu, task.into());
        ledger.set(counters::TASK_SINCE, vcpu, insns);
        let is_interrupted = self.waiting.get(&task).is_some_and(|(interrupted, _)| interrupted.is_some());
        core.handed = saved.filter(|_| !is_interrupted && !core.exceptions.is_empty()).map(|sp| {
            let stack = self.stack_of(tcb, guest);
            let stack = if stack.contains(&sp) { stack } else { sp..sp.saturating_add(MAX_SAVED_BYTES) };
            Handed { from: old, stack }
        });
        if let Some(outermost) = core.exceptions.first_mut() {
            let (interrupted, thread) = self.waiting.remove(&task).unwrap_or_default();
            let interrupted = std::mem::replace(&mut outermost.interrupted, interrupted);
            let thread = std::mem::replace(&mut core.thread, thread);
            self.waiting.insert(old, (interrupted, thread));
        } else {
            self.hand_over(old, task, core);
        }
        if let Some(tree) = tree {
            ledger.set(counters::HERE, vcpu, 0);
            tree.rebase(core, ledger);
        }
    }

    /// Notes that the machine slept while a task was the running one; 0: none.
    pub fn slept(&self, vcpu: u32, task: u32, ns: u64, ledger: &Ledger<impl Counters>) {
        self.count(vcpu, task, TaskCounter::SleptNs, ns, ledger);
    }

    /// Notes that the machine's clock has moved on beyond the instructions while a task was the running one; 0: none.
    pub fn moved_ahead(&self, vcpu: u32, task: u32, ns: u64, ledger: &Ledger<impl Counters>) {
        self.count(vcpu, task, TaskCounter::AheadNs, ns, ledger);
    }

    /// Notes that a task's stack pointer has left its stack, once for each task.
    pub fn overflow(&mut self, task: u32, seen: Seen, ledger: &mut Ledger<impl Counters>) {
        // With a user mode, system calls go on below the stack, on another one of the same task.
        let has_one_stack = self.kernel.exchanges.is_empty() && self.kernel.called_begins.is_empty();
        if task != 0 && has_one_stack && self.overflowed.insert(task) {
            let Seen { pc, sp, at_insns, is_first } = seen;
            ledger.note(&Definition::Overflow { task, pc, sp, at_insns, is_first });
        }
    }

    /// Notes the stack pointer with which a task will begin: above the frame from which the processor loads its registers.
    fn note_first(&self, task: u32, tcb: u64, core: &mut Core, guest: &mut Guest<impl Vcpu>) {
        if let (false, Some(sp)) = (self.kernel.called_begins.is_empty(), self.saved_sp(tcb, guest)) {
            core.first_sp.insert(task, sp.wrapping_add(guest.facts.exception_frame_bytes));
        }
    }

    /// Handles a switch outside of exceptions: the executing code, which has named the next task, goes on for it until
    /// that task's own code does.
    fn hand_over(&mut self, old: u32, task: u32, core: &mut Core) {
        if old != 0 {
            let going_on = Path { frames: core.thread.frames.clone(), is_passing: true, ..Path::default() };
            let path = std::mem::replace(&mut core.thread, going_on);
            // It goes on at a place that is not known yet, in one of its functions.
            core.park(Parked { pc: 0, sp: 0, task: old, path, is_handler: false });
        }
        if let Some((Some(Context { pc, sp, .. }), path)) = self.waiting.remove(&task) {
            core.park(Parked { pc, sp, task, path, is_handler: false });
        }
    }

    fn watermark(&self, task: u32) -> Option<Watermark> {
        self.list.get(task.checked_sub(1)? as usize).copied()
    }

    fn count(&self, vcpu: u32, task: u32, counter: TaskCounter, amount: u64, ledger: &Ledger<impl Counters>) {
        if let Some(watermark) = self.watermark(task) {
            watermark.count(vcpu, counter, amount, ledger);
        }
    }

    /// Notes the context with which one task stops and another goes on. A task that goes on with another context than the
    /// one that the kernel has saved, and with that of a task that has not run yet, is a new one: its predecessor was deleted
    /// by code that is not known.
    /// Both are given by their control blocks and the stack pointers there.
    fn note_contexts(
        &mut self,
        (stops, last_sp): (u64, Option<u64>),
        (goes_on, sp): (u64, Option<u64>),
        guest: &mut Guest<impl Vcpu>,
    ) {
        if let Some(context) = self.contexts.get_mut(&stops) {
            context.last_sp = last_sp;
        }
        let Some(sp) = sp else { return };
        let stack_start = self.stack_of(goes_on, guest).start;
        let known = self.contexts.get(&goes_on).filter(|_| !self.deleted.contains(&goes_on));
        if let Some(Saved { first_sp, stack_start: known_start, last_sp }) = known {
            let is_as_saved = last_sp.is_none_or(|last| last == sp);
            if is_as_saved || (*known_start == stack_start && *first_sp != sp) {
                return;
            }
            self.deleted.insert(goes_on);
        }
        self.contexts.insert(goes_on, Saved { first_sp: sp, stack_start, last_sp: None });
    }

    /// Task with this control block; a new one if its predecessor there was deleted.
    fn task(&mut self, tcb: u64, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) -> u32 {
        if tcb == 0 {
            return 0;
        }
        if self.deleted.remove(&tcb)
            && let Some(before) = self.live.remove(&tcb)
        {
            self.apart.remove(&before);
        }
        if let Some(&task) = self.live.get(&tcb) {
            return task;
        }
        let Kernel { name, idle, .. } = &self.kernel;
        let name = name.as_ref().and_then(|name| read_name(tcb, name, guest)).unwrap_or_default();
        let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        let mut name = String::from_utf8_lossy(&name[..length]).replace(char::is_control, "?");
        while name.len() > MAX_TEXT_BYTES {
            name.pop();
        }
        let is_idle = idle.iter().any(|&variable| guest.pointer(variable) == Some(tcb));
        let stack = self.stack_of(tcb, guest);
        let task = self.define((tcb, name), stack, is_idle, ledger);
        self.live.insert(tcb, task);
        task
    }

    /// Addresses of a task's stack; 0: unknown.
    fn stack_of(&self, tcb: u64, guest: &mut Guest<impl Vcpu>) -> Range<u64> {
        let start = self.kernel.stack.and_then(|offset| guest.pointer(tcb + offset)).unwrap_or(0);
        let end = self.kernel.stack_end.and_then(|end| {
            let member = guest.memory_word(tcb + end.offset, end.bytes)?;
            Some(member + if end.is_size { start } else { 0 } + end.plus_bytes)
        });
        start..end.unwrap_or(0)
    }

    /// Task that stands for the time in which the kernel idles outside of all tasks.
    fn outside(&mut self, ledger: &mut Ledger<impl Counters>) -> u32 {
        if let Some(task) = self.outside {
            return task;
        }
        let task = self.define((0, OUTSIDE.to_owned()), 0..0, true, ledger);
        self.outside = Some(task);
        task
    }

    /// Adds a task with this control block, name and stack.
    fn define(
        &mut self,
        (tcb, name): (u64, String),
        stack: Range<u64>,
        is_idle: bool,
        ledger: &mut Ledger<impl Counters>,
    ) -> u32 {
        let slot = ledger.new_slots(TASK_COUNTERS);
        let Range { start: stack_start, end: stack_end } = stack;
        ledger.note(&Definition::Task { slot, tcb, name, stack_start, stack_end, is_idle, poll: 0 });
        self.list.push(Watermark::new(slot, stack_start..stack_end));
        let task = self.list.len() as u32;
        if is_idle {
            self.idle.insert(task);
        }
        task
    }

    /// Handles the start of the idle tasks' function: the executing task is an idle one, even if no variable names
    /// it.
    pub fn idle(&mut self, vcpu: u32, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        let tcb = self.running[vcpu as usize].tcb;
        let task = self.live.get(&tcb).copied().filter(|_| self.current_tcb(vcpu, guest) == tcb);
        if let Some(task) = task
            && self.idle.insert(task)
        {
            ledger.note(&Definition::Idle { task });
        }
    }

    /// Handles the start of the function that deletes a task, or in which one ends.
    pub fn delete(&mut self, pc: u64, vcpu: u32, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        let handle = if self.kernel.exit == Some(pc) { 0 } else { guest.arguments()[0] };
        let tcb = if handle == 0 { self.running[vcpu as usize].tcb } else { handle };
        if let Some(&task) = self.live.get(&tcb) {
            self.note_paint(task, guest, ledger);
            if self.apart.remove(&task).is_some() {
                ledger.happened(vcpu, What::Lives { task, change: Life::Finished });
            }
        }
        self.deleted.insert(tcb);
    }

    fn note_paint(&self, task: u32, guest: &mut Guest<impl Vcpu>, ledger: &Ledger<impl Counters>) {
        if let (Some(watermark), Some(paint)) = (self.watermark(task), self.kernel.paint) {
            watermark.note_paint(paint, guest, ledger);
        }
    }

    /// Notes the unused stack of each task that lives at the end of the run, and where those that wait have stopped.
    pub fn note_paints(&self, guest: &mut Guest<impl Vcpu>, ledger: &Ledger<impl Counters>) {
        let live = self.live.iter().filter(|(tcb, _)| !self.deleted.contains(tcb));
        let mut live: Vec<(u32, u64)> = live.map(|(&tcb, &task)| (task, tcb)).collect();
        live.sort_unstable();
        if !guest.is_readable() {
            return;
        }
        for (task, tcb) in live {
            self.note_paint(task, guest, ledger);
            let saved = self.watermark(task).zip(self.saved_sp(tcb, guest));
            if let Some((watermark, sp)) = saved.filter(|_| self.running.iter().all(|running| running.tcb != tcb)) {
                watermark.note_stack_pointer(0, sp, ledger);
            }
        }
    }

    /// Opens the window: the running tasks were switched in before it, and calls of the waiting ones began before it.
    pub fn restart(&mut self, ledger: &Ledger<impl Counters>) {
        for (vcpu, running) in (0..).zip(&mut self.running) {
            running.since = 0;
            ledger.set(counters::TASK_SINCE, vcpu, 0);
        }
        self.waiting.values_mut().for_each(|(_, path)| path.calls.open.clear());
        if let Some(reasons) = &mut self.reasons {
            reasons.restart();
        }
    }
}

/// Bytes of a task's name, and what follows them: all of an array, or as many as can be read of a text.
fn read_name(tcb: u64, name: &TaskName, guest: &mut Guest<impl Vcpu>) -> Option<Vec<u8>> {
    if !name.is_pointer {
        return guest.memory(tcb + name.at.start, (name.at.end - name.at.start) as usize);
    }
    let text = guest.pointer(tcb + name.at.start).filter(|&text| text != 0)?;
    let bytes = guest.memory_from(text)?.min(MAX_TEXT_BYTES as u64);
    guest.memory(text, bytes as usize)
}
