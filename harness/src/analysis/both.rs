// SPDX-License-Identifier: MIT OR Apache-2.0
//! The call paths of two profiles as one tree, with each frame's instructions on both sides, and the error of their
//! difference.
//!
//! A function's own count is exact; its callers share it in proportion to the samples. So two identical runs with
//! different samples have different numbers in each path to a function with several callers, and frames that only one
//! run has. These are not differences. Code with equal counts, and equal calls on all paths to it, is divided alike on
//! both sides: in proportion to the samples of both together. For other code each difference has an error, which
//! follows from the number of samples.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::analysis::attribution::divide;
use crate::analysis::cold_part::ColdParts;
use crate::analysis::functions;
use crate::analysis::stacks::{self, Frame, FrameRole};
use crate::profile::Profile;

/// Width of the error in standard deviations; chance exceeds it 3 times in 1,000.
const DEVIATIONS: f64 = 3.0;

/// Upper bound of variances, so that their sums do not overflow; its root exceeds any count.
const MOST_VARIANCE: f64 = 1e30;

/// One of the two profiles, as an index of a frame's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The earlier profile.
    Before,
    /// The later profile.
    After,
}

impl At {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            At::Before => "before",
            At::After => "after",
        }
    }

    /// The other one.
    pub fn other(self) -> At {
        match self {
            At::Before => At::After,
            At::After => At::Before,
        }
    }
}

/// Code at the end of call paths: a function, and inlined functions within.
type Leaf = Vec<Frame>;

/// Sampling data of two profiles: tells which numbers of their call paths are divided by samples.
#[derive(Clone, Debug, Default)]
pub struct Sampling {
    /// Whether the paths are sampled; otherwise each number is exact.
    is_sampled: bool,
    /// Samples by which each leaf is divided, before and after.
    samples: HashMap<Leaf, [u64; 2]>,
    /// Functions whose callers or numbers of calls differ, and all functions that they call.
    called_otherwise: BTreeSet<String>,
}

impl Sampling {
    /// Sampling data of two profiles.
    pub fn of(before: &Profile, after: &Profile) -> Sampling {
        let sides = [before, after];
        let has_samples = |profile: &&Profile| profile.tree.is_empty() && profile.facts.max_depth.is_some();
        if !sides.iter().any(has_samples) {
            return Sampling::default();
        }
        let mut samples: HashMap<Leaf, [u64; 2]> = HashMap::new();
        for (at, profile) in sides.into_iter().enumerate() {
            let parts = ColdParts::of(profile);
            let mut of_function: HashMap<Frame, u64> = HashMap::new();
            for (pc, count) in profile.samples_by_pc() {
                let leaf = stacks::at(profile, &parts, pc);
                *of_function.entry(leaf[0].clone()).or_default() += count;
                samples.entry(leaf).or_default()[at] += count;
            }
            // Code without a sample of its own is divided as its function is.
            for pc in profile.insns().into_keys() {
                let leaf = stacks::at(profile, &parts, pc);
                let function = of_function.get(&leaf[0]).copied().unwrap_or(0);
                let own = &mut samples.entry(leaf).or_default()[at];
                if *own == 0 {
                    *own = function;
                }
            }
        }
        Sampling { is_sampled: true, samples, called_otherwise: called_otherwise(before, after) }
    }

    /// Whether a leaf is the same on both sides; its instructions are given before and after.
    fn is_same(&self, leaf: &Leaf, [before, after]: [u64; 2]) -> bool {
        self.is_sampled
            && before == after
            && leaf.first().is_some_and(|frame| !self.called_otherwise.contains(&frame.name))
    }

    /// Samples by which a leaf is divided on both sides.
    fn samples(&self, leaf: &Leaf) -> [u64; 2] {
        self.samples.get(leaf).copied().unwrap_or_default()
    }

    /// Variance of the difference in one frame's part of a leaf: `here` are the frame's numbers before and after, `of`
    /// the leaf's. It is the variance of a random draw, and at least that of one sample. It is 0 if the frame has all
    /// of the leaf on both sides.
    fn variance(&self, samples: [u64; 2], here: [u64; 2], of: [u64; 2]) -> i128 {
        if !self.is_sampled || here == of || here == [0; 2] {
            return 0;
        }
        let sides = || (0..2).filter(|&at| of[at] > 0);
        let count = |at: usize| samples[at].max(1) as f64;
        let expected: f64 = sides().map(|at| count(at) * here[at] as f64 / of[at] as f64).sum();
        let share = expected / sides().map(count).sum::<f64>();
        let of_side = |at: usize| (of[at] as f64 / count(at)).powi(2) * (count(at) * share * (1.0 - share)).max(1.0);
        // An integer, so that a variance can be subtracted again exactly.
        sides().map(of_side).sum::<f64>().min(MOST_VARIANCE) as i128
    }
}

/// Functions whose calls differ by caller and number, and all functions that they call.
fn called_otherwise(before: &Profile, after: &Profile) -> BTreeSet<String> {
    let mut calls: BTreeMap<String, BTreeMap<(String, bool), [u64; 2]>> = BTreeMap::new();
    let mut callees: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (at, profile) in [before, after].into_iter().enumerate() {
        for row in functions::arcs(profile) {
            callees.entry(row.caller.clone()).or_default().insert(row.callee.clone());
            let of_callee = calls.entry(row.callee).or_default();
            of_callee.entry((row.caller, row.tail_call.is_some())).or_default()[at] += row.count;
        }
    }
    let differs =
        |callers: &BTreeMap<(String, bool), [u64; 2]>| callers.values().any(|[before, after]| before != after);
    let mut open: Vec<String> =
        calls.iter().filter(|(_, callers)| differs(callers)).map(|(callee, _)| callee.clone()).collect();
    let mut found = BTreeSet::new();
    while let Some(name) = open.pop() {
        if found.insert(name.clone()) {
            open.extend(callees.get(&name).into_iter().flatten().cloned());
        }
    }
    found
}

/// Key of a frame among its siblings, which are sorted by name first. An inlined function and a called one have the
/// same key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    name: String,
    role: FrameRole,
}

impl Step {
    /// Key of a frame.
    pub fn of(frame: &Frame, name: impl Fn(&str) -> String) -> Step {
        let role = if frame.role == FrameRole::Inlined { FrameRole::Function } else { frame.role };
        Step { name: name(&frame.name), role }
    }
}

/// Presence of a frame on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It is absent.
    None,
    /// It was called.
    Called,
    /// It is inlined.
    Inlined,
    /// It is called in some places and inlined in others.
    Partly,
}

/// A frame by its path of names, with its numbers on both sides.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Number of frames around it.
    pub depth: usize,
    /// Instructions in it and below, before and after.
    pub insns: [u64; 2],
    /// Whether they are divided by samples, so that a repeated run may have others.
    pub is_sampled: bool,
    /// Error bound of the difference of the two; 0: the difference is exact.
    pub error_insns: u64,
    /// Index after its last descendant.
    pub end: usize,
    /// The frame's direct children.
    pub children: BTreeMap<Step, usize>,
    /// By side, as its profile alone divides them: all instructions, and the inlined ones among them.
    alone: [[u64; 2]; 2],
    parent: usize,
}

impl Node {
    /// A frame with exact instructions.
    pub fn exact(insns: [u64; 2]) -> Node {
        Node { insns, ..Node::default() }
    }

    /// Whether the difference of the two sides is within the error.
    pub fn is_within_error(&self) -> bool {
        let [before, after] = self.insns;
        self.error_insns > 0 && before.abs_diff(after) <= self.error_insns
    }

    /// Form of its presence on one side.
    pub fn call(&self, at: At) -> Call {
        match self.alone[at as usize] {
            [0, _] => Call::None,
            [_, 0] => Call::Called,
            [all, inlined] if all == inlined => Call::Inlined,
            _ => Call::Partly,
        }
    }
}

/// Two profiles' call paths, while their tree is built.
#[derive(Debug)]
pub struct Both<'a> {
    sampling: &'a Sampling,
    nodes: Vec<Node>,
    leaves: HashMap<Leaf, usize>,
    /// Instructions at the end of paths: by leaf and node, before and after.
    ends: BTreeMap<(usize, usize), [u64; 2]>,
}

impl<'a> Both<'a> {
    /// A tree without call paths.
    pub fn new(sampling: &'a Sampling) -> Both<'a> {
        let all = Node { name: "all".to_owned(), ..Node::default() };
        Both { sampling, nodes: vec![all], leaves: HashMap::new(), ends: BTreeMap::new() }
    }

    /// Adds one side's instructions at the end of a call path; `name` maps frames to their names.
    pub fn add(&mut self, at: At, frames: &[Frame], insns: u64, name: impl Fn(&str) -> String) {
        let mut here = 0;
        let side = at as usize;
        add(&mut self.nodes[0].alone[side][0], insns);
        for frame in frames {
            let step = Step::of(frame, &name);
            here = match self.nodes[here].children.get(&step) {
                Some(&child) => child,
                None => {
                    let child = self.nodes.len();
                    let depth = self.nodes[here].depth + 1;
                    self.nodes.push(Node { name: step.name.clone(), depth, parent: here, ..Node::default() });
                    self.nodes[here].children.insert(step, child);
                    child
                }
            };
            add(&mut self.nodes[here].alone[side][0], insns);
            if frame.role == FrameRole::Inlined {
                add(&mut self.nodes[here].alone[side][1], insns);
            }
        }
        let outer = frames.iter().rposition(|frame| frame.role != FrameRole::Inlined).unwrap_or(0);
        let next = self.leaves.len();
        let leaf = *self.leaves.entry(frames[outer..].to_vec()).or_insert(next);
        add(&mut self.ends.entry((leaf, here)).or_default()[side], insns);
    }

    /// All frames of both sides, depth first, siblings sorted by name; the first frame contains all others.
    pub fn tree(mut self) -> Vec<Node> {
        let mut of_leaves: Vec<[u64; 2]> = vec![[0; 2]; self.leaves.len()];
        for (&(leaf, _), insns) in &self.ends {
            (0..2).for_each(|at| add(&mut of_leaves[leaf][at], insns[at]));
        }
        let mut samples = vec![[0; 2]; self.leaves.len()];
        let mut is_same = vec![false; self.leaves.len()];
        for (leaf, &index) in &self.leaves {
            samples[index] = self.sampling.samples(leaf);
            is_same[index] = self.sampling.is_same(leaf, of_leaves[index]);
        }
        for leaf in (0..is_same.len()).filter(|&leaf| is_same[leaf]) {
            self.divide_alike(leaf, of_leaves[leaf][0], samples[leaf]);
        }
        self.sum_up(&of_leaves, &samples, &is_same);
        sorted(self.nodes)
    }

    /// Divides a leaf over its paths in proportion to the samples of both sides together.
    fn divide_alike(&mut self, leaf: usize, insns: u64, [before, after]: [u64; 2]) {
        let all = u128::from(before) + u128::from(after);
        let weight = |[one, other]: &[u64; 2]| {
            let sum = match all {
                0 => (u128::from(*one) + u128::from(*other)) / 2,
                _ => (u128::from(*one) * u128::from(before) + u128::from(*other) * u128::from(after)) / all,
            };
            u64::try_from(sum).unwrap_or(u64::MAX)
        };
        let weights: Vec<u64> = self.ends.range((leaf, 0)..(leaf + 1, 0)).map(|(_, sides)| weight(sides)).collect();
        if weights.iter().all(|weight| *weight == 0) {
            return;
        }
        let shares = divide(insns, &weights);
        for ((_, sides), share) in self.ends.range_mut((leaf, 0)..(leaf + 1, 0)).zip(shares) {
            *sides = [share; 2];
        }
    }

    /// Sums up each frame with its descendants, and the error of the difference.
    fn sum_up(&mut self, of_leaves: &[[u64; 2]], samples: &[[u64; 2]], is_same: &[bool]) {
        // Each frame's part of each leaf. A frame reuses the map of its largest child.
        let mut within: Vec<Within> = Vec::with_capacity(self.nodes.len());
        within.resize_with(self.nodes.len(), Within::default);
        let put = |within: &mut Within, leaf: usize, insns: [u64; 2]| {
            let have = within.leaves.entry(leaf).or_default();
            let state = |have: [u64; 2]| {
                let is_part = self.sampling.is_sampled && have != [0; 2] && have != of_leaves[leaf];
                let variance = match is_same[leaf] {
                    true => 0,
                    false => self.sampling.variance(samples[leaf], have, of_leaves[leaf]),
                };
                (variance, u64::from(is_part))
            };
            let before = state(*have);
            (0..2).for_each(|at| add(&mut have[at], insns[at]));
            let now = state(*have);
            within.variance += now.0 - before.0;
            within.parts = within.parts + now.1 - before.1;
        };
        for (&(leaf, node), &insns) in &self.ends {
            (0..2).for_each(|at| add(&mut self.nodes[node].insns[at], insns[at]));
            put(&mut within[node], leaf, insns);
        }
        // Children come after their parents.
        for index in (0..self.nodes.len()).rev() {
            let own = std::mem::take(&mut within[index]);
            let node = &mut self.nodes[index];
            node.error_insns = (DEVIATIONS * (own.variance as f64).sqrt()).round() as u64;
            node.is_sampled = own.parts > 0;
            if index == 0 {
                break;
            }
            let (parent, insns) = (node.parent, node.insns);
            (0..2).for_each(|at| add(&mut self.nodes[parent].insns[at], insns[at]));
            let mut outer = std::mem::take(&mut within[parent]);
            let smaller =
                if outer.leaves.len() < own.leaves.len() { std::mem::replace(&mut outer, own) } else { own };
            for (leaf, insns) in smaller.leaves {
                put(&mut outer, leaf, insns);
            }
            within[parent] = outer;
        }
    }
}

/// Sums over a frame and its descendants.
#[derive(Debug, Default)]
struct Within {
    /// Instructions by leaf, before and after.
    leaves: HashMap<usize, [u64; 2]>,
    /// The variance of their difference.
    variance: i128,
    /// Number of leaves that are partly in other frames.
    parts: u64,
}

/// Renumbers the frames depth first, siblings by name. Iterative, since exact stacks can be very deep.
fn sorted(mut nodes: Vec<Node>) -> Vec<Node> {
    let mut sorted: Vec<Node> = Vec::with_capacity(nodes.len());
    let mut numbers = vec![0; nodes.len()];
    let mut open: Vec<usize> = Vec::new();
    let mut next = vec![0];
    while let Some(index) = next.pop() {
        let node = std::mem::take(&mut nodes[index]);
        while let Some(&last) = open.last()
            && sorted[last].depth >= node.depth
        {
            sorted[last].end = sorted.len();
            open.pop();
        }
        next.extend(node.children.values().rev());
        open.push(sorted.len());
        numbers[index] = sorted.len();
        sorted.push(node);
    }
    for last in open {
        sorted[last].end = sorted.len();
    }
    for node in &mut sorted {
        node.children.values_mut().for_each(|child| *child = numbers[*child]);
        node.parent = numbers[node.parent];
    }
    sorted
}

/// Adds without overflow: sums of a damaged profile must not panic.
fn add(sum: &mut u64, insns: u64) {
    *sum = sum.saturating_add(insns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::calltree::CallTree;
    use crate::analysis::stacks::View;
    use crate::profile::testing::empty;

    /// `one` and `other` call `shared`, with these numbers of samples; only `one` calls `own`.
    fn profile(samples: [u64; 2], own_insns: u64, calls: u64) -> Profile {
        empty()
            .function("one", 0x40, 0x10)
            .function("other", 0x50, 0x10)
            .function("shared", 0x60, 0x10)
            .function("own", 0x70, 0x10)
            .insn(0x60, 10_000)
            .insn(0x70, own_insns)
            .arc((0x44, 0x60), Some(0x48), true, calls)
            .arc((0x54, 0x60), Some(0x58), true, 100)
            .arc((0x46, 0x70), Some(0x4a), true, 5)
            .caller(0, 0x44)
            .caller(0, 0x54)
            .taken(samples[0], 0x60, 1, 0)
            .taken(samples[1], 0x60, 2, 0)
            .taken(3, 0x70, 1, 0)
    }

    fn tree(before: &Profile, after: &Profile) -> BTreeMap<String, Node> {
        let sampling = Sampling::of(before, after);
        let mut both = Both::new(&sampling);
        for (at, profile) in [(At::Before, before), (At::After, after)] {
            for (frames, insns) in CallTree::new(profile, View::default()).stacks() {
                both.add(at, &frames, insns, str::to_owned);
            }
        }
        let nodes = both.tree();
        let path = |mut index: usize| {
            let mut names = vec![nodes[index].name.as_str()];
            while nodes[index].parent != 0 {
                index = nodes[index].parent;
                names.push(&nodes[index].name);
            }
            names.reverse();
            names.join(";")
        };
        (0..nodes.len()).map(|index| (path(index), nodes[index].clone())).collect()
    }

    #[test]
    fn what_executed_and_was_called_equally_often_is_no_difference_whatever_the_samples_say() {
        // In the last case only one of the callers has samples, as if the other were new.
        for samples in [[40, 60], [47, 53], [100, 0]] {
            let tree = tree(&profile([50, 50], 400, 100), &profile(samples, 400, 100));
            for (path, node) in &tree {
                assert_eq!((node.insns[0], node.error_insns), (node.insns[1], 0), "{path}: {node:?}");
            }
            assert!(tree["one;shared"].is_sampled && !tree["all"].is_sampled && !tree["one;own"].is_sampled);
            let sum = tree["one;shared"].insns[0] + tree["other;shared"].insns[0];
            assert_eq!(sum, 10_000);
        }
    }

    #[test]
    fn a_difference_beside_what_is_the_same_is_exact_to_the_instruction() {
        let tree = tree(&profile([50, 50], 400, 100), &profile([40, 60], 500, 100));
        let difference = |path: &str| tree[path].insns[1] as i64 - tree[path].insns[0] as i64;
        assert_eq!(["all", "one", "one;own", "one;shared", "other"].map(difference), [100, 100, 100, 0, 0]);
        assert!(tree.values().all(|node| node.error_insns == 0));
    }

    #[test]
    fn what_was_called_otherwise_is_divided_by_each_sides_samples_with_their_error() {
        // More calls with the same instructions: each caller's part is known only by samples.
        let near = tree(&profile([50, 50], 400, 100), &profile([45, 55], 400, 101));
        let far = tree(&profile([50, 50], 400, 100), &profile([10, 90], 400, 101));
        let (near, far) = (&near["one;shared"], &far["one;shared"]);
        assert_eq!((near.insns, far.insns), ([5000, 4500], [5000, 1000]));
        // 47.5 of 100 samples are expected on each side: 3 * 100 * sqrt(2 * 100 * 0.475 * 0.525).
        assert_eq!(near.error_insns, 2119);
        assert!(near.is_within_error() && near.is_sampled && !far.is_within_error() && far.error_insns > 1000);
        let all = tree(&profile([50, 50], 400, 100), &profile([10, 90], 400, 101));
        assert_eq!((all["all"].error_insns, all["all"].is_sampled, all["one;own"].error_insns), (0, false, 0));
    }

    #[test]
    fn one_sample_that_is_missing_is_no_function_that_is_new() {
        let tree = tree(&profile([100, 0], 400, 100), &profile([99, 1], 400, 101));
        assert_eq!(tree["other;shared"].insns, [0, 100]);
        assert!(tree["other;shared"].is_within_error() && tree["one;shared"].is_within_error());
    }

    #[test]
    fn exact_paths_differ_by_one_instruction() {
        let sampling = Sampling::default();
        let mut both = Both::new(&sampling);
        let frame = |name: &str| Frame { name: name.to_owned(), role: FrameRole::Function };
        both.add(At::Before, &[frame("main"), frame("f")], 10, str::to_owned);
        both.add(At::After, &[frame("main"), frame("f")], 9, str::to_owned);
        both.add(At::After, &[frame("main"), frame("g")], 1, str::to_owned);
        let nodes = both.tree();
        let seen: Vec<_> = nodes.iter().map(|node| (node.name.as_str(), node.insns, node.error_insns)).collect();
        assert_eq!(seen, [("all", [10, 10], 0), ("main", [10, 10], 0), ("f", [10, 9], 0), ("g", [0, 1], 0)]);
        assert!(nodes.iter().all(|node| !node.is_sampled && !node.is_within_error()));
    }
}
