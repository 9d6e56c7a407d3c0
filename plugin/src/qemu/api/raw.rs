// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU's plugin API as its C header declares it: the functions that are used here. QEMU loads this library only if
//! it has all of them. So functions that a supported version lacks are in [`super::later`] instead.
//!
//! All have the same prototype in every version from [`wire::api::OLDEST`] to [`wire::api::NEWEST`]. Functions that
//! differ are in [`super::versions`].

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::marker::{PhantomData, PhantomPinned};

/// Declares types of QEMU's that are only used behind pointers.
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub(in crate::qemu) struct $name {
            _bytes: [u8; 0],
            _pinned: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )*};
}
opaque! {
    /// A block that is being translated.
    Tb
    /// An instruction of a block that is being translated.
    Insn
    /// A register's handle.
    Register
    /// Memory for each vCPU.
    Score
}

/// Information that a plugin gets as it is loaded.
#[repr(C)]
pub(crate) struct Info {
    pub(in crate::qemu) target_name: *const c_char,
    pub(in crate::qemu) min_api: c_int,
    pub(in crate::qemu) current_api: c_int,
    pub(in crate::qemu) is_system: bool,
    /// Number of vCPUs in system emulation; else undefined.
    pub(in crate::qemu) vcpus: c_int,
    pub(in crate::qemu) max_vcpus: c_int,
}

/// A u64 in the memory of each vCPU.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::qemu) struct U64 {
    pub(in crate::qemu) score: *mut Score,
    pub(in crate::qemu) offset: usize,
}

/// Loaded or stored value: the low `1 << width` bytes of `low`, in the host's order.
#[repr(C)]
pub(in crate::qemu) struct Value {
    /// Binary logarithm of the width in bytes.
    pub(in crate::qemu) width: c_uint,
    /// First half of a union that is 16 bytes wide.
    pub(in crate::qemu) low: ValueBytes,
    _high: u64,
}

/// Value of any width up to 8 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::qemu) union ValueBytes {
    pub(in crate::qemu) u8: u8,
    pub(in crate::qemu) u16: u16,
    pub(in crate::qemu) u32: u32,
    pub(in crate::qemu) u64: u64,
}

/// Flag of a callback that reads registers.
pub(in crate::qemu) const READS_REGISTERS: c_uint = 1;
/// Flag of a callback that may change registers, too.
pub(in crate::qemu) const WRITES_REGISTERS: c_uint = 2;

/// Conditions of a callback, comparing a [`U64`] with a number.
pub(in crate::qemu) mod condition {
    use std::ffi::c_uint;
    pub(crate) const EQUAL: c_uint = 2;
    pub(crate) const NOT_EQUAL: c_uint = 3;
    pub(crate) const BELOW: c_uint = 4;
    pub(crate) const AT_LEAST: c_uint = 7;
}

/// Operations of generated code on a [`U64`].
pub(in crate::qemu) mod operation {
    use std::ffi::c_uint;
    pub(crate) const ADD: c_uint = 0;
    pub(crate) const STORE: c_uint = 1;
}

/// Kinds of memory accesses.
pub(in crate::qemu) mod access {
    use std::ffi::c_uint;
    pub(crate) const LOAD: c_uint = 1;
    pub(crate) const STORE: c_uint = 2;
}

/// Callback of executed code, with the vCPU and the data given at registration.
pub(in crate::qemu) type OnExec = extern "C" fn(c_uint, *mut c_void);
/// Callback after a load or store, with a handle of the access and the guest's address.
pub(in crate::qemu) type OnAccess = extern "C" fn(c_uint, u32, u64, *mut c_void);

unsafe extern "C" {
    pub(in crate::qemu) fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub(in crate::qemu) fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub(in crate::qemu) fn qemu_plugin_register_vcpu_tb_exec_cb(
        tb: *mut Tb,
        call: OnExec,
        flags: c_uint,
        data: *mut c_void,
    );
    pub(in crate::qemu) fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        tb: *mut Tb,
        call: OnExec,
        flags: c_uint,
        condition: c_uint,
        entry: U64,
        value: u64,
        data: *mut c_void,
    );
    pub(in crate::qemu) fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        tb: *mut Tb,
        op: c_uint,
        entry: U64,
        value: u64,
    );

    pub(in crate::qemu) fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub(in crate::qemu) fn qemu_plugin_insn_haddr(insn: *const Insn) -> *mut c_void;
    pub(in crate::qemu) fn qemu_plugin_insn_data(insn: *const Insn, to: *mut c_void, bytes: usize) -> usize;
    pub(in crate::qemu) fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        call: OnExec,
        flags: c_uint,
        data: *mut c_void,
    );
    pub(in crate::qemu) fn qemu_plugin_register_vcpu_insn_exec_cond_cb(
        insn: *mut Insn,
        call: OnExec,
        flags: c_uint,
        condition: c_uint,
        entry: U64,
        value: u64,
        data: *mut c_void,
    );
    pub(in crate::qemu) fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        insn: *mut Insn,
        op: c_uint,
        entry: U64,
        value: u64,
    );
    pub(in crate::qemu) fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        call: OnAccess,
        flags: c_uint,
        accesses: c_uint,
        data: *mut c_void,
    );
    pub(in crate::qemu) fn qemu_plugin_mem_get_value(access: u32) -> Value;

    pub(in crate::qemu) fn qemu_plugin_scoreboard_new(element_bytes: usize) -> *mut Score;
    pub(in crate::qemu) fn qemu_plugin_scoreboard_find(score: *mut Score, vcpu: c_uint) -> *mut c_void;

    pub(in crate::qemu) fn qemu_plugin_get_registers() -> *mut GArray;
    pub(in crate::qemu) fn qemu_plugin_read_memory_vaddr(address: u64, to: *mut GByteArray, bytes: usize) -> bool;

    pub(in crate::qemu) fn qemu_plugin_request_time_control() -> *const c_void;
    pub(in crate::qemu) fn qemu_plugin_update_ns(handle: *const c_void, time: i64);
}

/// glib's array, of elements of any size.
#[repr(C)]
pub(in crate::qemu) struct GArray {
    pub(in crate::qemu) data: *mut c_char,
    pub(in crate::qemu) len: c_uint,
}

/// glib's array of bytes.
#[repr(C)]
pub(in crate::qemu) struct GByteArray {
    pub(in crate::qemu) data: *mut u8,
    pub(in crate::qemu) len: c_uint,
}

// glib comes with the QEMU binary that loads this library.
unsafe extern "C" {
    pub(in crate::qemu) fn g_array_get_element_size(array: *mut GArray) -> c_uint;
    pub(in crate::qemu) fn g_array_free(array: *mut GArray, free_segment: c_int) -> *mut c_char;
    pub(in crate::qemu) fn g_byte_array_sized_new(reserved: c_uint) -> *mut GByteArray;
    pub(in crate::qemu) fn g_byte_array_free(array: *mut GByteArray, free_data: c_int) -> *mut u8;
    pub(in crate::qemu) fn g_byte_array_set_size(array: *mut GByteArray, length: c_uint) -> *mut GByteArray;
}
