//! A `#[global_allocator]` that counts what it is asked for: vectors that grow, maps, strings, boxes; memory that is
//! never given back; more than there is.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::{Cell, UnsafeCell};
use core::hint::black_box;
use core::ptr;

#[cfg(target_arch = "arm")]
use cortex_m as _;
#[cfg(target_arch = "arm")]
use cortex_m_rt::entry;
#[cfg(not(target_arch = "arm"))]
use riscv as _;
#[cfg(not(target_arch = "arm"))]
use riscv_rt::entry;
use support::{exit, println, xorshift};

const BYTES: usize = 16 * 1024;
const UNIT: usize = 16;

/// Blocks of units, first fit: a byte for each unit says whether it is taken.
#[repr(C, align(16))]
struct Heap {
    memory: UnsafeCell<[u8; BYTES]>,
    taken: UnsafeCell<[bool; BYTES / UNIT]>,
    allocations: Cell<usize>,
    bytes: Cell<usize>,
    frees: Cell<usize>,
    failures: Cell<usize>,
    live: Cell<usize>,
    live_blocks: Cell<usize>,
    peak: Cell<usize>,
}

// SAFETY: the program has one thread, and no interrupt that allocates.
unsafe impl Sync for Heap {}

fn more(cell: &Cell<usize>, by: usize) {
    cell.set(cell.get() + by);
}

impl Heap {
    fn units(layout: Layout) -> usize {
        layout.size().div_ceil(UNIT).max(1)
    }

    fn count_in(&self, bytes: usize) {
        more(&self.allocations, 1);
        more(&self.bytes, bytes);
        more(&self.live, bytes);
        more(&self.live_blocks, 1);
        self.peak.set(self.peak.get().max(self.live.get()));
    }

    fn count_out(&self, bytes: usize) {
        more(&self.frees, 1);
        self.live.set(self.live.get() - bytes);
        self.live_blocks.set(self.live_blocks.get() - 1);
    }

    fn take(&self, layout: Layout) -> *mut u8 {
        let wanted = Heap::units(layout);
        // SAFETY: nothing else refers to it meanwhile.
        let taken = unsafe { &mut *self.taken.get() };
        let fits = |start: &usize| taken[*start..].iter().take(wanted).filter(|taken| !**taken).count() == wanted;
        if layout.align() > UNIT || wanted > taken.len() {
            return ptr::null_mut();
        }
        let Some(start) = (0..=taken.len() - wanted).find(fits) else { return ptr::null_mut() };
        taken[start..start + wanted].fill(true);
        // SAFETY: within the memory.
        unsafe { self.memory.get().cast::<u8>().add(start * UNIT) }
    }

    fn give(&self, block: *mut u8, layout: Layout) {
        let start = (block as usize - self.memory.get() as usize) / UNIT;
        // SAFETY: as above.
        let taken = unsafe { &mut *self.taken.get() };
        taken[start..start + Heap::units(layout)].fill(false);
    }
}

// SAFETY: units are handed out once until they are given back, aligned and within `memory`.
unsafe impl GlobalAlloc for Heap {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = self.take(layout);
        if block.is_null() {
            more(&self.failures, 1);
        } else {
            self.count_in(layout.size());
        }
        block
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.count_out(layout.size());
        self.give(block, layout);
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let new = Layout::from_size_align(new_size, layout.align()).unwrap();
        let moved = self.take(new);
        if moved.is_null() {
            more(&self.failures, 1);
            return moved;
        }
        // SAFETY: two blocks, of at least so much.
        unsafe { ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size)) };
        self.count_out(layout.size());
        self.give(block, layout);
        self.count_in(new_size);
        moved
    }
}

#[global_allocator]
static HEAP: Heap = Heap {
    memory: UnsafeCell::new([0; BYTES]),
    taken: UnsafeCell::new([false; BYTES / UNIT]),
    allocations: Cell::new(0),
    bytes: Cell::new(0),
    frees: Cell::new(0),
    failures: Cell::new(0),
    live: Cell::new(0),
    live_blocks: Cell::new(0),
    peak: Cell::new(0),
};

#[inline(never)]
fn words(count: u32) -> Vec<String> {
    (0..count).map(|n| format!("word {n}")).collect()
}

#[inline(never)]
fn map(mut seed: u32) -> usize {
    let mut map = BTreeMap::new();
    for _ in 0..40 {
        let key = xorshift(&mut seed) % 64;
        map.entry(key).or_insert_with(|| Box::new(key));
    }
    map.len()
}

#[inline(never)]
fn too_much() -> bool {
    Vec::<u8>::new().try_reserve(BYTES * 2).is_err()
}

#[inline(never)]
fn leaks(value: u32) {
    core::mem::forget(black_box(Box::new([value; 6])));
}

#[entry]
fn main() -> ! {
    let mut found = 0;
    for round in 0..20 {
        found += words(black_box(round % 9)).len() + map(round + 1);
        if round % 5 == 2 {
            found += usize::from(too_much());
            leaks(round);
        }
    }
    black_box(found);
    let counts = [
        ("allocations", &HEAP.allocations),
        ("bytes", &HEAP.bytes),
        ("frees", &HEAP.frees),
        ("failures", &HEAP.failures),
        ("peak", &HEAP.peak),
        ("held", &HEAP.live),
        ("held blocks", &HEAP.live_blocks),
    ];
    for (name, count) in counts {
        println!("{name}: {}", count.get());
    }
    exit(0)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
