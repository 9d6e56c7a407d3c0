// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stack that has grown out of its memory, as by a recursion without end. Many of QEMU's boards let the writes vanish, so
//! that the firmware looks busy.

use crate::guest::{Guest, Vcpu};

/// Greatest distance below a memory at which a stack pointer is still taken for that of a stack which began there.
const MAX_BELOW_BYTES: u64 = 64 << 20;

/// First address of the memory that the stack has left; None: the stack pointer points to memory, or not below any.
pub fn left_memory(guest: &mut Guest<impl Vcpu>) -> Option<u64> {
    let sp = guest.stack_pointer();
    // Where no stack was ever set up, the pointer is 0.
    let above = guest.next_memory(sp).filter(|_| sp != 0 && guest.is_off_memory(sp))?;
    (above - sp <= MAX_BELOW_BYTES).then_some(above)
}
