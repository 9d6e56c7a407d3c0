// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ways of branches that need a counter of their own, since the counts of the instructions do not tell them
//! (`--branches`).
//!
//! Each branch is joined to the two places that it leads to. If the joints form no cycle, the counts of branches and
//! places determine every way; so one way of each cycle is counted (Knuth, *The Art of Computer Programming* 2.3.4.1;
//! Ball, Larus: *Optimally Profiling and Tracing Programs*, 1994). A counter costs a callback each time its way is
//! taken. So the ways are joined in the order in which they are probably taken most, loops first, and those that then
//! close a cycle are the rare ones.
//!
//! Ways to functions' starts are never counted: the calls there are.
//!
//! Jumps through registers and tables are counted where they arrive, at [`landings`]. A place needs no counter if only one
//! jump of its function can lead there, and no branch: what reaches it otherwise is known. So a function with one
//! `switch` costs a callback only where a branch of its own leads, too. Of several jumps without a table in the code,
//! each may lead everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use wire::request::Way;

use crate::image::sorted_ranges::holding;
use crate::image::targets::{Branch, Forks, TableJump};

/// Ways to be counted among those of these branches, by the branches' addresses; `functions` are sorted.
pub fn to_count(branches: &[Branch], functions: &[Range<u64>]) -> Vec<Way> {
    let is_start = |address| functions.binary_search_by_key(&address, |function| function.start).is_ok();
    let mut ways: Vec<(u8, Way)> = Vec::new();
    for &Branch { site, next, target } in branches.iter().filter(|branch| branch.target != branch.next) {
        for is_taken in [true, false] {
            let way = Way { site, next, target, is_taken };
            let order = match (is_start(way.leads_to()), is_taken, target < site) {
                (true, ..) => 0,
                (_, true, true) => 1,
                (_, false, _) => 2,
                (_, true, false) => 3,
            };
            ways.push((order, way));
        }
    }
    ways.sort_by_key(|&(order, way)| (order, way.site, way.is_taken));
    let mut joints = Joints::default();
    let mut counted: Vec<Way> = Vec::new();
    for (order, way) in ways {
        let is_cycle = !joints.join((true, way.site), (false, way.leads_to()));
        if is_cycle && order > 0 {
            counted.push(way);
        }
    }
    // At most one of each branch: the way that comes first never closes a cycle.
    counted.sort_by_key(|way| way.site);
    counted
}

/// Places at which jumps through registers and tables are to be counted, sorted; `functions` are sorted.
pub fn landings(forks: &Forks, functions: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut by_function: BTreeMap<usize, Vec<&TableJump>> = BTreeMap::new();
    for jump in &forks.jumps {
        if let Some(function) = holding(functions, jump.site) {
            by_function.entry(function).or_default().push(jump);
        }
    }
    let mut branched: BTreeSet<u64> = forks.after_returns.iter().copied().collect();
    branched.extend(forks.branches.iter().flat_map(|branch| [branch.next, branch.target]));
    let mut landings: Vec<Range<u64>> = Vec::new();
    for (function, jumps) in by_function {
        let Range { start, end } = functions[function];
        let Some(inside) = start.checked_add(1).filter(|&inside| inside < end).map(|inside| inside..end) else {
            continue;
        };
        let mut led_to: BTreeMap<u64, usize> = BTreeMap::new();
        jumps.iter().flat_map(|jump| &jump.targets).for_each(|&target| *led_to.entry(target).or_default() += 1);
        match jumps.iter().filter(|jump| jump.targets.is_empty()).count() {
            0 => {
                led_to.retain(|target, jumps| *jumps > 1 || branched.contains(target));
                landings.extend(led_to.keys().map(|&target| target..target.saturating_add(1)));
            }
            1 => {
                let others: BTreeSet<u64> = branched.range(inside).chain(led_to.keys()).copied().collect();
                landings.extend(others.into_iter().map(|place| place..place.saturating_add(1)));
            }
            _ => landings.push(inside),
        }
    }
    merged(landings)
}

/// Ranges in order, without what they have in common.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut().filter(|last| range.start < last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}

/// Branches (true) and places (false) by address, as sets of those that are joined.
#[derive(Default)]
struct Joints {
    above: BTreeMap<(bool, u64), (bool, u64)>,
}

impl Joints {
    fn top(&mut self, of: (bool, u64)) -> (bool, u64) {
        let mut top = of;
        while let Some(&above) = self.above.get(&top) {
            top = above;
        }
        // What was passed leads straight to the top from now on.
        let mut at = of;
        while let Some(above) = self.above.get_mut(&at) {
            at = std::mem::replace(above, top);
        }
        top
    }

    /// Joins two; false: they were joined already.
    fn join(&mut self, one: (bool, u64), other: (bool, u64)) -> bool {
        let (one, other) = (self.top(one), self.top(other));
        if one != other {
            self.above.insert(one, other);
        }
        one != other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(site: u64, target: u64) -> Branch {
        Branch { site, next: site + 2, target }
    }

    #[test]
    fn one_way_of_each_cycle_is_counted() {
        // Two branches to two places of their own.
        assert_eq!(to_count(&[branch(0x40, 0x50), branch(0x60, 0x70)], &[]), []);
        // if (a || b): 0x40 goes on at 0x42, a branch, or to 0x50; 0x44 to 0x50 or 0x46.
        assert_eq!(to_count(&[branch(0x40, 0x50), branch(0x44, 0x50)], &[]), []);
        // The same with both ways in common: 0x40 to 0x46 or 0x42, where 0x4a goes back to.
        let two = [branch(0x40, 0x4c), branch(0x4a, 0x42)];
        let counted = Way { site: 0x40, next: 0x42, target: 0x4c, is_taken: true };
        assert_eq!(to_count(&two, &[]), [counted]);
        // 0x4c is a function's start: what leads there is joined first.
        let start = 0x4c..0x60;
        assert_eq!(to_count(&two, &[start]), [Way { is_taken: false, ..counted }]);
    }

    #[test]
    fn jumps_are_counted_where_something_else_may_lead() {
        let jump = |site, targets: &[u64]| TableJump { site, targets: targets.to_vec() };
        let landings = |branches: &[Branch], jumps: &[TableJump]| {
            let forks = Forks { branches: branches.to_vec(), after_returns: vec![0x4e], jumps: jumps.to_vec() };
            landings(&forks, &[0x40..0x60, 0x60..0x80])
        };
        let at = |place: u64| place..place + 1;
        // A table in the code: only its default, to which the bounds check leads, too.
        assert_eq!(landings(&[branch(0x40, 0x50)], &[jump(0x44, &[0x48, 0x50])]), [at(0x50)]);
        // Two with a common target.
        let two = [jump(0x44, &[0x48, 0x50]), jump(0x4a, &[0x50, 0x52])];
        assert_eq!(landings(&[], &two), [at(0x50)]);
        // One without: wherever a branch leads in the function.
        assert_eq!(landings(&[branch(0x40, 0x70)], &[jump(0x44, &[])]), [at(0x42), at(0x4e)]);
        assert_eq!(landings(&[], &[jump(0x44, &[]), jump(0x4a, &[0x50])]), [at(0x4e), at(0x50)]);
        // Several without: everywhere but at the function's start.
        let all = 0x41..0x60;
        assert_eq!(landings(&[branch(0x40, 0x50)], &[jump(0x44, &[]), jump(0x46, &[])]), [all]);
        assert_eq!(landings(&[branch(0x40, 0x50)], &[jump(0x84, &[])]), []);
    }
}
