// SPDX-License-Identifier: GPL-2.0-or-later
//! Control of virtual time by the plugin.

use std::ffi::c_void;

use wire::trick::WAITS;

use super::lock::BigLock;
use crate::qemu::api::raw::{qemu_plugin_request_time_control, qemu_plugin_update_ns};

/// The right to move virtual time, and the lock that QEMU's main thread holds while it decides to move the time.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    handle: usize,
    lock: BigLock,
}

impl Clock {
    /// Asks QEMU for that right. None: this QEMU does not export its lock or is not known, or another plugin has the
    /// right.
    pub(crate) fn find() -> Option<Clock> {
        let lock = BigLock::find(&WAITS)?;
        // SAFETY: no precondition; QEMU is starting, and this is its main thread.
        let handle = unsafe { qemu_plugin_request_time_control() } as usize;
        (handle != 0).then_some(Clock { handle, lock })
    }

    /// Makes QEMU treat the calling vCPU as busy until it has left generated code and its instructions are accounted
    /// for. On return, the main thread has finished each check of the vCPU that it had begun before, and each later
    /// check finds the vCPU busy. Only inside callbacks of the vCPU.
    pub(crate) fn keep_vcpu_busy(&self) {
        // Queues work for the vCPU, so that it does not count as idle. The work advances the time to a value long
        // past, which changes nothing.
        // SAFETY: the handle is the one that QEMU gave, and this is a vCPU's thread.
        unsafe { qemu_plugin_update_ns(self.handle as *const c_void, 0) };
        self.lock.hold(|| {});
    }
}
