// SPDX-License-Identifier: GPL-2.0-or-later
//! Handle of a guest register.

use super::raw;

/// A register's handle, found once by name.
#[derive(Clone, Copy)]
pub(crate) struct Register(*mut raw::Register);

impl Register {
    pub(in crate::qemu) fn new(handle: *mut raw::Register) -> Register {
        Register(handle)
    }

    pub(in crate::qemu) fn handle(self) -> *mut raw::Register {
        self.0
    }
}

// SAFETY: the handle is an opaque number that any thread may pass back to QEMU.
unsafe impl Send for Register {}
