//! QEMU's plugin API as its C header declares it: the functions that are used here, and no others. QEMU has them when
//! it loads this library, so that none may be named that a supported version lacks: those are looked up by [`symbol`].
//!
//! All have the same prototype in every version from [`wire::api::OLDEST`] to [`wire::api::NEWEST`]. What differs is in
//! [`super::versions`].

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::{PhantomData, PhantomPinned};

/// Something of QEMU's that is only ever pointed at.
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub(super) struct $name {
            _bytes: [u8; 0],
            _pinned: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )*};
}
opaque! {
    /// A block that is being translated.
    Tb
    /// An instruction of one.
    Insn
    /// A register's handle.
    Register
    /// Memory for each vCPU.
    Score
}

/// What a plugin is told as it is loaded.
#[repr(C)]
pub(crate) struct Info {
    pub(super) target_name: *const c_char,
    pub(super) min_api: c_int,
    pub(super) current_api: c_int,
    pub(super) is_system: bool,
    /// In system emulation; else undefined.
    pub(super) vcpus: c_int,
    pub(super) max_vcpus: c_int,
}

/// A u64 in the memory of each vCPU.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct U64 {
    pub(super) score: *mut Score,
    pub(super) offset: usize,
}

/// What was loaded or stored: the low bytes of `low` as wide as `width` says, in the host's order.
#[repr(C)]
pub(super) struct Value {
    /// Of 1 << `width` bytes.
    pub(super) width: c_uint,
    /// The first half of a union that is 16 bytes wide.
    pub(super) low: ValueBytes,
    _high: u64,
}

/// As wide as it is aligned, whatever it holds.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union ValueBytes {
    pub(super) u8: u8,
    pub(super) u16: u16,
    pub(super) u32: u32,
    pub(super) u64: u64,
}

/// What a callback does with registers: it reads them.
pub(super) const READS_REGISTERS: c_uint = 1;
/// It may change them, too.
pub(super) const WRITES_REGISTERS: c_uint = 2;

/// Conditions of a callback, of a [`U64`] against a number.
pub(super) mod condition {
    use std::ffi::c_uint;
    pub(crate) const EQUAL: c_uint = 2;
    pub(crate) const NOT_EQUAL: c_uint = 3;
    pub(crate) const AT_LEAST: c_uint = 7;
}

/// What generated code does to a [`U64`].
pub(super) mod operation {
    use std::ffi::c_uint;
    pub(crate) const ADD: c_uint = 0;
    pub(crate) const STORE: c_uint = 1;
}

/// Accesses of memory.
pub(super) mod access {
    use std::ffi::c_uint;
    pub(crate) const LOAD: c_uint = 1;
    pub(crate) const STORE: c_uint = 2;
}

/// Executed code calls it with the vCPU and what was given at registration.
pub(super) type OnExec = extern "C" fn(c_uint, *mut c_void);
/// The same after a load or store, with a handle of the access and the guest's address.
pub(super) type OnAccess = extern "C" fn(c_uint, u32, u64, *mut c_void);

unsafe extern "C" {
    pub(super) fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub(super) fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub(super) fn qemu_plugin_register_vcpu_tb_exec_cb(tb: *mut Tb, call: OnExec, flags: c_uint, data: *mut c_void);
    pub(super) fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        tb: *mut Tb,
        call: OnExec,
        flags: c_uint,
        condition: c_uint,
        entry: U64,
        value: u64,
        data: *mut c_void,
    );
    pub(super) fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb: *mut Tb, op: c_uint, entry: U64, value: u64);

    pub(super) fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub(super) fn qemu_plugin_insn_haddr(insn: *const Insn) -> *mut c_void;
    pub(super) fn qemu_plugin_insn_data(insn: *const Insn, to: *mut c_void, bytes: usize) -> usize;
    pub(super) fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        call: OnExec,
        flags: c_uint,
        data: *mut c_void,
    );
    pub(super) fn qemu_plugin_register_vcpu_insn_exec_cond_cb(
        insn: *mut Insn,
        call: OnExec,
        flags: c_uint,
        condition: c_uint,
        entry: U64,
        value: u64,
        data: *mut c_void,
    );
    pub(super) fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        insn: *mut Insn,
        op: c_uint,
        entry: U64,
        value: u64,
    );
    pub(super) fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        call: OnAccess,
        flags: c_uint,
        accesses: c_uint,
        data: *mut c_void,
    );
    pub(super) fn qemu_plugin_mem_get_value(access: u32) -> Value;

    pub(super) fn qemu_plugin_scoreboard_new(element_bytes: usize) -> *mut Score;
    pub(super) fn qemu_plugin_scoreboard_find(score: *mut Score, vcpu: c_uint) -> *mut c_void;

    pub(super) fn qemu_plugin_get_registers() -> *mut GArray;
    pub(super) fn qemu_plugin_read_memory_vaddr(address: u64, to: *mut GByteArray, bytes: usize) -> bool;

    pub(super) fn qemu_plugin_request_time_control() -> *const c_void;
    pub(super) fn qemu_plugin_update_ns(handle: *const c_void, time: i64);
}

/// glib's array, of elements of any size.
#[repr(C)]
pub(super) struct GArray {
    pub(super) data: *mut c_char,
    pub(super) len: c_uint,
}

/// glib's array of bytes.
#[repr(C)]
pub(super) struct GByteArray {
    pub(super) data: *mut u8,
    pub(super) len: c_uint,
}

// glib comes with the QEMU binary that loads this library.
unsafe extern "C" {
    pub(super) fn g_array_get_element_size(array: *mut GArray) -> c_uint;
    pub(super) fn g_array_free(array: *mut GArray, free_segment: c_int) -> *mut c_char;
    pub(super) fn g_byte_array_sized_new(reserved: c_uint) -> *mut GByteArray;
    pub(super) fn g_byte_array_set_size(array: *mut GByteArray, length: c_uint) -> *mut GByteArray;
}

/// A function or variable of this process by its name; None: it has none of that name.
pub(super) fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: looks a name up among the libraries of this process.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}
