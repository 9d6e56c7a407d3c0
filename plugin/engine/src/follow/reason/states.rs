// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons by the members of a control block that hold its state, and what the task waits for.

use wire::timeline::{ObjectKind, State, States, Why};

use super::{Object, Stop, text};
use crate::guest::{Guest, Vcpu};

/// Reason why the task with this control block does not execute.
pub(super) fn stop(layout: &States, tcb: u64, guest: &mut Guest<impl Vcpu>) -> Stop {
    let value = guest.memory_word(tcb + layout.state.start, layout.state.end - layout.state.start);
    match value.and_then(|value| layout.state(value)) {
        None => Stop::Because(Why::Unknown),
        Some(State::Ready) => Stop::Ready,
        Some(State::Deleted) => Stop::Because(Why::Deleted),
        Some(State::Delayed) => Stop::Because(Why::Delayed),
        Some(State::Suspended) => {
            let limit = layout.time_limit.and_then(|offset| guest.pointer(tcb + offset));
            Stop::Because(if limit.is_some_and(|limit| limit != 0) { Why::Delayed } else { Why::Suspended })
        }
        Some(State::Waiting { kind }) => {
            let pointer = layout.object.and_then(|offset| guest.pointer(tcb + offset)).unwrap_or(0);
            Stop::Waits(object(layout, kind, pointer, guest))
        }
    }
}

/// Object that a task waits for, by the pointer in its control block; 0: only the kind is known.
fn object(layout: &States, kind: ObjectKind, pointer: u64, guest: &mut Guest<impl Vcpu>) -> Object {
    let (kind, whole) = match layout.known(pointer) {
        // A state that names the kind has a pointer to the object itself.
        _ if kind != ObjectKind::Unknown => (kind, pointer),
        Some(known) => (known.kind, known.at.start),
        None => (kind, 0),
    };
    let items = layout.members(kind).and_then(|members| members.items.as_ref()).filter(|_| whole != 0);
    let items = items.and_then(|at| guest.memory_word(whole + at.start, at.end - at.start));
    let kind = match items {
        Some(0) => ObjectKind::QueueItem,
        Some(_) => ObjectKind::QueueRoom,
        None => kind,
    };
    Object { address: pointer, kind, whole }
}

/// Name that the object's own member points to; empty: none.
pub(super) fn name(layout: &States, object: &Object, guest: &mut Guest<impl Vcpu>) -> String {
    let kind = match object.kind {
        ObjectKind::QueueItem | ObjectKind::QueueRoom => ObjectKind::Queue,
        kind => kind,
    };
    let offset = layout.members(kind).and_then(|members| members.name).filter(|_| object.whole != 0);
    let pointer = offset.and_then(|offset| guest.pointer(object.whole + offset)).filter(|&pointer| pointer != 0);
    pointer.map_or_else(String::new, |pointer| text(pointer, guest))
}
