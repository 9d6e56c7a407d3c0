// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons why tasks stop, from the kernel's own data at the switch.
//!
//! A task that is still ready has yielded, or an interrupt has made another one execute: the place of the request for
//! the switch tells. An undetermined reason is [`Why::Unknown`].

mod lists;
mod states;

use std::collections::HashMap;

use wire::definition::MAX_TEXT_BYTES;
use wire::request::Request;
use wire::timeline::{ObjectKind, States, Waits, What, Why};

use self::lists::ByLists;
use super::context::Core;
use crate::guest::{Guest, PENDSV, Vcpu};
use crate::ledger::{Counters, Ledger};

/// Most objects that are distinguished: firmware may make and delete them for ever.
const MAX_OBJECTS: usize = 1 << 16;

/// RISC-V: an environment call is a synchronous exception of one of these causes, one for each privilege.
const ECALLS: std::ops::RangeInclusive<u64> = 8..=11;

/// The kernel's data, and what they tell of a stopped task.
pub struct Reasons {
    by: By,
    /// Numbers of objects, by the address in their event and their kind.
    objects: HashMap<(u64, ObjectKind), u32>,
    /// Origin of the requested switch, by vCPU: true for a task, false for an interrupt.
    asked_by_task: Vec<Option<bool>>,
}

/// Place where the kernel keeps a task's state.
enum By {
    Lists(ByLists),
    States(States),
}

/// Reason why a task does not execute.
enum Stop {
    /// It could execute.
    Ready,
    Because(Why),
    Waits(Object),
}

/// Object that tasks wait for.
struct Object {
    /// Address that stands for it in the control block; 0: only the kind is known.
    address: u64,
    kind: ObjectKind,
    /// Address of the whole object; 0: not known.
    whole: u64,
}

impl Reasons {
    /// None: reasons are not asked for, or the kernel's layout is not known.
    pub(super) fn new(request: &Request, vcpus: u32) -> Option<Reasons> {
        let by = match request.measure()?.timeline.as_ref()?.waits.clone()? {
            Waits::Lists(layout) => By::Lists(ByLists::new(layout)),
            Waits::States(layout) => By::States(layout),
        };
        Some(Reasons { by, objects: HashMap::new(), asked_by_task: vec![None; vcpus as usize] })
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
        match self.stop(tcb, guest) {
            Stop::Ready => self.ready(core),
            Stop::Because(why) => why,
            Stop::Waits(object) => {
                let number = self.number(&object, core.vcpu, guest, ledger);
                number.map_or(Why::Unknown, |object| Why::Blocked { object })
            }
        }
    }

    fn stop(&self, tcb: u64, guest: &mut Guest<impl Vcpu>) -> Stop {
        match &self.by {
            By::Lists(lists) => lists.stop(tcb, guest),
            By::States(layout) => states::stop(layout, tcb, guest),
        }
    }

    /// Whether the task with this control block, which does not execute, could execute. None: the kernel's data do not say.
    pub(super) fn is_ready(&self, tcb: u64, guest: &mut Guest<impl Vcpu>) -> Option<bool> {
        match self.stop(tcb, guest) {
            Stop::Ready => Some(true),
            Stop::Because(Why::Unknown) => None,
            Stop::Because(_) | Stop::Waits(_) => Some(false),
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
            // The task itself has called the code that switches.
            None => Why::Yielded,
            Some(_) => Why::Unknown,
        }
    }

    /// Number of an object. None: there are too many.
    fn number(
        &mut self,
        object: &Object,
        vcpu: u32,
        guest: &mut Guest<impl Vcpu>,
        ledger: &mut Ledger<impl Counters>,
    ) -> Option<u32> {
        let &Object { address, kind, whole } = object;
        if let Some(&number) = self.objects.get(&(address, kind)) {
            return Some(number);
        }
        if self.objects.len() >= MAX_OBJECTS {
            return None;
        }
        let name = match &self.by {
            By::Lists(lists) => lists.name(object, guest),
            By::States(layout) => states::name(layout, object, guest),
        };
        ledger.happened(vcpu, What::Object { address, kind, whole, name });
        let number = self.objects.len() as u32 + 1;
        self.objects.insert((address, kind), number);
        Some(number)
    }

    /// Opens the window: the timeline has no objects yet.
    pub(super) fn restart(&mut self) {
        self.objects.clear();
    }
}

/// Text in the firmware's memory that ends in a 0, without what follows [`MAX_TEXT_BYTES`].
fn text(pointer: u64, guest: &mut Guest<impl Vcpu>) -> String {
    let bytes = (pointer..).take(MAX_TEXT_BYTES).map_while(|at| guest.memory_word(at, 1).filter(|&byte| byte != 0));
    let bytes: Vec<u8> = bytes.map(|byte| byte as u8).collect();
    let mut text = String::from_utf8_lossy(&bytes).replace(char::is_control, "?");
    while text.len() > MAX_TEXT_BYTES {
        text.pop();
    }
    text
}
