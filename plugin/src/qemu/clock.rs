//! Virtual time, which the plugin may move.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;

// In the API since version 3, but not in the crate.
unsafe extern "C" {
    fn qemu_plugin_request_time_control() -> *const c_void;
    fn qemu_plugin_update_ns(handle: *const c_void, time: i64);
}

/// The right to move virtual time, and the lock that whoever moves it holds.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    handle: usize,
    is_locked: extern "C" fn() -> bool,
    lock: extern "C" fn(*const c_char, c_int),
    unlock: extern "C" fn(),
}

impl Clock {
    /// Asks QEMU for it. The lock is none of the plugin API's: a QEMU that can load modules of its own shows it to
    /// them. None: this one does not, or another plugin moves the time.
    pub(crate) fn find() -> Option<Clock> {
        let symbol = |name: &CStr| {
            // SAFETY: looks a name up among the libraries of this process.
            let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        };
        let (is_locked, lock, unlock) = (symbol(c"bql_locked")?, symbol(c"bql_lock_impl")?, symbol(c"bql_unlock")?);
        // SAFETY: no precondition; QEMU is starting, and this is its main thread.
        let handle = unsafe { qemu_plugin_request_time_control() } as usize;
        if handle == 0 {
            return None;
        }
        // SAFETY: these are the types of QEMU's functions of these names (include/qemu/main-loop.h), from 9.0 on.
        unsafe {
            Some(Clock {
                handle,
                is_locked: mem::transmute::<*mut c_void, extern "C" fn() -> bool>(is_locked),
                lock: mem::transmute::<*mut c_void, extern "C" fn(*const c_char, c_int)>(lock),
                unlock: mem::transmute::<*mut c_void, extern "C" fn()>(unlock),
            })
        }
    }

    /// Has QEMU take the calling vCPU to have something to do until it has left the guest's code and its
    /// instructions are accounted for. No thread is any more in the middle of deciding that it has not.
    /// Only inside callbacks of the vCPU.
    pub(crate) fn keep_vcpu_busy(&self) {
        // What there is to do: have the time advance to what it has long passed, which changes nothing.
        // SAFETY: the handle is the one that QEMU gave, and this is a vCPU's thread.
        unsafe { qemu_plugin_update_ns(self.handle as *const c_void, 0) };
        // Who decides holds the lock meanwhile. A device's access locks it at the same place, so nobody who holds
        // it waits for this thread.
        if !(self.is_locked)() {
            (self.lock)(c"profiler plugin".as_ptr(), 0);
            (self.unlock)();
        }
    }
}
