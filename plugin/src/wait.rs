// SPDX-License-Identifier: GPL-2.0-or-later
//! Avoids a race in QEMU that would make runs differ.
//!
//! Under `sleep=off` QEMU's main thread advances virtual time to the next timer when all CPUs wait for an interrupt.
//! A CPU marks itself halted *before* it accounts for the instructions it has just executed and without the big lock
//! (target/arm `HELPER(wfi)`, then `icount_process_data` in rr_cpu_thread_fn). If the main thread is in the middle of
//! a round of its loop at that moment, it computes the distance to the next timer from a stale clock and goes too
//! far. Then the next interrupts come late by the instructions that are not accounted for. Seen in one of a hundred
//! runs of a FreeRTOS image on a loaded host.
//!
//! A CPU with queued work does not count as idle, and queued work is done after the accounting. So before a wait
//! instruction executes, the plugin queues an empty piece of work. Then it takes and releases the lock that the main
//! thread holds between its check of the CPUs and its change of the time. So the main thread has either changed the
//! time before the wait, or will see the work.
//!
//! If that is impossible ([`Guard::find`]), the plugin waits until the main thread sleeps, which takes several times
//! as long. A sleeping main thread waits for the CPU's own notification, which comes when the accounting is done.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::qemu::Clock;

/// Protection against a main thread that advances time too early.
#[derive(Clone)]
pub(crate) enum Guard {
    /// Queue work for the vCPU.
    Work(Clock),
    /// Hold the vCPU until QEMU's main thread is idle in poll().
    Sleep(MainThread),
}

impl Guard {
    /// Protects one wait, in a callback of the vCPU. The plugin's state must not be locked meanwhile: the holder of
    /// QEMU's lock may need it.
    pub(crate) fn hold(&self) {
        match self {
            Guard::Work(clock) => clock.keep_vcpu_busy(),
            Guard::Sleep(main_thread) => main_thread.await_sleep(),
        }
    }

    /// Chooses the better protection that this QEMU allows. With several vCPUs, work for one of them would end the
    /// others' turns.
    pub(crate) fn find(vcpus: u32, main_thread: MainThread) -> Guard {
        let clock = if vcpus == 1 { Clock::find() } else { None };
        clock.map_or(Guard::Sleep(main_thread), Guard::Work)
    }
}

/// The scheduler's view of QEMU's main thread. Unavailable on hosts without /proc, where the race stays.
#[derive(Clone, Default)]
pub(crate) struct MainThread {
    stat: Option<Arc<File>>,
    syscall: Option<Arc<File>>,
}

/// System calls of a thread that waits for file descriptors.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const POLL: &[libc::c_long] = &[libc::SYS_ppoll, libc::SYS_poll];
#[cfg(all(target_os = "linux", not(target_arch = "x86_64")))]
const POLL: &[libc::c_long] = &[libc::SYS_ppoll];
#[cfg(not(target_os = "linux"))]
const POLL: &[libc::c_long] = &[];

/// Longest wait of the main thread for anything but file descriptors. After that, the main thread is assumed to wait
/// for the vCPU itself, since QEMU is being stopped. A run that goes on never reaches this limit.
const STOPPING: Duration = Duration::from_secs(2);

impl MainThread {
    /// Finds the main thread, whose id is that of the process.
    pub(crate) fn find() -> MainThread {
        let open =
            |name: &str| File::open(format!("/proc/self/task/{}/{name}", std::process::id())).ok().map(Arc::new);
        MainThread { stat: open("stat"), syscall: open("syscall") }
    }

    fn await_sleep(&self) {
        let mut looks = 0;
        while self.sleeps() == Some(false) {
            // The main thread is idle again within microseconds, while a sleep takes ten times as long as requested
            // (timer slack).
            looks += 1;
            if looks < LOOKS { std::thread::yield_now() } else { std::thread::sleep(PAUSE) }
        }
    }

    /// Whether the thread sleeps. None: the host does not say.
    fn sleeps(&self) -> Option<bool> {
        let mut text = [0; 256];
        let length = self.stat.as_ref()?.read_at(&mut text, 0).ok()?;
        // proc(5): the state follows the name, which is in parentheses and may contain some.
        let text = &text[..length];
        let state = text.iter().rposition(|&byte| byte == b')').and_then(|end| text.get(end + 2));
        Some(!matches!(state, Some(b'R' | b'D')))
    }

    /// Number of the system call in which the thread waits. None: it is in none, or the host does not say.
    fn waits_in(&self) -> Option<libc::c_long> {
        let mut text = [0; 32];
        let length = self.syscall.as_ref()?.read_at(&mut text, 0).ok()?;
        // proc(5): "running", or the number and the arguments.
        let number = text[..length].split(|&byte| byte == b' ').next()?;
        str::from_utf8(number).ok()?.parse().ok()
    }

    /// Whether the thread is waiting for file descriptors right now.
    pub(crate) fn rests(&self) -> bool {
        self.sleeps() != Some(false) && self.waits_in().is_some_and(|number| POLL.contains(&number))
    }

    /// Whether [`MainThread::await_poll`] works on this host.
    pub(crate) fn can_be_seen(&self) -> bool {
        let syscall = self.syscall.as_ref().is_some_and(|syscall| syscall.read_at(&mut [0; 8], 0).is_ok());
        syscall && self.sleeps().is_some() && !POLL.is_empty()
    }

    /// Waits until the main thread is idle and waits for file descriptors: then it has handled all input on them.
    /// False: QEMU is being stopped.
    pub(crate) fn await_poll(&self) -> bool {
        let mut elsewhere_since = None;
        loop {
            // A thread that was just woken is reported to be in its system call until it gets a processor, but no
            // more to sleep.
            let sleeps = self.sleeps() != Some(false);
            let number = self.waits_in();
            let polls = number.is_some_and(|number| POLL.contains(&number));
            if sleeps && polls && self.sleeps() != Some(false) {
                return true;
            }
            // If it was woken by another thread or is running, it goes on by itself.
            if polls || !sleeps || number.is_none() {
                elsewhere_since = None;
            } else if elsewhere_since.get_or_insert_with(Instant::now).elapsed() > STOPPING {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Number of checks without a pause, which only yield to other threads.
const LOOKS: u32 = 32;

/// Pause between two later checks.
const PAUSE: Duration = Duration::from_micros(5);
