// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timeline in the JSON format: every event in order, generated while it is written, since there may be ten million.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::event_rows::{Row, rows};
use crate::export::json::List;
use crate::export::json::task_states::{self, JsonTaskStates};
use crate::export::settings::Settings;
use crate::profile::Profile;

/// Timeline: every event of the window, in order (--timeline).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Timeline")]
pub(in crate::export) struct EventList<'a> {
    /// Time that the machine slept in the window, in nanoseconds: its clock advanced while nothing executed. 0 if it
    /// never slept, or if that is not known.
    slept_ns: u64,
    /// Patterns of --trace.
    traced: &'a [String],
    /// States of the tasks: running, ready while others executed, waiting; the task that was ready for longest at a stretch
    /// first, idle tasks last. Empty: there are no tasks, or several CPUs.
    tasks: Vec<JsonTaskStates>,
    /// Names that events refer to by index, in the order of first use.
    names: Vec<String>,
    /// Events of the timeline.
    events: List<'a, JsonEvent>,
}

/// Event of the timeline. Fields without a meaning for it are left out.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Event")]
struct JsonEvent {
    /// Instructions of the window that the vCPU had started.
    at_insns: u64,
    /// Nanoseconds of the firmware's time since the window opened: 2^icount_shift for each instruction, plus its
    /// sleep; or the time of the cycles, if clock_hz is not null.
    at_ns: u64,
    /// Index of the vCPU.
    vcpu: u32,
    /// Task or interrupt that executed, an index into `names`.
    context: u32,
    /// Kind of event: "switched" (in), "entered", "left" (an exception), "zone begins", "zone ends", "zone was left",
    /// "phase", "mark", "called", "returned", "call was left", "printed", "semihosting", "waits", "slept", "masked",
    /// "unmasked", "woken" (a task that does not execute has become ready), "not ready" (it no longer is), "spawned" and
    /// "finished" (a task), "pin" (of a chip, whose level has changed), "frame sent" and "frame received" (on a CAN bus of a chip),
    /// "free stack" (of a task that is switched out); for the heap "allocated", "freed", "reallocated", "allocation failed",
    /// "allocation left".
    event: &'static str,
    /// Task, exception, zone, phase, mark, function, operation, pin or frame, an index into `names`.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<u32>,
    /// Value of a mark, level of a pin, number of bytes, or length in nanoseconds of a sleep that ends here.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<i64>,
    /// Reason of a switch, why the task before does not continue; an index into `names`.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<u32>,
}

impl<'a> EventList<'a> {
    /// Timeline of a profile; None: it has none.
    pub(in crate::export) fn of(profile: &'a Profile) -> Option<EventList<'a>> {
        let mut names = Vec::new();
        let mut numbers: HashMap<String, u32> = HashMap::new();
        for row in rows(profile)? {
            for name in [row.context, row.name, row.why].into_iter().filter(|name| !name.is_empty()) {
                numbers.entry(name).or_insert_with_key(|name| {
                    names.push(name.clone());
                    names.len() as u32 - 1
                });
            }
        }
        let number = move |name: &str| numbers.get(name).copied();
        let event = move |row: Row| JsonEvent {
            at_insns: row.at_insns,
            at_ns: Settings::default().at_ns(profile, row.at_insns, row.beyond_ns),
            vcpu: row.vcpu,
            context: number(&row.context).unwrap_or(0),
            event: row.event,
            name: number(&row.name),
            // A block's size may be any value of a register, so it may exceed 63 bits.
            value: row.value.map(|value| i64::try_from(value).unwrap_or(i64::MAX)),
            why: number(&row.why),
        };
        let event = std::rc::Rc::new(event);
        let events = List::of(move || {
            let event = event.clone();
            rows(profile).into_iter().flatten().map(move |row| event(row))
        });
        let timeline = profile.timeline.as_ref()?;
        let tasks = task_states::list(profile);
        Some(EventList { slept_ns: timeline.slept_ns(), traced: &timeline.patterns, tasks, names, events })
    }
}
