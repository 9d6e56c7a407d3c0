//! Where the guest's addresses lead, as QEMU itself finds out where it reads for a debugger or for semihosting.

use std::ffi::c_void;
use std::mem;

use wire::trick::PAGES;

use super::{symbol, vcpu};

/// `cpu_get_phys_page_debug` (include/hw/core/cpu.h): the page that an address is on; all ones: none.
type PhysicalPage = unsafe extern "C" fn(*mut c_void, u64) -> u64;

/// All pages of all processors are multiples of this.
const PAGE_BYTES: u64 = 4096;

/// The physical address that the executing vCPU's data accesses to an address go to; only in its callbacks. None: to
/// none, or QEMU does not say.
pub(in crate::qemu) fn physical(address: u64) -> Option<u64> {
    let (page, cpu) = (symbol(&PAGES, c"cpu_get_phys_page_debug")?, vcpu::current()?);
    // SAFETY: in the releases of the table's row the function of this name has this type.
    let page = unsafe { mem::transmute::<*mut c_void, PhysicalPage>(page)(cpu, address & !(PAGE_BYTES - 1)) };
    (page != u64::MAX).then(|| (page & !(PAGE_BYTES - 1)) + address % PAGE_BYTES)
}
