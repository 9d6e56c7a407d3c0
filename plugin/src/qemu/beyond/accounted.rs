//! Virtual time as far as QEMU has accounted for what has executed.
//!
//! Asked by the vCPU itself in the middle of a block, `qemu_clock_get_ns` would account for the block, and ends QEMU
//! ("Bad icount read") where that cannot be done. Asked by a thread that executes no vCPU it says what has been
//! accounted for (accel/tcg/icount-common.c, `icount_get_raw_locked`): all that executed before the vCPU has last left
//! generated code, and how far time has been moved meanwhile. So the calling thread is one that executes none while it
//! asks.

use std::ffi::{c_int, c_void};
use std::mem;

use wire::trick::SLEEP;

use super::symbol;
use super::vcpu::with_none_current;

/// `qemu_clock_get_ns` (include/qemu/timer.h), and its clock that stands still while the machine does.
type GetNs = unsafe extern "C" fn(c_int) -> i64;
const QEMU_CLOCK_VIRTUAL: c_int = 1;

/// What is needed of QEMU.
#[derive(Clone, Copy)]
pub(crate) struct AccountedTime {
    get_ns: GetNs,
}

impl AccountedTime {
    /// None: this QEMU does not show it, or is not known.
    pub(crate) fn find() -> Option<AccountedTime> {
        symbol(&SLEEP, c"current_cpu")?;
        let get_ns = symbol(&SLEEP, c"qemu_clock_get_ns")?;
        // SAFETY: in the releases of the table's row the function of this name has this type; the program itself exports it and
        // stays loaded.
        Some(AccountedTime { get_ns: unsafe { mem::transmute::<*mut c_void, GetNs>(get_ns) } })
    }

    /// Nanoseconds since reset. Only inside callbacks of a vCPU; None: the caller is none.
    pub(crate) fn ns(self) -> Option<i64> {
        // SAFETY: see `find` for the type. It may be called on any thread, takes no lock that a callback may hold, and
        // changes nothing where the thread executes no vCPU.
        with_none_current(|| unsafe { (self.get_ns)(QEMU_CLOCK_VIRTUAL) })
    }
}
