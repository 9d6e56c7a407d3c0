// SPDX-License-Identifier: GPL-2.0-or-later
//! Translation of the guest's addresses, by the function of QEMU's that serves debuggers and semihosting.

use std::ffi::c_void;
use std::mem;

use wire::trick::PAGES;

use super::{symbol, vcpu};

/// `cpu_get_phys_page_debug` (include/hw/core/cpu.h): physical page of an address; all ones: unmapped.
type PhysicalPage = unsafe extern "C" fn(*mut c_void, u64) -> u64;

/// Smallest page of all processors, in bytes; larger pages are multiples of it.
const PAGE_BYTES: u64 = 4096;

/// Physical address of the executing vCPU's data accesses to an address; only in its callbacks. None: unmapped, or
/// QEMU does not say.
pub(in crate::qemu) fn physical(address: u64) -> Option<u64> {
    let (page, cpu) = (symbol(&PAGES, c"cpu_get_phys_page_debug")?, vcpu::current()?);
    // SAFETY: in the releases of the table's row the function of this name has this type.
    let page = unsafe { mem::transmute::<*mut c_void, PhysicalPage>(page)(cpu, address & !(PAGE_BYTES - 1)) };
    (page != u64::MAX).then(|| (page & !(PAGE_BYTES - 1)) + address % PAGE_BYTES)
}
