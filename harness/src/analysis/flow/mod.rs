// SPDX-License-Identifier: MIT OR Apache-2.0
//! Branches from exact counts: how often each conditional branch was taken, and where each table jump went.
//!
//! A profile counts every instruction, not every branch. But control that reaches an instruction also leaves it, so
//! the counts are the constants of linear equations, and the branches' two ways are the unknowns:
//!
//! - the ways of a branch add up to the branch's count;
//! - the ways into an instruction, and the instructions that always go on there, add up to that instruction's count.
//!
//! Equations that share an unknown form a *component*. Each unknown is in one equation of each sort, so in every
//! component both sorts must add up to the same sum: one independent check. Only where it holds is a solved count
//! [`Count::Exact`]. It fails where control was lost or came from nowhere: the run ended there, a task was never resumed,
//! a fault was retried, a `longjmp` arrived. The difference then bounds the error, and the counts are
//! [`Count::Bounded`].
//!
//! An interrupt between two instructions changes nothing, since control comes back before the second one starts.
//! Counts of all vCPUs are added first: a task may go on at another vCPU. Code that is not in the image, or whose
//! instructions overlap, is [`Count::Unknown`].
//!
//! A run with `--branches` has counted one way of each cycle of unknowns, and the ways of table jumps wherever something
//! else may lead, too. Such a way is known.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use decode::{Flow, Isa};

use crate::profile::Profile;
use crate::text::number::{Hex, group};

mod decisions;
mod sites;
mod solve;
mod table;

pub use decisions::{Mcdc, decisions};
pub use sites::{conditional_insns, sites};
use solve::{Edge, Equations};

/// Executions of one way of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The number, held against an independent count in the same run.
    Exact(u64),
    /// A number between two, both included.
    Bounded {
        /// Least possible number.
        least: u64,
        /// Greatest possible number.
        most: u64,
    },
    /// Nothing is known about the number.
    Unknown,
}

impl Count {
    /// Least possible number.
    pub fn least(self) -> u64 {
        match self {
            Count::Exact(count) => count,
            Count::Bounded { least, .. } => least,
            Count::Unknown => 0,
        }
    }

    /// Greatest possible number; None: it has no bound.
    pub fn most(self) -> Option<u64> {
        match self {
            Count::Exact(count) => Some(count),
            Count::Bounded { most, .. } => Some(most),
            Count::Unknown => None,
        }
    }

    /// The number, if it is exact.
    pub fn exact(self) -> Option<u64> {
        if let Count::Exact(count) = self { Some(count) } else { None }
    }

    /// Sum of two counts, of the weaker kind of the two.
    #[must_use]
    pub fn plus(self, other: Count) -> Count {
        match (self, other) {
            (Count::Exact(one), Count::Exact(other)) => Count::Exact(one.saturating_add(other)),
            (one, other) => match (one.most(), other.most()) {
                (Some(most), Some(more)) => Count::Bounded {
                    least: one.least().saturating_add(other.least()),
                    most: most.saturating_add(more),
                },
                _ => Count::Unknown,
            },
        }
    }

    /// Name of the kind: `exact`, `bounded` or `unknown`.
    pub fn kind(self) -> &'static str {
        match self {
            Count::Exact(_) => "exact",
            Count::Bounded { .. } => "bounded",
            Count::Unknown => "unknown",
        }
    }
}

/// Displays the number, the two bounds (`3 to 5`), or `unknown`.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Count::Exact(count) => f.write_str(&group(count)),
            Count::Bounded { least, most } => write!(f, "{} to {}", group(least), group(most)),
            Count::Unknown => f.write_str("unknown"),
        }
    }
}

/// A place where control may go more than one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Address of the instruction.
    pub site: u64,
    /// Executions of the instruction.
    pub executions: u64,
    /// Kind of instruction.
    pub kind: BranchKind,
    /// Its ways: of a conditional branch the taken one, then the fall-through; of a table jump its targets by address.
    pub ways: Vec<Way>,
}

/// Kind of a [`Branch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchKind {
    /// Conditional branch, or a Thumb jump in an IT block.
    Conditional,
    /// Conditional return: a return or an indirect jump in a Thumb IT block.
    ConditionalReturn,
    /// Jump to one of the addresses of a table, as compilers make of `switch`.
    Table,
}

impl BranchKind {
    /// Name of the kind in outputs.
    pub fn name(self) -> &'static str {
        match self {
            BranchKind::Conditional => "conditional",
            BranchKind::ConditionalReturn => "conditional return",
            BranchKind::Table => "table",
        }
    }
}

/// One way of a [`Branch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Address that control goes to; None: it leaves the function for an address that the code does not tell.
    pub target: Option<u64>,
    /// Number of times that control went there.
    pub count: Count,
}

impl Branch {
    /// Counts of a conditional branch: taken, and not taken. None for a table jump.
    pub fn both(&self) -> Option<(Count, Count)> {
        match (self.kind, &self.ways[..]) {
            (BranchKind::Conditional | BranchKind::ConditionalReturn, [taken, not_taken]) => {
                Some((taken.count, not_taken.count))
            }
            _ => None,
        }
    }
}

/// Most targets of a table jump that are shown.
const MOST_TARGETS: usize = 4;

/// Displays the numbers: `taken 40, not taken 60`, or the targets of a table jump, most counted first.
impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((taken, not_taken)) = self.both() {
            return write!(f, "taken {taken}, not taken {not_taken}");
        }
        let mut ways: Vec<&Way> = self.ways.iter().filter(|way| way.count != Count::Exact(0)).collect();
        ways.sort_by_key(|way| std::cmp::Reverse(way.count.most()));
        let shown = ways.iter().take(MOST_TARGETS);
        let mut shown: Vec<String> =
            shown.filter_map(|way| Some(format!("{}: {}", Hex(way.target?), way.count))).collect();
        match ways.len().saturating_sub(MOST_TARGETS) {
            0 => {}
            1 => shown.push("1 more target".to_owned()),
            more => shown.push(format!("{more} more targets")),
        }
        write!(f, "to {}", shown.join(", "))
    }
}

/// All executed branches of a profile, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branches {
    by_site: BTreeMap<u64, Branch>,
}

impl Branches {
    /// Branches that a profile's counts tell; none if this version does not know the profile's instruction set.
    pub fn of(profile: &Profile) -> Branches {
        let Some(isa) = profile.facts.isa() else { return Branches::default() };
        let mut counted = CountedWays::new();
        for edge in counted_ways(profile) {
            counted.entry(edge.site).or_default().insert(edge.target, edge.count);
        }
        Branches { by_site: Graph::new(profile, isa, counted).branches() }
    }

    /// The branch at an address, if it executed.
    pub fn at(&self, site: u64) -> Option<&Branch> {
        self.by_site.get(&site)
    }

    /// All branches, by address, without the index.
    pub fn into_list(self) -> Vec<Branch> {
        self.by_site.into_values().collect()
    }

    /// All branches, by address.
    pub fn iter(&self) -> impl Iterator<Item = &Branch> {
        self.by_site.values()
    }
}

impl Branch {
    /// Replaces the counts by those of counters, whose sum is the number of executions. `table`: targets of a table
    /// jump, reached or not.
    fn count(&mut self, counted: &BTreeMap<u64, u64>, table: &[u64]) {
        if self.kind == BranchKind::Table {
            let mut ways: BTreeMap<u64, u64> = table.iter().map(|&target| (target, 0)).collect();
            ways.extend(counted.iter().filter(|(_, count)| **count > 0));
            let way = |(target, count)| Way { target: Some(target), count: Count::Exact(count) };
            self.ways = ways.into_iter().map(way).collect();
            return;
        }
        let named: BTreeSet<u64> = self.ways.iter().filter_map(|way| way.target).collect();
        let elsewhere = counted.iter().filter(|(target, _)| !named.contains(target)).map(|(_, &count)| count).sum();
        for way in &mut self.ways {
            let count = way.target.map_or(elsewhere, |target| counted.get(&target).copied().unwrap_or(0));
            way.count = Count::Exact(count);
        }
    }
}

/// An executed instruction.
struct Node {
    pc: u64,
    next: u64,
    count: u64,
    /// Successors; None: the code is not known for certain.
    out: Option<Out>,
    /// Function that it belongs to, as an index into the names' functions.
    function: Option<usize>,
}

/// Successors of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Out {
    /// To the next instruction.
    Next,
    /// To the next instruction, when the callee has returned; None: an unknown callee.
    Call(Option<u64>),
    /// To a target.
    Jump(u64),
    /// To a target, or to the next instruction.
    Branch(u64),
    /// Away, or to the next instruction.
    BranchAway,
    /// Away: a return.
    Return,
    /// To an address from a table that the profile has.
    Table,
    /// To another address from a register or from memory.
    Indirect,
}

impl Out {
    /// Whether it is a conditional branch, with two ways.
    fn is_conditional(self) -> bool {
        matches!(self, Out::Branch(_) | Out::BranchAway)
    }
}

/// Successors of an instruction; `conditional`: it is inside a Thumb IT block.
fn out_of(isa: Isa, bytes: &[u8], flow: Flow, conditional: bool) -> Out {
    match (flow, conditional) {
        (Flow::Next | Flow::It { .. }, _) | (Flow::Call { .. } | Flow::IndirectCall { .. }, true) => Out::Next,
        (Flow::Call { target }, false) => Out::Call(Some(target)),
        (Flow::IndirectCall { .. }, false) => Out::Call(None),
        (Flow::Jump { target }, true) | (Flow::Branch { target }, _) => Out::Branch(target),
        (Flow::Jump { target }, false) => Out::Jump(target),
        (Flow::Return | Flow::IndirectJump { .. } | Flow::ComputedJump, true) => Out::BranchAway,
        (Flow::Return, false) => Out::Return,
        // Armv6-M returns by it when the return address is not in lr.
        (Flow::IndirectJump { .. }, false) if isa == Isa::ThumbV6m && decode::is_exchange(isa, bytes) => Out::Return,
        (Flow::IndirectJump { .. } | Flow::ComputedJump, false) => Out::Indirect,
    }
}

/// The executed code with the flow that the counts tell directly.
struct Graph<'a> {
    profile: &'a Profile,
    nodes: Vec<Node>,
    /// Flow into each instruction from those that always go on there.
    known_in: Vec<u64>,
    /// Flow out of each function, without the unknown ways.
    exits: Vec<u64>,
    /// Functions whose flow out is not told by these sums.
    open: BTreeSet<usize>,
    /// Functions whose first instruction is also entered by loops.
    looping: BTreeSet<usize>,
    /// Functions with conditional returns.
    conditional: BTreeSet<usize>,
    /// Table jumps whose targets are solved or read from the image, by node.
    tables: BTreeMap<usize, table::Targets>,
    /// Ways that the run has counted.
    counted: CountedWays,
}

impl<'a> Graph<'a> {
    fn new(profile: &'a Profile, isa: Isa, counted: CountedWays) -> Graph<'a> {
        let nodes = nodes(profile, isa);
        let known_in = vec![0; nodes.len()];
        let exits = vec![0; profile.names.functions.len()];
        let (open, looping, conditional) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let tables = BTreeMap::new();
        let mut graph = Graph { profile, nodes, known_in, exits, open, looping, conditional, tables, counted };
        graph.leave_functions();
        graph.add_known();
        graph.tables = table::known(&graph);
        let jumps = table::open(&graph);
        for (&target, &count) in jumps.iter().flat_map(|jump| &jump.counted) {
            graph.add_known_in(target, count);
        }
        let inferred = table::infer(&graph, jumps);
        graph.tables.extend(inferred);
        graph
    }

    fn add_known_in(&mut self, target: u64, count: u64) {
        if let Some(target) = self.at(target) {
            let sum = &mut self.known_in[target];
            *sum = sum.saturating_add(count);
        }
    }

    /// Ways of a table jump that the run has counted. Jumps to functions' starts are arcs.
    fn counted_jumps(&self, site: u64) -> BTreeMap<u64, u64> {
        let functions = &self.profile.names.functions;
        let is_start = |target| {
            self.profile.names.function_index_at(target).is_some_and(|index| functions[index].start == target)
        };
        let ways = self.counted.get(&site).into_iter().flatten();
        ways.filter(|(target, count)| **count > 0 && !is_start(**target))
            .map(|(&target, &count)| (target, count))
            .collect()
    }

    fn at(&self, pc: u64) -> Option<usize> {
        self.nodes.binary_search_by_key(&pc, |node| node.pc).ok()
    }

    /// Adds up the flow out of each function.
    fn leave_functions(&mut self) {
        for node in &self.nodes {
            let Some(function) = node.function else { continue };
            let leaves = |target: u64| self.profile.names.function_index_at(target) != Some(function);
            // A loop back to the function's first instruction enters nothing.
            let start = self.profile.names.functions[function].start;
            if let Some(Out::Jump(target) | Out::Branch(target)) = node.out
                && target == start
            {
                self.looping.insert(function);
            }
            let is_open = match node.out {
                Some(Out::Branch(target)) => leaves(target) || leaves(node.next),
                // A jump through a register may stay in the function.
                Some(Out::Indirect) | None => true,
                _ => false,
            };
            let is_exit = match node.out {
                Some(Out::Return | Out::Indirect) => true,
                Some(Out::Jump(target)) => leaves(target),
                Some(Out::Next) => leaves(node.next),
                _ => false,
            };
            if is_open {
                self.open.insert(function);
            }
            if is_exit {
                self.exits[function] = self.exits[function].saturating_add(node.count);
            }
            if node.out == Some(Out::BranchAway) {
                self.conditional.insert(function);
            }
        }
    }

    /// Whether a call of this address ever returned, as far as its function tells.
    fn returns(&self, callee: u64) -> bool {
        let Some(function) = self.profile.names.function_index_at(callee) else { return true };
        let is_entry = self.profile.names.functions[function].start == callee;
        let may = [&self.open, &self.conditional].iter().any(|functions| functions.contains(&function));
        !is_entry || self.exits[function] > 0 || may
    }

    /// Adds the flow of instructions that always go on at the same place, and of calls.
    fn add_known(&mut self) {
        let mut known: Vec<(u64, u64)> = Vec::new();
        let mut returns: BTreeMap<u64, bool> = BTreeMap::new();
        for node in &self.nodes {
            match node.out {
                Some(Out::Next | Out::Call(None)) => known.push((node.next, node.count)),
                Some(Out::Call(Some(callee))) if *returns.entry(callee).or_insert_with(|| self.returns(callee)) => {
                    known.push((node.next, node.count));
                }
                Some(Out::Jump(target)) => known.push((target, node.count)),
                _ => {}
            }
        }
        // Calls of functions, also those by jumps through registers; direct jumps are known already.
        let arcs = self.profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs);
        for arc in arcs {
            let site = self.at(arc.site).and_then(|site| self.nodes[site].out);
            if arc.links || matches!(site, Some(Out::Indirect | Out::Return | Out::BranchAway)) {
                known.push((arc.target, arc.count));
            }
        }
        for (target, count) in known {
            self.add_known_in(target, count);
        }
    }

    /// Solves all branches, of which the run has counted some ways.
    fn branches(&self) -> BTreeMap<u64, Branch> {
        let mut equations = Equations::default();
        // Flows of each branch, in the order of its ways.
        let mut flows: BTreeMap<usize, Vec<(Option<u64>, Flowing)>> = BTreeMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let targets: Vec<Option<u64>> = match node.out {
                Some(Out::Branch(target)) => vec![Some(target), Some(node.next)],
                Some(Out::BranchAway) => vec![None, Some(node.next)],
                Some(Out::Table) => match self.tables.get(&index) {
                    Some(table::Targets::Known(targets)) => targets.iter().map(|&target| Some(target)).collect(),
                    _ => continue,
                },
                _ => continue,
            };
            let counted = self.counted.get(&node.pc);
            let of = |target: Option<u64>| counted?.get(&target?).copied();
            let known: u64 = targets.iter().filter_map(|&target| of(target)).fold(0, u64::saturating_add);
            // If all ways were counted, nothing is left.
            let has_open = targets.iter().any(|&target| of(target).is_none());
            let unknown = node.count.checked_sub(known).filter(|&left| left == 0 || has_open);
            let from = equations.add_out(unknown.unwrap_or(node.count));
            let ways = targets.into_iter().map(|target| {
                let to = self.equation_into(target, node, &mut equations);
                let known = of(target).filter(|_| unknown.is_some());
                if let (Some(to), Some(count)) = (to, known) {
                    equations.subtract(to, count);
                }
                let edge = || Flowing::Unknown(equations.edge(Edge { from, to }));
                (target, known.map_or_else(edge, Flowing::Counted))
            });
            flows.insert(index, ways.collect());
        }
        let solved = equations.solve();
        let mut branches = BTreeMap::new();
        for (&index, ways) in &flows {
            let count = |flow: &Flowing| match *flow {
                Flowing::Unknown(edge) => solved[edge],
                Flowing::Counted(count) => Count::Exact(count),
            };
            let ways = ways.iter().map(|(target, flow)| Way { target: *target, count: count(flow) }).collect();
            let branch = self.branch(index, ways);
            branches.insert(branch.site, branch);
        }
        for (&index, targets) in &self.tables {
            let table::Targets::Inferred(targets) = targets else { continue };
            let ways = targets.iter().map(|(&target, &count)| Way { target: Some(target), count }).collect();
            let branch = self.branch(index, ways);
            branches.insert(branch.site, branch);
        }
        for (&site, targets) in &self.counted {
            let sum = targets.values().fold(0, |sum: u64, &count| sum.saturating_add(count));
            let table = match self.at(site).and_then(|index| self.tables.get(&index)) {
                Some(table::Targets::Known(targets)) => targets.as_slice(),
                _ => &[],
            };
            if let Some(branch) = branches.get_mut(&site).filter(|branch| branch.executions == sum) {
                branch.count(targets, table);
            }
        }
        branches
    }

    fn branch(&self, index: usize, ways: Vec<Way>) -> Branch {
        let node = &self.nodes[index];
        let kind = match node.out {
            Some(Out::Table | Out::Indirect) => BranchKind::Table,
            Some(Out::BranchAway) => BranchKind::ConditionalReturn,
            _ => BranchKind::Conditional,
        };
        Branch { site: node.pc, executions: node.count, kind, ways }
    }

    /// Equation of the flow into an address; None: nothing is known about it.
    fn equation_into(&self, target: Option<u64>, from: &Node, equations: &mut Equations) -> Option<usize> {
        let Some(target) = target else { return self.equation_out_of(from.function?, equations) };
        match self.at(target) {
            Some(node) if self.nodes[node].out.is_none() => None,
            Some(node) => {
                let rest = i128::from(self.nodes[node].count) - i128::from(self.known_in[node]);
                Some(equations.add_in((false, target), rest))
            }
            // Inside of an executed instruction, or never executed.
            None if self.is_inside(target) => None,
            None => Some(equations.add_in((false, target), 0)),
        }
    }

    /// Equation of the flow out of a function: as much as entered it.
    fn equation_out_of(&self, function: usize, equations: &mut Equations) -> Option<usize> {
        let start = self.profile.names.functions[function].start;
        let entry = self.at(start)?;
        if self.open.contains(&function) || self.looping.contains(&function) {
            return None;
        }
        let rest = i128::from(self.nodes[entry].count) - i128::from(self.exits[function]);
        Some(equations.add_in((true, start), rest))
    }

    fn is_inside(&self, address: u64) -> bool {
        let after = self.nodes.partition_point(|node| node.pc <= address);
        after.checked_sub(1).is_some_and(|before| address < self.nodes[before].next)
    }
}

/// Ways that the run has counted; none if it has lost sight of a transfer, which may have been one of them.
fn counted_ways(profile: &Profile) -> &[crate::profile::Edge] {
    if profile.facts.unresolved_transfers > 0 { &[] } else { &profile.edges }
}

/// Counts of counted ways, by site and target.
type CountedWays = BTreeMap<u64, BTreeMap<u64, u64>>;

/// Flow along one way of a branch.
#[derive(Clone, Copy)]
enum Flowing {
    /// Number of the unknown.
    Unknown(usize),
    /// It was counted.
    Counted(u64),
}

/// Executed instructions by address, all vCPUs together.
fn nodes(profile: &Profile, isa: Isa) -> Vec<Node> {
    let mut counts: BTreeMap<(u64, u8), u64> = BTreeMap::new();
    for insn in profile.vcpus.iter().flat_map(|vcpu| &vcpu.insns).filter(|insn| insn.count > 0) {
        let sum = counts.entry((insn.pc, insn.size_bytes)).or_default();
        *sum = sum.saturating_add(insn.count);
    }
    let mut nodes: Vec<Node> = Vec::with_capacity(counts.len());
    let (mut conditional, mut upper) = (0, None);
    for ((pc, size), count) in counts {
        let next = pc.saturating_add(size.into());
        let follows = nodes.last().is_some_and(|last| last.next == pc);
        if !follows {
            (conditional, upper) = (0, None);
        }
        let bytes = profile.code_at(pc).unwrap_or_default();
        let insn = decode::decode(isa, pc, bytes);
        let is_known = insn.len_bytes == size && bytes.len() >= size.into();
        let flow = upper.take().map_or(insn.flow, |upper| insn.flow.after_upper(isa, upper));
        upper = decode::auipc(isa, pc, bytes);
        let out = is_known.then(|| match out_of(isa, bytes, flow, conditional > 0) {
            Out::Indirect if profile.table_at(pc).is_some() => Out::Table,
            out => out,
        });
        conditional = match flow {
            Flow::It { count } if conditional == 0 => count,
            _ => u8::saturating_sub(conditional, 1),
        };
        let mut node = Node { pc, next, count, out, function: profile.names.function_index_at(pc) };
        // Two instructions that overlap: the code has changed, or was entered in its middle.
        if let Some(last) = nodes.last_mut().filter(|last| last.next > pc) {
            (last.out, node.out) = (None, None);
            node.next = node.next.max(last.next);
        }
        if nodes.last().is_some_and(|last| last.pc == pc) {
            // Of two sizes at one address, one node remains.
            if let Some(last) = nodes.last_mut() {
                last.count = last.count.saturating_add(count);
                last.next = last.next.max(node.next);
            }
            continue;
        }
        nodes.push(node);
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;
    use crate::profile::{Code, Edge as Counted, JumpTable};

    /// One function of Thumb halfwords at 0x40, with the executions of each.
    fn function(halfwords: &[(u16, u64)]) -> Profile {
        let mut profile = empty().function("main", 0x40, 2 * halfwords.len() as u64);
        let bytes = halfwords.iter().flat_map(|(halfword, _)| halfword.to_le_bytes()).collect();
        profile.code = vec![Code { start: 0x40, bytes }];
        for (&(_, count), index) in halfwords.iter().zip(0..).filter(|((_, count), _)| *count > 0) {
            profile = profile.insn(0x40 + 2 * index, count);
        }
        profile
    }

    fn ways(profile: &Profile, site: u64) -> Vec<Count> {
        Branches::of(profile).at(site).map_or(Vec::new(), |branch| branch.ways.iter().map(|way| way.count).collect())
    }

    const MOVS: u16 = 0x2001;
    const BX_LR: u16 = 0x4770;

    #[test]
    fn a_branch_around_code_is_exact_and_lost_control_is_not() {
        // beq +2: movs is skipped if taken.
        let code = |movs, end| [(0xd000, 10), (MOVS, movs), (BX_LR, end)];
        assert_eq!(ways(&function(&code(7, 10)), 0x40), [Count::Exact(3), Count::Exact(7)]);
        // The run ended after the branch: nobody knows to which side.
        let bounded = [Count::Bounded { least: 1, most: 3 }, Count::Bounded { least: 6, most: 8 }];
        assert_eq!(ways(&function(&code(7, 9)), 0x40), bounded);
        // What never ran was never reached.
        assert_eq!(ways(&function(&code(0, 10)), 0x40), [Count::Exact(10), Count::Exact(0)]);
    }

    #[test]
    fn a_callee_that_never_returned_sends_nothing_on() {
        // beq 0x48; movs; bl 0x4a; 0x48: bx lr; 0x4a: b 0x4a
        let code = [(0xd002, 10), (MOVS, 1), (0xf000, 0), (0xf801, 0), (BX_LR, 9)];
        let mut profile = function(&code).function("stop", 0x4a, 2).insn(0x4a, 50);
        profile.vcpus[0].insns.push(crate::profile::InsnCount { pc: 0x44, size_bytes: 4, count: 1 });
        profile.code.push(Code { start: 0x4a, bytes: vec![0xfe, 0xe7] });
        assert_eq!(ways(&profile, 0x40), [Count::Exact(9), Count::Exact(1)]);
    }

    #[test]
    fn a_conditional_return_is_checked_by_the_functions_entries() {
        // it eq; bxeq lr; bx lr
        let code = |end| [(0xbf08, 10), (BX_LR, 10), (BX_LR, end)];
        assert_eq!(ways(&function(&code(4)), 0x42), [Count::Exact(6), Count::Exact(4)]);
        let branches = Branches::of(&function(&code(4)));
        assert_eq!(branches.at(0x42).unwrap().kind, BranchKind::ConditionalReturn);
        assert_eq!(branches.at(0x42).unwrap().to_string(), "taken 6, not taken 4");
    }

    #[test]
    fn a_switch_went_where_nothing_else_led() {
        // mov pc, r3; 0x42: b 0x46; 0x44: movs; 0x46: bx lr
        let profile = function(&[(0x469f, 10), (0xe000, 3), (MOVS, 7), (BX_LR, 10)]);
        let branches = Branches::of(&profile);
        let branch = branches.at(0x40).unwrap();
        assert_eq!(branch.to_string(), "to 0x00000044: 7, 0x00000042: 3");
        assert_eq!((branch.kind, branch.both()), (BranchKind::Table, None));
        // One of its turns is missing.
        let profile = function(&[(0x469f, 11), (0xe000, 3), (MOVS, 7), (BX_LR, 10)]);
        assert_eq!(ways(&profile, 0x40), [Count::Bounded { least: 0, most: 11 }; 2]);
    }

    #[test]
    fn a_known_table_has_its_ways_also_where_something_else_leads() {
        // beq 0x48; mov pc, r3; 0x44: movs; 0x46: movs; 0x48: bx lr. The branch leads where the table does, too.
        let code = |end| [(0xd002, 10), (0x469f, 8), (MOVS, 3), (MOVS, 5), (BX_LR, end)];
        let mut profile = function(&code(10));
        assert_eq!(targets(&profile, 0x42).len(), 2, "the third is not told apart from the branch's");
        profile.tables = vec![JumpTable { site: 0x42, targets: vec![0x44, 0x46, 0x48, 0x80] }];
        let counts = [(0x44, 3), (0x46, 2), (0x48, 3), (0x80, 0)].map(|(pc, count)| (pc, Count::Exact(count)));
        assert_eq!(targets(&profile, 0x42), counts);
        assert_eq!(ways(&profile, 0x40), [Count::Exact(2), Count::Exact(8)]);
        // One of the jumps went where the table does not lead.
        profile = Profile { tables: profile.tables, ..function(&code(9)) };
        assert!(targets(&profile, 0x42).iter().any(|(_, count)| count.exact().is_none()));
    }

    #[test]
    fn code_that_is_not_known_for_certain_has_no_branches() {
        let code = [(0xd000, 10), (MOVS, 7), (BX_LR, 10)];
        let mut profile = function(&code);
        profile.code.clear();
        assert_eq!(ways(&profile, 0x40), []);
        // Another instruction begins in the middle.
        let profile = function(&code).insn(0x41, 1);
        assert_eq!(ways(&profile, 0x40), []);
    }

    #[test]
    fn counters_of_the_run_itself_are_exact_if_they_add_up() {
        let mut profile = function(&[(0xd000, 10), (MOVS, 7), (BX_LR, 9)]);
        let edge = |target, count| Counted { site: 0x40, target, count };
        profile.edges = vec![edge(0x42, 7), edge(0x44, 2)];
        assert!(ways(&profile, 0x40)[0].exact().is_none());
        profile.edges = vec![edge(0x42, 7), edge(0x44, 3)];
        assert_eq!(ways(&profile, 0x40), [Count::Exact(3), Count::Exact(7)]);
    }

    #[test]
    fn one_counted_way_of_a_cycle_tells_all_of_its_ways() {
        // 0x40: beq 0x46; 0x42: movs; 0x44: bne 0x42; 0x46: bx lr
        let mut profile = function(&[(0xd001, 10), (MOVS, 25), (0xd1fd, 25), (BX_LR, 10)]);
        assert!(ways(&profile, 0x40)[0].exact().is_none() && ways(&profile, 0x44)[0].exact().is_none());
        for (skipped, turns) in [(4, 19), (0, 15)] {
            profile.edges = vec![Counted { site: 0x40, target: 0x46, count: skipped }];
            assert_eq!(ways(&profile, 0x40), [Count::Exact(skipped), Count::Exact(10 - skipped)]);
            assert_eq!(ways(&profile, 0x44), [Count::Exact(turns), Count::Exact(10 - skipped)]);
        }
        // More than the branch ran: the counter is not believed.
        profile.edges[0].count = 11;
        assert!(ways(&profile, 0x40)[0].exact().is_none());
    }

    fn targets(profile: &Profile, site: u64) -> Vec<(u64, Count)> {
        let branches = Branches::of(profile);
        let ways = branches.at(site).map_or(&[][..], |branch| &branch.ways);
        ways.iter().map(|way| (way.target.unwrap(), way.count)).collect()
    }

    #[test]
    fn counted_jumps_tell_what_a_branch_to_the_same_place_did() {
        // beq 0x46; 0x42: mov pc, r3; 0x44: movs; 0x46: bx lr. Both lead to the end.
        let mut profile = function(&[(0xd001, 10), (0x469f, 8), (MOVS, 5), (BX_LR, 10)]);
        assert!(targets(&profile, 0x42).iter().all(|(_, count)| count.exact().is_none()));
        profile.edges = vec![Counted { site: 0x42, target: 0x46, count: 3 }];
        assert_eq!(targets(&profile, 0x42), [(0x44, Count::Exact(5)), (0x46, Count::Exact(3))]);
        assert_eq!(ways(&profile, 0x40), [Count::Exact(2), Count::Exact(8)]);
        // More than the jump ran: the counter is not believed.
        profile.edges[0].count = 9;
        assert!(targets(&profile, 0x42).iter().all(|(_, count)| count.exact().is_none()));
    }

    #[test]
    fn two_jumps_of_a_function_are_told_apart_by_counters() {
        // mov pc, r3; mov pc, r3; 0x44: movs; 0x46: bx lr
        let mut profile = function(&[(0x469f, 10), (0x469f, 6), (MOVS, 7), (BX_LR, 10)]);
        assert!(targets(&profile, 0x40).iter().all(|(_, count)| count.exact().is_none()));
        let edge = |site, target, count| Counted { site, target, count };
        // 0x46 also follows 0x44.
        profile.edges = vec![edge(0x40, 0x42, 6), edge(0x40, 0x44, 3), edge(0x40, 0x46, 1)];
        assert_eq!(targets(&profile, 0x42), [(0x44, Count::Exact(4)), (0x46, Count::Exact(2))]);
        profile.edges.extend([edge(0x42, 0x44, 4), edge(0x42, 0x46, 2)]);
        assert_eq!(targets(&profile, 0x42), [(0x44, Count::Exact(4)), (0x46, Count::Exact(2))]);
        let first = [(0x42, Count::Exact(6)), (0x44, Count::Exact(3)), (0x46, Count::Exact(1))];
        assert_eq!(targets(&profile, 0x40), first);
    }
}
