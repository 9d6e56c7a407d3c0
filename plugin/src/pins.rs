//! Changes of a chip's pins, on their way to the timeline.
//!
//! A pin changes within an access of a register, or at a time that QEMU's timers know. The state may be locked then, so
//! the change waits here, and the next block is asked to take it.

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
