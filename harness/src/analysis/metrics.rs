//! A profile as numbers with names that stay: what baselines keep, thresholds judge and assertions ask for.
//!
//! Instructions belong to the function that wrote them in the source, wherever the compiler has inlined it,
//! so that a change of inlining moves no instruction from one function to another. Names lose what compilers
//! add to clones (`.constprop.0`, Rust's hashes), and namesakes in different files are told apart.

use std::collections::{BTreeMap, BTreeSet};

use wire::definition::NodeKind;

use crate::analysis::place::Place;
use crate::analysis::{functions, stacks};
use crate::profile::Profile;

/// The numbers of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Instructions of the window.
    pub total_insns: u64,
    /// The numbers of each function.
    pub functions: BTreeMap<Key, FunctionMetrics>,
    /// The numbers of each task, in the names that tell namesakes apart.
    pub tasks: BTreeMap<String, TaskMetrics>,
}

/// A function, as it is known from run to run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its name without what compilers add.
    pub name: String,
    /// Last part of its file's path; empty when unknown.
    pub file: String,
}

/// One function's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionMetrics {
    /// Instructions of its own source, not of what it calls.
    pub self_insns: u64,
    /// Those of its instructions that run inlined into other functions.
    pub inlined_insns: u64,
    /// Instructions from its entries to its returns, without interrupts; known with the exact tree.
    pub inclusive_insns: Option<u64>,
    /// Entries. None where it only exists inlined.
    pub calls: Option<u64>,
}

/// One task's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskMetrics {
    /// Instructions while it was the running one.
    pub insns: u64,
    /// How often it was switched in.
    pub switches: u64,
    /// Most stack that it used: exact with the exact tree, else at least that.
    pub stack_bytes: Option<u64>,
}

/// A name without what compilers add to tell clones apart.
pub fn stable_name(name: &str) -> &str {
    const SUFFIXES: [&str; 8] =
        [".constprop", ".isra", ".part", ".cold", ".lto_priv", ".llvm", ".localalias", ".ltrans"];
    let mut name = name;
    while let Some((before, last)) = name.rsplit_once('.') {
        let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
        let stem = if is_number { before } else { name };
        let Some(shorter) = SUFFIXES.iter().find_map(|suffix| stem.strip_suffix(suffix)) else { break };
        if shorter.is_empty() {
            break;
        }
        name = shorter;
    }
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => path,
        _ => name,
    }
}

/// The last part of a path, whichever way it is written.
pub fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

impl Metrics {
    /// The numbers of a profile.
    pub fn of(profile: &Profile) -> Metrics {
        let mut metrics = Metrics { total_insns: profile.total_insns(), ..Metrics::default() };
        let names = &profile.names;
        let text = |index: u32| names.strings.get(index as usize).map_or("?", String::as_str);
        for (pc, insns) in profile.insns() {
            let inlined = names.frames_at(pc).last().filter(|frame| frame.inlined);
            let key = match inlined {
                Some(frame) => Key::new(text(frame.function), frame.file.map(text)),
                None => Key::of(Place::of(profile, pc)),
            };
            let function = metrics.functions.entry(key).or_default();
            function.self_insns += insns;
            function.inlined_insns += if inlined.is_some() { insns } else { 0 };
        }
        let inclusive = inclusive(profile);
        for row in functions::table(profile).rows.iter().filter(|row| row.kind == functions::RowKind::Function) {
            let key = Key::new(&row.name, row.file.as_deref());
            let function = metrics.functions.entry(key).or_default();
            *function.calls.get_or_insert(0) += row.calls;
            if let Some(inclusive) = row.start.and_then(|start| inclusive.get(&start)) {
                *function.inclusive_insns.get_or_insert(0) += inclusive;
            }
        }
        for (task, name) in profile.tasks.iter().zip(stacks::task_names(profile)) {
            let stack_bytes = task.stack_end.zip(task.deepest_sp).map(|(end, deepest)| end.saturating_sub(deepest));
            metrics.tasks.insert(name, TaskMetrics { insns: task.insns, switches: task.switches, stack_bytes });
        }
        metrics
    }

    /// Functions whose name matches, of all files.
    pub fn named<'a>(
        &'a self,
        matches: impl Fn(&str) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a Key, &'a FunctionMetrics)> {
        self.functions.iter().filter(move |(key, _)| matches(&key.name))
    }
}

impl Key {
    fn new(name: &str, file: Option<&str>) -> Key {
        let file = file.map_or("", file_name);
        Key { name: stable_name(name).to_owned(), file: file.to_owned() }
    }

    fn of(place: Place<'_>) -> Key {
        match place {
            Place::Function(function) => Key::new(&function.name, function.file.as_deref()),
            // Where code without a name lies changes with every build.
            Place::Range { .. } => Key { name: "[unnamed]".to_owned(), file: String::new() },
            Place::BootRom => Key { name: place.to_string(), file: String::new() },
        }
    }
}

/// Instructions from entry to return by function start, recursion counted once, interrupts not at all.
fn inclusive(profile: &Profile) -> BTreeMap<u64, u64> {
    // A node's number is higher than its parent's.
    let mut subtotals: Vec<u64> = profile.tree.iter().map(|node| node.insns).collect();
    for (index, node) in profile.tree.iter().enumerate().rev() {
        if let (Some(parent), NodeKind::Function { .. }) = (node.parent.checked_sub(1), node.kind) {
            subtotals[parent as usize] += subtotals[index];
        }
    }
    let mut inclusive = BTreeMap::new();
    for (node, &subtotal) in profile.tree.iter().zip(&subtotals) {
        let NodeKind::Function { entry } = node.kind else { continue };
        let mut outer = node.parent;
        let mut is_recursive = false;
        while let Some(parent) = outer.checked_sub(1).map(|index| &profile.tree[index as usize]) {
            match parent.kind {
                NodeKind::Function { entry: other } => is_recursive |= other == entry,
                // What it interrupted is no caller.
                NodeKind::Exception { .. } | NodeKind::Root { .. } => break,
            }
            outer = parent.parent;
        }
        if !is_recursive {
            *inclusive.entry(entry).or_default() += subtotal;
        }
    }
    inclusive
}

/// Names of which there is one in several files.
pub fn ambiguous<'a>(keys: impl Iterator<Item = &'a Key>) -> BTreeSet<&'a str> {
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for key in keys {
        files.entry(&key.name).or_default().insert(&key.file);
    }
    files.into_iter().filter(|(_, files)| files.len() > 1).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Node;
    use crate::profile::testing::empty;

    #[test]
    fn what_compilers_add_to_a_name_is_no_part_of_it() {
        for (name, stable) in [
            ("crc32", "crc32"),
            ("crc32.constprop.0", "crc32"),
            ("crc32.isra.0.part.12", "crc32"),
            ("vTaskSwitchContext.part.0", "vTaskSwitchContext"),
            ("init.cold", "init"),
            ("f.lto_priv.3.constprop.1", "f"),
            ("app::run::h0123456789abcdef", "app::run"),
            ("app::hash", "app::hash"),
            ("v1.2", "v1.2"),
            (".part.0", ".part.0"),
        ] {
            assert_eq!(stable_name(name), stable);
        }
    }

    #[test]
    fn inclusive_counts_recursion_once_and_interrupts_not() {
        let mut profile = empty().function("f", 0x40, 4).function("g", 0x80, 4).insn(0x40, 10).insn(0x80, 5);
        let node = |parent, kind, insns| Node { parent, kind, insns, calls: 1 };
        let function = |entry| NodeKind::Function { entry };
        profile.tree = vec![
            node(0, NodeKind::Root { task: 0 }, 0),
            node(1, function(0x40), 6),
            node(2, function(0x80), 2),
            node(3, function(0x40), 4),
            node(4, NodeKind::Exception { number: 15 }, 0),
            node(5, function(0x80), 3),
        ];
        assert_eq!(inclusive(&profile), BTreeMap::from([(0x40, 12), (0x80, 9)]));
    }
}
