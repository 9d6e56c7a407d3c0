//! Functions of the plugin's that QEMU calls, and the C trampolines to them. Translation is in [`super::api`].

use std::ffi::{c_uint, c_void};

use qemu_plugin::sys;

/// Called for a block or instruction with the number that was given at registration.
pub(crate) type ExecCallback = fn(vcpu: u32, id: usize);
/// Called after a load or a store: vCPU, guest virtual address, value, number given at registration.
pub(crate) type AccessCallback = fn(vcpu: u32, address: u64, value: u64, id: usize);
/// Called once per vCPU before it runs.
pub(crate) type VcpuCallback = fn(vcpu: u32);

/// Names a plain function as a type, so that a C trampoline can be made for it at compile time.
pub(crate) trait Hook {
    /// The function.
    const CALL: ExecCallback;
}

pub(super) extern "C" fn trampoline<H: Hook>(vcpu: c_uint, id: *mut c_void) {
    H::CALL(vcpu, id as usize);
}

/// Names a function called after loads or stores.
pub(crate) trait AccessHook {
    /// The function.
    const CALL: AccessCallback;
}

pub(super) extern "C" fn access_trampoline<H: AccessHook>(
    vcpu: c_uint,
    info: sys::qemu_plugin_meminfo_t,
    vaddr: u64,
    id: *mut c_void,
) {
    // SAFETY: `info` is the one QEMU passed to this very callback.
    let value = unsafe { sys::qemu_plugin_mem_get_value(info) };
    use sys::qemu_plugin_mem_value_type as Width;
    // SAFETY: the type says which member of the union was written.
    let value = unsafe {
        match value.type_ {
            Width::QEMU_PLUGIN_MEM_VALUE_U8 => u64::from(value.data.u8_),
            Width::QEMU_PLUGIN_MEM_VALUE_U16 => u64::from(value.data.u16_),
            Width::QEMU_PLUGIN_MEM_VALUE_U32 => u64::from(value.data.u32_),
            Width::QEMU_PLUGIN_MEM_VALUE_U64 => value.data.u64_,
            Width::QEMU_PLUGIN_MEM_VALUE_U128 => value.data.u128_.low,
        }
    };
    H::CALL(vcpu, vaddr, value, id as usize);
}

/// Names the function called for a new vCPU.
pub(crate) trait VcpuHook {
    /// The function.
    const CALL: VcpuCallback;
}

/// Calls `V` for every vCPU before it runs; the only place where [`Registers::find`] works.
pub(crate) fn on_vcpu_init<V: VcpuHook>(id: u64) {
    extern "C" fn initialised<V: VcpuHook>(_: u64, vcpu: c_uint) {
        V::CALL(vcpu);
    }
    // SAFETY: `id` is the one given to this plugin's installation; the function lives for ever.
    unsafe { sys::qemu_plugin_register_vcpu_init_cb(id, Some(initialised::<V>)) }
}

/// Calls `E` when QEMU exits in an orderly way. Guest state cannot be read any more then.
pub(crate) fn on_exit<E: ExitHook>(id: u64) {
    extern "C" fn exiting<E: ExitHook>(_: u64, _: *mut c_void) {
        E::CALL();
    }
    // SAFETY: `id` is the one given to this plugin's installation; the function lives for ever.
    unsafe { sys::qemu_plugin_register_atexit_cb(id, Some(exiting::<E>), std::ptr::null_mut()) }
}

/// Names the function called at QEMU's exit.
pub(crate) trait ExitHook {
    /// The function.
    const CALL: fn();
}
