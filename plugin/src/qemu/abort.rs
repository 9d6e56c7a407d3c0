//! The process: its end, its threads, its signals.

/// Ends QEMU here and now, on this instruction: no exit handler runs, nothing more is executed. The
/// records need none (they are shared maps) and the console's file has been written unbuffered.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: no precondition.
    unsafe { libc::_exit(status) }
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

/// Calls `A` when QEMU aborts (as it does for a Cortex-M lock-up), then lets it abort.
pub(crate) fn on_abort<A: AbortHook>() {
    extern "C" fn aborted<A: AbortHook>(_: i32) {
        // SAFETY: setting the default disposition; a second abort inside the hook then ends QEMU.
        unsafe { libc::signal(libc::SIGABRT, libc::SIG_DFL) };
        A::CALL();
        // The handler returns into abort(), which raises the signal again with the default action.
    }
    let handler: extern "C" fn(i32) = aborted::<A>;
    // SAFETY: abort() is synchronous, so the handler runs where QEMU called it and may do what that
    // place may do.
    unsafe { libc::signal(libc::SIGABRT, handler as libc::sighandler_t) };
}

/// Names the function called when QEMU aborts.
pub(crate) trait AbortHook {
    /// The function.
    const CALL: fn();
}

/// A thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread(usize);

impl Thread {
    /// The calling one.
    pub(crate) fn current() -> Thread {
        // SAFETY: no precondition.
        Thread(unsafe { libc::pthread_self() } as usize)
    }
}
