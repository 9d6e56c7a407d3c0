// SPDX-License-Identifier: GPL-2.0-or-later
//! Functions of the plugin's that QEMU calls, and the C trampolines to them. Translation is in [`super::block`].

use std::ffi::{c_uint, c_void};

use super::{raw, versions};

/// Called for a block or instruction with the number that was given at registration.
pub(crate) type ExecCallback = fn(vcpu: u32, id: usize);
/// Called after a load or a store with the number given at registration.
pub(crate) type AccessCallback = fn(vcpu: u32, access: Access, id: usize);

/// A load or a store.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    /// Guest virtual address.
    pub(crate) address: u64,
    /// Value loaded or stored; of 16 bytes the low half.
    pub(crate) value: u64,
    /// Width of the access, in bytes.
    pub(crate) bytes: u64,
}

/// Called once per vCPU before it runs.
pub(crate) type VcpuCallback = fn(vcpu: u32);

/// Names a plain function as a type, so that a C trampoline can be made for it at compile time.
pub(crate) trait Hook {
    /// The function.
    const CALL: ExecCallback;
}

pub(in crate::qemu) extern "C" fn trampoline<H: Hook>(vcpu: c_uint, id: *mut c_void) {
    H::CALL(vcpu, id as usize);
}

/// Names a function at whose instruction a block may have to end ([`super::block::Insn::call_to_split`]).
pub(crate) trait SplitHook {
    /// The function; whether the block ends before the instruction, which then is a block of its own.
    const CALL: fn(vcpu: u32, id: usize) -> bool;
}

/// Names a function at an instruction, or at the start of a block, before which the block may have to be left
/// ([`super::block::Insn::call_to_leave`], [`super::block::Block::call_to_leave`]).
pub(crate) trait LeaveHook {
    /// The function; whether the block is left before the instruction, which is then looked for again.
    const CALL: fn(vcpu: u32, id: usize) -> bool;
}

/// Entry point that passes the address in generated code that called it, as a third argument. On other hosts the block goes on,
/// and what would have come before an instruction comes behind the block.
macro_rules! entry {
    ($entry:ident, $trampoline:ident, $hook:ident, $jump_out:path) => {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        #[unsafe(naked)]
        pub(in crate::qemu) extern "C" fn $entry<H: $hook>(_vcpu: c_uint, _id: *mut c_void) {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!("mov rdx, [rsp]", "jmp {}", sym $trampoline::<H>);
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!("mov x2, x30", "b {}", sym $trampoline::<H>);
        }

        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        pub(in crate::qemu) extern "C" fn $entry<H: $hook>(vcpu: c_uint, id: *mut c_void) {
            H::CALL(vcpu, id as usize);
        }

        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        extern "C" fn $trampoline<H: $hook>(vcpu: c_uint, id: *mut c_void, called_from: usize) {
            if H::CALL(vcpu, id as usize) {
                // SAFETY: QEMU's generated code calls the entry point, which passes the address that it returns to. The functions
                // between it and this call have nothing to drop, and hold no lock: the hook's function has returned.
                unsafe { $jump_out(called_from) }
            }
        }
    };
}
entry!(split_entry, split_trampoline, SplitHook, super::super::beyond::avr::start_alone);
entry!(leave_entry, leave_trampoline, LeaveHook, super::super::beyond::leave::leave_block);

/// Names a function called after loads or stores.
pub(crate) trait AccessHook {
    /// The function.
    const CALL: AccessCallback;
}

pub(in crate::qemu) extern "C" fn access_trampoline<H: AccessHook>(
    vcpu: c_uint,
    access: u32,
    vaddr: u64,
    id: *mut c_void,
) {
    // SAFETY: the access is the one QEMU passed to this very callback.
    let value = unsafe { raw::qemu_plugin_mem_get_value(access) };
    // SAFETY: the width says which member of the union was written; of 16 bytes these are the low half.
    let (bytes, value) = unsafe {
        let bytes = 1 << value.width.min(4);
        let value = match value.width {
            0 => u64::from(value.low.u8),
            1 => u64::from(value.low.u16),
            2 => u64::from(value.low.u32),
            _ => value.low.u64,
        };
        (bytes, value)
    };
    H::CALL(vcpu, Access { address: vaddr, value, bytes }, id as usize);
}

/// Names the function called for a new vCPU.
pub(crate) trait VcpuHook {
    /// The function.
    const CALL: VcpuCallback;
}

/// Calls `V` for every vCPU before it runs; the only place where [`Registers::find`] works.
pub(crate) fn on_vcpu_init<V: VcpuHook>(id: u64) {
    extern "C" fn by_id<V: VcpuHook>(_: u64, vcpu: c_uint) {
        by_data::<V>(vcpu, std::ptr::null_mut());
    }
    extern "C" fn by_data<V: VcpuHook>(vcpu: c_uint, _: *mut c_void) {
        crate::qemu::abort::let_aborts_in();
        V::CALL(vcpu);
    }
    versions::on_vcpu_init(id, by_id::<V>, by_data::<V>);
}

/// Calls `E` when QEMU exits in an orderly way. Guest state cannot be read any more then.
pub(crate) fn on_exit<E: ExitHook>(id: u64) {
    extern "C" fn by_id<E: ExitHook>(_: u64, _: *mut c_void) {
        E::CALL();
    }
    extern "C" fn by_data<E: ExitHook>(_: *mut c_void) {
        E::CALL();
    }
    versions::on_exit(id, by_id::<E>, by_data::<E>);
}

/// Names the function called at QEMU's exit.
pub(crate) trait ExitHook {
    /// The function.
    const CALL: fn();
}
