// SPDX-License-Identifier: GPL-2.0-or-later
//! Paths of the firmware, checked again where they are used. QEMU copies a path out of the guest's memory each time that
//! it needs it, and calls the C library's `open`, `remove` and `rename` with its last copy (semihosting/syscalls.c). The
//! plugin replaces these functions, so the path that is judged is the one that the kernel gets, even if the guest's
//! memory has changed since the call began.
//!
//! Only calls of the thread that executes the guest are judged. QEMU opens its own files in its main thread.

use std::sync::{Mutex, OnceLock, PoisonError};

/// Decision on a path.
pub(crate) type IsServed = fn(&[u8]) -> bool;

/// Decision on the paths of the firmware; None within: all are served, and what the kernel refuses is noted.
static SERVED: OnceLock<Option<IsServed>> = OnceLock::new();

/// Path of the last call that was refused, until it is taken.
static REFUSED: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// Takes the path that was refused since this was called last.
pub(crate) fn take_refused() -> Option<Vec<u8>> {
    REFUSED.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Judges paths from now on. In a QEMU that was linked in an unknown way nothing is replaced.
pub(crate) fn judge(is_served: Option<IsServed>) {
    if SERVED.set(is_served).is_ok() {
        #[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
        elf::take_over();
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod elf {
    use std::ffi::{CStr, c_char, c_int};
    use std::sync::PoisonError;

    use super::{REFUSED, SERVED};
    use crate::qemu::program::Program;
    use crate::qemu::thread::Thread;

    fn note(path: &[u8]) {
        *REFUSED.lock().unwrap_or_else(PoisonError::into_inner) = Some(path.to_vec());
    }

    /// Makes a call with paths of QEMU's, unless it is the firmware's and one of them is not served.
    fn call<const N: usize>(paths: [*const c_char; N], call: impl FnOnce() -> c_int) -> c_int {
        let served = SERVED.get().filter(|_| Thread::current().is_guests());
        let Some(served) = served else { return call() };
        // SAFETY: QEMU's own copies of the paths, which end in a NUL.
        let paths = paths.map(|path| unsafe { CStr::from_ptr(path) }.to_bytes());
        if let Some(outside) = served.and_then(|is_served| paths.into_iter().find(|path| !is_served(path))) {
            note(outside);
            // SAFETY: this thread's own variable.
            unsafe { *libc::__errno_location() = libc::EACCES };
            return -1;
        }
        let result = call();
        // SAFETY: this thread's own variable.
        if served.is_none() && result < 0 && unsafe { *libc::__errno_location() } == libc::EACCES {
            note(paths[N - 1]);
            // SAFETY: as above; the note may have changed it.
            unsafe { *libc::__errno_location() = libc::EACCES };
        }
        result
    }

    /// Replaces `open`, whose further argument is always passed in a register.
    extern "C" fn open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
        // SAFETY: the caller's own arguments.
        call([path], || unsafe { libc::open64(path, flags, mode) })
    }

    extern "C" fn remove(path: *const c_char) -> c_int {
        // SAFETY: the caller's own argument.
        call([path], || unsafe { libc::remove(path) })
    }

    extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
        // SAFETY: the caller's own arguments.
        call([from, to], || unsafe { libc::rename(from, to) })
    }

    pub(super) fn take_over() {
        let Some(program) = Program::find() else { return };
        let functions: [(&CStr, usize); 4] = [
            (c"open64", open as *const () as usize),
            (c"open", open as *const () as usize),
            (c"remove", remove as *const () as usize),
            (c"rename", rename as *const () as usize),
        ];
        for (name, function) in functions {
            program.slots(name).into_iter().for_each(|slot| {
                program.set(slot, function);
            });
        }
    }
}
