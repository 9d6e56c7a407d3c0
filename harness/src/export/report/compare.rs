// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparison with another run, as data for the page's script: changes by function, task and call path.

use std::convert::Infallible;

use serde::Serialize;

use crate::analysis::both::{At, Both, Node, Sampling, Step};
use crate::analysis::calltree::CallTree;
use crate::analysis::compare::{Fate, Pair};
use crate::analysis::describe::kind_of_stacks;
use crate::analysis::metrics::Metric;
use crate::analysis::stacks::{Frame, FrameRole, View};
use crate::export::report::Before;
use crate::profile::Profile;

/// Maximum number of listed functions; the sentence above the list counts all.
const MAX_CHANGES: usize = 20_000;

/// Fates of functions, by their number in the columns.
const FATES: [Fate; 5] = [Fate::Stays, Fate::New, Fate::Vanished, Fate::NowInlined, Fate::NoLongerInlined];

/// Comparison with another run.
#[derive(Debug, Serialize)]
pub(super) struct Compare {
    /// Name of the other run.
    label: String,
    /// Sentence about the functions that account for the change.
    explained: String,
    /// Sentences about different settings of the two runs.
    notes: Vec<String>,
    /// Total instructions, before and after.
    total: [u64; 2],
    fates: [&'static str; FATES.len()],
    changes: Changes,
    /// Tasks that changed: instructions before and after.
    tasks: Vec<(String, Option<u64>, Option<u64>)>,
    /// Values of the page's paths in the other run; None: the runs have different kinds of stacks.
    paths: Option<Paths>,
}

/// Values of the page's call paths, in the page's order.
#[derive(Debug, Default, Serialize)]
struct Paths {
    /// Earlier instructions of each path with all paths below it; None for paths that are drawn together.
    before: Vec<Option<u64>>,
    /// Error of the difference in instructions, for each path.
    error: Vec<u64>,
    /// Whether the numbers depend on samples, for each path.
    is_sampled: Vec<bool>,
}

/// Functions that changed, largest change of self instructions first.
#[derive(Debug, Default, Serialize)]
struct Changes {
    name: Vec<String>,
    before: Vec<Option<u64>>,
    after: Vec<Option<u64>>,
    /// Instructions of the function with its inlined functions.
    code_before: Vec<Option<u64>>,
    code_after: Vec<Option<u64>>,
    calls_before: Vec<Option<u64>>,
    calls_after: Vec<Option<u64>>,
    fate: Vec<usize>,
}

impl Compare {
    /// Compares a profile, whose call tree is the page's, with another one.
    pub(super) fn new(before: &Before<'_>, profile: &Profile, tree: &CallTree, view: View) -> Compare {
        let Before { label, profile: old, comparison, notes } = before;
        let mut changes = Changes::default();
        for change in comparison.functions.iter().filter(|change| change.is_one()).take(MAX_CHANGES) {
            let (insns, calls) = (change.self_insns(), change.numbers[Metric::Calls]);
            changes.name.push(change.name.clone());
            changes.before.push(insns.before);
            changes.after.push(insns.after);
            let code = change.numbers[Metric::Code];
            changes.code_before.push(code.before);
            changes.code_after.push(code.after);
            changes.calls_before.push(calls.before);
            changes.calls_after.push(calls.after);
            changes.fate.push(FATES.iter().position(|fate| *fate == change.fate).unwrap_or(0));
        }
        let tasks = comparison.tasks.iter().filter(|task| task.is_one()).map(|task| {
            let Pair { before, after } = task.numbers[Metric::TaskInsns];
            (task.name.clone(), before, after)
        });
        let paths = (kind_of_stacks(old) == kind_of_stacks(profile))
            .then(|| paths_of(tree, &CallTree::new(old, view), &Sampling::of(old, profile)));
        Compare {
            label: (*label).to_owned(),
            explained: comparison.explain(),
            notes: notes.clone(),
            total: [old.total_insns(), profile.total_insns()],
            fates: FATES.map(Fate::describe),
            changes,
            tasks: tasks.collect(),
            paths,
        }
    }
}

/// Finds the values of a tree's paths in another run. Paths are matched by the names on them; an inlined function
/// matches a called one of the same name.
fn paths_of(tree: &CallTree, old: &CallTree, sampling: &Sampling) -> Paths {
    let mut both = Both::new(sampling);
    for (at, tree) in [(At::Before, old), (At::After, tree)] {
        let mut frames: Vec<Frame> = Vec::new();
        let each: Result<(), Infallible> = tree.each(|members, path| {
            frames.clear();
            frames.extend(members.iter().map(|member| member.frame.clone()));
            both.add(at, &frames, path.insns, str::to_owned);
            Ok(())
        });
        let Ok(()) = each;
    }
    let nodes = both.tree();
    let insns = tree.inclusive_insns();
    // The comparison has no node for a path without instructions.
    let mut of_paths: Vec<Option<usize>> = vec![Some(0)];
    let mut paths = Paths::default();
    for (path, now) in tree.paths.iter().zip(insns) {
        let frame = &tree.members[path.member as usize].frame;
        let step = Step::of(frame, str::to_owned);
        let index = of_paths[path.parent as usize].and_then(|parent| nodes[parent].children.get(&step).copied());
        of_paths.push(index);
        let is_narrow = frame.role == FrameRole::Other && frame.name == NARROW;
        let node = index.map(|index| &nodes[index]).filter(|_| !is_narrow);
        paths.before.push(node.map(|node| before(node, now)));
        paths.error.push(node.map_or(0, |node| node.error_insns));
        paths.is_sampled.push(node.is_some_and(|node| node.is_sampled));
    }
    paths
}

/// Instructions of the other run in a path that has `now` instructions in this run; the difference is the node's.
fn before(node: &Node, now: u64) -> u64 {
    match node.insns {
        [before, after] if before == after => now,
        [0, _] => 0,
        [before, after] => now.saturating_sub(after).saturating_add(before).max(1),
    }
}

/// Name of the frame for call paths that are too narrow to be drawn one by one.
pub(super) const NARROW: &str = "[narrower paths]";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::calltree::{Member, Path};

    fn tree(paths: &[(u32, &str, FrameRole, u64)]) -> CallTree {
        let mut tree = CallTree::default();
        for (index, &(parent, name, role, insns)) in paths.iter().enumerate() {
            tree.members.push(Member { frame: Frame { name: name.to_owned(), role }, start: None });
            tree.paths.push(Path { parent, member: index as u32, insns, samples: 0, cycles: 0 });
        }
        tree
    }

    #[test]
    fn a_path_has_what_was_there_before_by_the_names_on_it() {
        use FrameRole::{Function, Inlined, Task};
        let old = tree(&[
            (0, "main", Function, 5),
            (1, "crc", Function, 30),
            (2, "step", Function, 4),
            (1, "old", Function, 7),
        ]);
        let new = tree(&[
            (0, "main", Function, 5),
            (1, "crc", Inlined, 10),
            (1, "added", Function, 1),
            (3, "step", Function, 1),
            (0, "main", Task, 3),
        ]);
        let before_in = |new: &CallTree, old: &CallTree| paths_of(new, old, &Sampling::default()).before;
        assert_eq!(before_in(&new, &old), [46, 34, 0, 0, 0].map(Some));
        assert_eq!(before_in(&old, &new), [17, 10, 0, 0].map(Some));
        let narrow = tree(&[(0, "main", Function, 5), (1, NARROW, FrameRole::Other, 9)]);
        assert_eq!(before_in(&narrow, &old), [Some(46), None]);
    }
}
