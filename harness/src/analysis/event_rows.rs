// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timeline's events as rows of text, for formats with a line for each event; and the number of events of each
//! kind, by which two timelines are compared.

use std::collections::BTreeMap;

use wire::timeline::What;

use crate::analysis::event_tracks::{Cursor, Recorded, Words, free_stack, life, of_heap, recorded};
use crate::analysis::moment::Clock;
use crate::profile::Profile;
use crate::profile::zone::Context;

/// One event as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The vCPU.
    pub vcpu: u32,
    /// Instructions of the window that the vCPU had started.
    pub at_insns: u64,
    /// Time of the machine's clock in the window beyond that of the instructions: asleep, or moved on for their cycles.
    pub beyond_ns: u64,
    /// Task or interrupt that executed at the time.
    pub context: String,
    /// Kind of the event.
    pub event: &'static str,
    /// Name of the event's object, if it has one.
    pub name: String,
    /// The event's number, if it has one: bytes, nanoseconds or a mark's value.
    pub value: Option<i128>,
    /// For a switch, the reason why the previous task stops.
    pub why: String,
    /// For a switch, the previous task, if there was one.
    pub stopped: Option<String>,
}

/// All events in order. None: there is no timeline.
pub fn rows(profile: &Profile) -> Option<impl Iterator<Item = Row> + '_> {
    let (mut words, mut cursor) = (Words::new(profile), Cursor::default());
    let mut clock = Clock::new(profile);
    Some(recorded(profile)?.filter_map(move |recorded| {
        let (vcpu, at_insns) = recorded.at();
        let context = cursor.context(vcpu);
        if let Recorded::Event(event) = &recorded {
            clock.pass(event);
        }
        let mut row = Row { vcpu, at_insns, beyond_ns: clock.beyond_ns(), ..Row::default() };
        match &recorded {
            Recorded::Heap { event, .. } => {
                let (word, bytes) = of_heap(&event.what);
                row.event = word;
                row.value = bytes.map(i128::from);
            }
            Recorded::Event(event) => {
                words.learn(event);
                if let What::Switched { .. } = event.what {
                    let task = cursor.task(vcpu);
                    row.stopped = (task != 0).then(|| words.task(task));
                }
                if let What::Stack { sp } = event.what {
                    let task = cursor.task(vcpu);
                    (row.event, row.name) = ("free stack", words.task(task));
                    row.value = free_stack(profile, task, sp).map(i128::from);
                }
                row.read(profile, &words, &event.what, context);
                cursor.pass(event);
            }
        }
        // A record that only defines a name is not an event.
        (!row.event.is_empty()).then(|| {
            row.context = words.context(context);
            row
        })
    }))
}

impl Row {
    fn read(&mut self, profile: &Profile, words: &Words<'_>, what: &What, context: Context) {
        let zone = |name: u32| profile.zones.name(name).to_owned();
        let (event, name) = match *what {
            What::Switched { task, why } => {
                self.why = words.why(why);
                ("switched", words.task(task))
            }
            What::Entered { number } => ("entered", words.context(Context::Exception(number))),
            What::Left => ("left", words.context(context)),
            What::Begun { name } => ("zone begins", zone(name)),
            What::Ended { name } => ("zone ends", zone(name)),
            What::Abandoned { name } => ("zone was left", zone(name)),
            What::Phase { name } => ("phase", zone(name)),
            What::Mark { name, value } => {
                self.value = Some(value.into());
                ("mark", zone(name))
            }
            What::Called { function } => ("called", words.function(function)),
            What::Returned { function } => ("returned", words.function(function)),
            What::Unwound { function } => ("call was left", words.function(function)),
            What::Printed { bytes } => {
                self.value = Some(bytes.into());
                ("printed", String::new())
            }
            What::Pin { port, pin, is_high, is_output } => {
                self.value = Some(is_high.into());
                ("pin", words.pin(port, pin, is_output))
            }
            What::Frame { port, is_sent, frame } => {
                let event = if is_sent { "frame sent" } else { "frame received" };
                (event, words.frame(port, &frame))
            }
            What::Lives { task, change } => (life(change), words.task(task)),
            What::Semihosting { operation } => ("semihosting", Words::operation(operation)),
            What::Waits => ("waits", String::new()),
            What::Slept { ns } => {
                self.value = Some(ns.into());
                ("slept", String::new())
            }
            What::Masked => ("masked", String::new()),
            What::Unmasked => ("unmasked", String::new()),
            What::Object { .. } | What::Stack { .. } | What::Ahead { .. } | What::Heap | What::Stopped => return,
        };
        (self.event, self.name) = (event, name);
    }
}

/// Numbers of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events by kind.
    pub events: BTreeMap<&'static str, u64>,
    /// Switches by the task that stopped and the reason.
    pub switches: BTreeMap<(String, String), u64>,
}

impl Tally {
    /// Numbers of a profile's events. None: there is no timeline.
    pub fn of(profile: &Profile) -> Option<Tally> {
        let mut tally = Tally::default();
        for row in rows(profile)? {
            *tally.events.entry(row.event).or_default() += 1;
            if let Some(task) = row.stopped {
                *tally.switches.entry((task, row.why)).or_default() += 1;
            }
        }
        Some(tally)
    }
}
