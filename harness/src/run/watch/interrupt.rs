//! Interrupts: Ctrl-C and SIGTERM end the run with what was measured until then.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Set when the user wants the run to end.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// How often that was said.
pub static INTERRUPTS: AtomicU32 = AtomicU32::new(0);

/// Makes Ctrl-C and SIGTERM end the run, with what was measured until then, instead of the process.
pub fn end_on_interrupt() {
    // Fails only where a handler is set already; then that one decides.
    let _ = ctrlc::set_handler(interrupt);
}

/// The user wants the run to end.
pub fn interrupt() {
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Leaves Ctrl-C and SIGTERM to the parent, which hears them, too, and passes them on in its own way.
pub fn ignore_signals() {
    let _ = ctrlc::set_handler(|| ());
}
