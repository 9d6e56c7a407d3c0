// SPDX-License-Identifier: MIT OR Apache-2.0
//! FreeRTOS's lists of tasks: their addresses in an image, and the state of the tasks in each.
//!
//! A list's layout depends on the width of a pointer and of the tick count, which the list's size shows. The offset
//! of the list's item in a control block need not be known, because each item names its owner.

use super::{CURRENT, Table};

/// State of a task, by the list that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The task executes.
    Running,
    /// The task could execute.
    Ready,
    /// The task waits for an event, or for a time.
    Blocked,
    /// The task was suspended.
    Suspended,
    /// The task was deleted, and its memory is not yet freed.
    Deleted,
}

/// Addresses and layout of the lists. Addresses include the load bias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lists {
    /// Address of the pointer to the running task's control block, or of the first core's such pointer.
    pub current: u64,
    /// Number of cores.
    pub cores: u32,
    /// Size of a pointer.
    pub pointer_bytes: u64,
    /// Addresses of the lists, with the state of the tasks in each.
    pub lists: Vec<(u64, State)>,
    /// Offset, in a list, of the item that ends it.
    pub end: u64,
    /// Offset, in an item, of the pointer to the next one.
    pub next: u64,
    /// Offset, in an item, of the pointer to the control block.
    pub owner: u64,
    /// Offset, in an item, of the pointer to the list that it is in.
    pub container: u64,
    /// Size of an item.
    pub item_bytes: u64,
}

/// Lists by the names of their variables (tasks.c). A task that is in two lists has the state of the earlier one.
const LISTS: [(&str, State); 6] = [
    ("xTasksWaitingTermination", State::Deleted),
    ("xPendingReadyList", State::Ready),
    ("pxReadyTasksLists", State::Ready),
    ("xDelayedTaskList1", State::Blocked),
    ("xDelayedTaskList2", State::Blocked),
    ("xSuspendedTaskList", State::Suspended),
];

/// Largest plausible number of priorities.
const MAX_LISTS: u64 = 256;

pub(super) fn find(table: &Table<'_>, pointer_bytes: u32) -> Option<Lists> {
    let (current, cores) = CURRENT.iter().find_map(|name| table.pointers(name, pointer_bytes))?;
    let word = u64::from(pointer_bytes);
    let variable = |name: &str| table.variable(name, |bytes| bytes > 0);
    let list_bytes = u64::from(variable("xPendingReadyList")?.bytes);
    // Number of items, index, and the end item: value, next, previous; without small end items also owner and
    // container.
    let value_bytes = match (list_bytes / word, word) {
        (5 | 7, _) => word,
        // 64-bit ticks.
        (6 | 8, 4) => 8,
        _ => return None,
    };
    let next = value_bytes;
    let mut lists = Vec::new();
    for (name, state) in LISTS {
        let Some(found) = variable(name) else { continue };
        let count = u64::from(found.bytes) / list_bytes;
        if !u64::from(found.bytes).is_multiple_of(list_bytes) || !(1..=MAX_LISTS).contains(&count) {
            return None;
        }
        // The highest priority comes first.
        lists.extend((0..count).rev().map(|index| (found.address + index * list_bytes, state)));
    }
    Some(Lists {
        current,
        cores,
        pointer_bytes: word,
        lists,
        end: 2 * word,
        next,
        owner: next + 2 * word,
        container: next + 3 * word,
        item_bytes: next + 4 * word,
    })
}
