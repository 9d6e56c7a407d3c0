// SPDX-License-Identifier: GPL-2.0-or-later
//! Functions and variables of this process, by name.

use std::ffi::{CStr, c_void};

/// Address of a function or variable of this process; None: there is none of that name.
pub(super) fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: only looks up a name in the libraries of this process.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}
