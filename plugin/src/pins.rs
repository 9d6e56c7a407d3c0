// SPDX-License-Identifier: GPL-2.0-or-later
//! Changes of a chip's pins, and frames on its buses, on their way to the timeline.
//!
//! A pin changes, and a frame ends, during an access of a register, or when a timer of QEMU's expires. The state may be
//! locked then, so the change waits here until the next block takes it.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use wire::timeline::What;

/// Changes that the timeline does not have yet.
#[derive(Clone, Default)]
pub(crate) struct Pins(Arc<Mutex<Vec<What>>>);

impl Pins {
    /// Adds a change.
    pub(crate) fn add(&self, change: What) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(change);
    }

    /// Takes all changes, in their order.
    pub(crate) fn take(&self) -> Vec<What> {
        mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
