//! QEMU's big lock, which its devices and its timers are changed under.

use std::ffi::{c_char, c_int, c_void};
use std::mem;

use super::raw::symbol;
use super::versions;

/// `bql_locked`, `bql_lock_impl` and `bql_unlock` (include/qemu/main-loop.h).
type IsLocked = unsafe extern "C" fn() -> bool;
type Lock = unsafe extern "C" fn(*const c_char, c_int);
type Unlock = unsafe extern "C" fn();

/// The big lock.
#[derive(Clone, Copy)]
pub(super) struct BigLock {
    is_locked: IsLocked,
    lock: Lock,
    unlock: Unlock,
}

impl BigLock {
    /// The lock is none of the plugin API's: a QEMU that can load modules of its own shows it to them. None: this one does
    /// not or is not known. `api` is QEMU's current plugin API.
    pub(super) fn find(api: i64) -> Option<BigLock> {
        if !versions::is_known(api) {
            return None;
        }
        let (is_locked, lock, unlock) = (symbol(c"bql_locked")?, symbol(c"bql_lock_impl")?, symbol(c"bql_unlock")?);
        // SAFETY: in a QEMU of this API the functions of these names have these types; QEMU exports them from the program
        // itself, which stays loaded.
        unsafe {
            Some(BigLock {
                is_locked: mem::transmute::<*mut c_void, IsLocked>(is_locked),
                lock: mem::transmute::<*mut c_void, Lock>(lock),
                unlock: mem::transmute::<*mut c_void, Unlock>(unlock),
            })
        }
    }

    /// Does something while the calling thread has the lock, which it may have already.
    pub(super) fn hold<T>(&self, action: impl FnOnce() -> T) -> T {
        // SAFETY: see `find` for the types. These may be called on any thread of QEMU's: the lock is taken where this
        // thread does not have it, and is then given back. The file name is only shown and lives for ever. It cannot be
        // waited for in vain: the main thread holds the lock as it looks at CPUs and timers, and a device's access locks
        // it at the same place, so that no holder waits for this thread.
        let was_locked = unsafe { (self.is_locked)() };
        if !was_locked {
            // SAFETY: the same.
            unsafe { (self.lock)(c"profiler plugin".as_ptr(), 0) };
        }
        let result = action();
        if !was_locked {
            // SAFETY: the same.
            unsafe { (self.unlock)() };
        }
        result
    }
}
