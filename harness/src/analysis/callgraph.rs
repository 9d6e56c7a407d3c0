// SPDX-License-Identifier: MIT OR Apache-2.0
//! The call graph of a profile: functions, the calls between them, and their cost.
//!
//! Calls are the exact arcs. A caller is the function that the callee returns to, as on its stack. After a tail call
//! the function that jumped is another one; it is recorded separately. So arcs and stacks have the same callers.
//!
//! Inclusive instructions come from the call paths: exact where the profile has the exact call tree; else exact by
//! function and divided over the callers by samples (see [`crate::analysis::attribution`]). Rules:
//!
//! - A path counts once for each function on it, also for a recursive one, and once for each pair of caller and
//!   callee. So an inclusive count never exceeds the total, and a recursive function's instructions are not added up
//!   level by level.
//! - An interrupt or trap has no caller: its instructions do not count for the interrupted code.
//! - Code without a sample, in a profile without the exact tree, has no known caller.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use wire::definition::NodeKind;

use crate::analysis::calltree::{CallTree, Member};
use crate::analysis::cold_part::ColdParts;
use crate::analysis::functions::{self, Table};
use crate::analysis::owner::{BOOT_ROM, Owner};
use crate::analysis::stacks::{FrameRole, NO_TASK};
use crate::profile::{Arc, Profile};

/// Stands for the caller of code that no call entered: interrupt handlers, the first functions of tasks and of the
/// firmware, and the one at which the window opened.
pub const NO_CALLER: &str = "[no caller]";

/// One end of a call: caller or callee.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// A function or a range of code without a name, by its first address.
    Code(u64),
    /// The machine's boot ROM.
    BootRom,
    /// No code: [`NO_CALLER`], or the reason why a stack ends. Only a caller can be this.
    Outside(String),
}

impl Party {
    /// The party that an instruction belongs to: for a function's part, the function.
    pub fn at(profile: &Profile, parts: &ColdParts, pc: u64) -> Party {
        parts.owner(profile, pc).start().map_or(Party::BootRom, Party::Code)
    }

    fn of_start(start: Option<u64>) -> Party {
        start.map_or(Party::BootRom, Party::Code)
    }

    fn no_caller() -> Party {
        Party::Outside(NO_CALLER.to_owned())
    }

    /// Party that a frame stands for; None: the frame calls nothing (tasks, interrupts, inlined functions).
    fn of_member(member: &Member) -> Option<Party> {
        match (member.frame.role, member.start) {
            (FrameRole::Function, Some(start)) | (FrameRole::Other, Some(start)) => Some(Party::Code(start)),
            (FrameRole::Other, None) if member.frame.name == BOOT_ROM => Some(Party::BootRom),
            _ => None,
        }
    }

    /// Its name as reports show it.
    pub fn name(&self, profile: &Profile) -> String {
        match self {
            Party::Code(start) => Owner::of(profile, *start).to_string(),
            Party::BootRom => BOOT_ROM.to_owned(),
            Party::Outside(name) => name.clone(),
        }
    }
}

/// Functions that are treated as one: the instances of a generic, calls among which count as recursion; and a function with its
/// seldom executed part (`parse.cold`), to which it jumps, so that there is no call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// First address of the function that stands for one, by that one's.
    stands: BTreeMap<u64, u64>,
    /// Parts of functions, which `stands` has, too.
    parts: ColdParts,
}

impl Together {
    /// Each function with its part.
    pub fn parts(profile: &Profile) -> Together {
        let parts = ColdParts::of(profile);
        Together { stands: parts.iter().collect(), parts }
    }

    /// Functions with these first addresses, by the lowest of them, and each function with its part.
    pub fn new(profile: &Profile, starts: impl IntoIterator<Item = u64>) -> Together {
        let mut together = Together::parts(profile);
        let starts: BTreeSet<u64> = starts.into_iter().map(|start| together.start(start)).collect();
        if let Some(&first) = starts.first().filter(|_| starts.len() > 1) {
            for whole in together.stands.values_mut().filter(|whole| starts.contains(whole)) {
                *whole = first;
            }
            together.stands.extend(starts.into_iter().map(|start| (start, first)));
        }
        together
    }

    fn start(&self, start: u64) -> u64 {
        self.stands.get(&start).copied().unwrap_or(start)
    }

    /// Party that stands for a party.
    fn party(&self, party: Party) -> Party {
        match party {
            Party::Code(start) => Party::Code(self.start(start)),
            party => party,
        }
    }

    /// Party of each member of a tree.
    fn parties(&self, tree: &CallTree) -> Vec<Option<Party>> {
        tree.members.iter().map(|member| Party::of_member(member).map(|party| self.party(party))).collect()
    }

    /// Number of the member that stands for each member: for functions treated as one, the first such member.
    fn numbers(&self, parties: &[Option<Party>]) -> Vec<u32> {
        let several: BTreeSet<u64> = self.stands.values().copied().collect();
        let mut first: HashMap<u64, u32> = HashMap::new();
        let number = |(index, party): (usize, &Option<Party>)| match party {
            Some(Party::Code(start)) if several.contains(start) => *first.entry(*start).or_insert(index as u32),
            _ => index as u32,
        };
        parties.iter().enumerate().map(number).collect()
    }
}

/// A count that includes called functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inclusive {
    /// Instructions, including those of called functions.
    pub insns: u64,
    /// Samples taken of them.
    pub samples: u64,
    /// Their cycles; 0: they are not known.
    pub cycles: u64,
}

impl Inclusive {
    fn add(&mut self, other: Inclusive) {
        self.insns += other.insns;
        self.samples += other.samples;
        self.cycles += other.cycles;
    }

    /// Sum with another count.
    #[must_use]
    pub fn with(mut self, other: Inclusive) -> Inclusive {
        self.add(other);
        self
    }
}

/// Counts of a party.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartyTotals {
    /// Instructions executed in it. Exact.
    pub self_insns: u64,
    /// Entries from outside, as in the table of functions. Exact.
    pub calls: u64,
    /// Samples taken in it.
    pub samples: u64,
    /// Cycles of its instructions, if known. Exact.
    pub self_cycles: Option<u64>,
    /// Counts while it was on the stack.
    pub inclusive: Inclusive,
}

/// The calls from one party to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    /// Number of calls. Exact. If the caller is [`NO_CALLER`]: entries of the callee without an arc. 0: only stacks
    /// show the call, which came before the window or through code that was not followed.
    pub calls: u64,
    /// Tail calls among them, by the function that jumped.
    pub tail_calls: BTreeMap<Party, u64>,
    /// Counts between such a call and its return.
    pub inclusive: Inclusive,
}

/// The call graph of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallGraph {
    /// All parties that executed or are on a stack.
    pub nodes: BTreeMap<Party, PartyTotals>,
    /// The calls, by caller and callee.
    pub edges: BTreeMap<(Party, Party), Edge>,
    /// Instructions of the window.
    pub total_insns: u64,
    /// Cycles of the window, if known.
    pub total_cycles: Option<u64>,
    /// Whether inclusive counts are known: there are stacks or the exact call tree.
    pub has_inclusive: bool,
    /// Whether inclusive counts are exact; otherwise they are divided over the callers by samples.
    pub is_exact: bool,
    together: Together,
}

impl CallGraph {
    /// Call graph of a profile and its call paths, with each function and its part as one. Both views of the paths give the
    /// same graph, since an interrupt never has a caller.
    pub fn new(profile: &Profile, tree: &CallTree) -> CallGraph {
        CallGraph::with(profile, tree, &Together::parts(profile))
    }

    /// Call graph as of [`CallGraph::new`], with some functions treated as one.
    pub fn with(profile: &Profile, tree: &CallTree, together: &Together) -> CallGraph {
        let table = functions::table(profile);
        let mut graph = CallGraph {
            total_insns: table.total_insns,
            total_cycles: table.total_cycles,
            has_inclusive: profile.facts.max_depth.is_some() || !profile.tree.is_empty(),
            is_exact: !profile.tree.is_empty(),
            together: together.clone(),
            ..CallGraph::default()
        };
        for row in &table.rows {
            let node = graph.nodes.entry(together.party(Party::of_start(row.start))).or_default();
            node.self_insns += row.self_insns;
            node.calls += row.calls;
            node.samples += row.samples;
            node.self_cycles = row.cycles.map(|cycles| node.self_cycles.unwrap_or(0) + cycles);
        }
        graph.count_calls(profile, &table, together);
        if graph.has_inclusive {
            graph.add_paths(tree, together);
        }
        graph
    }

    /// Party of the function with this first address; None: the boot ROM.
    pub fn party(&self, start: Option<u64>) -> Party {
        self.together.party(Party::of_start(start))
    }

    /// The callers of a function with their calls; most instructions first, then most calls.
    pub fn callers(&self, callee: &Party) -> Vec<(&Party, &Edge)> {
        self.sorted(|(_, to)| to == callee, |(caller, _)| caller)
    }

    /// The callees of a function with the calls; most instructions first, then most calls.
    pub fn callees(&self, caller: &Party) -> Vec<(&Party, &Edge)> {
        self.sorted(|(from, _)| from == caller, |(_, callee)| callee)
    }

    fn sorted(
        &self,
        is_meant: impl Fn(&(Party, Party)) -> bool,
        other: impl Fn(&(Party, Party)) -> &Party,
    ) -> Vec<(&Party, &Edge)> {
        let meant = self.edges.iter().filter(|(pair, _)| is_meant(pair));
        let mut edges: Vec<(&Party, &Edge)> = meant.map(|(pair, edge)| (other(pair), edge)).collect();
        // A stable sort: equal ones stay in the order of addresses.
        edges.sort_by_key(|(_, edge)| std::cmp::Reverse((edge.inclusive.insns, edge.calls)));
        edges
    }

    fn count_calls(&mut self, profile: &Profile, table: &Table, together: &Together) {
        // Only the exact tree knows where a function without a name begins: an unnamed range that makes calls may be a
        // later part of its function.
        let has_name = |party: &Party| match party {
            Party::Code(start) => matches!(Owner::of(profile, *start), Owner::Function(_)),
            Party::BootRom | Party::Outside(_) => true,
        };
        let (is_exact, parts) = (self.is_exact, &together.parts);
        let by_tree = |(caller, callee): &(Party, Party)| is_exact && !(has_name(caller) && has_name(callee));
        for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs) {
            let Some(pair) = parties(profile, parts, arc).filter(|pair| !by_tree(pair)) else { continue };
            let (caller, callee) = pair;
            let edge = self.edges.entry((together.party(caller), together.party(callee))).or_default();
            edge.calls += arc.count;
            if !arc.links {
                let site = Party::at(profile, parts, arc.site);
                *edge.tail_calls.entry(together.party(site)).or_default() += arc.count;
            }
        }
        for node in profile.tree.iter().filter(|node| node.calls > 0) {
            let NodeKind::Function { entry } = node.kind else { continue };
            let caller = match profile.calling_node(node.parent).map(|node| node.kind) {
                Some(NodeKind::Function { entry }) => Party::at(profile, parts, entry),
                _ => Party::no_caller(),
            };
            let pair = (caller, Party::at(profile, parts, entry));
            if by_tree(&pair) {
                self.edges.entry((together.party(pair.0), together.party(pair.1))).or_default().calls += node.calls;
            }
        }
        for (start, entries) in functions::entries(profile, table) {
            if entries.others > 0 {
                let callee = together.party(Party::Code(start));
                self.edges.entry((Party::no_caller(), callee)).or_default().calls += entries.others;
            }
        }
    }

    fn add_paths(&mut self, tree: &CallTree, together: &Together) {
        let parties = together.parties(tree);
        let numbers = together.numbers(&parties);
        let starts_anew = |member: u32| starts_anew(&tree.members[member as usize]);
        let sums = sums(tree);
        // Functions on the path to the current one, since the last interrupt.
        let mut levels: Vec<Level> = Vec::new();
        let mut depths: Vec<u32> = Vec::with_capacity(tree.paths.len());
        let mut on_path: HashSet<(u32, u32)> = HashSet::new();
        let mut pairs_on_path: HashSet<(u32, u32, u32)> = HashSet::new();
        let mut nodes: HashMap<u32, Inclusive> = HashMap::new();
        // There may be as many pairs as paths, so they are sorted afterwards instead of put in a map from the start.
        let mut edges: Vec<((u32, u32), Inclusive)> = Vec::new();
        let mut segments = 0;
        for (path, &sum) in tree.paths.iter().zip(&sums) {
            let depth = path.parent.checked_sub(1).map_or(0, |parent| depths[parent as usize] + 1);
            depths.push(depth);
            for level in levels.drain(depth as usize..) {
                if level.is_first {
                    on_path.remove(&(level.segment, level.caller));
                }
                if let Some(pair) = level.pair {
                    pairs_on_path.remove(&pair);
                }
            }
            let outer = levels.last();
            let member = numbers[path.member as usize];
            let mut level = Level { caller: member, ..outer.copied().unwrap_or_default() };
            (level.is_first, level.pair) = (false, None);
            if starts_anew(member) {
                segments += 1;
                level.segment = segments;
            } else if parties[member as usize].is_some() {
                // This is not a member's number: it stands for no caller.
                let caller = outer.map_or(u32::MAX, |outer| outer.caller);
                let pair = (level.segment, caller, member);
                if pairs_on_path.insert(pair) {
                    level.pair = Some(pair);
                    edges.push(((caller, member), sum));
                }
                if on_path.insert((level.segment, member)) {
                    level.is_first = true;
                    nodes.entry(member).or_default().add(sum);
                }
            } else if tree.members[member as usize].frame.role == FrameRole::Inlined {
                // An inlined function has no calls of its own: they belong to the function around it.
                level.caller = outer.map_or(member, |outer| outer.caller);
            }
            levels.push(level);
        }
        drop((sums, depths));
        for (member, sum) in nodes {
            if let Some(party) = &parties[member as usize] {
                self.nodes.entry(party.clone()).or_default().inclusive.add(sum);
            }
        }
        edges.sort_unstable_by_key(|&(pair, _)| pair);
        edges.dedup_by(|(pair, sum), (kept, kept_sum)| {
            let is_same = pair == kept;
            if is_same {
                kept_sum.add(*sum);
            }
            is_same
        });
        for ((caller, callee), sum) in edges {
            let outside = || match tree.members.get(caller as usize) {
                Some(member) if member.frame.role == FrameRole::Other && !starts_anew(caller) => {
                    Party::Outside(member.frame.name.clone())
                }
                _ => Party::no_caller(),
            };
            let caller = parties.get(caller as usize).cloned().flatten().unwrap_or_else(outside);
            if let Some(callee) = parties[callee as usize].clone()
                && sum != Inclusive::default()
            {
                self.edges.entry((caller, callee)).or_default().inclusive.add(sum);
            }
        }
    }
}

/// Whether a new chain of calls begins at a frame: an interrupt, a task, or code before the scheduler. It has no
/// caller, and neither has the frame after it.
fn starts_anew(member: &Member) -> bool {
    match member.frame.role {
        FrameRole::Irq | FrameRole::Task => true,
        FrameRole::Other => member.frame.name == NO_TASK,
        FrameRole::Function | FrameRole::Inlined => false,
    }
}

/// Counts of each path with all paths that continue it, without interrupts. The index is the path's number minus 1.
fn sums(tree: &CallTree) -> Vec<Inclusive> {
    let own =
        tree.paths.iter().map(|path| Inclusive { insns: path.insns, samples: path.samples, cycles: path.cycles });
    let mut sums: Vec<Inclusive> = own.collect();
    for (index, path) in tree.paths.iter().enumerate().rev() {
        if let Some(parent) = path.parent.checked_sub(1)
            && !starts_anew(&tree.members[path.member as usize])
        {
            let sum = sums[index];
            sums[parent as usize].add(sum);
        }
    }
    sums
}

/// Callers and callees of a function over several levels of calls. A path counts once, at the outermost occurrence of
/// the function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Counts by chain of callers, the nearest first.
    pub callers: BTreeMap<Vec<Party>, Inclusive>,
    /// Counts by chain of callees, in the order of the calls.
    pub callees: BTreeMap<Vec<Party>, Inclusive>,
    /// Counts by context: the name of a task or interrupt, or the reason why the stack ends; empty if there is none.
    pub contexts: BTreeMap<String, Inclusive>,
}

impl Surroundings {
    /// Surroundings of a function in a profile's call paths, up to `depth` calls away, with some functions treated as
    /// one.
    pub fn new(tree: &CallTree, function: &Party, depth: usize, together: &Together) -> Surroundings {
        let parties = together.parties(tree);
        let function = &together.party(function.clone());
        let mut around = Surroundings::default();
        // Functions called since the given one, if it is on the path. The index is the path's number minus 1.
        let mut since: Vec<Option<Vec<Party>>> = Vec::with_capacity(tree.paths.len());
        for (path, sum) in tree.paths.iter().zip(sums(tree)) {
            let party = parties[path.member as usize].as_ref();
            let outer = path.parent.checked_sub(1).and_then(|parent| since[parent as usize].clone());
            let called = match (outer, party) {
                _ if starts_anew(&tree.members[path.member as usize]) => None,
                (Some(mut called), Some(party)) => {
                    // One level more than is shown, so that deeper calls do not count for the last level.
                    if called.len() <= depth {
                        called.push(party.clone());
                    }
                    if called.len() <= depth {
                        around.callees.entry(called.clone()).or_default().add(sum);
                    }
                    Some(called)
                }
                (Some(called), None) => Some(called),
                (None, Some(party)) if party == function => {
                    around.add_callers(tree, &parties, path.parent, depth, sum);
                    Some(Vec::new())
                }
                (None, _) => None,
            };
            since.push(called);
        }
        around
    }

    fn add_callers(&mut self, tree: &CallTree, parties: &[Option<Party>], parent: u32, depth: usize, sum: Inclusive) {
        let outwards =
            std::iter::successors(parent.checked_sub(1), |&index| tree.paths[index as usize].parent.checked_sub(1));
        let mut callers = Vec::new();
        let mut context = String::new();
        for index in outwards {
            let member = tree.paths[index as usize].member as usize;
            let frame = &tree.members[member].frame;
            match &parties[member] {
                Some(party) => callers.push(party.clone()),
                None if frame.role == FrameRole::Inlined => {}
                None => {
                    if context.is_empty() {
                        context.clone_from(&frame.name);
                    }
                    if starts_anew(&tree.members[member]) {
                        context.clone_from(&frame.name);
                        break;
                    }
                    callers.push(Party::Outside(frame.name.clone()));
                }
            }
        }
        if !matches!(callers.last(), Some(Party::Outside(_))) {
            callers.push(Party::no_caller());
        }
        for calls in 1..=depth.min(callers.len()) {
            self.callers.entry(callers[..calls].to_vec()).or_default().add(sum);
        }
        self.contexts.entry(context).or_default().add(sum);
    }
}

/// One frame of the path to the current position in the tree.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    /// Number of its chain of calls, in order: a chain begins at each interrupt and task.
    segment: u32,
    /// Member that counts as the caller of the next frame.
    caller: u32,
    /// Whether it is its function's outermost frame in this segment; only that frame counts.
    is_first: bool,
    /// Segment, caller and callee, if this is the outermost such call; only that call counts.
    pair: Option<(u32, u32, u32)>,
}

/// Caller and callee of an arc, each with its part; the caller is the function that the callee returns to. None: the arc
/// is not a call.
pub fn parties(profile: &Profile, parts: &ColdParts, arc: &Arc) -> Option<(Party, Party)> {
    if !functions::is_call(profile, parts, arc) {
        return None;
    }
    let caller = match functions::caller(profile, arc.return_addr) {
        (_, Some(start)) => Party::Code(parts.whole(start)),
        (name, None) if name == BOOT_ROM => Party::BootRom,
        _ => Party::no_caller(),
    };
    Some((caller, Party::at(profile, parts, arc.target)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::stacks::View;
    use crate::profile::testing::{self, empty};

    fn tree(profile: &Profile) -> CallTree {
        CallTree::new(profile, View::default())
    }

    fn graph(profile: &Profile) -> CallGraph {
        CallGraph::new(profile, &tree(profile))
    }

    fn edge(graph: &CallGraph, caller: Party, callee: u64) -> (u64, u64) {
        let edge = graph.edges.get(&(caller, Party::Code(callee))).cloned().unwrap_or_default();
        (edge.calls, edge.inclusive.insns)
    }

    fn inclusive(graph: &CallGraph, start: u64) -> u64 {
        graph.nodes[&Party::Code(start)].inclusive.insns
    }

    /// `main` calls `walk`, which calls itself and `step`, which is interrupted by `tick`.
    fn recursive() -> Profile {
        let call = |entry| NodeKind::Function { entry };
        empty()
            .function("main", 0x40, 0x10)
            .function("walk", 0x50, 0x10)
            .function("step", 0x60, 0x10)
            .function("tick", 0x70, 0x10)
            .insn(0x40, 10)
            .insn(0x50, 700)
            .insn(0x60, 60)
            .insn(0x70, 5)
            .arc((0x44, 0x50), Some(0x48), true, 1)
            .arc((0x54, 0x50), Some(0x58), true, 2)
            .arc((0x56, 0x60), Some(0x5a), true, 6)
            .node(0, NodeKind::Root { task: 0 }, 0)
            .node(1, call(0x40), 10)
            .node(2, call(0x50), 100)
            .node(3, call(0x50), 200)
            .node(4, call(0x50), 400)
            .node(5, call(0x60), 60)
            .node(6, NodeKind::Exception { number: 15 }, 0)
            .node(7, call(0x70), 5)
    }

    #[test]
    fn recursion_counts_once_for_the_function_and_once_for_each_pair() {
        let graph = graph(&recursive());
        assert!(graph.is_exact && graph.has_inclusive);
        assert_eq!(inclusive(&graph, 0x40), 770);
        assert_eq!(inclusive(&graph, 0x50), 760);
        assert_eq!(edge(&graph, Party::Code(0x40), 0x50), (1, 760));
        assert_eq!(edge(&graph, Party::Code(0x50), 0x50), (2, 660));
        assert_eq!(edge(&graph, Party::Code(0x50), 0x60), (6, 60));
    }

    #[test]
    fn an_interrupt_is_called_by_nobody_and_costs_nobody() {
        let graph = graph(&recursive());
        assert_eq!(inclusive(&graph, 0x60), 60);
        assert_eq!(inclusive(&graph, 0x70), 5);
        assert_eq!(edge(&graph, Party::no_caller(), 0x70), (5, 5));
        let roots = graph.edges.iter().filter(|((caller, _), _)| matches!(caller, Party::Outside(_)));
        assert_eq!(roots.map(|(_, edge)| edge.inclusive.insns).sum::<u64>(), graph.total_insns);
    }

    #[test]
    fn all_that_is_called_by_nobody_adds_up_to_the_total() {
        let profile = testing::freertos();
        let graph = graph(&profile);
        let roots = || graph.edges.iter().filter(|((caller, _), _)| matches!(caller, Party::Outside(_)));
        assert_eq!(roots().map(|(_, edge)| edge.inclusive.insns).sum::<u64>(), profile.total_insns());
        assert_eq!(roots().map(|(_, edge)| edge.inclusive.samples).sum::<u64>(), profile.samples.len() as u64);
        // A function's cost is its own and its callees', and equals the sum over its callers.
        for (party, node) in graph.nodes.iter().filter(|(party, _)| !matches!(party, Party::Outside(_))) {
            let callees: u64 = graph.callees(party).iter().map(|(_, edge)| edge.inclusive.insns).sum();
            let callers: u64 = graph.callers(party).iter().map(|(_, edge)| edge.inclusive.insns).sum();
            assert_eq!(node.self_insns + callees, node.inclusive.insns, "{party:?}");
            assert_eq!(callers, node.inclusive.insns, "{party:?}");
        }
    }

    #[test]
    fn a_tail_call_is_its_callers_and_says_who_jumped() {
        let profile = empty()
            .function("main", 0x40, 0x10)
            .function("front", 0x50, 0x10)
            .function("back", 0x60, 0x10)
            .insn(0x50, 5)
            .insn(0x60, 7)
            .arc((0x44, 0x50), Some(0x48), true, 5)
            .arc((0x58, 0x60), Some(0x48), false, 5);
        let graph = graph(&profile);
        assert!(!graph.has_inclusive);
        let back = &graph.edges[&(Party::Code(0x40), Party::Code(0x60))];
        assert_eq!((back.calls, &back.tail_calls), (5, &[(Party::Code(0x50), 5)].into()));
        assert!(!graph.edges.contains_key(&(Party::Code(0x50), Party::Code(0x60))));
        // Two of its seven entries are not calls.
        assert_eq!(edge(&graph, Party::no_caller(), 0x60), (2, 0));
    }

    /// `main` calls `parse`, which jumps to its part 80 times; the part calls `report` and jumps back, to the first instruction
    /// twice.
    fn cold() -> Profile {
        let call = |entry| NodeKind::Function { entry };
        empty()
            .function("main", 0x40, 0x10)
            .function("parse", 0x50, 0x10)
            .function("parse.cold", 0x60, 0x10)
            .function("report", 0x70, 0x10)
            .insn(0x40, 10)
            .insn(0x50, 700)
            .insn(0x60, 60)
            .insn(0x70, 5)
            .arc((0x44, 0x50), Some(0x48), true, 20)
            .arc((0x58, 0x60), Some(0x48), false, 80)
            .arc((0x6c, 0x50), Some(0x48), false, 2)
            .arc((0x64, 0x70), Some(0x68), true, 5)
            .node(0, NodeKind::Root { task: 0 }, 0)
            .node(1, call(0x40), 10)
            .node(2, call(0x50), 700)
            .node(2, call(0x60), 60)
            .node(4, call(0x70), 5)
    }

    #[test]
    fn a_function_and_its_seldom_executed_part_are_one() {
        let profile = cold();
        for graph in [graph(&profile), CallGraph::with(&profile, &tree(&profile), &Together::new(&profile, [0x60]))] {
            assert_eq!(inclusive(&graph, 0x50), 765);
            assert_eq!(graph.nodes[&Party::Code(0x50)].self_insns, 760);
            assert!(!graph.nodes.contains_key(&Party::Code(0x60)));
            assert_eq!(graph.party(Some(0x60)), Party::Code(0x50));
            let edge = &graph.edges[&(Party::Code(0x40), Party::Code(0x50))];
            assert_eq!((edge.calls, edge.inclusive.insns, edge.tail_calls.len()), (20, 765, 0));
            assert!(graph.callees(&Party::Code(0x50)).iter().all(|(party, _)| **party == Party::Code(0x70)));
        }
        // Of two functions, nothing says whose part it is.
        let profile = cold().function("parse", 0x80, 0x10);
        assert!(graph(&profile).nodes.contains_key(&Party::Code(0x60)));
    }

    #[test]
    fn chains_of_callers_and_callees_are_followed_as_far_as_asked() {
        let around = Surroundings::new(&tree(&recursive()), &Party::Code(0x50), 2, &Together::default());
        let code = Party::Code;
        let callers = [(vec![code(0x40)], 760), (vec![code(0x40), Party::no_caller()], 760)];
        let shown = |side: &BTreeMap<Vec<Party>, Inclusive>| -> Vec<(Vec<Party>, u64)> {
            side.iter().map(|(chain, sum)| (chain.clone(), sum.insns)).collect()
        };
        assert_eq!(shown(&around.callers), callers);
        let callees = [(vec![code(0x50)], 660), (vec![code(0x50), code(0x50)], 460)];
        assert_eq!(shown(&around.callees), callees);
    }
}
