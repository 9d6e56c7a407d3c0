// SPDX-License-Identifier: GPL-2.0-or-later
//! A block left before one of its instructions, which is then looked for again, as QEMU leaves it for an exception
//! (`cpu_loop_exit_restore`, accel/tcg/cpu-exec-common.c): QEMU's clock gets back the instructions that have not started.
//! It is part of each row that needs it; without it that row is off.

use std::ffi::c_void;
use std::mem;
use std::sync::OnceLock;

use wire::trick::Trick;

use super::{symbol, vcpu};

/// `cpu_loop_exit_restore`: leaves the block before the instruction that an address in generated code belongs to.
type Leave = unsafe extern "C" fn(*mut c_void, usize) -> !;

static LEAVE: OnceLock<Leave> = OnceLock::new();

/// Finds QEMU's function for a row. None: the row does not cover this QEMU.
pub(super) fn find(trick: &Trick) -> Option<()> {
    let leave = symbol(trick, c"cpu_loop_exit_restore")?;
    // SAFETY: in the releases of the rows that list it the function has this type; the program itself exports it and stays loaded.
    LEAVE.get_or_init(|| unsafe { mem::transmute::<*mut c_void, Leave>(leave) });
    Some(())
}

/// Leaves the block before the instruction at whose start generated code has called the plugin. Returns only where no row has
/// found the way.
///
/// # Safety
///
/// `called_from` is the address that the callback returns to, in generated code. No frame up to there may need to be dropped:
/// QEMU jumps out of them (`siglongjmp`).
pub(in crate::qemu) unsafe fn leave_block(called_from: usize) {
    if let (Some(leave), Some(vcpu)) = (LEAVE.get(), vcpu::current()) {
        // SAFETY: the caller's promise; the vCPU executes this thread's callback.
        unsafe { leave(vcpu, called_from) }
    }
}
