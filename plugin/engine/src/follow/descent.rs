// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stack that grows out of its memory, as by a recursion without end. Many of QEMU's boards let the writes vanish, so that
//! the firmware looks busy.

use crate::guest::{Guest, Vcpu};

/// Greatest distance below the memory at which a stack pointer is still taken for that of a stack which began there.
const MAX_BELOW_BYTES: u64 = 64 << 20;

/// The memory that the stack pointer pointed to at the last sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Descent {
    memory_start: Option<u64>,
}

/// A stack that has left its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// The stack pointer.
    pub sp: u64,
    /// First address of the memory.
    pub memory_start: u64,
}

impl Descent {
    /// Looks at the stack pointer at a sample. Some: it points below the memory that it pointed to before, where there is
    /// none.
    pub fn look(&mut self, guest: &mut Guest<impl Vcpu>) -> Option<Left> {
        let sp = guest.stack_pointer();
        if !guest.is_off_memory(sp) {
            self.memory_start = guest.memory_start(sp).or_else(|| guest.memory_start(sp.wrapping_sub(1)));
            return None;
        }
        // The stack may have left before the first sample.
        let reset = || guest.reset().and_then(|(_, sp)| guest.memory_start(sp.wrapping_sub(1)));
        let memory_start =
            self.memory_start.or_else(reset).filter(|&start| sp < start && start - sp <= MAX_BELOW_BYTES)?;
        Some(Left { sp, memory_start })
    }
}
