// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons by the lists that a control block is in.

use std::collections::HashMap;

use wire::timeline::{Lists, ObjectKind, Objects, State, Why};

use super::{Object, Stop, text};
use crate::guest::{Guest, Vcpu};

/// Least flag value in the items of an event group's list (taskEVENT_LIST_ITEM_VALUE_IN_USE, of 16 bits at least).
/// Other lists of waiting tasks are ordered by priorities, which are smaller.
const LEAST_FLAGS: u64 = 1 << 15;

/// The kernel's lists, and their meanings.
pub(super) struct ByLists {
    layout: Lists,
    /// State of a task in a list, by the list's address.
    states: HashMap<u64, State>,
}

impl ByLists {
    pub(super) fn new(layout: Lists) -> ByLists {
        let states = layout.lists.iter().copied().collect();
        ByLists { layout, states }
    }

    /// Reason why the task with this control block does not execute.
    pub(super) fn stop(&self, tcb: u64, guest: &mut Guest<impl Vcpu>) -> Stop {
        let list = guest.pointer(tcb + self.layout.state);
        match list.and_then(|list| self.states.get(&list)) {
            None => Stop::Because(Why::Unknown),
            Some(State::Ready) => Stop::Ready,
            Some(State::Deleted) => Stop::Because(Why::Deleted),
            Some(&state @ (State::Delayed | State::Suspended | State::Waiting { .. })) => {
                let event = self.layout.event.and_then(|offset| guest.pointer(tcb + offset));
                if let Some(list) = event.filter(|&list| list != 0) {
                    return Stop::Waits(self.object(list, tcb, guest));
                }
                if self.awaits_notification(tcb, guest) {
                    return Stop::Because(Why::Notification);
                }
                // If events are not known, the task may wait for one.
                Stop::Because(match (self.layout.event.is_some(), state) {
                    (false, _) => Why::Unknown,
                    (true, State::Suspended) => Why::Suspended,
                    (true, _) => Why::Delayed,
                })
            }
        }
    }

    fn awaits_notification(&self, tcb: u64, guest: &mut Guest<impl Vcpu>) -> bool {
        // taskWAITING_NOTIFICATION
        let states = self.layout.notification.and_then(|(offset, bytes)| guest.memory(tcb + offset, bytes as usize));
        states.is_some_and(|states| states.contains(&1))
    }

    /// Object with this list of waiting tasks.
    fn object(&self, list: u64, tcb: u64, guest: &mut Guest<impl Vcpu>) -> Object {
        let is_group = self.layout.event_value.is_some_and(|(offset, bytes)| {
            guest.memory_word(tcb + offset, bytes).is_some_and(|value| value >= LEAST_FLAGS)
        });
        let (kind, whole) = match &self.layout.objects {
            _ if is_group => (ObjectKind::EventGroup, 0),
            Some(objects) => queue(objects, list, guest).unwrap_or((ObjectKind::Unknown, 0)),
            None => (ObjectKind::Unknown, 0),
        };
        Object { address: list, kind, whole }
    }

    /// Name that the firmware gave an object; empty: none.
    pub(super) fn name(&self, object: &Object, guest: &mut Guest<impl Vcpu>) -> String {
        match &self.layout.objects {
            Some(Objects { registry: Some(registry), .. }) if object.whole != 0 => {
                registered(*registry, object.whole, guest)
            }
            _ => String::new(),
        }
    }
}

/// Queue that a list of waiting tasks belongs to, and their reason: the queue's other list, which must be empty, and
/// its length decide. None: the list is not certainly one of a queue.
fn queue(objects: &Objects, list: u64, guest: &mut Guest<impl Vcpu>) -> Option<(ObjectKind, u64)> {
    let mut is_queue = |own: u64, other: u64| {
        let whole = list.checked_sub(own)?;
        let word = guest.pointer_bytes();
        let other = whole + other;
        // A list has a number of items, an index, and an end that the index of an empty list points to.
        let is_empty = guest.memory_word(other, word)? == 0 && guest.pointer(other + word)? == other + objects.end;
        let end = guest.memory_word(other + objects.end, objects.end_bytes)?;
        let is_list = is_empty && end == u64::MAX >> (64 - 8 * objects.end_bytes);
        (is_list && guest.memory_word(whole + objects.length, word)? != 0).then_some(whole)
    };
    let (item, room) = (is_queue(objects.item, objects.room), is_queue(objects.room, objects.item));
    match (item, room) {
        (Some(whole), None) => {
            let item_size = guest.memory_word(whole + objects.item_size, guest.pointer_bytes())?;
            let kind = match (item_size, guest.pointer(whole)?) {
                (0, 0) => ObjectKind::Mutex,
                (0, _) => ObjectKind::Semaphore,
                _ => ObjectKind::QueueItem,
            };
            Some((kind, whole))
        }
        (None, Some(whole)) => Some((ObjectKind::QueueRoom, whole)),
        _ => None,
    }
}

/// Name that the firmware gave a queue; empty: none.
fn registered((table, entries): (u64, u64), whole: u64, guest: &mut Guest<impl Vcpu>) -> String {
    let word = guest.pointer_bytes();
    let mut name = String::new();
    for entry in (0..entries).map(|index| table + index * 2 * word) {
        if guest.pointer(entry + word) == Some(whole)
            && let Some(pointer) = guest.pointer(entry).filter(|&pointer| pointer != 0)
        {
            name = text(pointer, guest);
        }
    }
    name
}
