// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU's big lock, held for changes of its devices and timers.

use std::ffi::{c_char, c_int, c_void};
use std::mem;

use wire::trick::Trick;

use super::symbol;

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
    /// Finds the lock for a trick of the table. None: the trick may not be used, or this QEMU lacks loadable modules,
    /// without which it does not export the lock.
    pub(super) fn find(trick: &Trick) -> Option<BigLock> {
        let find = |name| symbol(trick, name);
        let (is_locked, lock, unlock) = (find(c"bql_locked")?, find(c"bql_lock_impl")?, find(c"bql_unlock")?);
        // SAFETY: in the releases of the table's rows the functions of these names have these types; QEMU exports
        // them from the program itself, which stays loaded.
        unsafe {
            Some(BigLock {
                is_locked: mem::transmute::<*mut c_void, IsLocked>(is_locked),
                lock: mem::transmute::<*mut c_void, Lock>(lock),
                unlock: mem::transmute::<*mut c_void, Unlock>(unlock),
            })
        }
    }

    /// Runs `action` with the lock held; the calling thread may have it already.
    pub(super) fn hold<T>(&self, action: impl FnOnce() -> T) -> T {
        // SAFETY: see `find` for the types. Any thread of QEMU's may call these: the lock is taken where this thread
        // does not have it, and then released. The file name is only shown and lives for ever. No deadlock: the main
        // thread holds the lock while it handles CPUs and timers, and a device's access takes it at the same place,
        // so that no holder waits for this thread.
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
