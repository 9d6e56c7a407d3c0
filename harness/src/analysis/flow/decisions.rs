// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decisions of the source in the object code: where coverage of all object branches implies MC/DC of the decision.
//!
//! MC/DC (modified condition/decision coverage) wants each condition of a decision to be shown to decide its outcome
//! alone. In code that evaluates conditions one by one, each by a branch of its own, the decision is a graph of
//! branches. If no branch of this graph is reached in two ways, the graph is a tree, and whoever has taken both ways of
//! each branch has shown MC/DC. (Comar, Guitton, Hainque, Quinot: "Formalization and Comparison of MCDC and Object
//! Branch Coverage Criteria", ERTS 2012; by this GNATcoverage decides where it must trace more than branches.)
//!
//! The graph is read from the code:
//!
//! - A decision is all the conditional branches of one line in one function. Two decisions in one line are taken for one,
//!   which can only make a proof fail.
//! - A branch is reached in the ways that lead into the straight code before it: from another branch, or from code of
//!   other lines. One branch, with which the decision begins, may be reached from anywhere, also again from a loop.
//!   Each other branch must be reached in one way, from a branch of the decision.
//! - A branch that only branches of other lines reach, in two ways, may be the rest of a decision that is written over
//!   several lines. Nothing is proved of any of these lines.
//!
//! Compilers that optimise merge conditions and move code, so nothing is proved unless the compilers say in the debug
//! information that they did not optimise. A comma operator or a statement expression in a condition that is written
//! over several lines is not recognised.

use std::collections::{BTreeMap, BTreeSet};

use super::Out;
use super::sites::{Site, walk};
use crate::profile::Profile;

/// Whether coverage of all object branches of a line implies MC/DC of its decision. The weaker one is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mcdc {
    /// The graph of the decision is a tree.
    Implied,
    /// A condition is reached in two ways, or may be.
    TwoWays,
    /// The code is optimised, or its compiler does not say that it is not.
    Optimised,
}

impl Mcdc {
    /// Reason why nothing is proved; None: it is.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Mcdc::Implied => None,
            Mcdc::TwoWays => Some("a condition is reached in two ways"),
            Mcdc::Optimised => Some("the code is optimised, or its compiler does not say"),
        }
    }
}

/// Decisions by file (index into the names' strings) and line. A line in several functions has the weakest of theirs.
pub fn decisions(profile: &Profile) -> BTreeMap<(u32, u32), Mcdc> {
    if profile.names.unoptimised.is_empty() {
        return optimised(profile);
    }
    let graph = Graph::new(profile);
    let failed = graph.failed();
    let mut lines = BTreeMap::new();
    for &group in graph.groups.keys() {
        let (function, line) = group;
        let start = function.map(|function| profile.names.functions[function].start);
        let is_plain = start.is_some_and(|start| profile.names.unoptimised.binary_search(&start).is_ok());
        let verdict = match (is_plain, failed.contains(&group)) {
            (false, _) => Mcdc::Optimised,
            (true, true) => Mcdc::TwoWays,
            (true, false) => Mcdc::Implied,
        };
        let weakest = lines.entry(line).or_insert(verdict);
        *weakest = verdict.max(*weakest);
    }
    lines
}

/// Decisions of an image of which no function is known to be unoptimised: nothing is proved, whatever the graph is.
fn optimised(profile: &Profile) -> BTreeMap<(u32, u32), Mcdc> {
    let mut lines = BTreeMap::new();
    walk(profile, |site| {
        if site.out.is_conditional() {
            lines.insert(site.line, Mcdc::Optimised);
        }
    });
    lines
}

/// Branches of one line in one function: the function's index and the line.
type Group = (Option<usize>, (u32, u32));

/// Way into the code before a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// One of the two ways of the branch at an address.
    Branch {
        /// Address of the branch.
        site: u64,
        /// Whether it is the taken way.
        taken: bool,
        /// Whether no code lies on the way but jumps.
        direct: bool,
    },
    /// Code of other lines, a function's entry, or code that is not known.
    Outside,
}

/// Control flow between instructions that have lines.
#[derive(Default)]
struct Graph {
    sites: BTreeMap<u64, Site>,
    /// Instructions that lead to an address, each with the way of a branch, taken or not.
    before: BTreeMap<u64, Vec<(u64, Option<bool>)>>,
    groups: BTreeMap<Group, Vec<u64>>,
    group_of: BTreeMap<u64, Group>,
}

/// Most instructions before one branch; if there are more, other code may lead to it, too. The search goes on behind them
/// for ways from branches. It ends soon: an instruction that does not branch is only looked at before the next branch.
const MOST_BEFORE: usize = 4096;

impl Graph {
    fn new(profile: &Profile) -> Graph {
        let mut graph = Graph::default();
        walk(profile, |site| {
            let mut leads = |target, way| graph.before.entry(target).or_default().push((site.pc, way));
            match site.out {
                Out::Next | Out::Call(_) => leads(site.next, None),
                Out::Jump(target) => leads(target, None),
                Out::Branch(target) => {
                    leads(target, Some(true));
                    leads(site.next, Some(false));
                }
                Out::BranchAway => leads(site.next, Some(false)),
                Out::Return | Out::Table | Out::Indirect => {}
            }
            if site.out.is_conditional() {
                let group = (profile.names.function_index_at(site.pc), site.line);
                graph.groups.entry(group).or_default().push(site.pc);
                graph.group_of.insert(site.pc, group);
            }
            graph.sites.insert(site.pc, site);
        });
        graph
    }

    /// Instructions that lead to an address, each with the way of a branch.
    fn before(&self, at: u64) -> &[(u64, Option<bool>)] {
        self.before.get(&at).map_or(&[][..], Vec::as_slice)
    }

    /// Groups of which nothing is proved.
    fn failed(&self) -> BTreeSet<Group> {
        let mut failed = BTreeSet::new();
        for (&group, branches) in &self.groups {
            let own = |source: &Source| matches!(source, Source::Branch { site, .. } if self.group_of[site] == group);
            let sources: Vec<BTreeSet<Source>> = branches.iter().map(|&branch| self.sources(branch, group)).collect();
            let starts: Vec<&BTreeSet<Source>> =
                sources.iter().filter(|sources| sources.len() != 1 || !sources.iter().all(own)).collect();
            // A decision of which only this line's part begins here.
            let is_rest = |sources: &BTreeSet<Source>| {
                let is_direct = |source: &Source| matches!(source, Source::Branch { direct: true, .. });
                let others = sources.iter().filter(|source| !own(source) && is_direct(source)).count();
                others > 1 && !sources.contains(&Source::Outside)
            };
            if starts.len() <= 1 && !starts.iter().any(|sources| is_rest(sources)) {
                continue;
            }
            failed.insert(group);
            // Other lines from which the same condition is reached may be parts of the same decision.
            let shared = starts.iter().filter(|sources| is_rest(sources) || sources.iter().any(own));
            failed.extend(shared.flat_map(|sources| sources.iter()).filter_map(|source| match source {
                Source::Branch { site, .. } => Some(self.group_of[site]),
                Source::Outside => None,
            }));
        }
        failed
    }

    /// Ways into the code before a branch.
    fn sources(&self, branch: u64, group: Group) -> BTreeSet<Source> {
        let mut sources = BTreeSet::new();
        let mut seen = BTreeSet::from([branch]);
        // Addresses, each with whether ways have joined between it and the branch, and whether code lies before that.
        let mut queue = vec![(branch, false, false)];
        while let Some((at, has_joined, is_far)) = queue.pop() {
            let before = self.before(at);
            if before.is_empty() || seen.len() > MOST_BEFORE {
                sources.insert(Source::Outside);
            }
            let has_joined = has_joined || before.len() > 1;
            for &(site, way) in before {
                let is_inside = self.sites[&site].line == group.1;
                match way {
                    Some(taken) => {
                        sources.insert(Source::Branch { site, taken, direct: !is_far });
                    }
                    None if self.is_long_way(site) => {
                        queue.extend(seen.insert(site).then_some((site, has_joined, is_far)))
                    }
                    None if has_joined && !is_inside => {
                        sources.insert(Source::Outside);
                    }
                    None => queue.extend(seen.insert(site).then_some((site, has_joined, has_joined))),
                }
            }
        }
        sources
    }

    /// Whether an instruction is a jump that only branches lead to: the rest of a branch that does not reach its target.
    fn is_long_way(&self, site: u64) -> bool {
        let before = self.before(site);
        let is_jump = matches!(self.sites[&site].out, Out::Jump(_));
        is_jump && !before.is_empty() && before.iter().all(|(_, way)| way.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;
    use crate::profile::{Code, LineCode};

    const MOVS: u16 = 0x2001;
    const BX_LR: u16 = 0x4770;

    /// `beq` from one address to another.
    fn beq(at: u16, to: u16) -> u16 {
        0xd000 | (to.wrapping_sub(at + 4) >> 1 & 0xff)
    }

    /// One function at 0x40 of Thumb halfwords with their lines.
    fn verdicts(code: &[(u16, u32)], is_unoptimised: bool) -> Vec<(u32, Mcdc)> {
        let mut profile = empty().function("main", 0x40, 2 * code.len() as u64);
        profile.names.strings.push("a.c".to_owned());
        let file = profile.names.strings.len() as u32 - 1;
        let bytes = code.iter().flat_map(|(halfword, _)| halfword.to_le_bytes()).collect();
        profile.code = vec![Code { start: 0x40, bytes }];
        for (&(_, line), index) in code.iter().zip(0..) {
            profile.names.lines.push(LineCode { start: 0x40 + 2 * index, size_bytes: 2, file, line });
        }
        profile.names.unoptimised.extend(is_unoptimised.then_some(0x40));
        decisions(&profile).into_iter().map(|((_, line), verdict)| (line, verdict)).collect()
    }

    #[test]
    fn a_decision_is_proved_if_its_graph_is_a_tree() {
        // if (a && b) x(); c: each condition is reached in one way.
        let and = [(beq(0x40, 0x46), 1), (beq(0x42, 0x46), 1), (MOVS, 2), (BX_LR, 3)];
        assert_eq!(verdicts(&and, true), [(1, Mcdc::Implied)]);
        // if (a && b || c): c is reached from a and from b.
        let mixed = [
            (beq(0x40, 0x44), 1), // a false: to c
            (beq(0x42, 0x46), 1), // b true: to x
            (beq(0x44, 0x48), 1), // c false: over x
            (MOVS, 2),
            (BX_LR, 3),
        ];
        assert_eq!(verdicts(&mixed, true), [(1, Mcdc::TwoWays)]);
    }

    #[test]
    fn parts_of_a_decision_on_other_lines_count() {
        // if (a && b \n || c)
        let mixed = [(beq(0x40, 0x44), 1), (beq(0x42, 0x46), 1), (beq(0x44, 0x48), 2), (MOVS, 3), (BX_LR, 4)];
        assert_eq!(verdicts(&mixed, true), [(1, Mcdc::TwoWays), (2, Mcdc::TwoWays)]);
        // if (a \n && b || c)
        let mixed = [(beq(0x40, 0x44), 1), (beq(0x42, 0x46), 2), (beq(0x44, 0x48), 2), (MOVS, 3), (BX_LR, 4)];
        assert_eq!(verdicts(&mixed, true), [(1, Mcdc::TwoWays), (2, Mcdc::TwoWays)]);
        // if (a) x(); if (b) y();
        let apart = [(beq(0x40, 0x44), 1), (MOVS, 2), (beq(0x44, 0x48), 3), (MOVS, 4), (BX_LR, 5)];
        assert_eq!(verdicts(&apart, true), [(1, Mcdc::Implied), (3, Mcdc::Implied)]);
        // The same in one line may be one decision.
        let one = [(beq(0x40, 0x44), 1), (MOVS, 1), (beq(0x44, 0x48), 1), (MOVS, 1), (BX_LR, 2)];
        assert_eq!(verdicts(&one, true), [(1, Mcdc::TwoWays)]);
    }

    #[test]
    fn a_loop_evaluates_its_decision_again() {
        // 0x40: movs; 0x42: while (a && b) 0x46: x(); 0x48: b 0x42
        let code = [(MOVS, 1), (beq(0x42, 0x4a), 2), (beq(0x44, 0x4a), 2), (MOVS, 3), (0xe7fb, 3), (BX_LR, 4)];
        assert_eq!(verdicts(&code, true), [(2, Mcdc::Implied)]);
    }

    #[test]
    fn a_loop_in_a_loop_is_no_part_of_it() {
        // 0x40: movs; 0x42: beq 0x4c; 0x44: movs; 0x46: beq 0x42 (the outer loop's test); 0x48: movs; 0x4a: b 0x46
        let code = [
            (MOVS, 1),
            (beq(0x42, 0x4c), 1),
            (MOVS, 2), // the start of the inner loop
            (beq(0x46, 0x42), 2),
            (MOVS, 2),
            (0xe7fc, 2),
            (BX_LR, 3),
        ];
        assert_eq!(verdicts(&code, true), [(1, Mcdc::Implied), (2, Mcdc::Implied)]);
    }

    #[test]
    fn a_jump_that_lengthens_a_branch_is_part_of_it() {
        // if (a || b) \n && c, where a reaches c by a jump.
        let code = [
            (beq(0x40, 0x44), 1),
            (0xe000, 1), // b 0x46
            (beq(0x44, 0x48), 1),
            (beq(0x46, 0x4a), 2),
            (MOVS, 3),
            (BX_LR, 4),
        ];
        assert_eq!(verdicts(&code, true), [(1, Mcdc::TwoWays), (2, Mcdc::TwoWays)]);
    }

    #[test]
    fn nothing_is_proved_of_code_that_may_be_optimised() {
        let code = [(beq(0x40, 0x44), 1), (MOVS, 2), (BX_LR, 3)];
        assert_eq!(verdicts(&code, false), [(1, Mcdc::Optimised)]);
    }
}
