//! A heap that only grows, and is empty again when nothing is left on it.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::{Cell, UnsafeCell};
use core::ptr;

const BYTES: usize = 6 * 1024;

#[repr(align(16))]
struct Heap {
    memory: UnsafeCell<[u8; BYTES]>,
    used: Cell<usize>,
    blocks: Cell<usize>,
}

// SAFETY: the programs that have a heap have one thread, and no interrupt that allocates.
unsafe impl Sync for Heap {}

// SAFETY: a block is handed out once until all are given back, aligned and within `memory`.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = self.used.get().next_multiple_of(layout.align());
        if layout.align() > 16 || start + layout.size() > BYTES {
            return ptr::null_mut();
        }
        self.used.set(start + layout.size());
        self.blocks.set(self.blocks.get() + 1);
        // SAFETY: `start` is within the memory, as checked.
        unsafe { self.memory.get().cast::<u8>().add(start) }
    }

    unsafe fn dealloc(&self, _block: *mut u8, _layout: Layout) {
        self.blocks.set(self.blocks.get() - 1);
        if self.blocks.get() == 0 {
            self.used.set(0);
        }
    }
}

#[global_allocator]
static HEAP: Heap = Heap { memory: UnsafeCell::new([0; BYTES]), used: Cell::new(0), blocks: Cell::new(0) };
// SPDX-License-Identifier: MIT OR Apache-2.0
