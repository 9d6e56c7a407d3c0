// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sentences about stacks: completeness and depth of the sampled ones, and the room left on each task's stack.

use wire::definition::NodeKind;

use crate::analysis::owner::Owner;
use crate::analysis::{stack_proof, stacks};
use crate::profile::{Profile, Task};
use crate::text::number::{group, share, share_at_least};
use crate::text::printable::printable;

/// Lines about the completeness and the depth of stacks.
pub fn remarks(profile: &Profile) -> Vec<String> {
    let total = profile.samples.len() as u64;
    let mut lines = Vec::new();
    if profile.facts.max_depth.is_some() && total > 0 {
        let unknown = stacks::unknown(profile);
        let complete = total - unknown.values().sum::<u64>();
        let mut line = format!("stacks: {} sampled, {} complete", group(total), share_at_least(complete, total));
        for (why, samples) in unknown {
            line += &format!("; {} {} ({})", group(samples), stacks::why(why), share(samples, total));
        }
        lines.push(line);
    }
    if !profile.tree.is_empty() {
        let (depth, function) = recursion(profile);
        let paths = group(profile.tree.len() as u64);
        let exact = if stack_proof::has_exact_tree(profile) { "exact" } else { "NOT exact" };
        lines.push(match function {
            Some(name) if depth > 1 => {
                format!("call tree: {paths} call paths, {exact}; deepest recursion: {name}, {depth} at once")
            }
            _ => format!("call tree: {paths} call paths, {exact}; no recursion"),
        });
    }
    lines.extend(stack_proof::faults(profile).into_iter().map(|fault| format!("warning: {fault}")));
    lines.extend(eaten(profile));
    lines
}

/// Warnings about tasks that have no paint left at the low end of their stacks, where the kernel paints the others'.
fn eaten(profile: &Profile) -> impl Iterator<Item = String> {
    // Without any paint, this kernel, or its configuration, does not paint.
    let paints = profile.tasks.iter().any(|task| task.painted_bytes.is_some_and(|bytes| bytes > 0));
    let is_eaten = move |task: &&Task| paints && task.stack_start.is_some() && task.painted_bytes == Some(0);
    profile.tasks.iter().zip(stacks::task_names(profile)).filter(move |(task, _)| is_eaten(task)).map(|(task, name)| {
        let size = task.stack_bytes().map(|size| format!(" of {} bytes", group(size))).unwrap_or_default();
        let name = printable(&name);
        format!(
            "warning: the stack{size} of task {name} has no paint left: it was used to its last byte, or overflowed"
        )
    })
}

/// Bytes between the low end of a task's stack and the lowest stack pointer seen. Registers that an interrupt or a
/// switch saves there count as used. If every move of the stack pointer was followed, these bytes were never used;
/// otherwise the unused bytes are at most as many. Every known kernel keeps the stack's low end, but few its high end,
/// so few stacks have a known size.
pub fn stack_left(task: &Task, is_exact: bool) -> String {
    let (Some(start), Some(deepest)) = (task.stack_start, task.deepest_sp) else { return "-".to_owned() };
    let bound = if is_exact || task.overflow.is_some() { "" } else { "\u{2264} " };
    format!("{bound}{}", of_stack(deepest.saturating_sub(start), task))
}

/// Bytes at the low end of a task's stack that still have the kernel's paint. Missing paint means that the stack was
/// used at some time, also before the window.
pub fn paint_left(task: &Task) -> String {
    task.painted_bytes.filter(|&bytes| bytes > 0).map_or_else(|| "-".to_owned(), |bytes| of_stack(bytes, task))
}

/// Formats bytes, with the stack's size if the kernel keeps it.
fn of_stack(bytes: u64, task: &Task) -> String {
    match task.stack_bytes() {
        Some(size) => format!("{} of {}", group(bytes), group(size)),
        None => group(bytes),
    }
}

/// Deepest recursion: most activations of one function on a path of the tree, and the function's name.
fn recursion(profile: &Profile) -> (u32, Option<String>) {
    let mut depths: Vec<u32> = Vec::with_capacity(profile.tree.len());
    let mut deepest = (0, None);
    for node in &profile.tree {
        let NodeKind::Function { entry } = node.kind else {
            depths.push(0);
            continue;
        };
        // The nearest outer node of the same function already counts the ones above it.
        let mut at = node.parent;
        let mut depth = 1;
        while let Some(index) = at.checked_sub(1).map(|index| index as usize) {
            let outer = &profile.tree[index];
            match outer.kind {
                NodeKind::Function { entry: outer } if outer == entry => {
                    depth = depths[index] + 1;
                    break;
                }
                // What a handler has interrupted does not call what the handler calls.
                NodeKind::Exception { .. } => break,
                _ => at = outer.parent,
            }
        }
        depths.push(depth);
        if depth > deepest.0 {
            deepest = (depth, Some(Owner::of(profile, entry).to_string()));
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    #[test]
    fn a_handler_that_calls_what_it_interrupted_does_not_recurse() {
        let function = |entry| NodeKind::Function { entry };
        let tree = |kinds: &[NodeKind]| {
            let nodes = kinds.iter().zip(0..);
            recursion(&nodes.fold(empty(), |profile, (&kind, parent)| profile.node(parent, kind, 1))).0
        };
        let (root, exception) = (NodeKind::Root { task: 0 }, NodeKind::Exception { number: 15 });
        assert_eq!(tree(&[root, function(0x40), exception, function(0x80), function(0x40)]), 1);
        assert_eq!(tree(&[root, function(0x40), function(0x80), function(0x40)]), 2);
        // In the handler alone.
        assert_eq!(tree(&[root, function(0x40), exception, function(0x40), function(0x40)]), 2);
    }

    #[test]
    fn a_stack_without_paint_is_said_where_the_kernel_paints() {
        let mut profile = empty().task_called("net").task_called("log");
        for (task, painted) in profile.tasks.iter_mut().zip([0, 40]) {
            task.painted_bytes = Some(painted);
        }
        let said: Vec<String> = eaten(&profile).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("of 1,024 bytes of task net has no paint left"), "{said:?}");
        profile.tasks[1].painted_bytes = Some(0);
        assert_eq!(eaten(&profile).count(), 0, "this kernel does not paint");
    }
}
