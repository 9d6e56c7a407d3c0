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
//! A CPU for which work is queued is not taken to be idle, and queued work is done after the accounting. So before a
//! wait instruction executes, the plugin queues some that does nothing, and passes once through the lock that the main
//! thread holds from looking at the CPUs to moving the time: it has then either moved it before the wait, or will
//! see the work.
//!
//! Where that cannot be done ([`Guard::find`]), this waits until the main thread sleeps, which takes several times as
//! long: it has then nothing to do but wait for the CPU's own notification, which comes when the accounting is done.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::qemu::Clock;

/// What keeps the main thread from advancing time too early.
#[derive(Clone)]
pub(crate) enum Guard {
    /// Work for the vCPU.
    Work(Clock),
    /// That it sleeps.
    Sleep(MainThread),
}

impl Guard {
    /// Keeps the main thread from it once, in a callback of the vCPU. The plugin's state must not be locked
    /// meanwhile: the holder of QEMU's lock may want it.
    pub(crate) fn hold(&self) {
        match self {
            Guard::Work(clock) => clock.keep_vcpu_busy(),
            Guard::Sleep(main_thread) => main_thread.await_sleep(),
        }
    }

    /// The better one, if it can be had of this QEMU. Work for one of several vCPUs would end the others' turns.
    pub(crate) fn find(vcpus: u32, main_thread: MainThread) -> Guard {
        let clock = if vcpus == 1 { Clock::find() } else { None };
        clock.map_or(Guard::Sleep(main_thread), Guard::Work)
    }
}

/// The scheduler's view of QEMU's main thread. Absent on hosts without /proc, where the race stays.
#[derive(Clone, Default)]
pub(crate) struct MainThread {
    stat: Option<Arc<File>>,
    syscall: Option<Arc<File>>,
}

/// What a thread does that waits for file descriptors.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const POLL: &[libc::c_long] = &[libc::SYS_ppoll, libc::SYS_poll];
#[cfg(all(target_os = "linux", not(target_arch = "x86_64")))]
const POLL: &[libc::c_long] = &[libc::SYS_ppoll];
#[cfg(not(target_os = "linux"))]
const POLL: &[libc::c_long] = &[];

/// How long the main thread may wait for something else than file descriptors before it is taken to wait for
/// the vCPU itself: QEMU is being stopped. No run that goes on ever gets there.
const STOPPING: Duration = Duration::from_secs(2);

impl MainThread {
    /// Looks it up; its id is the process's.
    pub(crate) fn find() -> MainThread {
        let open =
            |name: &str| File::open(format!("/proc/self/task/{}/{name}", std::process::id())).ok().map(Arc::new);
        MainThread { stat: open("stat"), syscall: open("syscall") }
    }

    fn await_sleep(&self) {
        let mut looks = 0;
        while self.sleeps() == Some(false) {
            // It is done within microseconds, while a sleep takes ten times as long as it is told (timer slack).
            looks += 1;
            if looks < LOOKS { std::thread::yield_now() } else { std::thread::sleep(PAUSE) }
        }
    }

    /// Whether it has nothing to do. None: the host does not say.
    fn sleeps(&self) -> Option<bool> {
        let mut text = [0; 256];
        let length = self.stat.as_ref()?.read_at(&mut text, 0).ok()?;
        // proc(5): the state follows the name, which is in parentheses and may contain some.
        let text = &text[..length];
        let state = text.iter().rposition(|&byte| byte == b')').and_then(|end| text.get(end + 2));
        Some(!matches!(state, Some(b'R' | b'D')))
    }

    /// The number of the system call that it waits in. None: it does not, or the host does not say.
    fn waits_in(&self) -> Option<libc::c_long> {
        let mut text = [0; 32];
        let length = self.syscall.as_ref()?.read_at(&mut text, 0).ok()?;
        // proc(5): "running", or the number and the arguments.
        let number = text[..length].split(|&byte| byte == b' ').next()?;
        str::from_utf8(number).ok()?.parse().ok()
    }

    /// Whether it waits for file descriptors right now.
    pub(crate) fn rests(&self) -> bool {
        self.sleeps() != Some(false) && self.waits_in().is_some_and(|number| POLL.contains(&number))
    }

    /// Whether [`MainThread::await_poll`] works on this host.
    pub(crate) fn can_be_seen(&self) -> bool {
        let syscall = self.syscall.as_ref().is_some_and(|syscall| syscall.read_at(&mut [0; 8], 0).is_ok());
        syscall && self.sleeps().is_some() && !POLL.is_empty()
    }

    /// Waits until the main thread has nothing to do and waits for file descriptors: whatever was written to one
    /// that it watches has been dealt with. False: QEMU is being stopped.
    pub(crate) fn await_poll(&self) -> bool {
        let mut elsewhere_since = None;
        loop {
            // A thread that was just woken is said to wait in its system call until it gets a processor, but no
            // more to sleep.
            let sleeps = self.sleeps() != Some(false);
            let number = self.waits_in();
            let polls = number.is_some_and(|number| POLL.contains(&number));
            if sleeps && polls && self.sleeps() != Some(false) {
                return true;
            }
            // Woken from elsewhere or running, it goes on by itself.
            if polls || !sleeps || number.is_none() {
                elsewhere_since = None;
            } else if elsewhere_since.get_or_insert_with(Instant::now).elapsed() > STOPPING {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Looks without a pause, only giving way to other threads.
const LOOKS: u32 = 32;

/// Between two looks.
const PAUSE: Duration = Duration::from_micros(5);
