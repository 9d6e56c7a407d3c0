// SPDX-License-Identifier: MIT OR Apache-2.0
//! One task or interrupt of a run: the call paths that belong to it, and the functions that they lead to.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::analysis::calltree::{CallTree, Member};
use crate::analysis::stacks::{FrameRole, NO_TASK};
use crate::text::symbol_name::key_name;

/// Part of a run that is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Everything.
    #[default]
    Run,
    /// A task, with the interrupts that came while it was the running one.
    Task(String),
    /// An interrupt, without other interrupts that came during it.
    Interrupt(String),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Run => f.write_str("whole run"),
            // No task, but code outside of all tasks.
            Scope::Task(name) if name.starts_with('[') => f.write_str(name),
            Scope::Task(name) => write!(f, "task {name}"),
            Scope::Interrupt(name) => f.write_str(name),
        }
    }
}

/// Instructions and samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Instructions.
    pub insns: u64,
    /// Samples taken of them.
    pub samples: u64,
}

impl Sums {
    fn add(&mut self, insns: u64, samples: u64) {
        self.insns += insns;
        self.samples += samples;
    }
}

/// Tasks and interrupts of a profile's call paths.
#[derive(Debug)]
pub struct Scopes {
    names: BTreeSet<Scope>,
    /// Innermost task and innermost interrupt of each path, as indices of members. The index is the path's number
    /// minus 1.
    of_path: Vec<[Option<u32>; 2]>,
    /// Path whose function executes at each path's end, as an index: the path itself, or one that it is inlined into.
    function: Vec<usize>,
}

/// Whether a member is a task, or stands for code outside of all tasks.
fn is_task(member: &Member) -> bool {
    member.frame.role == FrameRole::Task || member.frame.role == FrameRole::Other && member.frame.name == NO_TASK
}

/// Name that a scope has by its frame.
fn bare(member: &Member) -> &str {
    member.frame.name.strip_prefix("task ").filter(|_| is_task(member)).unwrap_or(&member.frame.name)
}

impl Scopes {
    /// Scopes of a tree.
    pub fn new(tree: &CallTree) -> Scopes {
        let (mut of_path, mut function) = (Vec::with_capacity(tree.paths.len()), Vec::new());
        let mut names = BTreeSet::new();
        for (index, path) in tree.paths.iter().enumerate() {
            let parent = path.parent.checked_sub(1).map(|parent| parent as usize);
            let [mut task, mut interrupt] = parent.map_or([None; 2], |parent| of_path[parent]);
            let member = &tree.members[path.member as usize];
            if is_task(member) {
                (task, interrupt) = (Some(path.member), None);
                names.insert(Scope::Task(bare(member).to_owned()));
            } else if member.frame.role == FrameRole::Irq {
                interrupt = Some(path.member);
                names.insert(Scope::Interrupt(member.frame.name.clone()));
            }
            of_path.push([task, interrupt]);
            let is_inlined = member.frame.role == FrameRole::Inlined;
            function.push(parent.filter(|_| is_inlined).map_or(index, |parent| function[parent]));
        }
        Scopes { names, of_path, function }
    }

    /// All scopes but the whole run: tasks, then interrupts, by name.
    pub fn names(&self) -> impl Iterator<Item = &Scope> {
        self.names.iter()
    }

    fn holds(&self, tree: &CallTree, scope: &Scope, index: usize) -> bool {
        let [task, interrupt] = self.of_path[index];
        let is = |member: Option<u32>, name: &String| {
            member.is_some_and(|member| bare(&tree.members[member as usize]) == name)
        };
        match scope {
            Scope::Run => true,
            Scope::Task(name) => is(task, name),
            Scope::Interrupt(name) => is(interrupt, name),
        }
    }

    /// Whether the path with this number belongs to a scope.
    pub fn is_in(&self, tree: &CallTree, scope: &Scope, path: u32) -> bool {
        path.checked_sub(1).is_some_and(|index| self.holds(tree, scope, index as usize))
    }

    /// Member that stands for the interrupt that a path ends in, or else for its task; None: it is in neither, or there
    /// is no such path.
    pub fn innermost(&self, path: u32) -> Option<u32> {
        let [task, interrupt] = *self.of_path.get(path.checked_sub(1)? as usize)?;
        interrupt.or(task)
    }

    /// Scope that a member stands for.
    pub fn of_member(&self, tree: &CallTree, member: u32) -> Scope {
        let member = &tree.members[member as usize];
        let name = bare(member).to_owned();
        if is_task(member) { Scope::Task(name) } else { Scope::Interrupt(name) }
    }

    /// Whether there is such a task or interrupt.
    pub fn has(&self, scope: &Scope) -> bool {
        self.names.contains(scope)
    }

    /// Counts of all scopes but the whole run.
    pub fn totals(&self, tree: &CallTree) -> BTreeMap<Scope, Sums> {
        let mut sums: BTreeMap<u32, Sums> = BTreeMap::new();
        for (path, members) in tree.paths.iter().zip(&self.of_path) {
            for member in members.iter().flatten() {
                sums.entry(*member).or_default().add(path.insns, path.samples);
            }
        }
        let mut named: BTreeMap<Scope, Sums> = BTreeMap::new();
        for (member, sums) in sums {
            named.entry(self.of_member(tree, member)).or_default().add(sums.insns, sums.samples);
        }
        named
    }

    /// The tree with counts only where a path belongs to the scope.
    pub fn within<'t>(&self, tree: &'t CallTree, scope: &Scope) -> Cow<'t, CallTree> {
        if *scope == Scope::Run {
            return Cow::Borrowed(tree);
        }
        let mut tree = tree.clone();
        for index in 0..tree.paths.len() {
            if !self.holds(&tree, scope, index) {
                let path = &mut tree.paths[index];
                (path.insns, path.samples, path.cycles) = (0, 0, 0);
            }
        }
        Cow::Owned(tree)
    }

    /// Counts in a scope by function, which inlined functions are part of.
    pub fn by_function<'t>(&self, tree: &'t CallTree, scope: &Scope) -> BTreeMap<&'t Member, Sums> {
        let mut sums: BTreeMap<&Member, Sums> = BTreeMap::new();
        for (index, path) in tree.paths.iter().enumerate() {
            if (path.insns > 0 || path.samples > 0) && self.holds(tree, scope, index) {
                let member = &tree.members[tree.paths[self.function[index]].member as usize];
                sums.entry(member).or_default().add(path.insns, path.samples);
            }
        }
        sums
    }

    /// Instructions in a scope by the name of the function whose lines they are, inlined or not.
    pub fn by_own_name(&self, tree: &CallTree, scope: &Scope) -> BTreeMap<String, u64> {
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        for (index, path) in tree.paths.iter().enumerate() {
            if path.insns > 0 && self.holds(tree, scope, index) {
                *sums.entry(path.member).or_default() += path.insns;
            }
        }
        let mut named: BTreeMap<String, u64> = BTreeMap::new();
        for (member, insns) in sums {
            let name = key_name(&tree.members[member as usize].frame.name);
            *named.entry(name).or_default() += insns;
        }
        named
    }

    /// Counts of a scope.
    pub fn total(&self, tree: &CallTree, scope: &Scope) -> Sums {
        let mut sums = Sums::default();
        for (index, path) in tree.paths.iter().enumerate() {
            if self.holds(tree, scope, index) {
                sums.add(path.insns, path.samples);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::callgraph::{CallGraph, Party};
    use crate::profile::testing::freertos;

    #[test]
    fn tasks_and_interrupts_are_parts_of_the_run() {
        let profile = freertos();
        let tree = CallTree::of_calls(&profile);
        let scopes = Scopes::new(&tree);
        let named: Vec<String> = scopes.names().map(ToString::to_string).collect();
        assert_eq!(
            named,
            [
                "task IDLE",
                "[no task]",
                "task logger",
                "task sensor",
                "task sensor (2)",
                "[irq SysTick]",
                "[irq UART0]"
            ]
        );
        // SysTick came in the sensor task (11,000) and in the idle task (17,000, without UART0 during it).
        let total = |scope: &Scope| scopes.total(&tree, scope).insns;
        assert_eq!(total(&Scope::Interrupt("[irq SysTick]".to_owned())), 28_000);
        assert_eq!(total(&Scope::Run), profile.total_insns());
        // All of it: unsampled code of a sampled function is divided like the rest of the function.
        let tasks = scopes.names().filter(|scope| matches!(scope, Scope::Task(_)));
        assert_eq!(tasks.map(total).sum::<u64>(), profile.total_insns());
        for scope in scopes.names() {
            assert!(scopes.has(scope) && scopes.totals(&tree)[scope] == scopes.total(&tree, scope), "{scope}");
            let functions = scopes.by_function(&tree, scope);
            assert_eq!(functions.values().map(|sums| sums.insns).sum::<u64>(), total(scope), "{scope}");
            assert_eq!(scopes.by_own_name(&tree, scope).values().sum::<u64>(), total(scope), "{scope}");
        }
    }

    #[test]
    fn a_function_counts_only_what_it_did_in_the_scope() {
        let profile = freertos();
        let tree = CallTree::of_calls(&profile);
        let scopes = Scopes::new(&tree);
        let of = |scope: &str, name: &str| {
            let scope = Scope::Task(scope.to_owned());
            let functions = scopes.by_function(&tree, &scope);
            functions.iter().find(|(member, _)| member.frame.name == name).map_or(0, |(_, sums)| sums.insns)
        };
        // With `saturate`, which is inlined into it.
        assert_eq!((of("sensor", "filter"), of("sensor (2)", "filter"), of("logger", "filter")), (65_000, 20_000, 0));
        let second = Scope::Task("sensor (2)".to_owned());
        let graph = CallGraph::new(&profile, &scopes.within(&tree, &second));
        assert_eq!(graph.nodes[&Party::Code(0x60)].inclusive.insns, 80_000);
        let own = scopes.by_own_name(&tree, &Scope::Task("sensor".to_owned()));
        assert_eq!((own["filter"], own["saturate"]), (40_000, 25_000));
    }
}
