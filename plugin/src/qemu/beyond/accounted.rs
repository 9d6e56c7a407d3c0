// SPDX-License-Identifier: GPL-2.0-or-later
//! Virtual time, as far as QEMU has accounted for the executed instructions.
//!
//! On a vCPU's thread in the middle of a block, `qemu_clock_get_ns` tries to account for the block's instructions, and
//! ends QEMU where that is impossible ("Bad icount read"). On a thread without a vCPU it returns the accounted time
//! (accel/tcg/icount-common.c, `icount_get_raw_locked`). That is the time of all instructions before the vCPU last left
//! generated code, plus the time that QEMU skipped while all CPUs slept. So the calling thread poses as one without a
//! vCPU for the call.

use std::ffi::{c_int, c_void};
use std::mem;

use wire::trick::SLEEP;

use super::symbol;
use super::vcpu::with_none_current;

/// `qemu_clock_get_ns` (include/qemu/timer.h), called for the virtual clock, which stops when the machine is stopped.
type GetNs = unsafe extern "C" fn(c_int) -> i64;
const QEMU_CLOCK_VIRTUAL: c_int = 1;

/// QEMU's function that returns the time.
#[derive(Clone, Copy)]
pub(crate) struct AccountedTime {
    get_ns: GetNs,
}

impl AccountedTime {
    /// None: this QEMU does not export the function, or is not known.
    pub(crate) fn find() -> Option<AccountedTime> {
        symbol(&SLEEP, c"current_cpu")?;
        let get_ns = symbol(&SLEEP, c"qemu_clock_get_ns")?;
        // SAFETY: in the releases of the table's row the function of this name has this type; the program itself
        // exports it and stays loaded.
        Some(AccountedTime { get_ns: unsafe { mem::transmute::<*mut c_void, GetNs>(get_ns) } })
    }

    /// Nanoseconds since reset. Only inside callbacks of a vCPU; None: the calling thread has no vCPU.
    pub(crate) fn ns(self) -> Option<i64> {
        // SAFETY: see `find` for the type. Any thread may call it; it takes no lock that a callback may hold, and
        // changes nothing on a thread without a vCPU.
        with_none_current(|| unsafe { (self.get_ns)(QEMU_CLOCK_VIRTUAL) })
    }
}
