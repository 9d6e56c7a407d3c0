// SPDX-License-Identifier: GPL-2.0-or-later
//! The end of the process, by the plugin or by an abort.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use super::reserve;

/// Ends QEMU at this instruction: no exit handler runs, and no further instruction. The records need none (they are
/// shared maps), and the console's file is unbuffered.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: no precondition.
    unsafe { libc::_exit(status) }
}

/// Whether a thread has aborted and is in the handler.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Longest time that an abort's hook may take, in seconds. Normally it takes milliseconds.
const ABORT_PATIENCE_S: libc::c_uint = 5;

/// Calls `A` when QEMU aborts (as it does for a Cortex-M lock-up), then lets it abort.
///
/// The hook may find the aborting thread in the middle of anything, with any lock held. It must not wait for that
/// thread, which is itself. So:
/// - the heap: the abort may be malloc's own. The plugin allocates from a reserve there ([`super::reserve`]), and
///   the buffers that glib would have to enlarge are as large as they get ([`super::Registers`]);
/// - the plugin's state: the hook only tries to lock it;
/// - QEMU's big lock: QEMU knows whether this thread has it and does not take it twice. Another holder goes on, for
///   that thread runs;
/// - any other lock, in QEMU or in libraries below it: a watchdog ends QEMU after [`ABORT_PATIENCE_S`].
pub(crate) fn on_abort<A: AbortHook>() {
    extern "C" fn aborted<A: AbortHook>(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
        // Another thread may abort at the same moment. The first one ends the process, in ABORT_PATIENCE_S at most.
        while ENTERED.swap(true, Ordering::Relaxed) {
            // SAFETY: async-signal-safe.
            unsafe { libc::pause() };
        }
        // SAFETY: async-signal-safe (signal-safety(7)); a second abort inside the hook then ends QEMU.
        unsafe { libc::signal(libc::SIGABRT, libc::SIG_DFL) };
        // SAFETY: the kernel made `info` for this call, since the handler is installed with SA_SIGINFO.
        if unsafe { is_own(&*info) } {
            watch_over();
            reserve::live_on_it();
            A::CALL();
        }
        // The signal is blocked until the handler returns, into abort() or to wherever a signal from elsewhere
        // found this thread, and then ends QEMU.
        // SAFETY: async-signal-safe.
        unsafe { libc::raise(libc::SIGABRT) };
    }
    reserve::prepare();
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void) = aborted::<A>;
    // SAFETY: all zero is a valid sigaction: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler has the type that SA_SIGINFO asks for and lives for ever. It calls only async-signal-safe
    // functions and the hook. The hook is only called where the signal is this process's own abort(), on the thread
    // and at the call that aborted. That is an ordinary call to any code whose locks are free, see above.
    unsafe { libc::sigaction(libc::SIGABRT, &action, std::ptr::null_mut()) };
}

/// Unblocks SIGABRT in the calling thread, so that an abort reaches its hook. QEMU blocks all signals in the threads
/// of its vCPUs, and the C library's abort() unblocks this one only before glibc 2.41; later ones end the process
/// without the handler.
pub(super) fn let_aborts_in() {
    // SAFETY: the set is initialised before it is used; the handler works on any thread that aborts.
    unsafe {
        let mut abort = std::mem::zeroed();
        libc::sigemptyset(&mut abort);
        libc::sigaddset(&mut abort, libc::SIGABRT);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &abort, std::ptr::null_mut());
    }
}

/// Whether this process sent the signal to itself, as abort() does: then the thread is in that call and not at an
/// arbitrary instruction.
fn is_own(info: &libc::siginfo_t) -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: a signal by tgkill(2) carries its sender; getpid has no precondition.
    return info.si_code == libc::SI_TKILL && unsafe { info.si_pid() == libc::getpid() };
    #[cfg(not(target_os = "linux"))]
    return info.si_signo == libc::SIGABRT;
}

/// Ends QEMU by SIGABRT after a time, even if this thread waits for a lock.
fn watch_over() {
    extern "C" fn expired(_: libc::c_int) {
        // SAFETY: async-signal-safe all, and the set is initialised before it is used. SIGABRT's disposition is the
        // default by now.
        unsafe {
            let mut abort = std::mem::zeroed();
            libc::sigemptyset(&mut abort);
            libc::sigaddset(&mut abort, libc::SIGABRT);
            libc::raise(libc::SIGABRT);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &abort, std::ptr::null_mut());
        }
    }
    let handler: extern "C" fn(libc::c_int) = expired;
    // SAFETY: async-signal-safe all, and the set is initialised before it is used. QEMU blocks SIGALRM in its threads
    // and sets no alarm; this thread alone takes it.
    unsafe {
        libc::signal(libc::SIGALRM, handler as libc::sighandler_t);
        let mut alarm = std::mem::zeroed();
        libc::sigemptyset(&mut alarm);
        libc::sigaddset(&mut alarm, libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &alarm, std::ptr::null_mut());
        libc::alarm(ABORT_PATIENCE_S);
    }
}

/// Names the function called when QEMU aborts.
pub(crate) trait AbortHook {
    /// The function.
    const CALL: fn();
}
