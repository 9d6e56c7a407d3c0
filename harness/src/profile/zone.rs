//! Zones, phases and marks of a profile: what the firmware names itself, counted exactly.

use serde::{Deserialize, Serialize};

use crate::text::number::mean;

/// What the firmware names, and what came of it. A name n is `names[n - 1]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zones {
    /// Names of zones, phases and marks, sorted.
    pub names: Vec<String>,
    /// Zones by name and context, sorted.
    pub zones: Vec<Zone>,
    /// Marks by name, sorted.
    pub marks: Vec<Mark>,
    /// Zones within zones, as samples find them under way; a sample's `zone` n is `paths[n - 1]`.
    pub paths: Vec<ZonePath>,
    /// Instructions of exceptions, sorted by number; empty where neither zones, slices nor a timeline were asked for.
    pub exceptions: Vec<Exception>,
}

/// What executes a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Context {
    /// A task by its number; 0: code that is no task's.
    Task(u32),
    /// An exception by its number.
    Exception(u64),
}

/// A zone in one context. Instructions are its own context's: tasks and interrupts that come between are not in them.
/// What began before the window is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Number of its name.
    pub name: u32,
    /// Where it was.
    pub context: Context,
    /// The numbers.
    pub counts: ZoneCounts,
}

/// How often a zone was there, and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneCounts {
    /// How often it was left by its end.
    pub calls: u64,
    /// Instructions of all those times, each for itself.
    pub sum_insns: u64,
    /// The same, but what is in two times of it at once (recursion) is in it once.
    pub total_insns: u64,
    /// Instructions of it in no zone within.
    pub own_insns: u64,
    /// Those of the shortest; 0 where there was none.
    pub min_insns: u64,
    /// Those of the longest, the first of equal ones.
    pub max_insns: u64,
    /// Address of the event with which the longest began.
    pub longest_at: u64,
    /// Instructions that the vCPU had started in the window before.
    pub longest_since_insns: u64,
    /// How many of them were in another time of the same zone.
    pub recursive: u64,
    /// How often what had begun it was left without its end.
    pub left: u64,
    /// How often its end came where it had not begun.
    pub orphans: u64,
    /// How many of those had begun in another task or interrupt.
    pub foreign: u64,
    /// How many were under way as the run ended.
    pub open: u64,
}

impl ZoneCounts {
    /// Mean of its instructions, rounded; 0 where there was none.
    pub fn mean_insns(&self) -> u64 {
        mean(self.sum_insns, self.calls).unwrap_or(0)
    }

    /// Counts those of another context or vCPU, too.
    pub(crate) fn add(&mut self, other: &ZoneCounts) {
        if other.calls > 0 {
            if self.calls == 0 || other.max_insns > self.max_insns {
                self.max_insns = other.max_insns;
                (self.longest_at, self.longest_since_insns) = (other.longest_at, other.longest_since_insns);
            }
            self.min_insns = if self.calls == 0 { other.min_insns } else { self.min_insns.min(other.min_insns) };
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
    /// How many there were.
    pub count: u64,
    /// The lowest value.
    pub min: i64,
    /// The highest.
    pub max: i64,
    /// The sum of all; of more than 2^63 it is not known.
    pub sum: i64,
    /// The last one.
    pub last: i64,
}

impl Mark {
    /// Mean of the values, rounded, halves away from zero.
    pub fn mean(&self) -> i64 {
        let mean = mean(self.sum.unsigned_abs(), self.count).unwrap_or(0);
        i64::try_from(mean).map_or(i64::MIN, |mean| mean * self.sum.signum())
    }
}

/// A zone within others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZonePath {
    /// Number of the path around it, 0: there is none. Less than its own.
    pub parent: u32,
    /// Number of its name.
    pub name: u32,
    /// Address of the event that began it.
    pub pc: u64,
}

/// An exception's handlers, without what interrupted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Exception {
    /// Its number, or cause with the highest of 64 bits for interrupts.
    pub number: u64,
    /// First address of its handler, of the first if there were several.
    pub handler: u64,
    /// Instructions.
    pub insns: u64,
}

impl Zones {
    /// A name by its number.
    pub fn name(&self, number: u32) -> &str {
        number.checked_sub(1).and_then(|index| self.names.get(index as usize)).map_or("", String::as_str)
    }

    /// The path to the zone with this number, outermost first.
    pub fn path(&self, number: u32) -> Vec<&ZonePath> {
        let path = |number: u32| self.paths.get(number.checked_sub(1)? as usize);
        let mut paths: Vec<_> = std::iter::successors(path(number), |inner| path(inner.parent)).collect();
        paths.reverse();
        paths
    }
}
