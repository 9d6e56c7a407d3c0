// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zones, phases and marks of a profile: the firmware names them itself, and they are counted exactly.

use serde::{Deserialize, Serialize};

use super::LengthCycles;
use crate::text::number::mean;

/// Zones, phases and marks that the firmware names, and their counts. A name n is `names[n - 1]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zones {
    /// Names of zones, phases and marks: those that the image names sorted, then those that calls have brought.
    pub names: Vec<String>,
    /// Number from which on names are those of calls (`--zone-call`, test cases); 0: no calls are zones.
    pub first_call: u32,
    /// Zones by name and context, sorted.
    pub zones: Vec<Zone>,
    /// Marks by name, sorted.
    pub marks: Vec<Mark>,
    /// Stacks of zones, as samples find them; a sample's `zone` n is `paths[n - 1]`.
    pub paths: Vec<ZonePath>,
    /// Instructions of exceptions, sorted by number; empty unless zones, slices, cycles or a timeline were asked for.
    pub exceptions: Vec<Exception>,
}

/// Context that executes a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Context {
    /// Task by its number; 0: code outside of all tasks.
    Task(u32),
    /// Exception by its number.
    Exception(u64),
}

/// Zone in one context. Only instructions of its own context count, without tasks and interrupts in between. Times
/// that began before the window are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Number of the zone's name.
    pub name: u32,
    /// Context that executed it.
    pub context: Context,
    /// Counts in this context.
    pub counts: ZoneCounts,
}

/// Counts and durations of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneCounts {
    /// Times that the zone was left by its end event.
    pub calls: u64,
    /// Instructions of all those times together, nested ones counted repeatedly.
    pub sum_insns: u64,
    /// Instructions as in `sum_insns`, but counted once where two times of the zone overlap (recursion).
    pub total_insns: u64,
    /// Instructions in the zone and in no zone within it.
    pub own_insns: u64,
    /// Instructions of the shortest time; 0 without any.
    pub min_insns: u64,
    /// Instructions of the longest time, the first of equal ones.
    pub max_insns: u64,
    /// Address of the event that began the longest time.
    pub longest_at: u64,
    /// Instructions that the vCPU had started in the window before the longest time.
    pub longest_since_insns: u64,
    /// Number of times that were inside another time of the same zone.
    pub recursive: u64,
    /// Times that the code that had begun the zone was left without its end event.
    pub left: u64,
    /// End events that came where the zone had not begun.
    pub orphans: u64,
    /// Number of those end events whose zone had begun in another task or interrupt.
    pub foreign: u64,
    /// Times that were under way as the run ended.
    pub open: u64,
    /// Instructions of all those times together, with those of other tasks and of interrupts in between.
    pub elapsed_insns: u64,
    /// Cycles of the zone.
    pub cycles: ZoneCycles,
}

/// Cycles of a zone; 0 unless cycles were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneCycles {
    /// Cycles of its times, nested ones counted repeatedly.
    pub times: LengthCycles,
    /// Cycles as [`ZoneCounts::total_insns`].
    pub total: u64,
    /// Cycles as [`ZoneCounts::own_insns`].
    pub own: u64,
    /// Cycles as [`ZoneCounts::elapsed_insns`].
    pub elapsed: u64,
}

impl ZoneCounts {
    /// Mean duration in instructions, rounded down; 0 without any.
    pub fn mean_insns(&self) -> u64 {
        mean(self.sum_insns, self.calls).unwrap_or(0)
    }

    /// Mean duration in cycles, rounded down; 0 without any.
    pub fn mean_cycles(&self) -> u64 {
        mean(self.cycles.times.sum, self.calls).unwrap_or(0)
    }

    /// Adds the counts of another context or vCPU.
    pub(crate) fn add(&mut self, other: &ZoneCounts) {
        if other.calls > 0 {
            if self.calls == 0 || other.max_insns > self.max_insns {
                self.max_insns = other.max_insns;
                (self.longest_at, self.longest_since_insns) = (other.longest_at, other.longest_since_insns);
            }
            self.min_insns = if self.calls == 0 { other.min_insns } else { self.min_insns.min(other.min_insns) };
            self.cycles.times.add(other.cycles.times, self.calls == 0);
        }
        for (sum, count) in [
            (&mut self.calls, other.calls),
            (&mut self.sum_insns, other.sum_insns),
            (&mut self.total_insns, other.total_insns),
            (&mut self.own_insns, other.own_insns),
            (&mut self.recursive, other.recursive),
            (&mut self.left, other.left),
            (&mut self.orphans, other.orphans),
            (&mut self.foreign, other.foreign),
            (&mut self.open, other.open),
            (&mut self.elapsed_insns, other.elapsed_insns),
            (&mut self.cycles.total, other.cycles.total),
            (&mut self.cycles.own, other.cycles.own),
            (&mut self.cycles.elapsed, other.cycles.elapsed),
        ] {
            *sum = sum.saturating_add(count);
        }
    }
}

/// Marks of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Number of the name.
    pub name: u32,
    /// Number of marks.
    pub count: u64,
    /// Lowest value.
    pub min: i64,
    /// Highest value.
    pub max: i64,
    /// Sum of all values; not known beyond 2^63.
    pub sum: i64,
    /// Last value.
    pub last: i64,
}

impl Mark {
    /// Mean of the values, rounded, halves away from zero.
    pub fn mean(&self) -> i64 {
        let mean = mean(self.sum.unsigned_abs(), self.count).unwrap_or(0);
        i64::try_from(mean).map_or(i64::MIN, |mean| mean * self.sum.signum())
    }
}

/// Zone with the zones around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZonePath {
    /// Number of the enclosing zone's path, less than its own; 0: no zone encloses it.
    pub parent: u32,
    /// Number of the zone's name.
    pub name: u32,
    /// Address of the event that began the zone.
    pub pc: u64,
}

/// Handlers of one exception, without the code that they interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Exception {
    /// Exception number, or cause with bit 63 set for interrupts.
    pub number: u64,
    /// First address of the handler; with several handlers, of the first one.
    pub handler: u64,
    /// Instructions of the handlers.
    pub insns: u64,
    /// Cycles of them and of the interrupt's entries; 0 unless cycles were asked for.
    pub cycles: u64,
}

impl Zones {
    /// Whether the zones of this name are calls.
    pub fn is_call(&self, name: u32) -> bool {
        self.first_call > 0 && name >= self.first_call
    }

    /// Returns a name by its number.
    pub fn name(&self, number: u32) -> &str {
        number.checked_sub(1).and_then(|index| self.names.get(index as usize)).map_or("", String::as_str)
    }

    /// Path to the zone with this number, outermost first.
    pub fn path(&self, number: u32) -> Vec<&ZonePath> {
        let path = |number: u32| self.paths.get(number.checked_sub(1)? as usize);
        let mut paths: Vec<_> = std::iter::successors(path(number), |inner| path(inner.parent)).collect();
        paths.reverse();
        paths
    }
}
