// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets of table jumps, which compilers make of `switch`.
//!
//! The profile has the tables that the image tells. Of other jumps only the counts tell where they went: to the instructions of
//! the function that executed more often than anything else that leads to them. With one such jump in the function, the
//! numbers that are missing there must be its own count.
//!
//! A run with `--branches` has counted the ways of a jump to all places where something else may lead, too. Then these are
//! known, and the numbers that are missing are those of the other places.

use std::collections::{BTreeMap, BTreeSet};

use super::{Count, Graph, Out};

/// Most targets that are tried for all jumps of a function: far more than a firmware has, and few enough for an image made to
/// harm.
const MAX_TARGETS: usize = 1 << 20;

/// Targets of one table jump.
pub(super) enum Targets {
    /// Targets in the profile's table, sorted.
    Known(Vec<u64>),
    /// Counted by the run, or found by counts, with these.
    Inferred(BTreeMap<u64, Count>),
}

/// A jump whose table is not known.
pub(super) struct Jump {
    node: usize,
    function: usize,
    /// Ways that the run has counted, by target.
    pub(super) counted: BTreeMap<u64, u64>,
    /// Executions that went elsewhere in the function.
    rest: u64,
}

/// Targets of the jumps whose table is known, by node.
pub(super) fn known(graph: &Graph<'_>) -> BTreeMap<usize, Targets> {
    let tables = graph.nodes.iter().enumerate().filter(|(_, node)| node.out == Some(Out::Table));
    let known = tables.filter_map(|(index, node)| {
        let mut targets: BTreeSet<u64> = graph.profile.table_at(node.pc)?.iter().copied().collect();
        targets.extend(graph.counted_jumps(node.pc).keys());
        Some((index, Targets::Known(targets.into_iter().collect())))
    });
    known.collect()
}

/// Other jumps that stayed in their function, by address.
pub(super) fn open(graph: &Graph<'_>) -> Vec<Jump> {
    let mut arcs: BTreeMap<u64, u64> = BTreeMap::new();
    for arc in graph.profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs) {
        let sum = arcs.entry(arc.site).or_default();
        *sum = sum.saturating_add(arc.count);
    }
    let mut jumps = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.out == Some(Out::Indirect)) {
        let inside = node.count.saturating_sub(arcs.get(&node.pc).copied().unwrap_or(0));
        let (Some(function), 1..) = (node.function, inside) else { continue };
        let mut counted = graph.counted_jumps(node.pc);
        let sum = counted.values().fold(0, |sum: u64, &count| sum.saturating_add(count));
        // More than the jump ran: the counters are not believed.
        let rest = inside.checked_sub(sum).unwrap_or_else(|| {
            counted.clear();
            inside
        });
        jumps.push(Jump { node: index, function, counted, rest });
    }
    jumps
}

/// Finds the targets of the jumps that the run has not counted by the executions that are missing, by node.
pub(super) fn infer(graph: &Graph<'_>, jumps: Vec<Jump>) -> BTreeMap<usize, Targets> {
    let uncertain = uncertain(graph);
    let mut left: BTreeMap<usize, usize> = BTreeMap::new();
    jumps.iter().filter(|jump| jump.rest > 0).for_each(|jump| *left.entry(jump.function).or_default() += 1);
    let mut missing: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
    for (node, known) in graph.nodes.iter().zip(&graph.known_in) {
        let Some(function) = node.function.filter(|function| left.contains_key(function)) else { continue };
        let is_entry = graph.profile.names.functions[function].start == node.pc;
        if let (false, Some(rest @ 1..)) = (is_entry || uncertain.contains(&node.pc), node.count.checked_sub(*known))
        {
            missing.entry(function).or_default().push((node.pc, rest));
        }
    }
    let mut tables = BTreeMap::new();
    for Jump { node, function, counted, rest } in jumps {
        let mut targets: BTreeMap<u64, Count> = BTreeMap::new();
        if rest > 0 {
            let (left, missing) = (left[&function], missing.get(&function).map_or(&[][..], Vec::as_slice));
            // Several jumps with many targets each are not told apart anyway.
            if left > 1 && left.saturating_mul(missing.len()) > MAX_TARGETS {
                continue;
            }
            let sum = missing.iter().fold(0, |sum: u64, (_, rest)| sum.saturating_add(*rest));
            let is_checked = left == 1 && sum == rest;
            targets.extend(missing.iter().map(|&(target, missing)| {
                let count = if is_checked { Count::Exact(missing) } else { Count::Bounded { least: 0, most: rest } };
                (target, count)
            }));
        }
        targets.extend(counted.iter().map(|(&target, &count)| (target, Count::Exact(count))));
        if !targets.is_empty() {
            tables.insert(node, Targets::Inferred(targets));
        }
    }
    tables
}

/// Addresses with unknown flow into them.
fn uncertain(graph: &Graph<'_>) -> BTreeSet<u64> {
    let mut uncertain = BTreeSet::new();
    for node in &graph.nodes {
        match node.out {
            Some(Out::Branch(target)) => uncertain.extend([target, node.next]),
            Some(Out::BranchAway) => uncertain.extend([node.next]),
            _ => {}
        }
    }
    for targets in graph.tables.values() {
        if let Targets::Known(targets) = targets {
            uncertain.extend(targets);
        }
    }
    uncertain
}
