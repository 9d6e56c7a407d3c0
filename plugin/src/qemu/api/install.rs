// SPDX-License-Identifier: GPL-2.0-or-later
//! Entry points of a plugin that QEMU looks up: its version word, and the function that installs it.

use std::ffi::{CStr, c_char, c_int};

use super::raw::Info;
use super::versions;

/// QEMU's information as it loads the plugin.
pub(crate) struct Installation {
    /// Number that QEMU has given this plugin.
    pub(crate) id: u64,
    /// Number of vCPUs.
    pub(crate) vcpus: u32,
    /// Words after the plugin's path, split at commas.
    pub(crate) arguments: Vec<String>,
}

/// # Safety
/// `info` and `arguments` are those that QEMU passes to the function that installs a plugin.
pub(crate) unsafe fn installation(
    id: u64,
    info: *const Info,
    count: c_int,
    arguments: *const *const c_char,
) -> Installation {
    // SAFETY: QEMU's structure, valid while it installs the plugin.
    let info = unsafe { &*info };
    versions::choose(info.current_api);
    let vcpus = if info.is_system { info.vcpus.max(1) } else { 1 };
    let argument = |index| {
        // SAFETY: there are `count` arguments, each ends in NUL.
        unsafe { CStr::from_ptr(*arguments.add(index)) }.to_string_lossy().into_owned()
    };
    let arguments = (0..usize::try_from(count).unwrap_or(0)).map(argument).collect();
    Installation { id, vcpus: vcpus as u32, arguments }
}

/// Makes `fn(Installation)` the function by which QEMU installs this plugin.
macro_rules! install_by {
    ($install:path) => {
        /// Plugin API that this library asks for; the harness overwrites it with the version of the QEMU at hand.
        #[unsafe(no_mangle)]
        pub static qemu_plugin_version: std::ffi::c_int = wire::api::OLDEST;

        /// Called by QEMU once, on its main thread; 0: installed.
        #[unsafe(no_mangle)]
        extern "C" fn qemu_plugin_install(
            id: u64,
            info: *const $crate::qemu::Info,
            count: std::ffi::c_int,
            arguments: *const *const std::ffi::c_char,
        ) -> std::ffi::c_int {
            // SAFETY: QEMU calls this function with these arguments.
            $install(unsafe { $crate::qemu::installation(id, info, count, arguments) });
            0
        }
    };
}
pub(crate) use install_by;
