// SPDX-License-Identifier: GPL-2.0-or-later
//! Threads of the process, and signals to them.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The thread that executes the guest; 0: none yet.
static GUEST: AtomicUsize = AtomicUsize::new(0);

/// A thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread(usize);

impl Thread {
    /// The calling thread. Unlike the standard library's function, this allocates nothing.
    pub(crate) fn current() -> Thread {
        // SAFETY: no precondition.
        Thread(unsafe { libc::pthread_self() } as usize)
    }

    /// Notes that this thread executes the guest: all vCPUs, under `-icount`.
    pub(crate) fn executes_guest(self) {
        GUEST.store(self.0, Ordering::Relaxed);
    }

    /// Whether this thread executes the guest. On another thread QEMU has no current vCPU, which its functions for
    /// guest memory assert.
    pub(crate) fn is_guests(self) -> bool {
        GUEST.load(Ordering::Relaxed) == self.0
    }

    /// A number that no other living thread has; never 0.
    pub(super) fn id(self) -> usize {
        self.0
    }
}

/// Makes the kernel kill QEMU when the thread that started it ends, for any reason.
pub(crate) fn die_with_parent() {
    #[cfg(target_os = "linux")]
    // SAFETY: sets an attribute of this process; no memory is involved.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}

/// Installs a handler that makes [`interrupt_main_thread`]'s signal harmless.
pub(crate) fn allow_interrupts() {
    extern "C" fn ignore(_: i32) {}
    let handler: extern "C" fn(i32) = ignore;
    // SAFETY: the handler does nothing; QEMU's system emulation leaves this signal alone.
    unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
}

/// Wakes QEMU's main thread from its wait for file descriptors, so that it decides again which ones it watches.
pub(crate) fn interrupt_main_thread() {
    #[cfg(target_os = "linux")]
    // SAFETY: a signal to a thread of this process, whose handler does nothing; no memory is involved.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::getpid(), libc::SIGUSR2);
    }
}
