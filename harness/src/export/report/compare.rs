//! Comparison with another run, as data for the page's script: changes by function, task and call path.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Before;
use super::data::NARROW;
use crate::analysis::calltree::{CallTree, Path};
use crate::analysis::compare::{Fate, Pair};
use crate::analysis::describe::kind_of_stacks;
use crate::analysis::metrics::Metric;
use crate::analysis::stacks::{FrameRole, View};
use crate::profile::Profile;

/// Most functions that are listed; the sentence above the list counts all.
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
    /// Instructions before in each path of the page and below it, None for several paths drawn together; empty if
    /// paths do not compare.
    paths: Vec<Option<u64>>,
}

/// Functions that changed, largest share of the total change first.
#[derive(Debug, Default, Serialize)]
struct Changes {
    name: Vec<String>,
    before: Vec<Option<u64>>,
    after: Vec<Option<u64>>,
    calls_before: Vec<Option<u64>>,
    calls_after: Vec<Option<u64>>,
    fate: Vec<usize>,
}

impl Compare {
    /// Compares a profile, whose call tree is the page's.
    pub(super) fn new(before: &Before<'_>, profile: &Profile, tree: &CallTree, view: View) -> Compare {
        let Before { label, profile: old, comparison, notes } = before;
        let mut changes = Changes::default();
        for change in comparison.functions.iter().filter(|change| change.is_one()).take(MAX_CHANGES) {
            let (insns, calls) = (change.self_insns(), change.numbers[Metric::Calls]);
            changes.name.push(change.name.clone());
            changes.before.push(insns.before);
            changes.after.push(insns.after);
            changes.calls_before.push(calls.before);
            changes.calls_after.push(calls.after);
            changes.fate.push(FATES.iter().position(|fate| *fate == change.fate).unwrap_or(0));
        }
        let tasks = comparison.tasks.iter().filter(|task| task.is_one()).map(|task| {
            let Pair { before, after } = task.numbers[Metric::TaskInsns];
            (task.name.clone(), before, after)
        });
        let paths = if kind_of_stacks(old) == kind_of_stacks(profile) {
            before_in(tree, &CallTree::new(old, view))
        } else {
            Vec::new()
        };
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

/// Inclusive instructions of another tree in the paths of this one. Paths match by the names on them; a function
/// matches whether inlined or called.
fn before_in(tree: &CallTree, old: &CallTree) -> Vec<Option<u64>> {
    let step = |tree: &CallTree, member: u32| {
        let frame = &tree.members[member as usize].frame;
        let role = if frame.role == FrameRole::Inlined { FrameRole::Function } else { frame.role };
        (frame.name.clone(), role)
    };
    // Steps get numbers, so that a path is looked up by two numbers.
    let mut steps: BTreeMap<(String, FrameRole), u32> = BTreeMap::new();
    let mut numbers = |tree: &CallTree| -> Vec<u32> {
        let members = 0..tree.members.len() as u32;
        let number = |member| {
            let next = steps.len() as u32;
            *steps.entry(step(tree, member)).or_insert(next)
        };
        members.map(number).collect()
    };
    let (new_steps, old_steps) = (numbers(tree), numbers(old));
    let mut nodes: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut sums: Vec<u64> = vec![0];
    let mut nodes_of_old = vec![0_u32; old.paths.len() + 1];
    for (index, (path, insns)) in old.paths.iter().zip(old.inclusive_insns()).enumerate() {
        let parent = nodes_of_old[path.parent as usize];
        let next = sums.len() as u32;
        let node = *nodes.entry((parent, old_steps[path.member as usize])).or_insert(next);
        if node == next {
            sums.push(0);
        }
        sums[node as usize] = sums[node as usize].saturating_add(insns);
        nodes_of_old[index + 1] = node;
    }
    // None: the other tree has neither this path nor one that begins with it.
    let mut found: Vec<Option<u32>> = vec![Some(0)];
    for path in &tree.paths {
        let parent = found[path.parent as usize];
        found.push(parent.and_then(|parent| nodes.get(&(parent, new_steps[path.member as usize])).copied()));
    }
    let together = |path: &Path| {
        let frame = &tree.members[path.member as usize].frame;
        frame.role == FrameRole::Other && frame.name == NARROW
    };
    let sum = |node: &Option<u32>| node.map_or(0, |node| sums[node as usize]);
    tree.paths.iter().zip(&found[1..]).map(|(path, node)| (!together(path)).then(|| sum(node))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::calltree::Member;
    use crate::analysis::stacks::Frame;

    fn tree(paths: &[(u32, &str, FrameRole, u64)]) -> CallTree {
        let mut tree = CallTree::default();
        for (index, &(parent, name, role, insns)) in paths.iter().enumerate() {
            tree.members.push(Member { frame: Frame { name: name.to_owned(), role }, start: None });
            tree.paths.push(Path { parent, member: index as u32, insns, samples: 0 });
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
        assert_eq!(before_in(&new, &old), [46, 34, 0, 0, 0].map(Some));
        assert_eq!(before_in(&old, &new), [17, 10, 0, 0].map(Some));
        let narrow = tree(&[(0, "main", Function, 5), (1, NARROW, FrameRole::Other, 9)]);
        assert_eq!(before_in(&narrow, &old), [Some(46), None]);
    }
}
