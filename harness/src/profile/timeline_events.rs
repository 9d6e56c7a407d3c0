// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saved timeline: every event in order, as the plugin wrote it.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use wire::timeline::{Decoder, Event, What};

/// Events of the run with their instructions, if `--timeline` asked for them. Allocations and frees are in
/// [`crate::profile::Heap`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// Patterns of `--trace`.
    pub patterns: Vec<String>,
    /// First addresses of the traced functions, sorted: an event's function n is `functions[n]`.
    pub functions: Vec<u64>,
    /// Names of objects that tasks wait for, by address, if the image has a variable there; sorted.
    pub objects: Vec<(u64, String)>,
    /// Encoded events.
    pub events: Vec<u8>,
}

impl Timeline {
    /// Decodes the events in order. A damaged stream was refused when the profile was read.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        Decoder::new(&self.events).map_while(Result::ok)
    }

    /// Time that the machine slept in the window, in nanoseconds: its clock advanced while nothing executed.
    pub fn slept_ns(&self) -> u64 {
        self.events().fold(0, |sum: u64, event| match event.what {
            What::Slept { ns } => sum.saturating_add(ns),
            _ => sum,
        })
    }

    /// Checks that events refer to existing entries.
    ///
    /// # Errors
    /// When an event does not.
    pub(crate) fn check(&self, vcpus: usize, tasks: usize) -> Result<()> {
        for event in Decoder::new(&self.events) {
            let event = event?;
            let is_known = match event.what {
                What::Switched { task, .. } => task as usize <= tasks,
                What::Lives { task, .. } => (1..=tasks).contains(&(task as usize)),
                What::Called { function } | What::Returned { function } | What::Unwound { function } => {
                    (function as usize) < self.functions.len()
                }
                _ => true,
            };
            ensure!(is_known && (event.vcpu as usize) < vcpus, "the timeline is damaged: it names what is not there");
        }
        Ok(())
    }
}
