// SPDX-License-Identifier: MIT OR Apache-2.0
//! FreeRTOS's data that tell why a task does not execute: the lists that its control block's two items are in, and
//! the state of its notifications. Offsets are from DWARF; members that it lacks are not asked for.

use wire::timeline::{Lists, Objects, State};

use super::{CURRENT, Table, lists};
use crate::image::kernel::scan::{Member, Scan};
use crate::image::symbols::dwarf::Slice;

/// Largest plausible number of entries in the queues' registry.
const MAX_NAMES: u64 = 1 << 12;

/// Finds this layout; None: it is not known.
pub(super) fn find(table: &Table<'_>, dwarf: &gimli::Dwarf<Slice<'_>>, pointer_bytes: u32) -> Option<Lists> {
    let lists = lists::find(table, pointer_bytes)?;
    let word = u64::from(pointer_bytes);
    let mut scan = Scan::new(dwarf);
    let block = scan.members_pointed_to(&CURRENT, &["xStateListItem", "xEventListItem", "ucNotifyState"])?;
    let [Some(state), event, notification] = block[..] else { return None };
    let item = |member: Member| Some(member.offset).filter(|_| member.bytes == Some(lists.item_bytes));
    let state = item(state)?;
    let event = event.and_then(item);
    let queue = scan
        .members_of("QueueDefinition", &["xTasksWaitingToSend", "xTasksWaitingToReceive", "uxLength", "uxItemSize"]);
    let words = |member: Member| Some(member.offset).filter(|_| member.bytes == Some(word));
    let objects = queue.and_then(|queue| match queue[..] {
        [Some(room), Some(item), Some(length), Some(item_size)] => Some(Objects {
            end: lists.end,
            end_bytes: lists.next,
            room: room.offset,
            item: item.offset,
            length: words(length)?,
            item_size: words(item_size)?,
            registry: registry(table, word),
        }),
        _ => None,
    });
    Some(Lists {
        state: state + lists.container,
        event: event.map(|event| event + lists.container),
        event_value: event.map(|event| (event, lists.next)),
        lists: lists.lists.iter().filter_map(|&(address, state)| Some((address, of(state)?))).collect(),
        notification: notification.and_then(|member| Some((member.offset, member.bytes?))),
        objects,
    })
}

/// State of the tasks in a list of that kind.
fn of(state: lists::State) -> Option<State> {
    match state {
        lists::State::Running => None,
        lists::State::Ready => Some(State::Ready),
        lists::State::Blocked => Some(State::Delayed),
        lists::State::Suspended => Some(State::Suspended),
        lists::State::Deleted => Some(State::Deleted),
    }
}

/// Table of the queues' names (queue.c): its address and number of entries, two pointers each.
fn registry(table: &Table<'_>, word: u64) -> Option<(u64, u64)> {
    let is_size = |bytes: u64| bytes.is_multiple_of(2 * word) && (1..=MAX_NAMES).contains(&(bytes / (2 * word)));
    let found = table.variable("xQueueRegistry", is_size)?;
    Some((found.address, u64::from(found.bytes) / (2 * word)))
}
