// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that a run used, beside what is reserved for it: stacks of tasks, and the heap.

use crate::analysis::{heap, stack_proof, stacks};
use crate::profile::Profile;

/// Memory that a run used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// Description: `stack of net`, `heap ucHeap`.
    pub what: String,
    /// First address and size of what is reserved; None: unknown.
    pub reserved: Option<(u64, u64)>,
    /// Bytes that the run used at most; None: unknown.
    pub used_bytes: Option<u64>,
    /// Kind of that number: `exact`, or `at least`.
    pub certainty: &'static str,
}

/// Finds the memory that a run used: the heap first, then the tasks in the order in which they ran.
pub fn used(profile: &Profile) -> Vec<Used> {
    let heap = heap::replay(profile).map(|found| {
        let arena = profile.heap.as_ref().and_then(|heap| heap.arena.as_ref());
        Used {
            what: arena.map_or_else(|| "heap".to_owned(), |arena| format!("heap {}", arena.name)),
            reserved: arena.map(|arena| (arena.start, arena.end.saturating_sub(arena.start))),
            used_bytes: Some(found.peak.bytes),
            certainty: "exact",
        }
    });
    let is_exact = stack_proof::has_exact_tree(profile);
    let tasks = profile.tasks.iter().zip(stacks::task_names(profile)).filter(|(task, _)| task.poll.is_none());
    let tasks = tasks.map(|(task, name)| Used {
        what: format!("stack of {name}"),
        reserved: task.stack_start.zip(task.stack_bytes().filter(|&bytes| bytes > 0)),
        used_bytes: task.used_stack_bytes(),
        certainty: if is_exact { "exact" } else { "at least" },
    });
    heap.into_iter().chain(tasks).collect()
}
