// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory for the handler of QEMU's abort, which must not use the heap: the abort may have come out of malloc, which
//! then holds its own lock, or has just found its lists damaged.
//!
//! This is the plugin's allocator. Before an abort it is the system's allocator. On the thread that has aborted it
//! hands out memory that was mapped before, and never reuses it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::thread::Thread;

/// Size of the reserve's address space; only pages written to take memory. A snapshot has at most 16 MiB, and is
/// built in a buffer that doubles; the outgrown buffers are not reused.
const RESERVE_BYTES: usize = 128 << 20;

#[global_allocator]
static HEAP: Heap = Heap;

struct Heap;

/// First byte of the reserve, and number of bytes handed out.
static RESERVE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static USED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The thread that has aborted; 0: none has.
static ABORTED: AtomicUsize = AtomicUsize::new(0);

/// Maps the reserve. Without it the handler's first allocation fails, which ends QEMU.
pub(super) fn prepare() {
    // SAFETY: a new private map at a place of the kernel's choice, never unmapped.
    let start = unsafe {
        libc::mmap(
            null_mut(),
            RESERVE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if start != libc::MAP_FAILED {
        RESERVE.store(start.cast(), Ordering::Relaxed);
    }
}

/// Makes the calling thread allocate from the reserve from now on.
pub(super) fn live_on_it() {
    ABORTED.store(Thread::current().id(), Ordering::Relaxed);
}

/// Whether the calling thread is the one that has aborted.
fn is_aborted() -> bool {
    // Before an abort this is one load, of a value that no other thread changes.
    let aborted = ABORTED.load(Ordering::Relaxed);
    aborted != 0 && aborted == Thread::current().id()
}

fn take(layout: Layout) -> *mut u8 {
    let reserve = RESERVE.load(Ordering::Relaxed);
    let start = USED_BYTES.load(Ordering::Relaxed).next_multiple_of(layout.align());
    let end = start.saturating_add(layout.size());
    if reserve.is_null() || end > RESERVE_BYTES || layout.align() > 4096 {
        return null_mut();
    }
    USED_BYTES.store(end, Ordering::Relaxed);
    // The map starts at a page, so that an offset is aligned as its address is.
    reserve.wrapping_add(start)
}

// SAFETY: all calls go to the system allocator, except on the one thread that has aborted. There, pieces of the
// reserve do not overlap, have the size and alignment asked for, and live as long as the process. Memory of either
// kind that is freed there stays allocated. Memory of the reserve is never freed elsewhere: that thread does not
// leave the handler alive.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_aborted() {
            return take(layout);
        }
        // SAFETY: the caller's promises are those that the system allocator needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !is_aborted() {
            // SAFETY: as above; this memory came from the system allocator.
            unsafe { System.dealloc(memory, layout) }
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if !is_aborted() {
            // SAFETY: as above.
            return unsafe { System.realloc(memory, layout, new_size) };
        }
        // The caller promises that the size, rounded up to the alignment, is valid.
        let Ok(new_layout) = Layout::from_size_align(new_size, layout.align()) else { return null_mut() };
        let new = take(new_layout);
        if !new.is_null() {
            // SAFETY: both are at least that long, and the new piece overlaps nothing.
            unsafe { new.copy_from_nonoverlapping(memory, layout.size().min(new_size)) };
        }
        new
    }
}
