// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts: Ctrl-C and SIGTERM end the run, and keep everything that was measured until then.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Set when the user wants the run to end.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Number of interrupts so far.
pub static INTERRUPTS: AtomicU32 = AtomicU32::new(0);

/// Makes Ctrl-C and SIGTERM end the run, keeping its measurement, instead of the process.
pub fn end_on_interrupt() {
    // Fails only if a handler is set already; that handler then decides.
    let _ = ctrlc::set_handler(interrupt);
}

/// Notes that the user wants the run to end.
pub fn interrupt() {
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Leaves Ctrl-C and SIGTERM to the parent, which receives them, too, and passes them on itself.
pub fn ignore_signals() {
    let _ = ctrlc::set_handler(|| ());
}
