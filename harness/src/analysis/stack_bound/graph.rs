// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call graph of the machine code, and the most stack that each function takes with all that it calls.

use std::collections::{BTreeMap, BTreeSet};

use super::Certainty;

/// Function of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Most bytes that the function itself holds.
    pub(super) own_bytes: u64,
    /// Transfers of control to other functions.
    pub(super) edges: Vec<Edge>,
    /// Most activations at once, if the user states them.
    pub(super) most: Option<u64>,
    /// Certainty of the function's own numbers.
    pub(super) certainty: Certainty,
}

/// Transfer of control to another function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    /// Target, an index.
    pub(super) to: usize,
    /// Bytes that the function holds meanwhile.
    pub(super) bytes: u64,
}

/// Most stack from a function on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Most {
    /// Bytes; without a bound, the part that is known.
    pub(super) bytes: u64,
    /// Certainty of the number.
    pub(super) certainty: Certainty,
    /// Deepest transfer: the next function of the deepest path.
    pub(super) next: Option<Edge>,
}

/// Solution of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Solution {
    /// Most stack from each function on.
    pub(super) most: Vec<Most>,
    /// Most bytes that each function itself holds, with its parts elsewhere.
    pub(super) own_bytes: Vec<u64>,
    /// Circles of functions that nothing bounds, each sorted.
    pub(super) circles: Vec<Vec<usize>>,
    /// Circle of each function in one that nothing bounds, an index.
    pub(super) circle_of: BTreeMap<usize, usize>,
}

/// Finds the most stack of each function.
pub(super) fn solve(nodes: &[Node]) -> Solution {
    let nodes = &with_parts(nodes);
    let mut solution = Solution {
        most: vec![Most::default(); nodes.len()],
        own_bytes: nodes.iter().map(|node| node.own_bytes).collect(),
        ..Solution::default()
    };
    for component in components(nodes) {
        let is_circle = component.len() > 1 || nodes[component[0]].edges.iter().any(|edge| edge.to == component[0]);
        if is_circle {
            circle(nodes, &component, &mut solution);
        } else {
            let node = component[0];
            solution.most[node] = of_node(&nodes[node], &solution.most, |_| true);
        }
    }
    solution
}

/// Nodes of which those have the same edges that lead to each other while they hold nothing. Such a circle makes no stack
/// deeper, so it is not recursion: a function with a part elsewhere (`.cold`) that jumps back, a loop of tail calls.
fn with_parts(nodes: &[Node]) -> Vec<Node> {
    let holds_nothing = |node: &Node| Node {
        edges: node.edges.iter().copied().filter(|edge| edge.bytes == 0).collect(),
        ..Node::default()
    };
    let flat: Vec<Node> = nodes.iter().map(holds_nothing).collect();
    let mut merged = nodes.to_vec();
    for parts in components(&flat) {
        let members: BTreeSet<usize> = parts.iter().copied().collect();
        let of_parts = || parts.iter().map(|&part| &nodes[part]);
        let edges = of_parts().flat_map(|part| part.edges.iter().copied());
        let edges: BTreeSet<Edge> = edges.filter(|edge| edge.bytes > 0 || !members.contains(&edge.to)).collect();
        let all = Node {
            own_bytes: of_parts().map(|part| part.own_bytes).max().unwrap_or(0),
            edges: edges.into_iter().collect(),
            most: of_parts().filter_map(|part| part.most).min(),
            certainty: of_parts().map(|part| part.certainty).fold(Certainty::Bounded, Certainty::max),
        };
        for &part in &parts {
            merged[part] = all.clone();
        }
    }
    merged
}

/// Most stack of a function by its edges to functions that are solved.
fn of_node(node: &Node, most: &[Most], is_solved: impl Fn(usize) -> bool) -> Most {
    let mut own = Most { bytes: node.own_bytes, certainty: node.certainty, next: None };
    for edge in node.edges.iter().filter(|edge| is_solved(edge.to)) {
        let bytes = edge.bytes.saturating_add(most[edge.to].bytes);
        if bytes > own.bytes {
            (own.bytes, own.next) = (bytes, Some(*edge));
        }
        own.certainty = own.certainty.max(most[edge.to].certainty);
    }
    own
}

/// Solves functions that call each other in a circle. Where the user bounds some of them so that no circle is left
/// among the others, a path is a beginning, laps from one bounded function to the next, and an end.
fn circle(nodes: &[Node], component: &[usize], solution: &mut Solution) {
    let members: BTreeSet<usize> = component.iter().copied().collect();
    let number = solution.circles.len();
    let ends: BTreeMap<usize, Most> = component
        .iter()
        .map(|&node| (node, of_node(&nodes[node], &solution.most, |to| !members.contains(&to))))
        .collect();
    let certainty = ends.values().map(|end| end.certainty).fold(Certainty::Bounded, Certainty::max);
    let rest: BTreeSet<usize> = component.iter().copied().filter(|&node| nodes[node].most.is_none()).collect();
    let order = sorted(nodes, &rest);
    let (certainty, order) = match order {
        Some(order) => (certainty, order),
        None => {
            solution.circle_of.extend(component.iter().map(|&node| (node, number)));
            solution.circles.push(component.to_vec());
            // Nothing bounds the circle: only a part is known.
            (Certainty::Unbounded, Vec::new())
        }
    };
    let end = ends.values().map(|end| end.bytes).max().unwrap_or(0);
    let inner = |node: usize| nodes[node].edges.iter().filter(|edge| members.contains(&edge.to));
    let bytes = if certainty == Certainty::Unbounded && order.is_empty() {
        // A run may leave the circle after a single call in it: that much is known.
        component.iter().flat_map(|&node| inner(node)).map(|edge| edge.bytes).fold(end, u64::max)
    } else {
        // Longest way within the rest: up to its end, or into a bounded function.
        let mut way: BTreeMap<usize, u64> = BTreeMap::new();
        let mut tail: BTreeMap<usize, u64> = BTreeMap::new();
        for &node in order.iter().rev() {
            let next = |of: &BTreeMap<usize, u64>, edge: &Edge| {
                of.get(&edge.to).map(|bytes| edge.bytes.saturating_add(*bytes))
            };
            let to_bounded = inner(node).map(|edge| next(&way, edge).unwrap_or(edge.bytes)).max().unwrap_or(0);
            let to_end = inner(node).filter_map(|edge| next(&tail, edge)).fold(ends[&node].bytes, u64::max);
            way.insert(node, to_bounded);
            tail.insert(node, to_end);
        }
        let bounded = component.iter().filter_map(|&node| Some((node, nodes[node].most?)));
        let (mut visits, mut lap, mut last) = (0_u64, 0, 0);
        for (node, most) in bounded {
            visits = visits.saturating_add(most);
            for edge in inner(node) {
                lap = lap.max(edge.bytes.saturating_add(way.get(&edge.to).copied().unwrap_or(0)));
                last = last.max(tail.get(&edge.to).map_or(0, |bytes| edge.bytes.saturating_add(*bytes)));
            }
            last = last.max(ends[&node].bytes);
        }
        let beginning = way.values().copied().max().unwrap_or(0);
        let laps = visits.saturating_sub(1).saturating_mul(lap);
        let alone = tail.values().copied().max().unwrap_or(0);
        beginning.saturating_add(laps).saturating_add(last).max(alone)
    };
    for &node in component {
        let next = ends[&node].next;
        solution.most[node] = Most { bytes, certainty, next };
    }
}

/// Functions sorted so that each comes before those that it calls; None: they call each other in a circle.
fn sorted(nodes: &[Node], members: &BTreeSet<usize>) -> Option<Vec<usize>> {
    let mut callers: BTreeMap<usize, usize> = members.iter().map(|&node| (node, 0)).collect();
    let targets = |node: usize| -> BTreeSet<usize> {
        nodes[node].edges.iter().map(|edge| edge.to).filter(|to| members.contains(to)).collect()
    };
    for &node in members {
        for to in targets(node) {
            *callers.entry(to).or_default() += 1;
        }
    }
    let mut open: Vec<usize> = callers.iter().filter(|(_, count)| **count == 0).map(|(&node, _)| node).collect();
    let mut order = Vec::new();
    while let Some(node) = open.pop() {
        order.push(node);
        for to in targets(node) {
            if let Some(count) = callers.get_mut(&to) {
                *count -= 1;
                if *count == 0 {
                    open.push(to);
                }
            }
        }
    }
    (order.len() == members.len()).then_some(order)
}

/// Strongly connected components, each after all that it leads to (Tarjan, 1972), without recursion.
fn components(nodes: &[Node]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let mut index = vec![NEW; nodes.len()];
    let mut low = vec![0; nodes.len()];
    let mut is_open = vec![false; nodes.len()];
    let (mut stack, mut found, mut next) = (Vec::new(), Vec::new(), 0);
    for root in 0..nodes.len() {
        if index[root] != NEW {
            continue;
        }
        let mut way: Vec<(usize, usize)> = vec![(root, 0)];
        while let Some(&mut (node, ref mut edge)) = way.last_mut() {
            if *edge == 0 {
                (index[node], low[node]) = (next, next);
                next += 1;
                stack.push(node);
                is_open[node] = true;
            }
            let target = nodes[node].edges.get(*edge).map(|edge| edge.to);
            *edge += 1;
            match target {
                Some(to) if index[to] == NEW => way.push((to, 0)),
                Some(to) if is_open[to] => low[node] = low[node].min(index[to]),
                Some(_) => {}
                None => {
                    way.pop();
                    if let Some(&(caller, _)) = way.last() {
                        low[caller] = low[caller].min(low[node]);
                    }
                    if low[node] == index[node] {
                        let start = stack.iter().rposition(|&open| open == node).unwrap_or(0);
                        let mut component = stack.split_off(start);
                        component.iter().for_each(|&member| is_open[member] = false);
                        component.sort_unstable();
                        found.push(component);
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(own_bytes: u64, edges: &[(usize, u64)]) -> Node {
        Node { own_bytes, edges: edges.iter().map(|&(to, bytes)| Edge { to, bytes }).collect(), ..Node::default() }
    }

    #[test]
    fn the_deepest_path_counts_what_each_function_holds_at_its_call() {
        // 0 calls 1 with 16 bytes and 2 with 48; 1 calls 2; 2 is a leaf of 32 bytes.
        let nodes = [node(64, &[(1, 16), (2, 48)]), node(40, &[(2, 40)]), node(32, &[])];
        let solution = solve(&nodes);
        assert_eq!(solution.most.iter().map(|most| most.bytes).collect::<Vec<_>>(), [88, 72, 32]);
        assert_eq!(solution.most[0].next, Some(Edge { to: 1, bytes: 16 }));
        assert!(solution.circles.is_empty());
    }

    #[test]
    fn recursion_is_unbounded_until_the_user_bounds_it() {
        let mut nodes = vec![node(8, &[(1, 8)]), node(32, &[(1, 24), (2, 24)]), node(100, &[])];
        let solution = solve(&nodes);
        assert_eq!(solution.most[0].certainty, Certainty::Unbounded);
        assert_eq!(solution.circles, [vec![1]]);
        nodes[1].most = Some(3);
        let solution = solve(&nodes);
        // Two calls of itself, and the leaf under the third activation.
        assert_eq!((solution.most[0].bytes, solution.most[0].certainty), (8 + 2 * 24 + 24 + 100, Certainty::Bounded));
    }

    #[test]
    fn one_bound_bounds_a_circle_through_several_functions() {
        // parse → value → object → parse
        let mut nodes = vec![node(0, &[(1, 16)]), node(16, &[(2, 16)]), node(48, &[(0, 32)])];
        nodes[0].most = Some(4);
        let solution = solve(&nodes);
        // Three laps of 64 bytes, then 16 + 16 + 48; a beginning of at most 48 in object and value.
        assert_eq!(solution.most[0].bytes, 48 + 3 * 64 + 80);
        assert_eq!(solution.most[0].certainty, Certainty::Bounded);
        // A bound on a function that is not in all circles does not help.
        nodes[1].edges.push(Edge { to: 1, bytes: 16 });
        assert_eq!(solve(&nodes).most[0].certainty, Certainty::Unbounded);
    }

    #[test]
    fn parts_that_lead_to_each_other_and_hold_nothing_are_one_function() {
        // parse (0) jumps to its cold part (1), which calls report (2) and jumps back; parse calls leaf (3).
        let mut nodes = [node(48, &[(1, 0), (3, 48)]), node(48, &[(0, 0), (2, 48)]), node(96, &[]), node(8, &[])];
        let solution = solve(&nodes);
        let bytes: Vec<u64> = solution.most.iter().map(|most| most.bytes).collect();
        assert_eq!((bytes, solution.circles.len()), (vec![144, 144, 96, 8], 0));
        assert_eq!(solution.most[0].next, Some(Edge { to: 2, bytes: 48 }));
        // A part that calls the function is recursion.
        nodes[1].edges[0].bytes = 48;
        assert_eq!(solve(&nodes).most[0].certainty, Certainty::Unbounded);
        // A loop of tail calls, one of them through a pointer to itself.
        let solution = solve(&[node(16, &[(1, 0), (0, 0)]), node(32, &[(2, 0)]), node(8, &[(0, 0)])]);
        assert_eq!((solution.most[2].bytes, solution.most[2].certainty), (32, Certainty::Bounded));
    }

    #[test]
    fn components_come_after_what_they_lead_to_in_graphs_of_any_depth() {
        let chain: Vec<Node> = (0..200_000).map(|at| node(8, &[(at + 1, 8)])).chain([node(8, &[])]).collect();
        assert_eq!(solve(&chain).most[0].bytes, 8 * 200_001);
    }
}
