// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts that the firmware made itself, in the form of the saved profile: see `targets/mcount/`.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Result of reading the table of a firmware that links the in-target runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InTarget {
    /// Counts inside the window.
    Table(Table),
    /// The table could not be read. The text is the rest of a sentence that begins with "the in-target table".
    Unread(String),
}

impl InTarget {
    /// Returns the table, if it could be read.
    pub fn table(&self) -> Option<&Table> {
        match self {
            InTarget::Table(table) => Some(table),
            InTarget::Unread(_) => None,
        }
    }
}

/// Counts that the firmware made itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Kind of entries: arcs, or the functions that are called most.
    pub mode: Mode,
    /// Protection of updates against each other.
    pub protection: Protection,
    /// Capacity in entries.
    pub capacity_entries: u32,
    /// Entries in use at the end of the run.
    pub used_entries: u32,
    /// Address of the runtime's function that the compiler calls, without Thumb's bit 0.
    pub entry_point: u64,
    /// Addresses of the executed instructions by which the runtime returns to its caller, as far as the image's code
    /// shows them.
    pub returns: Vec<u64>,
    /// Calls of the runtime that had not returned when the window opened.
    pub inside_at_open: u64,
    /// Calls of functions at ignored addresses.
    pub ignored: u32,
    /// [`Mode::Arcs`]: calls that found the table full. [`Mode::Hottest`]: calls that no entry counts.
    pub dropped: u32,
    /// [`Mode::Hottest`]: all calls except ignored ones, the sum of hits and `dropped`.
    pub calls: u32,
    /// Times that the firmware cleared its table inside the window; its counts begin at the last of them.
    pub resets: u32,
    /// Address ranges of the functions that were ignored at the end of the run.
    pub ignored_ranges: Vec<Range<u64>>,
    /// [`Mode::Arcs`]: counted arcs, sorted; counts are never zero.
    pub arcs: Vec<TableArc>,
    /// [`Mode::Hottest`]: counted functions, most hits first; counts are never zero.
    pub hottest: Vec<Hot>,
    /// Treatment of counts from before the window.
    pub before: Before,
}

/// Kind of entries in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Every arc, until the table is full.
    Arcs,
    /// Calls of the functions that are called most; a hotter function replaces a colder one.
    Hottest,
}

/// Protection of the runtime's updates: two at the same time must not lose one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protection {
    /// No protection.
    None,
    /// Interrupts are masked.
    Masked,
    /// Arm's LDREX and STREX.
    Exclusive,
    /// RISC-V's AMO, LR and SC.
    Atomic,
}

/// Calls of one function from one call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TableArc {
    /// Return address that the callee saw, as stored: bit 0 is set on all processors.
    pub caller: u64,
    /// Address after the callee's call of the runtime, as stored: on Arm with Thumb's bit 0.
    pub callee: u64,
    /// Calls.
    pub count: u64,
}

/// Calls of one function, in [`Mode::Hottest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hot {
    /// Address after the callee's call of the runtime, as stored: on Arm with Thumb's bit 0.
    pub callee: u64,
    /// Calls since the function has its entry. At least as many if it may have been without an entry for a while
    /// during the window.
    pub hits: u64,
    /// Share of all calls in 1024ths, with more weight on recent ones.
    pub ratio: u16,
}

/// Treatment of counts from before the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Before {
    /// The window opened at reset, so there are no earlier counts.
    None,
    /// Earlier counts are subtracted: the rest was counted inside the window.
    Subtracted,
    /// The firmware cleared its table inside the window: counts cover the time since then, not the whole window.
    Cleared,
}
