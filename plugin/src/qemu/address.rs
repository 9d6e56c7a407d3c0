//! Where the guest's addresses lead, as QEMU itself finds out where it reads for a debugger or for semihosting.

use std::ffi::c_void;
use std::mem;

use super::raw::symbol;
use super::vcpu;

/// `qemu_plugin_translate_vaddr`, from plugin API 5 (QEMU 10.1) on.
type Translate = unsafe extern "C" fn(u64, *mut u64) -> bool;

/// `cpu_get_phys_page_debug` (include/hw/core/cpu.h): the page that an address is on; all ones: none.
type PhysicalPage = unsafe extern "C" fn(*mut c_void, u64) -> u64;

/// All pages of all processors are multiples of this.
const PAGE_BYTES: u64 = 4096;

/// The physical address that the executing vCPU's data accesses to an address go to; only in its callbacks. None: to
/// none, or QEMU does not say. Before API 5 only a QEMU does that shows its functions to modules of its own.
pub(crate) fn physical(address: u64) -> Option<u64> {
    if let Some(translate) = symbol(c"qemu_plugin_translate_vaddr") {
        let mut physical = 0;
        // SAFETY: the API's function of this name has this type; the caller is in a callback of the vCPU.
        let is_found = unsafe { mem::transmute::<*mut c_void, Translate>(translate)(address, &raw mut physical) };
        return is_found.then_some(physical);
    }
    let (page, cpu) = (symbol(c"cpu_get_phys_page_debug")?, vcpu::current()?);
    // SAFETY: in a QEMU before 10.1, which has no other way, the function of this name has this type.
    let page = unsafe { mem::transmute::<*mut c_void, PhysicalPage>(page)(cpu, address & !(PAGE_BYTES - 1)) };
    (page != u64::MAX).then(|| (page & !(PAGE_BYTES - 1)) + address % PAGE_BYTES)
}
