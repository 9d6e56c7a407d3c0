//! Reasons why tasks stop, from the kernel's own lists at the switch.
//!
//! A task that is still ready has yielded, or an interrupt has made another one execute: the place of the request for
//! the switch tells. An undetermined reason is [`Why::Unknown`].

use std::collections::HashMap;

use wire::definition::MAX_TEXT_BYTES;
use wire::request::Request;
use wire::timeline::{ObjectKind, Objects, State, Waits, What, Why};

use super::context::Core;
use crate::guest::{Guest, PENDSV, Vcpu};
use crate::ledger::{Counters, Ledger};

/// Most objects that are distinguished: firmware may make and delete them for ever.
const MAX_OBJECTS: usize = 1 << 16;

/// Least flag value in the items of an event group's list (taskEVENT_LIST_ITEM_VALUE_IN_USE, of 16 bits at least).
/// Other lists of waiting tasks are ordered by priorities, which are smaller.
const LEAST_FLAGS: u64 = 1 << 15;

/// RISC-V: an environment call is a synchronous exception of one of these causes, one for each privilege.
const ECALLS: std::ops::RangeInclusive<u64> = 8..=11;

/// The kernel's lists, and what they tell of a stopped task.
pub struct Reasons {
    waits: Waits,
    /// State of a task in a list, by the list's address.
    lists: HashMap<u64, State>,
    /// Numbers of objects, by the list of waiting tasks and the object's kind.
    objects: HashMap<(u64, ObjectKind), u32>,
    /// Origin of the requested switch, by vCPU: true for a task, false for an interrupt.
    asked_by_task: Vec<Option<bool>>,
}

impl Reasons {
    /// None: reasons are not asked for, or the kernel's lists are not known.
    pub(super) fn new(request: &Request, vcpus: u32) -> Option<Reasons> {
        let waits = request.measure()?.timeline.as_ref()?.waits.clone()?;
        let lists = waits.lists.iter().copied().collect();
        Some(Reasons { waits, lists, objects: HashMap::new(), asked_by_task: vec![None; vcpus as usize] })
    }

    /// Notes a store to the interrupt controller that asks for a switch, or cancels it.
    pub(super) fn pend(&mut self, core: &Core, is_pending: bool) {
        let asked = &mut self.asked_by_task[core.vcpu as usize];
        if is_pending {
            asked.get_or_insert(core.exceptions.is_empty());
        } else {
            *asked = None;
        }
    }

    /// Notes that the kernel has chosen the next task, perhaps the same one.
    pub(super) fn chosen(&mut self, vcpu: u32) {
        self.asked_by_task[vcpu as usize] = None;
    }

    /// Reason why the task with this control block stops, as another one is switched in.
    pub(super) fn of(
        &mut self,
        tcb: u64,
        core: &Core,
        guest: &mut Guest<impl Vcpu>,
        ledger: &mut Ledger<impl Counters>,
    ) -> Why {
        let Some(list) = guest.pointer(tcb + self.waits.state) else { return Why::Unknown };
        let Some(&state) = self.lists.get(&list) else { return Why::Unknown };
        match state {
            State::Ready => self.ready(core),
            State::Deleted => Why::Deleted,
            State::Delayed | State::Suspended => {
                let event = self.waits.event.and_then(|offset| guest.pointer(tcb + offset));
                if let Some(list) = event.filter(|&list| list != 0) {
                    let object = self.object(list, tcb, core.vcpu, guest, ledger);
                    return object.map_or(Why::Unknown, |object| Why::Blocked { object });
                }
                if self.awaits_notification(tcb, guest) {
                    return Why::Notification;
                }
                // If events are not known, the task may wait for one.
                match (self.waits.event.is_some(), state) {
                    (false, _) => Why::Unknown,
                    (true, State::Suspended) => Why::Suspended,
                    (true, _) => Why::Delayed,
                }
            }
        }
    }

    /// Reason why a task stops that is still ready.
    fn ready(&self, core: &Core) -> Why {
        match core.exceptions.last().map(|active| active.number) {
            Some(PENDSV) => match self.asked_by_task[core.vcpu as usize] {
                Some(true) => Why::Yielded,
                Some(false) => Why::Preempted,
                None => Why::Unknown,
            },
            Some(number) if number >> 63 != 0 => Why::Preempted,
            Some(number) if ECALLS.contains(&number) => Why::Yielded,
            _ => Why::Unknown,
        }
    }

    fn awaits_notification(&self, tcb: u64, guest: &mut Guest<impl Vcpu>) -> bool {
        // taskWAITING_NOTIFICATION
        let states = self.waits.notification.and_then(|(offset, bytes)| guest.memory(tcb + offset, bytes as usize));
        states.is_some_and(|states| states.contains(&1))
    }

    /// Number of the object with this list of waiting tasks. None: there are too many.
    fn object(
        &mut self,
        list: u64,
        tcb: u64,
        vcpu: u32,
        guest: &mut Guest<impl Vcpu>,
        ledger: &mut Ledger<impl Counters>,
    ) -> Option<u32> {
        let is_group = self.waits.event_value.is_some_and(|(offset, bytes)| {
            guest.memory_word(tcb + offset, bytes).is_some_and(|value| value >= LEAST_FLAGS)
        });
        let (kind, whole) = match &self.waits.objects {
            _ if is_group => (ObjectKind::EventGroup, 0),
            Some(objects) => queue(objects, list, guest).unwrap_or((ObjectKind::Unknown, 0)),
            None => (ObjectKind::Unknown, 0),
        };
        if let Some(&object) = self.objects.get(&(list, kind)) {
            return Some(object);
        }
        if self.objects.len() >= MAX_OBJECTS {
            return None;
        }
        let name = match &self.waits.objects {
            Some(Objects { registry: Some(registry), .. }) if whole != 0 => registered(*registry, whole, guest),
            _ => String::new(),
        };
        ledger.happened(vcpu, What::Object { address: list, kind, whole, name });
        let object = self.objects.len() as u32 + 1;
        self.objects.insert((list, kind), object);
        Some(object)
    }

    /// Opens the window: the timeline has no objects yet.
    pub(super) fn restart(&mut self) {
        self.objects.clear();
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
    let entry = (0..entries).map(|index| table + index * 2 * word);
    let mut name = String::new();
    for entry in entry {
        if guest.pointer(entry + word) == Some(whole)
            && let Some(text) = guest.pointer(entry).filter(|&text| text != 0)
        {
            let bytes =
                (text..).take(MAX_TEXT_BYTES).map_while(|at| guest.memory_word(at, 1).filter(|&byte| byte != 0));
            let bytes: Vec<u8> = bytes.map(|byte| byte as u8).collect();
            name = String::from_utf8_lossy(&bytes).replace(char::is_control, "?");
        }
    }
    while name.len() > MAX_TEXT_BYTES {
        name.pop();
    }
    name
}
