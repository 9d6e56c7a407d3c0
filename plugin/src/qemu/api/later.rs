// SPDX-License-Identifier: GPL-2.0-or-later
//! Functions that only later versions of the plugin API have (from API 5, QEMU 10.1, on), looked up by name.

use std::ffi::c_void;
use std::mem;

use super::raw::{self, GByteArray, g_byte_array_set_size, g_byte_array_sized_new};
use super::register::Register;
use crate::qemu::symbols::symbol;

/// `qemu_plugin_translate_vaddr`.
type Translate = unsafe extern "C" fn(u64, *mut u64) -> bool;

/// `qemu_plugin_write_register`: returns a length, or a bool of success; neither is used.
type WriteRegister = unsafe extern "C" fn(*mut raw::Register, *mut GByteArray);

/// Physical address of the executing vCPU's data accesses to an address, if it is mapped; only in its callbacks.
/// None: this QEMU lacks the function.
pub(in crate::qemu) fn physical(address: u64) -> Option<Option<u64>> {
    let translate = symbol(c"qemu_plugin_translate_vaddr")?;
    let mut physical = 0;
    // SAFETY: the API's function of this name has this type; the caller is in a callback of the vCPU.
    let is_found = unsafe { mem::transmute::<*mut c_void, Translate>(translate)(address, &raw mut physical) };
    Some(is_found.then_some(physical))
}

/// Writes a register; only in a callback that may ([`super::block::Insn::hold_when_at_least`]). False: this QEMU
/// lacks the function.
pub(crate) fn write_register(register: Register, bytes: &[u8]) -> bool {
    let Some(function) = symbol(c"qemu_plugin_write_register") else { return false };
    // SAFETY: the API's function of this name has this type, except for its result. The handle is QEMU's; glib's
    // buffer gets this size, and is filled before it is read.
    unsafe {
        let buffer = g_byte_array_set_size(g_byte_array_sized_new(bytes.len() as u32), bytes.len() as u32);
        (*buffer).data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        mem::transmute::<*mut c_void, WriteRegister>(function)(register.handle(), buffer);
    }
    true
}
