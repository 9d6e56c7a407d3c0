//! Virtual time, which the plugin may move.

use std::ffi::{c_char, c_int, c_void};
use std::mem;

use wire::trick::WAITS;

use super::symbol;
use crate::qemu::api::raw::{qemu_plugin_request_time_control, qemu_plugin_update_ns};

/// `bql_locked`, `bql_lock_impl` and `bql_unlock` (include/qemu/main-loop.h).
type IsLocked = unsafe extern "C" fn() -> bool;
type Lock = unsafe extern "C" fn(*const c_char, c_int);
type Unlock = unsafe extern "C" fn();

/// The right to move virtual time, and the lock that is held while it moves.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    handle: usize,
    is_locked: IsLocked,
    lock: Lock,
    unlock: Unlock,
}

impl Clock {
    /// Asks QEMU for it. The lock is none of the plugin API's: a QEMU that can load modules of its own shows it to
    /// them. None: this one does not or is not known, or another plugin moves the time.
    pub(crate) fn find() -> Option<Clock> {
        let find = |name| symbol(&WAITS, name);
        let (is_locked, lock, unlock) = (find(c"bql_locked")?, find(c"bql_lock_impl")?, find(c"bql_unlock")?);
        // SAFETY: no precondition; QEMU is starting, and this is its main thread.
        let handle = unsafe { qemu_plugin_request_time_control() } as usize;
        if handle == 0 {
            return None;
        }
        // SAFETY: not null, and in the releases of the table's row the functions of these names have these types; QEMU exports
        // them from the program itself, which stays loaded.
        unsafe {
            Some(Clock {
                handle,
                is_locked: mem::transmute::<*mut c_void, IsLocked>(is_locked),
                lock: mem::transmute::<*mut c_void, Lock>(lock),
                unlock: mem::transmute::<*mut c_void, Unlock>(unlock),
            })
        }
    }

    /// Has QEMU take the calling vCPU to have something to do until it has left the guest's code and its
    /// instructions are accounted for. When this returns, the main thread is not deciding otherwise.
    /// Only inside callbacks of the vCPU.
    pub(crate) fn keep_vcpu_busy(&self) {
        // What there is to do: have the time advance to what it has long passed, which changes nothing.
        // SAFETY: the handle is the one that QEMU gave, and this is a vCPU's thread.
        unsafe { qemu_plugin_update_ns(self.handle as *const c_void, 0) };
        // SAFETY: see `find` for the types. These may be called on any thread of QEMU's: the lock is taken where this
        // thread does not have it, and given back at once. The file name is only shown and lives for ever. It cannot
        // be waited for in vain: the main thread holds the lock as it decides, and a device's access locks it at the
        // same place, so that no holder waits for this thread.
        unsafe {
            if !(self.is_locked)() {
                (self.lock)(c"profiler plugin".as_ptr(), 0);
                (self.unlock)();
            }
        }
    }
}
