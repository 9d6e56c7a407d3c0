// SPDX-License-Identifier: GPL-2.0-or-later
//! Translation of the guest's virtual addresses.

use super::api::later;
use super::beyond::page;

/// Physical address of the executing vCPU's data accesses to an address; only in its callbacks. None: unmapped, or
/// QEMU does not say.
pub(crate) fn physical(address: u64) -> Option<u64> {
    later::physical(address).unwrap_or_else(|| page::physical(address))
}
