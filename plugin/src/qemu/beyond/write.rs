// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes to guest memory by a debugger.

use std::ffi::{c_int, c_void};
use std::mem;

use wire::trick::WRITES;

use super::{symbol, vcpu};

/// `cpu_memory_rw_debug` (include/exec/cpu-common.h): writes in spite of protection, and discards translations of
/// changed code.
type AccessMemory = unsafe extern "C" fn(*mut c_void, u64, *mut c_void, usize, bool) -> c_int;

/// Writes guest memory; only in a callback of the vCPU. False: there is no memory, or this QEMU lacks the function.
pub(crate) fn write_memory(address: u64, bytes: &[u8]) -> bool {
    let (Some(function), Some(cpu)) = (symbol(&WRITES, c"cpu_memory_rw_debug"), vcpu::current()) else {
        return false;
    };
    let mut bytes = bytes.to_vec();
    // SAFETY: in the releases of the table's row the function of this name has this type. `cpu` is the vCPU of this
    // callback; the buffer has the length passed and is only read.
    unsafe {
        let function = mem::transmute::<*mut c_void, AccessMemory>(function);
        function(cpu, address, bytes.as_mut_ptr().cast(), bytes.len(), true) == 0
    }
}
