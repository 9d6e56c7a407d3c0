//! What the firmware counted itself, as the saved profile keeps it: see `targets/mcount/`.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// What is known of the table of a firmware that links the in-target runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InTarget {
    /// What it counted inside the window.
    Table(Table),
    /// It could not be read: why, as the rest of a sentence that begins with "the in-target table".
    Unread(String),
}

impl InTarget {
    /// The table, if it could be read.
    pub fn table(&self) -> Option<&Table> {
        match self {
            InTarget::Table(table) => Some(table),
            InTarget::Unread(_) => None,
        }
    }
}

/// What a firmware counted itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Arcs, or the functions that are called most.
    pub mode: Mode,
    /// How its updates are protected.
    pub protection: Protection,
    /// Number of entries that it has room for.
    pub capacity_entries: u32,
    /// Number of entries taken at the end of the run.
    pub used_entries: u32,
    /// Address of the runtime's function that the compiler calls, without Thumb's bit 0.
    pub entry_point: u64,
    /// Addresses of the executed instructions by which the runtime returns to the function that called it,
    /// as far as the image's code shows them.
    pub returns: Vec<u64>,
    /// Calls of the runtime that had not come back as the window opened.
    pub inside_at_open: u64,
    /// Calls of functions with ignored addresses.
    pub ignored: u32,
    /// [`Mode::Arcs`]: calls there was no room for. [`Mode::Hottest`]: calls that no entry counts.
    pub dropped: u32,
    /// [`Mode::Hottest`]: all calls but ignored ones, which is hits and `dropped` together.
    pub calls: u32,
    /// How often the firmware cleared its table inside the window: it counted since then only.
    pub resets: u32,
    /// Addresses of the functions that it ignored at the end of the run.
    pub ignored_ranges: Vec<Range<u64>>,
    /// [`Mode::Arcs`]: what was counted, sorted; never zero.
    pub arcs: Vec<TableArc>,
    /// [`Mode::Hottest`]: what was counted, most hits first; never zero.
    pub hottest: Vec<Hot>,
    /// Whether all this is what happened inside the window.
    pub before: Before,
}

/// What a table counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Every arc, until the table is full.
    Arcs,
    /// Calls of the functions that are called most; a cold one makes room for a hotter one.
    Hottest,
}

/// How the runtime keeps two updates at the same time from losing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protection {
    /// Not at all.
    None,
    /// Interrupts are masked.
    Masked,
    /// Arm's LDREX and STREX.
    Exclusive,
    /// RISC-V's AMO, LR and SC.
    Atomic,
}

/// Calls of one function from one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TableArc {
    /// Return address that the callee saw, as stored: bit 0 is set on all processors.
    pub caller: u64,
    /// Address after the callee's call of the runtime, as stored: on Arm with Thumb's bit 0.
    pub callee: u64,
    /// Calls.
    pub count: u64,
}

/// Calls of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hot {
    /// Address after the callee's call of the runtime, as stored: on Arm with Thumb's bit 0.
    pub callee: u64,
    /// Calls since it has its entry; where it may have lost its entry for a while during the window, at
    /// least as many.
    pub hits: u64,
    /// How many of 1024 calls are calls of it, recent ones weighing more.
    pub ratio: u16,
}

/// What became of the counts from before the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Before {
    /// The window opened at reset: there are none.
    None,
    /// They are taken away: what is left was counted inside the window.
    Subtracted,
    /// The firmware cleared its table inside the window: it counted since then, and not the whole window.
    Cleared,
}
