//! What a debugger changes of the guest: memory, and registers where QEMU lets plugins write them (plugin API 5, QEMU 10.1).

use std::ffi::{c_int, c_void};
use std::mem;

use super::raw::{GByteArray, Register, g_byte_array_set_size, g_byte_array_sized_new, symbol};
use super::{registers, vcpu};

/// `cpu_memory_rw_debug` (include/exec/cpu-common.h): writes past protection, and has changed code translated again.
type AccessMemory = unsafe extern "C" fn(*mut c_void, u64, *mut c_void, usize, bool) -> c_int;

/// `qemu_plugin_write_register`: a length, or whether it was done; neither is looked at.
type WriteRegister = unsafe extern "C" fn(*mut Register, *mut GByteArray);

/// Writes guest memory; only in a callback of the vCPU. False: there is no memory, or this QEMU does not show how.
pub(crate) fn write_memory(address: u64, bytes: &[u8]) -> bool {
    let (Some(function), Some(cpu)) = (symbol(c"cpu_memory_rw_debug"), vcpu::current()) else { return false };
    let mut bytes = bytes.to_vec();
    // SAFETY: in all versions that this plugin is installed in the function of this name has this type; `cpu` is the
    // vCPU of this callback, and the buffer is as long as is said and only read.
    unsafe {
        let function = mem::transmute::<*mut c_void, AccessMemory>(function);
        function(cpu, address, bytes.as_mut_ptr().cast(), bytes.len(), true) == 0
    }
}

/// Writes a register; only in a callback that may ([`super::Insn::hold_when_at_least`]). False:
/// this QEMU has no such function.
pub(crate) fn write_register(register: registers::Register, bytes: &[u8]) -> bool {
    let Some(function) = symbol(c"qemu_plugin_write_register") else { return false };
    // SAFETY: the API's function of this name has this type, but for what it returns; handle from QEMU, buffer from glib,
    // as long as it is set to and filled before it is read.
    unsafe {
        let buffer = g_byte_array_set_size(g_byte_array_sized_new(bytes.len() as u32), bytes.len() as u32);
        (*buffer).data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        mem::transmute::<*mut c_void, WriteRegister>(function)(register.handle(), buffer);
    }
    true
}
