// SPDX-License-Identifier: MIT OR Apache-2.0
//! Solves the equations of flow: each edge is one unknown, in one equation of the branch it leaves and one of the
//! place it enters.
//!
//! An unknown that is alone in an equation is solved, and then no longer unknown in its other one. What remains lies on
//! a cycle, or on a bridge between two: the flow over a bridge is what one of its sides lacks. No other method solves
//! more, since flow may be sent around a cycle without a change of any sum. On cycles, bounds are narrowed as far as
//! the sums allow.

use std::collections::{BTreeMap, VecDeque};

use super::Count;

/// An unknown flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    /// Equation of the flow out of its branch.
    pub(super) from: usize,
    /// Equation of the flow into its target; None: there is none.
    pub(super) to: Option<usize>,
}

/// Sum of unknown flows.
#[derive(Clone, Debug)]
struct Sum {
    value: i128,
    is_out: bool,
    edges: Vec<usize>,
}

/// Equations of all unknown flows.
#[derive(Clone, Debug, Default)]
pub(super) struct Equations {
    sums: Vec<Sum>,
    edges: Vec<Edge>,
    /// Equations of flow into places, by place: whether it is the world outside of a function, and the address.
    places: BTreeMap<(bool, u64), usize>,
}

/// Most steps for each edge of a component while bounds on its cycles are narrowed.
const STEPS_PER_EDGE: usize = 64;

impl Equations {
    /// Adds the equation of a branch that executed so often.
    pub(super) fn add_out(&mut self, count: u64) -> usize {
        self.sums.push(Sum { value: count.into(), is_out: true, edges: Vec::new() });
        self.sums.len() - 1
    }

    /// Equation of the flow into a place, added when it is first named, with the sum of its unknown flows.
    pub(super) fn add_in(&mut self, place: (bool, u64), value: i128) -> usize {
        let next = self.sums.len();
        let number = *self.places.entry(place).or_insert(next);
        if number == next {
            self.sums.push(Sum { value, is_out: false, edges: Vec::new() });
        }
        number
    }

    /// Subtracts a known flow from the equation of a place.
    pub(super) fn subtract(&mut self, place: usize, count: u64) {
        self.sums[place].value -= i128::from(count);
    }

    /// Adds an unknown and returns its number.
    pub(super) fn edge(&mut self, edge: Edge) -> usize {
        let number = self.edges.len();
        self.edges.push(edge);
        for sum in [Some(edge.from), edge.to].into_iter().flatten() {
            self.sums[sum].edges.push(number);
        }
        number
    }

    /// Counts of all unknowns.
    pub(super) fn solve(&self) -> Vec<Count> {
        let mut counts = vec![Count::Unknown; self.edges.len()];
        let mut is_seen = vec![false; self.sums.len()];
        for first in 0..self.sums.len() {
            if std::mem::replace(&mut is_seen[first], true) {
                continue;
            }
            let mut sums = vec![first];
            let mut at = 0;
            while let Some(&sum) = sums.get(at) {
                at += 1;
                for &edge in &self.sums[sum].edges {
                    let Edge { from, to } = self.edges[edge];
                    for next in [Some(from), to].into_iter().flatten() {
                        if !std::mem::replace(&mut is_seen[next], true) {
                            sums.push(next);
                        }
                    }
                }
            }
            self.solve_component(&sums, &mut counts);
        }
        counts
    }

    /// Solves equations that are connected by their unknowns.
    fn solve_component(&self, sums: &[usize], counts: &mut [Count]) {
        let edges: Vec<usize> =
            sums.iter().filter(|&&sum| self.sums[sum].is_out).flat_map(|&sum| self.sums[sum].edges.clone()).collect();
        let most = |edge: usize| self.sums[self.edges[edge].from].value;
        // Two ways to one place cannot be told apart, and flow to an unknown place is not checked.
        let is_checked = edges.iter().all(|&edge| self.edges[edge].to.is_some());
        let gap: i128 = sums
            .iter()
            .map(|&sum| if self.sums[sum].is_out { self.sums[sum].value } else { -self.sums[sum].value })
            .sum();
        let mut bounds = Bounds { equations: self, of: BTreeMap::new(), slack: gap.abs() };
        bounds.of.extend(edges.iter().map(|&edge| (edge, (0, most(edge)))));
        if is_checked && bounds.narrow(sums).is_some() {
            if gap == 0 && bounds.cross_bridges(sums).is_some() {
                let _ = bounds.narrow(sums);
            }
        } else {
            bounds.of.extend(edges.iter().map(|&edge| (edge, (0, most(edge)))));
            bounds.slack = bounds.slack.max(1);
        }
        for edge in edges {
            let (least, most) = bounds.of[&edge];
            let (least, most) = (u64::try_from(least).unwrap_or(0), u64::try_from(most).unwrap_or(u64::MAX));
            let is_exact = least == most && bounds.slack == 0;
            counts[edge] = if is_exact { Count::Exact(least) } else { Count::Bounded { least, most } };
        }
    }
}

/// Bounds of the unknowns of one component.
struct Bounds<'a> {
    equations: &'a Equations,
    /// Least and greatest value of each unknown.
    of: BTreeMap<usize, (i128, i128)>,
    /// Most by which any sum may be wrong.
    slack: i128,
}

impl Bounds<'_> {
    /// Narrows the bounds as far as the sums allow. None: the sums contradict each other.
    fn narrow(&mut self, sums: &[usize]) -> Option<()> {
        let mut queue: VecDeque<usize> = sums.iter().copied().collect();
        let mut is_queued: BTreeMap<usize, bool> = sums.iter().map(|&sum| (sum, true)).collect();
        let mut steps = STEPS_PER_EDGE.saturating_mul(self.of.len()).max(sums.len());
        while let Some(sum) = queue.pop_front().filter(|_| steps > 0) {
            steps -= 1;
            is_queued.insert(sum, false);
            let of = &self.equations.sums[sum];
            let (least, most) = of
                .edges
                .iter()
                .map(|edge| self.of[edge])
                .fold((0, 0), |(least, most), (low, high)| (least + low, most + high));
            for edge in &of.edges {
                let (low, high) = self.of[edge];
                let narrowed =
                    (low.max(of.value - self.slack - (most - high)), high.min(of.value + self.slack - (least - low)));
                if narrowed.0 > narrowed.1 {
                    return None;
                }
                if narrowed == (low, high) {
                    continue;
                }
                self.of.insert(*edge, narrowed);
                let Edge { from, to } = self.equations.edges[*edge];
                // The equation itself is looked at again: its sums of bounds have changed.
                for next in [Some(from), to].into_iter().flatten() {
                    if is_queued.insert(next, true) != Some(true) {
                        queue.push_back(next);
                    }
                }
            }
        }
        Some(())
    }

    fn is_open(&self, edge: usize) -> bool {
        self.of[&edge].0 < self.of[&edge].1
    }

    /// Solves the bridges among the open unknowns. None: there is none.
    fn cross_bridges(&mut self, sums: &[usize]) -> Option<()> {
        let mut found = Vec::new();
        let mut order: BTreeMap<usize, usize> = BTreeMap::new();
        let mut lowest: BTreeMap<usize, usize> = BTreeMap::new();
        for &root in sums {
            if order.contains_key(&root) {
                continue;
            }
            // Depth first, without recursion: sum, the edge that led to it, its next edge, and what its side lacks.
            let mut path: Vec<(usize, Option<usize>, usize, i128)> = Vec::new();
            order.insert(root, order.len());
            lowest.insert(root, order[&root]);
            path.push((root, None, 0, self.lack(root)));
            while let Some((sum, by, next, _)) = path.last_mut() {
                let (sum, by, edges) = (*sum, *by, &self.equations.sums[*sum].edges);
                let Some(&edge) = edges.get(*next) else {
                    let Some((_, _, _, lack)) = path.pop() else { break };
                    let Some((above, _, _, sum_above)) = path.last_mut() else { continue };
                    *sum_above += lack;
                    let low = lowest[&sum];
                    if low > order[above]
                        && let Some(by) = by
                    {
                        found.push((by, lack.abs()));
                    }
                    let above = *above;
                    lowest.entry(above).and_modify(|known| *known = low.min(*known));
                    continue;
                };
                *next += 1;
                if Some(edge) == by || !self.is_open(edge) {
                    continue;
                }
                let Edge { from, to } = self.equations.edges[edge];
                let Some(other) = to.map(|to| if sum == from { to } else { from }) else { continue };
                if let Some(&seen) = order.get(&other) {
                    lowest.entry(sum).and_modify(|known| *known = seen.min(*known));
                } else {
                    order.insert(other, order.len());
                    lowest.insert(other, order[&other]);
                    path.push((other, Some(edge), 0, self.lack(other)));
                }
            }
        }
        found.iter().for_each(|&(edge, value)| {
            self.of.insert(edge, (value, value));
        });
        (!found.is_empty()).then_some(())
    }

    /// Sum of an equation's open unknowns; negative for flow into a place.
    fn lack(&self, sum: usize) -> i128 {
        let of = &self.equations.sums[sum];
        let solved: i128 = of.edges.iter().filter(|&&edge| !self.is_open(edge)).map(|edge| self.of[edge].0).sum();
        if of.is_out { of.value - solved } else { solved - of.value }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Flow of some edges between branches and places, and the sums that it makes.
    fn made(edges: &[(u8, u8, u16)]) -> (Equations, Vec<u64>) {
        let mut equations = Equations::default();
        let (mut branches, mut places) = (BTreeMap::new(), BTreeMap::new());
        for &(branch, place, flow) in edges {
            *branches.entry(branch).or_insert(0_u64) += u64::from(flow);
            *places.entry(place).or_insert(0_i128) += i128::from(flow);
        }
        let branches: BTreeMap<u8, usize> =
            branches.into_iter().map(|(branch, count)| (branch, equations.add_out(count))).collect();
        for &(branch, place, _) in edges {
            let to = Some(equations.add_in((false, place.into()), places[&place]));
            equations.edge(Edge { from: branches[&branch], to });
        }
        (equations, edges.iter().map(|&(.., flow)| flow.into()).collect())
    }

    /// Unknowns that the sums determine, by elimination: those whose columns no solution of sum 0 changes.
    fn determined(equations: &Equations) -> Vec<bool> {
        let columns = equations.edges.len();
        let mut rows: Vec<Vec<i64>> = Vec::new();
        for sum in &equations.sums {
            let mut row = vec![0; columns];
            sum.edges.iter().for_each(|&edge| row[edge] += 1);
            rows.push(row);
        }
        let mut pivots: Vec<usize> = Vec::new();
        for column in 0..columns {
            let Some(pivot) = (pivots.len()..rows.len()).find(|&row| rows[row][column] != 0) else { continue };
            let rank = pivots.len();
            rows.swap(rank, pivot);
            // The matrix is totally unimodular: every pivot is 1 or -1.
            let sign = rows[rank][column];
            rows[rank].iter_mut().for_each(|value| *value *= sign);
            for row in (0..rows.len()).filter(|&row| row != rank) {
                let factor = rows[row][column];
                let of_pivot = rows[rank].clone();
                rows[row].iter_mut().zip(of_pivot).for_each(|(value, other)| *value -= factor * other);
            }
            pivots.push(column);
        }
        let alone = |column: usize| {
            pivots
                .iter()
                .position(|&pivot| pivot == column)
                .is_some_and(|row| rows[row].iter().enumerate().all(|(at, &value)| at == column || value == 0))
        };
        (0..columns).map(alone).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn solved_flow_is_the_true_one_and_no_method_solves_more(
            edges in prop::collection::vec((0_u8..8, 0_u8..10, 0_u16..50), 1..24)
        ) {
            let (equations, flow) = made(&edges);
            let solved = equations.solve();
            for (index, &determined) in determined(&equations).iter().enumerate() {
                let (count, flow) = (solved[index], flow[index]);
                prop_assert!(count.least() <= flow && count.most().is_some_and(|most| flow <= most), "{count:?} {flow}");
                if determined {
                    prop_assert_eq!(count, Count::Exact(flow));
                }
            }
        }

        #[test]
        fn lost_flow_is_within_the_bounds(
            edges in prop::collection::vec((0_u8..8, 0_u8..10, 1_u16..50), 1..24), lost in 1_u16..3
        ) {
            let (mut equations, flow) = made(&edges);
            // Some of the first edge's flow never arrived.
            let Some(to) = equations.edges[0].to else { unreachable!() };
            equations.sums[to].value -= i128::from(lost.min(edges[0].2));
            let solved = equations.solve();
            for (count, &flow) in solved.iter().zip(&flow) {
                prop_assert!(count.least() <= flow && count.most().is_some_and(|most| flow <= most), "{count:?} {flow}");
            }
            prop_assert!(solved[0].exact().is_none());
        }
    }

    #[test]
    fn flow_to_an_unknown_place_is_not_exact() {
        let mut equations = Equations::default();
        let from = equations.add_out(10);
        let to = Some(equations.add_in((false, 4), 6));
        equations.edge(Edge { from, to });
        equations.edge(Edge { from, to: None });
        let bounded = Count::Bounded { least: 0, most: 10 };
        assert_eq!(equations.solve(), [bounded, bounded]);
    }
}
