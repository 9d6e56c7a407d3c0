//! Threads of the process, and signals to them.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The thread that executes the guest, 0: there is none yet.
static GUEST: AtomicUsize = AtomicUsize::new(0);

/// A thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread(usize);

impl Thread {
    /// The calling one. Unlike the standard library's, this allocates nothing.
    pub(crate) fn current() -> Thread {
        // SAFETY: no precondition.
        Thread(unsafe { libc::pthread_self() } as usize)
    }

    /// This one executes the guest: all vCPUs, under `-icount`.
    pub(crate) fn executes_guest(self) {
        GUEST.store(self.0, Ordering::Relaxed);
    }

    /// Whether this one executes the guest. On another one QEMU has no vCPU at hand, and asserts one where guest memory
    /// is read.
    pub(crate) fn is_guests(self) -> bool {
        GUEST.load(Ordering::Relaxed) == self.0
    }

    /// A number that no other living thread has, and not 0.
    pub(super) fn id(self) -> usize {
        self.0
    }
}

/// Has the kernel kill QEMU when the thread that started it ends, however it ends.
pub(crate) fn die_with_parent() {
    #[cfg(target_os = "linux")]
    // SAFETY: sets an attribute of this process; no memory is involved.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}

/// Has [`interrupt_main_thread`] do no more than its name says.
pub(crate) fn allow_interrupts() {
    extern "C" fn ignore(_: i32) {}
    let handler: extern "C" fn(i32) = ignore;
    // SAFETY: the handler does nothing; QEMU's system emulation leaves this signal alone.
    unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
}

/// Has QEMU's main thread, which waits for file descriptors, look again at which of them it watches.
pub(crate) fn interrupt_main_thread() {
    #[cfg(target_os = "linux")]
    // SAFETY: a signal to a thread of this process, whose handler does nothing; no memory is involved.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::getpid(), libc::SIGUSR2);
    }
}
