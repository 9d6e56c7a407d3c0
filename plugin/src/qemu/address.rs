//! Where the guest's addresses lead.

use super::api::later;
use super::beyond::page;

/// The physical address that the executing vCPU's data accesses to an address go to; only in its callbacks. None: to
/// none, or QEMU does not say.
pub(crate) fn physical(address: u64) -> Option<u64> {
    later::physical(address).unwrap_or_else(|| page::physical(address))
}
