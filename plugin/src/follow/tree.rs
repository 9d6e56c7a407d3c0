//! The exact call tree: every call, return, exception and switch of tasks followed, for `--exact`.
//!
//! Each context (a task, an exception) has a shadow stack of the functions in it, with the stack pointer and
//! return address that each had at its entry. These two tell calls from tail calls and loops, returns
//! from jumps to the same place, and show what a longjmp left behind: a function whose entry was below the
//! stack pointer is no more.

use std::collections::HashMap;

use wire::counters;
use wire::definition::{Definition, NODE_COUNTERS, NodeCounter, NodeKind};
use wire::request::Request;

use super::context::{Core, Shadow};
use super::span::Spans;
use crate::code::Code;
use crate::guest::{Context, Guest};
use crate::ledger::Ledger;

/// Most places of the tree that are told apart; calls beyond are counted in their callers.
const MAX_NODES: usize = 1 << 22;

/// The tree so far.
pub(crate) struct Tree {
    nodes: HashMap<(u32, NodeKind), u32>,
    /// First counter of each node, by id.
    slots: Vec<u32>,
    /// Deepest node below its context.
    max_depth: usize,
    /// By vCPU.
    moves: Vec<Moves>,
    /// How long calls, handlers and masked stretches take.
    pub(crate) spans: Spans,
}

/// Where one vCPU is about to go, and how far it has been followed.
#[derive(Default)]
struct Moves {
    /// Where a jump leads that is about to enter another function in its middle.
    crossing: Option<u64>,
    /// A jump to an unknown place is about to be made.
    jumping: bool,
    /// Return address of a call that is about to enter what is no known function.
    calling: Option<u64>,
    /// Instructions that are attributed to nodes.
    insns: u64,
}

impl Tree {
    /// An empty tree, where one is asked for.
    pub(crate) fn new(request: &Request, vcpus: u32) -> Option<Tree> {
        request.is_exact.then(|| Tree {
            nodes: HashMap::new(),
            slots: Vec::new(),
            max_depth: request.max_depth.map_or(1, |depth| depth.max(1)) as usize,
            moves: (0..vcpus).map(|_| Moves::default()).collect(),
            spans: Spans::new(vcpus),
        })
    }

    /// A jump into another function's middle is about to be made.
    pub(crate) fn will_cross(&mut self, vcpu: u32, target: u64) {
        self.moves[vcpu as usize].crossing = Some(target);
    }

    /// A jump to where the code does not say is about to be made: it may leave functions behind (longjmp).
    pub(crate) fn will_jump(&mut self, vcpu: u32) {
        self.moves[vcpu as usize].jumping = true;
    }

    /// A call of what is no known function is about to be made.
    pub(crate) fn will_call(&mut self, vcpu: u32, return_addr: u64) {
        self.moves[vcpu as usize].calling = Some(return_addr);
    }

    /// At the start of the block that such an instruction led to.
    pub(crate) fn arrive(
        &mut self,
        core: &mut Core,
        pc: u64,
        guest: &mut Guest,
        code: &mut Code,
        ledger: &mut Ledger,
    ) {
        if std::mem::take(&mut self.moves[core.vcpu as usize].jumping) {
            self.leave_functions(core, pc, guest.stack_pointer(), code, ledger);
        }
        self.cross_over(core, pc, code, ledger);
        if let Some(return_addr) = self.moves[core.vcpu as usize].calling.take() {
            // A call that no hook at its function's start notices.
            let at = guest.context(pc);
            if !code.is_entry(pc) && guest.code_address(at.return_addr) == return_addr {
                self.arrive_at_entry(core, at, guest, code, ledger);
            }
        }
        self.spans.check_mask(core.vcpu, guest, ledger);
    }

    /// Code goes on at `pc`, in the middle of a function, with this stack pointer: what was below it is no more.
    pub(crate) fn leave_functions(&mut self, core: &mut Core, pc: u64, sp: u64, code: &Code, ledger: &mut Ledger) {
        let function = code.function_of(pc);
        let frames = core.frames();
        let mut left = frames.len() - frames.iter().rev().take_while(|frame| frame.is_dead(sp)).count();
        // One that has kept nothing on the stack is not seen to be dead: it has returned, or was left.
        let top = left.checked_sub(1).map(|top| frames[top]).filter(|top| top.entry_sp == sp);
        let below = left.checked_sub(2).map(|below| frames[below].entry);
        if top.is_some_and(|top| top.return_addr == pc || (Some(top.entry) != function && below == function)) {
            left -= 1;
        }
        if left < frames.len() {
            self.attribute(core, ledger);
            core.frames().truncate(left);
            self.spans.end_calls(core, left, ledger);
            self.node_changed(core, ledger);
        }
    }

    /// At a block's start: whether it is where a jump into another function's middle led.
    fn cross_over(&mut self, core: &mut Core, pc: u64, code: &Code, ledger: &mut Ledger) {
        if self.moves[core.vcpu as usize].crossing.take() != Some(pc) {
            return;
        }
        let Some(entry) = code.function_of(pc) else { return };
        self.attribute(core, ledger);
        if let Some(shadow) = core.frames().pop() {
            let parent = self.node(core, ledger);
            let node = self.child(parent, NodeKind::Function { entry }, ledger);
            core.frames().push(Shadow { entry, node, ..shadow });
            self.node_changed(core, ledger);
        }
    }

    /// The innermost function of what a vCPU executes, or the node below which it starts.
    pub(crate) fn node(&mut self, core: &Core, ledger: &mut Ledger) -> u32 {
        let (path, base) = match core.exceptions.last() {
            Some(active) => (&active.path, Some(active.node)),
            None => (&core.thread, None),
        };
        match (path.frames.last(), base) {
            (Some(shadow), _) => shadow.node,
            (None, Some(node)) => node,
            (None, None) => self.child(0, NodeKind::Root { task: core.task }, ledger),
        }
    }

    /// The node below another one.
    fn child(&mut self, parent: u32, kind: NodeKind, ledger: &mut Ledger) -> u32 {
        if let Some(&node) = self.nodes.get(&(parent, kind)) {
            return node;
        }
        if self.slots.len() >= MAX_NODES {
            return parent;
        }
        let slot = ledger.new_slots(NODE_COUNTERS);
        ledger.note(&Definition::Node { slot, parent, kind });
        self.slots.push(slot);
        let node = self.slots.len() as u32;
        self.nodes.insert((parent, kind), node);
        node
    }

    fn count_node(&self, vcpu: u32, node: u32, counter: NodeCounter, amount: u64, ledger: &Ledger) {
        if let Some(slot) = node.checked_sub(1).and_then(|index| self.slots.get(index as usize)) {
            ledger.add(slot + counter as u32, vcpu, amount);
        }
    }

    /// Counts what was executed since the last change to where it was executed.
    pub(crate) fn attribute(&mut self, core: &mut Core, ledger: &mut Ledger) {
        let node = self.node(core, ledger);
        let insns = ledger.insns(core.vcpu);
        let before = std::mem::replace(&mut self.moves[core.vcpu as usize].insns, insns);
        let amount = insns.saturating_sub(before);
        self.count_node(core.vcpu, node, NodeCounter::Insns, amount, ledger);
        core.calls().insns += amount;
    }

    /// Lets the records know where the vCPU is now.
    pub(crate) fn node_changed(&mut self, core: &Core, ledger: &mut Ledger) {
        let node = self.node(core, ledger);
        ledger.set(counters::NODE, core.vcpu, node.into());
    }

    /// The function whose first instruction is about to execute was entered.
    pub(crate) fn enter_function(
        &mut self,
        core: &mut Core,
        entry: u64,
        guest: &mut Guest,
        code: &mut Code,
        ledger: &mut Ledger,
    ) {
        let at = guest.context(entry);
        self.arrive_at_entry(core, at, guest, code, ledger);
    }

    /// A function starts with these registers.
    fn arrive_at_entry(
        &mut self,
        core: &mut Core,
        at: Context,
        guest: &mut Guest,
        code: &mut Code,
        ledger: &mut Ledger,
    ) {
        let Context { pc, sp, .. } = at;
        // A call into a function's middle, as only assembly has it, is none of that function.
        let entry = code.function_of(pc).unwrap_or(pc);
        let return_addr = guest.code_address(at.return_addr);
        self.attribute(core, ledger);
        let is_return_addr = code.is_return_address(return_addr, guest);
        let caller = code.function_of(return_addr.wrapping_sub(1));
        let outside = core.exceptions.is_empty();
        if outside {
            core.note_stack_pointer(sp, ledger);
        }
        let frames = core.frames();
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
                    self.spans.end_calls(core, depth, ledger);
                    return self.node_changed(core, ledger);
                }
                frames.pop();
            } else if caller != Some(top.entry) {
                // The top function has returned to an address at which no hook notices it. Otherwise it is the
                // caller, and keeps nothing on the stack.
                frames.pop();
                depth -= 1;
            }
        } else if !is_return_addr {
            // A start without a call: of the image, or of a task. Nothing returns to what was there before.
            frames.clear();
            core.calls().open.clear();
            depth = 0;
        }
        self.spans.end_calls(core, depth, ledger);
        let is_root = core.frames().is_empty() && (!is_return_addr || !outside);
        let parent = self.node(core, ledger);
        let frames = core.frames();
        // Deeper ones become siblings, so that calls are counted for each function.
        let parent = if frames.len() < self.max_depth { parent } else { frames[self.max_depth - 1].node };
        let node = self.child(parent, NodeKind::Function { entry }, ledger);
        let frames = core.frames();
        frames.push(Shadow { entry, entry_sp: sp, return_addr, is_root, node });
        let depth = frames.len();
        if entry == pc {
            self.spans.begin_call(core, entry, depth, ledger);
        }
        self.count_node(core.vcpu, node, NodeCounter::Calls, u64::from(entry == pc), ledger);
        self.node_changed(core, ledger);
    }

    /// An exception comes before the instruction at which the code was about to go on: whether a function
    /// was just entered or left, its hook would have noticed at that instruction.
    pub(crate) fn catch_up(
        &mut self,
        core: &mut Core,
        interrupted: Context,
        guest: &mut Guest,
        code: &mut Code,
        ledger: &mut Ledger,
    ) {
        self.cross_over(core, interrupted.pc, code, ledger);
        if code.is_return_address(interrupted.pc, guest) {
            self.leave_functions(core, interrupted.pc, interrupted.sp, code, ledger);
        }
        if code.is_entry(interrupted.pc) {
            self.arrive_at_entry(core, interrupted, guest, code, ledger);
        }
    }

    /// A handler starts: in the middle of a function, where that is a table of vectors.
    pub(crate) fn enter_handler(
        &mut self,
        core: &mut Core,
        pc: u64,
        guest: &mut Guest,
        code: &mut Code,
        ledger: &mut Ledger,
    ) {
        if !code.is_entry(pc) && code.function_of(pc).is_some() {
            self.enter_function(core, pc, guest, code, ledger);
        }
    }

    /// The node of an exception that comes now.
    pub(crate) fn exception_node(&mut self, core: &Core, number: u64, ledger: &mut Ledger) -> u32 {
        let parent = self.node(core, ledger);
        self.child(parent, NodeKind::Exception { number }, ledger)
    }

    /// After a switch of tasks: the active exceptions are now above the new one.
    pub(crate) fn rebase(&mut self, core: &mut Core, ledger: &mut Ledger) {
        let mut exceptions = std::mem::take(&mut core.exceptions);
        let mut parent = self.node(core, ledger);
        for active in &mut exceptions {
            active.node = self.child(parent, NodeKind::Exception { number: active.number }, ledger);
            parent = active.node;
            for shadow in &mut active.path.frames {
                shadow.node = self.child(parent, NodeKind::Function { entry: shadow.entry }, ledger);
                parent = shadow.node;
            }
        }
        core.exceptions = exceptions;
        self.node_changed(core, ledger);
    }

    /// The window opens: nothing is attributed yet, and what is under way began before.
    pub(crate) fn restart(&mut self) {
        for moves in &mut self.moves {
            moves.insns = 0;
        }
        self.spans.restart();
    }
}
