//! The exact call tree: every call, return, exception and switch of tasks followed, for `--exact`.
//!
//! Each context (a task, an exception) has a shadow stack of the functions in it, with the stack pointer and
//! return address that each had at its entry. These two tell calls from tail calls and loops, returns
//! from jumps to the same place, and show what a longjmp left behind: a function whose entry was below the
//! stack pointer is no more.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use wire::counters;
use wire::definition::{Definition, NODE_COUNTERS, NodeCounter, NodeKind};

use crate::qemu::{ExecCallback, Hook};
use crate::stack::Context;
use crate::state::{self, State};

/// Most places of the tree that are told apart; calls beyond are counted in their callers.
const MAX_NODES: usize = 1 << 22;

/// The tree so far.
#[derive(Default)]
pub(crate) struct Tree {
    nodes: HashMap<(u32, NodeKind), u32>,
    /// First counter of each node, by id.
    slots: Vec<u32>,
}

/// A function on a shadow stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shadow {
    entry: u64,
    entry_sp: u64,
    return_addr: u64,
    /// Nobody called it, and it may set up or switch its stack: the stack pointer does not say when it ends.
    is_root: bool,
    node: u32,
}

impl Shadow {
    /// Whether the stack pointer says that the function is no more.
    fn is_dead(&self, sp: u64) -> bool {
        self.entry_sp < sp && !self.is_root
    }
}

/// At a function's first instruction, before it is counted.
pub(crate) struct OnEntry;

impl Hook for OnEntry {
    const CALL: ExecCallback = |vcpu, id| {
        let mut state = state::lock();
        let (vcpu, pc) = state.at_insn(vcpu, id);
        state.enter_function(vcpu, pc);
    };
}

/// At an instruction after a call, before it is counted.
pub(crate) struct OnReturn;

impl Hook for OnReturn {
    const CALL: ExecCallback = |vcpu, id| {
        let mut state = state::lock();
        let (vcpu, pc) = state.at_insn(vcpu, id);
        state.return_to(vcpu, pc);
    };
}

/// After an instruction that may have made the stack deeper.
pub(crate) struct OnStackMove;

impl Hook for OnStackMove {
    const CALL: ExecCallback = |vcpu, _| {
        let mut state = state::lock();
        if state.cores[vcpu as usize].exceptions.is_empty() {
            let sp = state.stack_pointer();
            state.note_stack_pointer(vcpu, sp);
        }
    };
}

/// At a Cortex-M jump that may return from an exception, while one is active: the next block will tell.
pub(crate) struct OnExceptionReturn;

impl Hook for OnExceptionReturn {
    const CALL: ExecCallback = |vcpu, _| {
        let state = state::lock();
        state.recheck(vcpu);
    };
}

/// At a jump into the middle of another function, before it executes: the next block will tell.
pub(crate) struct OnCrossing;

impl Hook for OnCrossing {
    const CALL: ExecCallback = |vcpu, target| {
        let mut state = state::lock();
        state.cores[vcpu as usize].crossing = Some(target as u64);
        state.recheck(vcpu);
    };
}

/// At a jump to where the code does not say, before it executes: it may leave functions behind (longjmp).
pub(crate) struct OnJump;

impl Hook for OnJump {
    const CALL: ExecCallback = |vcpu, _| {
        let mut state = state::lock();
        state.cores[vcpu as usize].jumping = true;
        state.recheck(vcpu);
    };
}

/// At a call of what is no known function, before it executes: the next block is one.
pub(crate) struct OnCall;

impl Hook for OnCall {
    const CALL: ExecCallback = |vcpu, return_addr| {
        let mut state = state::lock();
        state.cores[vcpu as usize].calling = Some(return_addr as u64);
        state.recheck(vcpu);
    };
}

impl State {
    /// At a block's start: whether a call led there that no hook at its start will notice.
    pub(crate) fn call_unknown(&mut self, vcpu: u32, pc: u64) {
        let Some(return_addr) = self.cores[vcpu as usize].calling.take() else { return };
        let at = self.context(pc);
        if !self.is_entry(pc) && self.code_address(at.return_addr) == return_addr {
            self.arrive_at_entry(vcpu, at);
        }
    }

    /// At a block's start: whether a jump led there that left functions behind.
    pub(crate) fn jump_out(&mut self, vcpu: u32, pc: u64) {
        if !std::mem::take(&mut self.cores[vcpu as usize].jumping) {
            return;
        }
        let sp = self.stack_pointer();
        self.leave_functions(vcpu, pc, sp);
    }

    /// Code goes on in the middle of a function with this stack pointer: what was below it is no more.
    fn leave_functions(&mut self, vcpu: u32, pc: u64, sp: u64) {
        let function = self.function_of(pc);
        let frames = self.frames(vcpu);
        let mut left = frames.len() - frames.iter().rev().take_while(|frame| frame.is_dead(sp)).count();
        // One that has kept nothing on the stack is not seen to be dead: it has returned, or was left.
        let top = left.checked_sub(1).map(|top| frames[top]).filter(|top| top.entry_sp == sp);
        let below = left.checked_sub(2).map(|below| frames[below].entry);
        if top.is_some_and(|top| top.return_addr == pc || (Some(top.entry) != function && below == function)) {
            left -= 1;
        }
        if left < frames.len() {
            self.attribute(vcpu);
            self.frames(vcpu).truncate(left);
            self.end_calls(vcpu, left);
            self.node_changed(vcpu);
        }
    }

    /// At a block's start: whether it is where a jump into another function's middle led.
    pub(crate) fn cross_over(&mut self, vcpu: u32, pc: u64) {
        if self.cores[vcpu as usize].crossing.take() != Some(pc) {
            return;
        }
        let Some(entry) = self.function_of(pc) else { return };
        self.attribute(vcpu);
        if let Some(shadow) = self.frames(vcpu).pop() {
            let parent = self.node(vcpu);
            let node = self.child(parent, NodeKind::Function { entry });
            self.frames(vcpu).push(Shadow { entry, node, ..shadow });
            self.node_changed(vcpu);
        }
    }

    /// The innermost function of what a vCPU executes, or the node below which it starts.
    fn node(&mut self, vcpu: u32) -> u32 {
        let core = &self.cores[vcpu as usize];
        let (frames, base) = match core.exceptions.last() {
            Some(active) => (&active.frames, Some(active.node)),
            None => (&core.thread, None),
        };
        match (frames.last(), base) {
            (Some(shadow), _) => shadow.node,
            (None, Some(node)) => node,
            (None, None) => {
                let task = core.task;
                self.child(0, NodeKind::Root { task })
            }
        }
    }

    fn frames(&mut self, vcpu: u32) -> &mut Vec<Shadow> {
        let core = &mut self.cores[vcpu as usize];
        match core.exceptions.last_mut() {
            Some(active) => &mut active.frames,
            None => &mut core.thread,
        }
    }

    /// The node below another one.
    fn child(&mut self, parent: u32, kind: NodeKind) -> u32 {
        let Some(tree) = &mut self.tree else { return 0 };
        if let Some(&node) = tree.nodes.get(&(parent, kind)) {
            return node;
        }
        if tree.slots.len() >= MAX_NODES {
            return parent;
        }
        let slot = self.new_slots(NODE_COUNTERS);
        self.note(&Definition::Node { slot, parent, kind });
        let Some(tree) = &mut self.tree else { return 0 };
        tree.slots.push(slot);
        let node = tree.slots.len() as u32;
        tree.nodes.insert((parent, kind), node);
        node
    }

    fn count_node(&self, vcpu: u32, node: u32, counter: NodeCounter, amount: u64) {
        let slot = self.tree.as_ref().and_then(|tree| tree.slots.get(node.checked_sub(1)? as usize));
        if let Some(slot) = slot {
            self.records.add(slot + counter as u32, vcpu, amount);
        }
    }

    /// Counts what was executed since the last change to where it was executed.
    pub(crate) fn attribute(&mut self, vcpu: u32) {
        if self.tree.is_none() {
            return;
        }
        let node = self.node(vcpu);
        let insns = self.insns(vcpu);
        let before = std::mem::replace(&mut self.cores[vcpu as usize].tree_insns, insns);
        let amount = insns.saturating_sub(before);
        self.count_node(vcpu, node, NodeCounter::Insns, amount);
        self.tick(vcpu, amount);
    }

    /// Lets the records know where the vCPU is now.
    pub(crate) fn node_changed(&mut self, vcpu: u32) {
        if self.tree.is_some() {
            let node = self.node(vcpu);
            self.records.counter(counters::NODE, vcpu).store(node.into(), Ordering::Relaxed);
        }
    }

    /// Where a vCPU is, for a sample; 0: no tree is kept.
    pub(crate) fn sampled_node(&mut self, vcpu: u32) -> u32 {
        if self.tree.is_some() { self.node(vcpu) } else { 0 }
    }

    fn enter_function(&mut self, vcpu: u32, entry: u64) {
        let at = self.context(entry);
        self.arrive_at_entry(vcpu, at);
    }

    /// A function starts with these registers.
    fn arrive_at_entry(&mut self, vcpu: u32, at: Context) {
        let Context { pc, sp, .. } = at;
        // A call into a function's middle, as only assembly has it, is none of that function.
        let entry = self.function_of(pc).unwrap_or(pc);
        let return_addr = self.code_address(at.return_addr);
        self.attribute(vcpu);
        let is_return_addr = self.is_return_address(return_addr);
        let caller = self.function_of(return_addr.wrapping_sub(1));
        let outside = self.cores[vcpu as usize].exceptions.is_empty();
        if outside {
            self.note_stack_pointer(vcpu, sp);
        }
        let frames = self.frames(vcpu);
        while frames.last().is_some_and(|top| top.is_dead(sp)) {
            frames.pop();
        }
        // Calls beyond have ended. A tail call's has not: it ends with the last of the chain.
        let mut depth = frames.len();
        if let Some(&top) = frames.last()
            && top.entry_sp == sp
        {
            if top.return_addr == return_addr {
                if top.entry == entry {
                    // A loop to the function's start.
                    self.end_calls(vcpu, depth);
                    return self.node_changed(vcpu);
                }
                frames.pop();
            } else if caller != Some(top.entry) {
                // It has returned, to where nobody looked. Otherwise it is one that keeps nothing on the stack.
                frames.pop();
                depth -= 1;
            }
        } else if !is_return_addr {
            // Nobody called: the image starts, or a task.
            frames.clear();
            self.forget_calls(vcpu);
            depth = 0;
        }
        self.end_calls(vcpu, depth);
        let frames = self.frames(vcpu);
        let is_root = frames.is_empty() && (!is_return_addr || !outside);
        let parent = self.node(vcpu);
        let limit = self.max_depth().max(1);
        let frames = self.frames(vcpu);
        // Deeper ones become siblings, so that calls are counted for each function.
        let parent = if frames.len() < limit { parent } else { frames[limit - 1].node };
        let node = self.child(parent, NodeKind::Function { entry });
        let frames = self.frames(vcpu);
        frames.push(Shadow { entry, entry_sp: sp, return_addr, is_root, node });
        let depth = frames.len();
        if entry == pc {
            self.begin_call(vcpu, entry, depth);
        }
        self.count_node(vcpu, node, NodeCounter::Calls, u64::from(entry == pc));
        self.node_changed(vcpu);
    }

    fn return_to(&mut self, vcpu: u32, pc: u64) {
        let sp = self.stack_pointer();
        self.leave_functions(vcpu, pc, sp);
    }

    /// An exception comes before the instruction at which the code was about to go on: whether a function
    /// was just entered or left, its hook would have noticed at that instruction.
    pub(crate) fn catch_up(&mut self, vcpu: u32, interrupted: Context) {
        if self.tree.is_none() {
            return;
        }
        self.cross_over(vcpu, interrupted.pc);
        if self.is_return_address(interrupted.pc) {
            self.leave_functions(vcpu, interrupted.pc, interrupted.sp);
        }
        if self.is_entry(interrupted.pc) {
            self.arrive_at_entry(vcpu, interrupted);
        }
    }

    /// A handler starts: in the middle of a function, where that is a table of vectors.
    pub(crate) fn enter_handler(&mut self, vcpu: u32, pc: u64) {
        if self.tree.is_some() && !self.is_entry(pc) && self.function_of(pc).is_some() {
            self.enter_function(vcpu, pc);
        }
    }

    /// The node of an exception that comes now.
    pub(crate) fn exception_node(&mut self, vcpu: u32, number: u64) -> u32 {
        if self.tree.is_none() {
            return 0;
        }
        let parent = self.node(vcpu);
        self.child(parent, NodeKind::Exception { number })
    }

    /// After a switch of tasks: the active exceptions are now above the new one.
    pub(crate) fn rebase(&mut self, vcpu: u32) {
        if self.tree.is_none() {
            return;
        }
        let mut exceptions = std::mem::take(&mut self.cores[vcpu as usize].exceptions);
        let mut parent = self.node(vcpu);
        for active in &mut exceptions {
            active.node = self.child(parent, NodeKind::Exception { number: active.number });
            parent = active.node;
            for shadow in &mut active.frames {
                shadow.node = self.child(parent, NodeKind::Function { entry: shadow.entry });
                parent = shadow.node;
            }
        }
        self.cores[vcpu as usize].exceptions = exceptions;
        self.node_changed(vcpu);
    }
}
