// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exact call tree: instructions by call path, for `--exact`.
//!
//! Each context (a task, an exception) has a shadow stack of its functions, which [`super::arrival`] keeps up to
//! date.

use rustc_hash::{FxHashMap, FxHashSet};
use wire::control::Word;
use wire::counters;
use wire::definition::{Definition, NODE_COUNTERS, NodeCounter, NodeKind};
use wire::request::{InlinedCall, Request};

use super::context::{Core, Shadow};
use super::span::Spans;
use crate::ledger::{Counters, Ledger};
use crate::recent::Recent;
use crate::time::Time;

/// Most nodes of the tree; calls beyond are counted in their callers.
const MAX_NODES: usize = 1 << 22;

/// Number of nodes up to which calls of inlined code are distinguished. Inlined code that calls itself in several
/// places would make a tree that doubles with each level.
const MAX_TOLD_NODES: usize = 1 << 18;

/// Number of nodes whose lookups are kept.
const KEPT_NODES: usize = 4096;

/// Depth at which an exception is no longer a child of the one that it interrupts, far beyond what firmware nests on
/// purpose.
const MAX_EXCEPTION_DEPTH: u32 = 1024;

/// The tree so far.
pub struct Tree {
    /// Nodes by parent, kind, and the inlined code that made the call.
    nodes: FxHashMap<(u32, NodeKind, u64), u32>,
    /// The nodes that were looked up last: nearly always the next one is among them.
    recent: Recent<(u32, NodeKind, u64), u32>,
    /// First counter of each node, by id.
    slots: Vec<u32>,
    /// Function and first counter of the calls that each node was last entered by, by id; counter 0: not entered yet.
    calls: Vec<(u64, u32)>,
    /// Parent and depth of each node, by id.
    places: Vec<(u32, u32)>,
    /// Greatest depth of a node below its context.
    max_depth: usize,
    /// State of each vCPU.
    moves: Vec<Moves>,
    /// Lengths of calls, handlers and masked stretches.
    pub spans: Spans,
    resynchronised: u64,
    /// Functions that begin a task when they are called.
    polls: FxHashSet<u64>,
    /// Address of the firmware's first instruction; code that executes before it is the machine's.
    entry: Option<u64>,
    /// Calls of inlined code, by their return addresses.
    inlined_calls: FxHashMap<u64, InlinedCall>,
}

/// State of one vCPU: a jump under way, and the time counted so far.
#[derive(Default)]
struct Moves {
    /// Target of a jump that is about to enter the middle of another function.
    crossing: Option<u64>,
    /// Time that has been attributed to nodes.
    time: Time,
}

impl Tree {
    /// An empty tree; None: it is not asked for.
    pub fn new(request: &Request, vcpus: u32) -> Option<Tree> {
        let measure = request.measure()?;
        measure.is_exact.then(|| Tree {
            nodes: FxHashMap::default(),
            recent: Recent::new(KEPT_NODES),
            slots: Vec::new(),
            calls: Vec::new(),
            places: Vec::new(),
            max_depth: measure.max_depth.map_or(1, |depth| depth.max(1)) as usize,
            moves: (0..vcpus).map(|_| Moves::default()).collect(),
            spans: Spans::new(vcpus),
            resynchronised: 0,
            polls: measure.polls.iter().map(|poll| poll.entry).collect(),
            entry: request.entry,
            inlined_calls: measure.inlined_calls.iter().map(|call| (call.return_addr, *call)).collect(),
        })
    }

    /// Whether the firmware starts at an address.
    pub(super) fn is_start(&self, pc: u64) -> bool {
        self.entry == Some(pc)
    }

    /// Whether code at an instruction is the firmware's, without evidence on the stack: it starts there, has made a
    /// call before, or handles an exception.
    pub(super) fn has_begun(&self, core: &Core, pc: u64) -> bool {
        // The first node is the root.
        self.is_start(pc) || self.places.len() > 1 || !core.exceptions.is_empty()
    }

    /// Notes a jump into another function's middle, before it is made.
    pub fn will_cross(&mut self, vcpu: u32, target: u64) {
        self.moves[vcpu as usize].crossing = Some(target);
    }

    /// Whether such a jump has led to `pc`.
    pub(super) fn has_crossed(&mut self, vcpu: u32, pc: u64) -> bool {
        self.moves[vcpu as usize].crossing.take() == Some(pc)
    }

    /// Node of the innermost executing function, or of the context that it will start in.
    pub fn node(&mut self, core: &Core, ledger: &mut Ledger<impl Counters>) -> u32 {
        let (path, base) = match core.exceptions.last() {
            Some(active) => (&active.path, Some(active.node)),
            None => (&core.thread, None),
        };
        match (path.frames.last(), base) {
            (Some(shadow), _) => shadow.node,
            (None, Some(node)) => node,
            (None, None) => self.child(0, NodeKind::Root { task: core.task }, 0, ledger),
        }
    }

    /// Child of a node, which is added if it is new.
    fn child(&mut self, parent: u32, kind: NodeKind, via: u64, ledger: &mut Ledger<impl Counters>) -> u32 {
        let key = (parent, kind, via);
        let hash = match kind {
            NodeKind::Function { entry } => u64::from(parent) ^ entry >> 1 ^ via,
            NodeKind::Exception { .. } | NodeKind::Root { .. } => parent.into(),
        };
        if let Some(node) = self.recent.get(hash, key) {
            return node;
        }
        if let Some(&node) = self.nodes.get(&key) {
            self.recent.keep(hash, key, node);
            return node;
        }
        if via != 0 && self.slots.len() >= MAX_TOLD_NODES {
            return self.child(parent, kind, 0, ledger);
        }
        if self.slots.len() >= MAX_NODES {
            return parent;
        }
        let slot = ledger.new_slots(NODE_COUNTERS);
        ledger.note(&Definition::Node { slot, parent, kind, via });
        self.slots.push(slot);
        self.calls.push((0, 0));
        self.places.push((parent, self.depth(parent) + 1));
        let node = self.slots.len() as u32;
        self.nodes.insert(key, node);
        node
    }

    fn count_node(&self, vcpu: u32, node: u32, counter: NodeCounter, amount: u64, ledger: &Ledger<impl Counters>) {
        if let Some(slot) = node.checked_sub(1).and_then(|index| self.slots.get(index as usize)) {
            ledger.add(slot + counter as u32, vcpu, amount);
        }
    }

    /// Counts the time since the last change for the node that executed it.
    pub fn attribute(&mut self, core: &mut Core, ledger: &mut Ledger<impl Counters>) {
        let node = self.node(core, ledger);
        let time = ledger.time(core.vcpu);
        let amount = time.since(std::mem::replace(&mut self.moves[core.vcpu as usize].time, time));
        self.count_node(core.vcpu, node, NodeCounter::Insns, amount.insns, ledger);
        if ledger.cycle_slot().is_some() {
            self.count_node(core.vcpu, node, NodeCounter::Cycles, amount.cycles, ledger);
        }
        core.calls().time += amount;
    }

    /// Updates the vCPU's current node in the records.
    pub fn node_changed(&mut self, core: &Core, ledger: &mut Ledger<impl Counters>) {
        let node = self.node(core, ledger);
        ledger.set(counters::NODE, core.vcpu, node.into());
    }

    /// Pushes an active function; `is_call`: it starts now.
    pub(super) fn push(
        &mut self,
        core: &mut Core,
        shadow: Shadow,
        is_call: bool,
        ledger: &mut Ledger<impl Counters>,
    ) {
        let parent = self.node(core, ledger);
        let frames = core.frames();
        // Calls beyond the greatest depth become siblings, so that calls are counted for each function.
        let is_sibling = frames.len() >= self.max_depth;
        let via = if is_sibling { 0 } else { self.via(frames, &shadow) };
        let parent = if is_sibling { frames[self.max_depth - 1].node } else { parent };
        let (parent, via) = if core.task != 0 && self.polls.contains(&shadow.entry) {
            (self.child(parent, NodeKind::Root { task: core.task }, 0, ledger), 0)
        } else {
            (parent, via)
        };
        let node = self.child(parent, NodeKind::Function { entry: shadow.entry }, via, ledger);
        core.frames().push(Shadow { node, ..shadow });
        if is_call {
            let depth = core.frames().len();
            if let Some(slot) = self.call_slot(node, shadow.entry, ledger) {
                let began_at = self.moves[core.vcpu as usize].time.insns;
                self.spans.begin_call(core, (shadow.entry, slot), depth, began_at, ledger);
            }
            self.count_node(core.vcpu, node, NodeCounter::Calls, 1, ledger);
        }
    }

    /// First counter of the calls of a function, which enter a node; None: there are too many functions.
    fn call_slot(&mut self, node: u32, entry: u64, ledger: &mut Ledger<impl Counters>) -> Option<u32> {
        let last = node.checked_sub(1).and_then(|index| self.calls.get_mut(index as usize));
        if let Some(&mut (known, slot)) = last
            && slot != 0
            && known == entry
        {
            return Some(slot);
        }
        let slot = self.spans.call_slot(entry, ledger)?;
        if let Some(last) = last {
            *last = (entry, slot);
        }
        Some(slot)
    }

    /// Inlined code of the caller that made the call of a function about to be pushed; 0: none. Recursive calls are
    /// not distinguished.
    fn via(&self, frames: &[Shadow], shadow: &Shadow) -> u64 {
        let Some(call) = self.inlined_calls.get(&shadow.return_addr) else { return 0 };
        let is_callers = frames.last().is_some_and(|caller| caller.entry == call.caller);
        let is_recursive = || frames.iter().any(|frame| frame.entry == shadow.entry);
        if is_callers && !is_recursive() { call.via } else { 0 }
    }

    /// Replaces the innermost activation by another function.
    pub(super) fn replace(&mut self, core: &mut Core, entry: u64, is_call: bool, ledger: &mut Ledger<impl Counters>) {
        if let Some(shadow) = core.frames().pop() {
            self.push(core, Shadow { entry, ..shadow }, is_call, ledger);
        }
    }

    /// Keeps only the outermost `keep` functions.
    pub(super) fn truncate(&mut self, core: &mut Core, keep: usize, ledger: &Ledger<impl Counters>) {
        if keep < core.frames().len() {
            core.frames().truncate(keep);
            self.spans.end_calls(core, keep, ledger);
        }
    }

    /// Notes that the shadow stack was wrong and has been rebuilt.
    pub(super) fn note_resynchronised(&mut self, ledger: &Ledger<impl Counters>) {
        self.resynchronised += 1;
        ledger.say(Word::Resynchronised, self.resynchronised);
    }

    /// Number of nodes from the root to this one; 0: the root.
    fn depth(&self, node: u32) -> u32 {
        node.checked_sub(1).map_or(0, |index| self.places[index as usize].1)
    }

    /// Node of an exception that comes now. If exceptions nest for ever, further ones become siblings.
    pub fn exception_node(&mut self, core: &Core, number: u64, ledger: &mut Ledger<impl Counters>) -> u32 {
        let mut parent = self.node(core, ledger);
        if let Some(outer) = core.exceptions.last().and_then(|active| active.node.checked_sub(1))
            && self.depth(parent) >= MAX_EXCEPTION_DEPTH
        {
            parent = self.places[outer as usize].0;
        }
        self.child(parent, NodeKind::Exception { number }, 0, ledger)
    }

    /// Moves the executing functions and the active exceptions to the new task, after a switch.
    pub fn rebase(&mut self, core: &mut Core, ledger: &mut Ledger<impl Counters>) {
        let mut exceptions = std::mem::take(&mut core.exceptions);
        let mut thread = std::mem::take(&mut core.thread.frames);
        let root = self.node(core, ledger);
        let mut parent = self.rebase_frames(&mut thread, root, ledger);
        core.thread.frames = thread;
        for active in &mut exceptions {
            active.node = self.child(parent, NodeKind::Exception { number: active.number }, 0, ledger);
            parent = self.rebase_frames(&mut active.path.frames, active.node, ledger);
        }
        core.exceptions = exceptions;
        self.node_changed(core, ledger);
    }

    /// Moves functions to a node; returns that of the innermost one.
    fn rebase_frames(&mut self, frames: &mut [Shadow], node: u32, ledger: &mut Ledger<impl Counters>) -> u32 {
        let mut parent = node;
        for index in 0..frames.len() {
            let (outer, shadow) = (&frames[..index], frames[index]);
            // As in `push`.
            let is_sibling = index >= self.max_depth;
            let via = if is_sibling { 0 } else { self.via(outer, &shadow) };
            parent = if is_sibling { frames[self.max_depth - 1].node } else { parent };
            parent = self.child(parent, NodeKind::Function { entry: shadow.entry }, via, ledger);
            frames[index].node = parent;
        }
        parent
    }

    /// Opens the window: nothing is attributed yet, and calls under way began before it.
    pub fn restart(&mut self) {
        for moves in &mut self.moves {
            moves.time = Time::default();
        }
        self.spans.restart();
        self.resynchronised = 0;
    }
}
