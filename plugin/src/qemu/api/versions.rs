// SPDX-License-Identifier: GPL-2.0-or-later
//! Differences between the versions of QEMU's plugin API, in one table. The column is chosen once, by the version
//! that QEMU reports. QEMU checks this library's version word before that; the harness sets it ([`wire::api`]).
//!
//! | | 4 (QEMU 9.2, 10.0) | 5 (10.1, 10.2) | 6 (11.0) | 7 (11.1) |
//! |---|---|---|---|---|
//! | callback of a translation | id, block | same | same | block, data |
//! | callback of a new vCPU | id, vCPU | same | same | vCPU, data |
//! | callback at exit | id, data | same | same | data |
//! | registering the first two | id, callback | same | same | id, callback, data |
//! | `read_register` returns | a length | same | a bool | same |
//! | a register's description | 24 bytes | same | same | 32 bytes |
//! | `translate_vaddr` | is missing | is there | same | same |
//! | `write_register` | is missing | is there | same | same |
//! | a Cortex-M's `wfe` | goes on | same | sleeps | same |
//!
//! The result of `read_register` is not used, glib's array has the size of a description, and functions that some
//! versions lack are looked up by name ([`super::later`]).

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};

use super::raw::{GByteArray, Register, Tb};

/// First version whose callbacks all get data of the plugin, and no number of the plugin.
const CALLBACKS_HAVE_DATA: c_int = 7;

/// QEMU's current version.
static CURRENT: AtomicI32 = AtomicI32::new(0);

/// Chooses the column; must come before any other use of this module.
pub(in crate::qemu) fn choose(current: c_int) {
    CURRENT.store(current, Ordering::Relaxed);
}

/// QEMU's current version.
pub(in crate::qemu) fn current() -> c_int {
    CURRENT.load(Ordering::Relaxed)
}

/// First version whose QEMU has Cortex-M processors sleep at a `wfe`. The plugin API did not cause this; it changed
/// in the same release.
const WFE_SLEEPS: c_int = 6;

/// Whether a Cortex-M sleeps at a `wfe` until an event comes, as a chip does. Otherwise it goes on at once.
pub(crate) fn wfe_sleeps() -> bool {
    current() >= WFE_SLEEPS
}

fn callbacks_have_data() -> bool {
    current() >= CALLBACKS_HAVE_DATA
}

// Functions whose type depends on the version; the functions below cast them.
unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb();
    fn qemu_plugin_register_vcpu_init_cb();
    fn qemu_plugin_register_atexit_cb();
    // Returns a length or a bool, depending on the version: neither is declared or used.
    pub(in crate::qemu) fn qemu_plugin_read_register(register: *mut Register, to: *mut GByteArray);
}

/// Beginning of a register's description, the same in all versions.
#[repr(C)]
pub(in crate::qemu) struct Description {
    pub(in crate::qemu) handle: *mut Register,
    pub(in crate::qemu) name: *const c_char,
    /// Name of its feature in GDB's target description, or null.
    pub(in crate::qemu) feature: *const c_char,
}

/// Registers a callback for every block that QEMU translates. `id` is the plugin's.
pub(in crate::qemu) fn on_translate(
    id: u64,
    by_id: extern "C" fn(u64, *mut Tb),
    by_data: extern "C" fn(*mut Tb, *mut c_void),
) {
    let function = qemu_plugin_register_vcpu_tb_trans_cb as *const ();
    if callbacks_have_data() {
        type Function = unsafe extern "C" fn(u64, extern "C" fn(*mut Tb, *mut c_void), *mut c_void);
        // SAFETY: the function's type in these versions. `id` is the one given to this plugin's installation.
        unsafe { mem::transmute::<*const (), Function>(function)(id, by_data, null_mut()) }
    } else {
        type Function = unsafe extern "C" fn(u64, extern "C" fn(u64, *mut Tb));
        // SAFETY: as above.
        unsafe { mem::transmute::<*const (), Function>(function)(id, by_id) }
    }
}

/// Registers a callback for every new vCPU.
pub(in crate::qemu) fn on_vcpu_init(
    id: u64,
    by_id: extern "C" fn(u64, c_uint),
    by_data: extern "C" fn(c_uint, *mut c_void),
) {
    let function = qemu_plugin_register_vcpu_init_cb as *const ();
    if callbacks_have_data() {
        type Function = unsafe extern "C" fn(u64, extern "C" fn(c_uint, *mut c_void), *mut c_void);
        // SAFETY: as above.
        unsafe { mem::transmute::<*const (), Function>(function)(id, by_data, null_mut()) }
    } else {
        type Function = unsafe extern "C" fn(u64, extern "C" fn(u64, c_uint));
        // SAFETY: as above.
        unsafe { mem::transmute::<*const (), Function>(function)(id, by_id) }
    }
}

/// Registers a callback for an orderly exit of QEMU.
pub(in crate::qemu) fn on_exit(id: u64, by_id: extern "C" fn(u64, *mut c_void), by_data: extern "C" fn(*mut c_void)) {
    let function = qemu_plugin_register_atexit_cb as *const ();
    if callbacks_have_data() {
        type Function = unsafe extern "C" fn(u64, extern "C" fn(*mut c_void), *mut c_void);
        // SAFETY: as above.
        unsafe { mem::transmute::<*const (), Function>(function)(id, by_data, null_mut()) }
    } else {
        type Function = unsafe extern "C" fn(u64, extern "C" fn(u64, *mut c_void), *mut c_void);
        // SAFETY: as above.
        unsafe { mem::transmute::<*const (), Function>(function)(id, by_id, null_mut()) }
    }
}
