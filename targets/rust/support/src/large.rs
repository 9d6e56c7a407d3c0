//! An allocator of 2 MiB for programs that nobody here wrote; their boards have 4 MiB of memory.

use core::mem::MaybeUninit;

use embedded_alloc::LlffHeap;

const BYTES: usize = 2 << 20;

#[global_allocator]
static HEAP: LlffHeap = LlffHeap::empty();

/// Gives the allocator its memory: once, before anything is allocated.
pub fn start_heap() {
    static mut MEMORY: [MaybeUninit<u8>; BYTES] = [MaybeUninit::uninit(); BYTES];
    // SAFETY: called once, and nothing else names the memory.
    unsafe { HEAP.init(&raw mut MEMORY as usize, BYTES) }
}
// SPDX-License-Identifier: MIT OR Apache-2.0
