//! What this process has by name.

use std::ffi::{CStr, c_void};

/// A function or variable of this process by its name; None: it has none of that name.
pub(super) fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: looks a name up among the libraries of this process.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}
