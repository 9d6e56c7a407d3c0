// SPDX-License-Identifier: MIT OR Apache-2.0
//! All call paths of a profile as one tree of frames, with the counts at each path's end. Flamegraphs and all formats
//! with stacks are written from it.
//!
//! Frames are numbers here, each named once: a profile with a million different stacks has a few thousand functions.

use std::collections::{BTreeMap, HashMap, HashSet};

use rustc_hash::FxHashMap;
use wire::definition::{FrameKind, NodeKind};

use crate::analysis::attribution::{Context, Leaves};
use crate::analysis::cold_part::ColdParts;
use crate::analysis::owner::Owner;
use crate::analysis::stack_proof;
use crate::analysis::stacks::{
    self, CONTRADICTED, Exceptions, Frame, FrameRole, NO_FUNCTION, NO_TASK, NOT_SAMPLED, View,
};
use crate::profile::Profile;

/// Maximum number of levels at which stacks are written in full. Deeper pictures are unreadable, and would grow with
/// the square of the depth.
pub const MAX_LEVELS: usize = 1000;

/// A frame, with its function's address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Its name and role.
    pub frame: Frame,
    /// First address of the function or range, which distinguishes namesakes; None for the boot ROM and all other
    /// frames.
    pub start: Option<u64>,
}

/// A call path: its parent path and one more frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Number of the path without the last frame; 0: none.
    pub parent: u32,
    /// The last frame, an index into [`CallTree::members`].
    pub member: u32,
    /// Instructions in this frame, without called ones. Exact by function; see [`crate::analysis::attribution`] for
    /// their division over callers.
    pub insns: u64,
    /// Samples in this frame.
    pub samples: u64,
    /// Cycles in this frame, without called ones; 0: they are not known.
    pub cycles: u64,
}

/// The call paths of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTree {
    /// Frames, sorted.
    pub members: Vec<Member>,
    /// Paths; number n is `paths[n - 1]`. Parents come before their children, each path directly before its
    /// continuations, and siblings in the order of their frames.
    pub paths: Vec<Path>,
    /// Number of each sample's path, in the profile's order.
    pub samples: Vec<u32>,
}

impl CallTree {
    /// Call paths of a profile, with interrupts placed by the view.
    pub fn new(profile: &Profile, view: View) -> CallTree {
        CallTree::build(profile, Builder::new(profile, view, false))
    }

    /// Call paths by calls: a polled task does not begin with its function, but has the callers that poll it.
    pub fn of_calls(profile: &Profile) -> CallTree {
        CallTree::build(profile, Builder::new(profile, View::default(), true))
    }

    /// Paths to called functions, each given by its task, its callers' stack and its first address. `samples` has their
    /// paths' numbers, in the given order.
    pub fn of_places(profile: &Profile, view: View, places: impl Iterator<Item = (u32, u32, u64)>) -> CallTree {
        let mut builder = Builder::new(profile, view, false);
        for (task, stack, entry) in places {
            let callers = builder.callers(task, stack);
            let function = builder.at(entry)[0];
            let path = builder.child(callers, function);
            builder.samples.push(path);
        }
        builder.finish()
    }

    fn build(profile: &Profile, mut builder: Builder<'_>) -> CallTree {
        let mut lists = MemberLists::default();
        let parts = builder.parts.clone();
        let leaves = Leaves::new(profile, |pc| lists.at(profile, &parts, pc));
        let mut members = Vec::with_capacity(leaves.keys.len());
        for &list in &leaves.keys {
            let list = &lists.lists[list as usize];
            members.push(list.iter().map(|member| builder.member(member)).collect::<Vec<u32>>());
        }
        let place = |leaf: u32| &members[leaf as usize][..];
        for share in leaves.shares(profile) {
            let path = match share.context {
                Context::Node(number) if share.is_entry() && builder.node(number) > 0 => builder.node(number),
                context => builder.path(context, share.leaf.map(place)),
            };
            if let Some(path) = builder.get_mut(path) {
                path.insns += share.insns;
                path.samples += share.samples;
                path.cycles += share.cycles;
            }
        }
        let path_of = |&(leaf, context, _): &(u32, Context, u64)| builder.path(context, Some(place(leaf)));
        let paths: Vec<u32> = leaves.sampled.iter().map(path_of).collect();
        builder.samples.extend(leaves.of_samples.iter().map(|&index| paths[index as usize]));
        builder.finish()
    }

    /// The paths with their cycles in place of instructions.
    pub fn in_cycles(mut self) -> CallTree {
        for path in &mut self.paths {
            path.insns = path.cycles;
        }
        self
    }

    /// Members of a path, outermost first.
    pub fn frames(&self, number: u32) -> Vec<&Member> {
        self.members_of(number).into_iter().map(|member| &self.members[member as usize]).collect()
    }

    /// Members of a path as in [`Path::member`], outermost first.
    pub fn members_of(&self, number: u32) -> Vec<u32> {
        let path = |number: u32| self.paths.get(number.checked_sub(1)? as usize);
        let inwards = std::iter::successors(path(number), |inner| path(inner.parent));
        let mut members: Vec<u32> = inwards.map(|path| path.member).collect();
        members.reverse();
        members
    }

    /// Visits each path with counts at its end, outermost frame first, in the tree's order. Full paths are never
    /// stored, since there may be millions.
    ///
    /// # Errors
    /// Errors of `visit`.
    pub fn each<'t, E>(&'t self, mut visit: impl FnMut(&[&'t Member], &Path) -> Result<(), E>) -> Result<(), E> {
        let mut frames: Vec<&Member> = Vec::new();
        let mut depths: Vec<u32> = Vec::with_capacity(self.paths.len());
        for path in &self.paths {
            let depth = path.parent.checked_sub(1).map_or(0, |index| depths[index as usize] + 1);
            depths.push(depth);
            frames.truncate(depth as usize);
            frames.push(&self.members[path.member as usize]);
            if path.insns > 0 || path.samples > 0 || path.cycles > 0 {
                visit(&frames, path)?;
            }
        }
        Ok(())
    }

    /// Instructions by stack of names. Namesakes become one frame; levels beyond [`MAX_LEVELS`] count for the last
    /// one.
    pub fn stacks(&self) -> BTreeMap<Vec<Frame>, u64> {
        self.stacks_of_least(0)
    }

    /// Stacks as of [`CallTree::stacks`], for a picture that shows nothing within a frame of fewer than `least_insns`
    /// instructions: all that is within such a frame counts for the frame itself.
    pub fn stacks_of_least(&self, least_insns: u64) -> BTreeMap<Vec<Frame>, u64> {
        let mut stacks = BTreeMap::new();
        for (number, insns) in self.paths_of_least(least_insns) {
            let frames = self.frames(number).into_iter().map(|member| member.frame.clone()).collect();
            *stacks.entry(frames).or_default() += insns;
        }
        stacks
    }

    /// Numbers of the paths whose stacks are those of [`CallTree::stacks_of_least`], each with its instructions.
    pub fn paths_of_least(&self, least_insns: u64) -> impl Iterator<Item = (u32, u64)> {
        let mut insns = vec![0; self.paths.len()];
        for (path, kept) in self.paths.iter().zip(self.kept(least_insns)) {
            insns[kept as usize - 1] += path.insns;
        }
        (1..).zip(insns).filter(|&(_, insns)| insns > 0)
    }

    /// Path that stands for each path; the index is its number minus 1. A path stands for itself, unless it is deeper
    /// than [`MAX_LEVELS`] or within a path of fewer than `least_insns` instructions: then the nearest path around it
    /// stands for it.
    pub fn kept(&self, least_insns: u64) -> Vec<u32> {
        let inclusive_insns = self.inclusive_insns();
        let mut levels: Vec<usize> = Vec::with_capacity(self.paths.len());
        let mut kept: Vec<u32> = Vec::with_capacity(self.paths.len());
        for (number, path) in (1..).zip(&self.paths) {
            let parent = path.parent.checked_sub(1).map(|index| index as usize);
            let level = parent.map_or(0, |parent| levels[parent]) + 1;
            let within = parent.filter(|&parent| {
                kept[parent] != path.parent || level > MAX_LEVELS || inclusive_insns[parent] < least_insns
            });
            levels.push(level);
            kept.push(within.map_or(number, |parent| kept[parent]));
        }
        kept
    }

    /// Instructions of each path with all of its continuations. The index is the path's number minus 1.
    pub fn inclusive_insns(&self) -> Vec<u64> {
        let mut sums: Vec<u64> = self.paths.iter().map(|path| path.insns).collect();
        for (index, path) in self.paths.iter().enumerate().rev() {
            if let Some(parent) = path.parent.checked_sub(1) {
                sums[parent as usize] += sums[index];
            }
        }
        sums
    }
}

/// Members that execute at addresses, each list once.
#[derive(Default)]
struct MemberLists {
    lists: Vec<Vec<Member>>,
    numbers: HashMap<Vec<Member>, u32>,
    /// By what an address's members depend on: its owner, and its list of frames in the profile's names.
    known: FxHashMap<((u8, u64), Option<u32>), u32>,
}

impl MemberLists {
    /// Number of the list of an address.
    fn at(&mut self, profile: &Profile, parts: &ColdParts, pc: u64) -> u32 {
        let key = (Owner::of(profile, pc).key(), profile.names.stack_at(pc));
        *self.known.entry(key).or_insert_with(|| {
            let next = self.lists.len() as u32;
            *self.numbers.entry(at(profile, parts, pc)).or_insert_with_key(|list| {
                self.lists.push(list.clone());
                next
            })
        })
    }
}

/// Members that execute at an address, with the function's address.
fn at(profile: &Profile, parts: &ColdParts, pc: u64) -> Vec<Member> {
    let start = parts.owner(profile, pc).start();
    let with_start = |(depth, frame)| Member { frame, start: if depth == 0 { start } else { None } };
    stacks::at(profile, parts, pc).into_iter().enumerate().map(with_start).collect()
}

struct Builder<'a> {
    profile: &'a Profile,
    view: View,
    /// Whether a polled task's function keeps the callers that poll it, see [`CallTree::of_calls`].
    is_of_calls: bool,
    /// Parts, which have their functions' frames.
    parts: ColdParts,
    tasks: Vec<String>,
    exceptions: Exceptions<'a>,
    members: HashMap<Member, u32>,
    /// First address of each member's function, as in [`Member::start`].
    starts: Vec<Option<u64>>,
    /// Whether each member is code without a name.
    unnamed: Vec<bool>,
    /// Members by address.
    at: FxHashMap<u64, Vec<u32>>,
    children: FxHashMap<(u32, u32), u32>,
    paths: Vec<Path>,
    samples: Vec<u32>,
    /// Whether each path has an interrupt on it. The index is the path's number minus 1.
    interrupted: Vec<bool>,
    /// Path to each known pair of task and stack; 0: the empty path.
    of_stack: FxHashMap<(u32, u32), u32>,
    /// Path to each node of the exact tree.
    of_node: Vec<u32>,
}

impl<'a> Builder<'a> {
    fn new(profile: &'a Profile, view: View, is_of_calls: bool) -> Builder<'a> {
        let mut builder = Builder {
            profile,
            view,
            is_of_calls,
            parts: ColdParts::of(profile),
            tasks: stacks::task_names(profile),
            exceptions: Exceptions::new(profile),
            members: HashMap::new(),
            starts: Vec::new(),
            unnamed: Vec::new(),
            at: FxHashMap::default(),
            children: FxHashMap::default(),
            paths: Vec::new(),
            samples: Vec::with_capacity(profile.samples.len()),
            interrupted: Vec::new(),
            of_stack: FxHashMap::default(),
            of_node: Vec::new(),
        };
        let wrong = stack_proof::wrong_calls(profile).into_iter();
        let wrong: HashSet<(Option<u64>, u64)> = wrong.map(|calls| (calls.caller, calls.callee)).collect();
        let function = |node: u32| match profile.calling_node(node)?.kind {
            NodeKind::Function { entry } => Some(entry),
            _ => None,
        };
        for (number, node) in (1..).zip(&profile.tree) {
            let mut parent = builder.node(node.parent);
            let path = match node.kind {
                NodeKind::Root { task } if is_of_calls => {
                    let callers = builder.below_task(parent);
                    let root = builder.task(task);
                    builder.with(root, &callers)
                }
                NodeKind::Root { task } => builder.task(task),
                NodeKind::Function { entry } => {
                    if wrong.contains(&(function(node.parent), entry)) {
                        let contradicted = builder.named(FrameRole::Other, CONTRADICTED);
                        parent = builder.child(parent, contradicted);
                    }
                    let inlined = node.via.map_or_else(Vec::new, |via| builder.at(via).split_off(1));
                    parent = builder.with(parent, &inlined);
                    let function = builder.at(entry)[0];
                    builder.child(parent, function)
                }
                NodeKind::Exception { number: exception } => {
                    let name = builder.exceptions.at(number, exception);
                    builder.interrupt(parent, &name)
                }
            };
            builder.of_node.push(path);
        }
        builder
    }

    fn member(&mut self, member: &Member) -> u32 {
        if let Some(&known) = self.members.get(member) {
            return known;
        }
        let next = self.members.len() as u32;
        self.members.insert(member.clone(), next);
        self.starts.push(member.start);
        self.unnamed.push(member.frame.role == FrameRole::Other && member.start.is_some());
        next
    }

    fn named(&mut self, role: FrameRole, name: &str) -> u32 {
        self.member(&Member { frame: Frame { name: name.to_owned(), role }, start: None })
    }

    /// Members that execute at an address: the function first, then functions inlined there.
    fn at(&mut self, pc: u64) -> Vec<u32> {
        if let Some(known) = self.at.get(&pc) {
            return known.clone();
        }
        let members: Vec<u32> =
            at(self.profile, &self.parts, pc).into_iter().map(|member| self.member(&member)).collect();
        self.at.insert(pc, members.clone());
        members
    }

    fn child(&mut self, parent: u32, member: u32) -> u32 {
        let next = self.paths.len() as u32 + 1;
        let number = *self.children.entry((parent, member)).or_insert(next);
        if number == next {
            self.paths.push(Path { parent, member, insns: 0, samples: 0, cycles: 0 });
            self.interrupted.push(self.is_interrupted(parent));
        }
        number
    }

    fn with(&mut self, parent: u32, members: &[u32]) -> u32 {
        members.iter().fold(parent, |parent, &member| self.child(parent, member))
    }

    fn is_interrupted(&self, path: u32) -> bool {
        path.checked_sub(1).is_some_and(|index| self.interrupted[index as usize])
    }

    fn interrupt(&mut self, mut parent: u32, name: &str) -> u32 {
        if self.view.fold_irqs && !self.is_interrupted(parent) {
            parent = 0;
        }
        let member = self.named(FrameRole::Irq, name);
        let path = self.child(parent, member);
        self.interrupted[path as usize - 1] = true;
        path
    }

    fn task(&mut self, task: u32) -> u32 {
        if self.tasks.is_empty() {
            return 0;
        }
        let member = match task.checked_sub(1) {
            None => self.named(FrameRole::Other, NO_TASK),
            Some(index) => {
                let name = self.tasks.get(index as usize).map_or("?", String::as_str);
                let name = format!("task {name}");
                self.named(FrameRole::Task, &name)
            }
        };
        self.child(0, member)
    }

    /// Path that called code continues: the task's own path if the code is the function of the polled task, otherwise
    /// `path`.
    fn polled(&mut self, task: u32, path: u32, code: &[u32]) -> u32 {
        let start = code.first().and_then(|&member| self.starts[member as usize]);
        let poll = self.profile.task(task).and_then(|task| task.poll);
        if !self.is_of_calls && poll.is_some() && poll == start { self.task(task) } else { path }
    }

    /// Members of a path, outermost first, without its task.
    fn below_task(&self, path: u32) -> Vec<u32> {
        let path_of = |number: u32| self.paths.get(number.checked_sub(1)? as usize);
        let outwards = std::iter::successors(path_of(path), |inner| path_of(inner.parent));
        let mut members: Vec<u32> = outwards.filter(|path| path.parent != 0).map(|path| path.member).collect();
        members.reverse();
        members
    }

    /// Path to a node of the exact tree.
    fn node(&self, number: u32) -> u32 {
        number.checked_sub(1).and_then(|index| self.of_node.get(index as usize)).copied().unwrap_or(0)
    }

    /// Path to the callers of a sample's stack, without the executing function.
    fn callers(&mut self, task: u32, stack: u32) -> u32 {
        // Go outwards to a known stack, then inwards again.
        let mut unknown = Vec::new();
        let mut number = stack;
        let mut path = loop {
            if let Some(&known) = self.of_stack.get(&(task, number)) {
                break known;
            }
            let Some(frame) = number.checked_sub(1).and_then(|index| self.profile.stacks.get(index as usize)) else {
                let path = self.task(task);
                self.of_stack.insert((task, number), path);
                break path;
            };
            unknown.push((number, frame.kind));
            number = frame.parent;
        };
        for (number, kind) in unknown.into_iter().rev() {
            path = match kind {
                FrameKind::Caller { return_addr } => {
                    let members = self.at(return_addr.wrapping_sub(1));
                    let path = self.polled(task, path, &members);
                    self.with(path, &members)
                }
                FrameKind::Exception { number, handler, pc } => {
                    let is_root = self.view.fold_irqs && !self.is_interrupted(path);
                    // A pc of 0 means that the task has not run yet.
                    if pc != 0 && !is_root {
                        let members = self.at(pc);
                        path = self.polled(task, path, &members);
                        path = self.with(path, &members);
                    }
                    let name = self.exceptions.name(number, handler);
                    self.interrupt(path, &name)
                }
                FrameKind::Unknown(unknown) => {
                    let member = self.named(FrameRole::Other, stacks::why(unknown));
                    self.child(path, member)
                }
            };
            self.of_stack.insert((task, number), path);
        }
        path
    }

    /// Path to a leaf in a context; without a leaf, to the context's node of the exact tree.
    fn path(&mut self, context: Context, leaf: Option<&[u32]>) -> u32 {
        let around = match context {
            Context::Alone => 0,
            Context::NotSampled => {
                let member = self.named(FrameRole::Other, NOT_SAMPLED);
                self.child(0, member)
            }
            Context::Stack { task, stack } => {
                let callers = self.callers(task, stack);
                self.polled(task, callers, leaf.unwrap_or_default())
            }
            Context::Node(number) => self.node(number),
        };
        let is_function = match context {
            Context::Node(number) => {
                let node = number.checked_sub(1).and_then(|index| self.profile.tree.get(index as usize));
                node.is_some_and(|node| matches!(node.kind, NodeKind::Function { .. }))
            }
            _ => false,
        };
        match leaf {
            // The node is the function that the leaf begins with.
            Some([function, inlined @ ..]) if is_function && self.is_of_last(around, *function) => {
                self.with(around, inlined)
            }
            Some(leaf) => self.with(around, leaf),
            None if is_function => around,
            None => {
                let member = self.named(FrameRole::Other, NO_FUNCTION);
                self.child(around, member)
            }
        }
    }

    fn get_mut(&mut self, path: u32) -> Option<&mut Path> {
        self.paths.get_mut(path.checked_sub(1)? as usize)
    }

    /// Whether code belongs to a path's last function. A function without a name has no known end, and may continue
    /// in the next range of addresses.
    fn is_of_last(&self, path: u32, function: u32) -> bool {
        let Some(last) = path.checked_sub(1).map(|index| self.paths[index as usize].member) else { return false };
        last == function || self.unnamed[last as usize] && self.unnamed[function as usize]
    }

    /// Sorts frames and paths.
    fn finish(self) -> CallTree {
        let mut members: Vec<(Member, u32)> = self.members.into_iter().collect();
        members.sort_unstable();
        let mut rank = vec![0; members.len()];
        for (position, (_, number)) in members.iter().enumerate() {
            rank[*number as usize] = position as u32;
        }
        let mut paths = self.paths;
        for path in &mut paths {
            path.member = rank[path.member as usize];
        }
        // Children by parent: those of n are children[first[n]..first[n + 1]].
        let mut first = vec![0_usize; paths.len() + 2];
        for path in &paths {
            first[path.parent as usize + 1] += 1;
        }
        for index in 1..first.len() {
            first[index] += first[index - 1];
        }
        let mut children: Vec<u32> = (1..=paths.len() as u32).collect();
        children.sort_unstable_by_key(|&number| {
            let path = &paths[number as usize - 1];
            (path.parent, path.member)
        });
        let mut sorted = Vec::with_capacity(paths.len());
        let mut places = vec![0; paths.len() + 1];
        let mut left: Vec<(u32, u32)> = children[..first[1]].iter().rev().map(|&number| (number, 0)).collect();
        while let Some((number, parent)) = left.pop() {
            sorted.push(Path { parent, ..paths[number as usize - 1] });
            let place = sorted.len() as u32;
            places[number as usize] = place;
            let inner = &children[first[number as usize]..first[number as usize + 1]];
            left.extend(inner.iter().rev().map(|&child| (child, place)));
        }
        CallTree {
            members: members.into_iter().map(|(member, _)| member).collect(),
            paths: sorted,
            samples: self.samples.into_iter().map(|path| places[path as usize]).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use wire::definition::Unknown;

    use super::*;
    use crate::profile::testing::{self, empty, interrupted};

    /// Frames as one line.
    fn line<'f>(frames: impl IntoIterator<Item = &'f Frame>) -> String {
        let names = frames.into_iter().map(|frame| match frame.role {
            FrameRole::Inlined => format!("{}+", frame.name),
            _ => frame.name.clone(),
        });
        names.collect::<Vec<_>>().join(";")
    }

    #[test]
    fn what_is_too_deep_or_too_narrow_is_that_of_what_is_around_it() {
        let mut tree = CallTree::default();
        tree.members.push(Member { frame: Frame { name: "f".to_owned(), role: FrameRole::Function }, start: None });
        let levels = MAX_LEVELS as u32 + 5;
        tree.paths.extend((0..levels).map(|parent| Path { parent, member: 0, insns: 1, samples: 0, cycles: 0 }));
        let kept = tree.kept(0);
        assert_eq!(kept[..MAX_LEVELS], (1..=MAX_LEVELS as u32).collect::<Vec<_>>());
        assert_eq!(kept[MAX_LEVELS..], [MAX_LEVELS as u32; 5]);
        let stacks = tree.stacks();
        assert_eq!((stacks.len(), stacks.values().sum::<u64>()), (MAX_LEVELS, levels.into()));
        assert_eq!(stacks.iter().map(|(frames, &insns)| (frames.len(), insns)).max(), Some((MAX_LEVELS, 6)));
        // The innermost path that is wide enough keeps one frame, which gets the instructions of all others within it.
        let kept = tree.kept(levels.into());
        assert_eq!((kept[1], kept[2], kept[100]), (2, 2, 2));
        assert_eq!(
            tree.stacks_of_least(levels.into()).values().copied().collect::<Vec<_>>(),
            [1, u64::from(levels) - 1]
        );
    }

    fn insns(profile: &Profile) -> Vec<(String, u64)> {
        insns_of(&CallTree::new(profile, View::default()))
    }

    fn insns_of(tree: &CallTree) -> Vec<(String, u64)> {
        let stacks = tree.stacks();
        stacks.iter().map(|(frames, &insns)| (line(frames), insns)).collect()
    }

    /// The stack of a profile's only sample.
    fn sampled(profile: &Profile, view: View) -> String {
        let tree = CallTree::new(profile, view);
        line(tree.frames(tree.samples[0]).into_iter().map(|member| &member.frame))
    }

    /// Frames around the executing function.
    fn callers(profile: &Profile, view: View, task: u32, stack: u32) -> String {
        let stack = sampled(&profile.clone().taken(1, 0x900, stack, task), view);
        stack.strip_suffix("[0x00000900..0x000009ff]").unwrap().trim_end_matches(';').to_owned()
    }

    #[test]
    fn a_stack_goes_from_the_task_over_callers_and_interrupts_to_what_executes() {
        let profile = interrupted();
        assert_eq!(
            sampled(&profile.taken(1, 0x52, 4, 1), View::default()),
            "task blink;blink;repeat+;step;mix+;rotate+;[irq SysTick];SysTick_Handler;tick;[irq UART0];\
             step;mix+;rotate+"
        );
    }

    #[test]
    fn folded_interrupts_are_roots_and_nested_ones_stay_nested() {
        let (profile, view) = (interrupted(), View { fold_irqs: true });
        assert_eq!(callers(&profile, view, 1, 4), "[irq SysTick];SysTick_Handler;tick;[irq UART0]");
        assert_eq!(callers(&profile, view, 1, 1), "task blink;blink;repeat+");
    }

    #[test]
    fn a_polled_task_begins_with_its_function() {
        let mut profile = empty()
            .function("main", 0x40, 0x10)
            .function("poll_blink", 0x50, 0x10)
            .function("work", 0x60, 0x10)
            .function("UART0_Handler", 0x80, 0x10)
            .task_called("blink")
            .caller(0, 0x44)
            .caller(1, 0x54)
            .exception(1, 16, 0x80, 0x56);
        profile.tasks[0].poll = Some(0x50);
        let sampled = |pc, stack, task| sampled(&profile.clone().taken(1, pc, stack, task), View::default());
        assert_eq!(sampled(0x42, 0, 0), "[no task];main");
        assert_eq!(sampled(0x50, 1, 1), "task blink;poll_blink");
        assert_eq!(sampled(0x62, 2, 1), "task blink;poll_blink;work");
        assert_eq!(sampled(0x82, 3, 1), "task blink;poll_blink;[irq UART0];UART0_Handler");
        // Code polled by another function is not affected.
        assert_eq!(sampled(0x62, 2, 0), "[no task];main;poll_blink;work");

        let function = |entry| NodeKind::Function { entry };
        let profile = profile
            .insn(0x42, 10)
            .insn(0x52, 20)
            .insn(0x62, 5)
            .node(0, NodeKind::Root { task: 0 }, 0)
            .node(1, function(0x40), 10)
            .node(2, NodeKind::Root { task: 1 }, 0)
            .node(3, function(0x50), 20)
            .node(4, function(0x60), 5);
        let expected = [("[no task];main", 10), ("task blink;poll_blink", 20), ("task blink;poll_blink;work", 5)];
        let mut insns = insns(&profile);
        insns.sort();
        assert_eq!(insns, expected.map(|(stack, insns)| (stack.to_owned(), insns)));

        // By calls, the function has a caller, whether sampled or followed.
        let mut insns = insns_of(&CallTree::of_calls(&profile));
        insns.sort();
        let task = "task blink;main;poll_blink";
        let expected = [("[no task];main".to_owned(), 10), (task.to_owned(), 20), (format!("{task};work"), 5)];
        assert_eq!(insns, expected);
        let tree = CallTree::of_calls(&Profile { tree: Vec::new(), ..profile }.taken(1, 0x62, 2, 1));
        assert_eq!(line(tree.frames(tree.samples[0]).into_iter().map(|member| &member.frame)), expected[2].0);
    }

    #[test]
    fn only_images_with_tasks_have_a_level_of_them() {
        let mut profile = interrupted();
        assert_eq!(callers(&profile, View::default(), 2, 0), "task IDLE");
        assert_eq!(callers(&profile, View::default(), 0, 0), NO_TASK);
        profile.tasks.clear();
        assert_eq!(callers(&profile, View::default(), 0, 1), "blink;repeat+");
    }

    #[test]
    fn exact_counts_are_divided_over_the_callers_as_the_samples_are() {
        let profile = empty()
            .function("one", 0x40, 0x10)
            .function("other", 0x50, 0x10)
            .function("crc", 0x60, 0x10)
            .function("rare", 0x70, 0x10)
            .insn(0x60, 1000)
            .insn(0x62, 7)
            .insn(0x70, 5)
            .frames(0x62, &["crc", "rotate"])
            .caller(0, 0x44)
            .caller(0, 0x54)
            .taken(2, 0x60, 1, 0)
            .taken(1, 0x60, 2, 0);
        let expected = [
            ("[not sampled];rare", 5),
            // The code was not sampled itself, but its function was: 4 2/3 and 2 1/3.
            ("one;crc", 667),
            ("one;crc;rotate+", 5),
            ("other;crc", 333),
            ("other;crc;rotate+", 2),
        ];
        let mut insns = insns(&profile);
        insns.sort();
        assert_eq!(insns, expected.map(|(stack, insns)| (stack.to_owned(), insns)));
    }

    #[test]
    fn functions_of_one_name_do_not_lend_each_other_their_callers() {
        let profile = empty()
            .function("one", 0x40, 0x10)
            .function("other", 0x50, 0x10)
            .function("init", 0x60, 0x10)
            .function("init", 0x70, 0x10)
            .insn(0x60, 1000)
            .insn(0x70, 10)
            .caller(0, 0x44)
            .caller(0, 0x54)
            .taken(1, 0x60, 1, 0)
            .taken(1, 0x70, 2, 0);
        assert_eq!(insns(&profile), [("one;init".to_owned(), 1000), ("other;init".to_owned(), 10)]);
    }

    #[test]
    fn without_stacks_functions_are_roots() {
        let profile = empty().function("main", 0x40, 4).insn(0x40, 30).task_called("main").taken(3, 0x40, 0, 1);
        assert_eq!(insns(&profile), [("main".to_owned(), 30)]);
    }

    /// `main` calls `crc`, which is interrupted.
    fn followed() -> Profile {
        empty()
            .function("main", 0x40, 0x10)
            .function("crc", 0x50, 0x10)
            .function("UART0_Handler", 0x60, 0x10)
            .insn(0x40, 10)
            .insn(0x50, 75)
            .insn(0x52, 25)
            .insn(0x60, 6)
            .frames(0x52, &["crc", "rotate"])
            .task_called("blink")
            .node(0, NodeKind::Root { task: 1 }, 0)
            .node(1, NodeKind::Function { entry: 0x40 }, 10)
            .node(2, NodeKind::Function { entry: 0x50 }, 90)
            .node(3, NodeKind::Exception { number: 20 }, 1)
            .node(4, NodeKind::Function { entry: 0x60 }, 6)
            .node(1, NodeKind::Function { entry: 0x50 }, 10)
    }

    #[test]
    fn the_exact_tree_is_taken_where_there_is_one() {
        // Samples that contradict the tree.
        let mut profile = followed().caller(0, 0x64).taken(5, 0x50, 1, 0);
        let expected = [
            ("task blink;crc", 7),
            ("task blink;crc;rotate+", 3),
            ("task blink;main", 10),
            ("task blink;main;crc", 68),
            ("task blink;main;crc;[irq UART0];UART0_Handler", 6),
            ("task blink;main;crc;[irq UART0];[no function]", 1),
            ("task blink;main;crc;rotate+", 22),
        ];
        let mut stacks = insns(&profile);
        stacks.sort();
        assert_eq!(stacks, expected.map(|(stack, insns)| (stack.to_owned(), insns)));
        profile.samples[0].node = 3;
        assert_eq!(sampled(&profile, View::default()), "task blink;main;crc");
        profile.samples[0].node = 5;
        profile.samples[0].pc = 0x60;
        assert_eq!(sampled(&profile, View { fold_irqs: true }), "[irq UART0];UART0_Handler");
    }

    #[test]
    fn damaged_stacks_never_panic() {
        let profile = empty().caller(0, 0).caller(9, 1).exception(1, u64::MAX, u64::MAX, u64::MAX);
        let profile = profile.taken(1, u64::MAX, 3, 99).taken(1, 0, 99, 0).insn(0, 1).insn(u64::MAX, 1);
        assert_eq!(insns(&profile).iter().map(|(_, insns)| insns).sum::<u64>(), 2);
    }

    #[test]
    fn stacks_that_end_early_say_why() {
        let profile = Unknown::ALL.into_iter().fold(empty(), |profile, why| profile.unknown(why)).caller(2, 0x44);
        assert_eq!(callers(&profile, View::default(), 0, 4), "[deeper than --max-depth]");
        assert!(callers(&profile, View::default(), 0, 6).starts_with("[caller not kept];"));
    }

    #[test]
    fn paths_are_in_order_and_add_up_to_all_instructions_and_samples() {
        let profile = testing::freertos();
        let tree = CallTree::new(&profile, View::default());
        let sum = |count: fn(&Path) -> u64| tree.paths.iter().map(count).sum::<u64>();
        assert_eq!(sum(|path| path.insns), profile.total_insns());
        assert_eq!(sum(|path| path.samples), profile.samples.len() as u64);
        let roots = tree.paths.iter().zip(tree.inclusive_insns()).filter(|(path, _)| path.parent == 0);
        assert_eq!(roots.map(|(_, insns)| insns).sum::<u64>(), profile.total_insns());
        let numbers = 1..=tree.paths.len() as u32;
        let frames: Vec<Vec<&Member>> = numbers.map(|number| tree.frames(number)).collect();
        assert!(frames.is_sorted());
        let mut visited = Vec::new();
        let done: Result<(), Infallible> = tree.each(|members, path| {
            visited.push((members.to_vec(), path.insns));
            Ok(())
        });
        done.unwrap();
        let with_code = frames.iter().zip(&tree.paths).filter(|(_, path)| path.insns + path.samples > 0);
        assert_eq!(visited, with_code.map(|(frames, path)| (frames.clone(), path.insns)).collect::<Vec<_>>());
    }
}
