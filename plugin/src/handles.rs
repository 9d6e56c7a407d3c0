//! What semihosting's handles stand for, as far as that can be known. QEMU gives the lowest number from 1 on that is
//! free (`alloc_guestfd` in semihosting/guestfd.c); what a call has returned is not seen here. Whether a host's
//! file could be opened is not known: from then on a new number may stand for anything.

use std::collections::BTreeMap;

/// SYS_OPEN has so many modes, of which the list of features has the first two, for reading.
const MODES: u64 = 12;
const FEATURES_MODES: u64 = 2;

/// The modes of SYS_OPEN from which on `:tt` is standard error.
const APPEND: u64 = 8;

/// Handles that have been given.
#[derive(Debug)]
pub(crate) struct Handles {
    /// What is known to be open; true: standard error.
    known: BTreeMap<i32, bool>,
    /// Calls that may have opened something: no handle is higher.
    opened: i32,
    /// Nothing is open but what is known.
    is_sure: bool,
}

impl Handles {
    /// None has been given.
    pub(crate) fn new() -> Handles {
        Handles { known: BTreeMap::new(), opened: 0, is_sure: true }
    }

    /// `:tt` is opened.
    pub(crate) fn open_console(&mut self, mode: u64) {
        if mode < MODES {
            self.open(mode >= APPEND);
        }
    }

    /// The list of features is opened.
    pub(crate) fn open_features(&mut self, mode: u64) {
        if mode < FEATURES_MODES {
            self.open(false);
        }
    }

    /// What can be opened is.
    fn open(&mut self, is_error: bool) {
        self.opened = self.opened.saturating_add(1);
        if self.is_sure {
            let free = (1..).find(|handle| !self.known.contains_key(handle)).unwrap_or(i32::MAX);
            self.known.insert(free, is_error);
        }
    }

    /// Something else is opened, if it can be.
    pub(crate) fn open_other(&mut self) {
        self.opened = self.opened.saturating_add(1);
        self.is_sure = false;
    }

    /// A handle is closed, if it is open.
    pub(crate) fn close(&mut self, handle: u64) {
        self.known.remove(&number(handle));
    }

    /// Whether a handle may be one that is open.
    pub(crate) fn may_be_open(&self, handle: u64) -> bool {
        let handle = number(handle);
        if self.is_sure { self.known.contains_key(&handle) } else { (1..=self.opened).contains(&handle) }
    }

    /// Whether a handle is known to be standard error.
    pub(crate) fn is_standard_error(&self, handle: u64) -> bool {
        self.known.get(&number(handle)) == Some(&true)
    }
}

/// As QEMU takes it, a C int.
fn number(handle: u64) -> i32 {
    handle as i32
}
