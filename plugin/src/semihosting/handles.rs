// SPDX-License-Identifier: GPL-2.0-or-later
//! Meaning of semihosting handles, as far as it can be known. QEMU assigns the lowest free number from 1 on
//! (`alloc_guestfd` in semihosting/guestfd.c); the result of a call is not visible here. So after an attempt to open
//! a host file, which may have failed, a new number may stand for any file.

use std::collections::BTreeMap;

/// Modes of SYS_OPEN; the list of features has the first two, for reading.
const MODES: u64 = 12;
const FEATURES_MODES: u64 = 2;

/// First mode of SYS_OPEN in which `:tt` is standard error.
const APPEND: u64 = 8;

/// Handles in use.
#[derive(Debug)]
pub(crate) struct Handles {
    /// Handles known to be open; true: the handle is standard error.
    known: BTreeMap<i32, bool>,
    /// Number of calls that may have opened a file; no handle is higher than that.
    opened: i32,
    /// Whether every open handle is in `known`.
    is_sure: bool,
}

impl Handles {
    /// No handle in use.
    pub(crate) fn new() -> Handles {
        Handles { known: BTreeMap::new(), opened: 0, is_sure: true }
    }

    /// Notes that `:tt` is opened.
    pub(crate) fn open_console(&mut self, mode: u64) {
        if mode < MODES {
            self.open(mode >= APPEND);
        }
    }

    /// Notes that the list of features is opened.
    pub(crate) fn open_features(&mut self, mode: u64) {
        if mode < FEATURES_MODES {
            self.open(false);
        }
    }

    /// Assigns the lowest free handle to a file that can surely be opened.
    fn open(&mut self, is_error: bool) {
        self.opened = self.opened.saturating_add(1);
        if self.is_sure {
            let free = (1..).find(|handle| !self.known.contains_key(handle)).unwrap_or(i32::MAX);
            self.known.insert(free, is_error);
        }
    }

    /// Notes an attempt to open another file.
    pub(crate) fn open_other(&mut self) {
        self.opened = self.opened.saturating_add(1);
        self.is_sure = false;
    }

    /// Notes that a handle is closed, if it is open.
    pub(crate) fn close(&mut self, handle: u64) {
        self.known.remove(&number(handle));
    }

    /// Whether a handle may be open.
    pub(crate) fn may_be_open(&self, handle: u64) -> bool {
        let handle = number(handle);
        if self.is_sure { self.known.contains_key(&handle) } else { (1..=self.opened).contains(&handle) }
    }

    /// Whether a handle is known to be standard error.
    pub(crate) fn is_standard_error(&self, handle: u64) -> bool {
        self.known.get(&number(handle)) == Some(&true)
    }
}

/// Handle as a C int, as QEMU reads it.
fn number(handle: u64) -> i32 {
    handle as i32
}
