//! A race of QEMU's that would make runs differ, avoided from outside.
//!
//! Under `sleep=off` QEMU's main thread advances virtual time to the next timer when all CPUs wait for
//! an interrupt. A CPU marks itself halted *before* it accounts for the instructions it has just executed
//! and without the big lock (target/arm `HELPER(wfi)`, then `icount_process_data` in rr_cpu_thread_fn).
//! If the main thread happens to be in the middle of a round of its loop at that moment, it
//! computes the distance to the next timer from a stale clock and goes too far: the next interrupts
//! come late by the instructions not accounted for. Seen in one of a hundred runs of a FreeRTOS image on a
//! loaded host.
//!
//! The main thread has nothing to do but wait for the CPU's own notification, which comes when the
//! accounting is done. So before a wait instruction executes, this waits until the main thread sleeps.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::qemu::{ExecCallback, Hook};
use crate::state;

/// At a `wfi`, before it executes.
pub(crate) struct OnWait;

impl Hook for OnWait {
    const CALL: ExecCallback = |_, _| {
        // The lock is not held while waiting: nothing else needs it, but nothing should have to.
        let main_thread = state::lock().main_thread.clone();
        main_thread.await_sleep();
    };
}

/// The scheduler's view of QEMU's main thread. Absent on hosts without /proc, where the race stays.
#[derive(Clone, Default)]
pub(crate) struct MainThread(Option<std::sync::Arc<File>>);

impl MainThread {
    /// Looks it up; its id is the process's.
    pub(crate) fn find() -> MainThread {
        let stat = File::open(format!("/proc/self/task/{}/stat", std::process::id()));
        MainThread(stat.ok().map(std::sync::Arc::new))
    }

    fn await_sleep(&self) {
        let Some(stat) = &self.0 else { return };
        let mut text = [0; 256];
        loop {
            let Ok(length) = stat.read_at(&mut text, 0) else { return };
            // proc(5): the state follows the name, which is in parentheses and may contain some.
            let text = &text[..length];
            let state = text.iter().rposition(|&byte| byte == b')').and_then(|end| text.get(end + 2));
            if !matches!(state, Some(b'R' | b'D')) {
                return;
            }
            std::thread::sleep(Duration::from_micros(5));
        }
    }
}
