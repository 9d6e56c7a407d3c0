//! Zones, phases and marks from Rust (`targets/zone/zone.rs`): scopes left by `return`, `break` and `?`, generic and
//! inlined functions, recursion.
#![no_std]
#![no_main]

#[path = "../../../zone/zone.rs"]
#[macro_use]
mod zone;

use core::hint::black_box;

#[cfg(target_arch = "arm")]
use cortex_m as _;
#[cfg(target_arch = "arm")]
use cortex_m_rt::entry;
#[cfg(not(target_arch = "arm"))]
use riscv as _;
#[cfg(not(target_arch = "arm"))]
use riscv_rt::entry;
use support::{exit, mix, println};

const ROUNDS: u32 = 20;

#[inline(never)]
fn generic<T: Copy + Into<u32>>(values: &[T]) -> u32 {
    zone!("generic");
    values.iter().fold(0, |sum, &value| mix(sum, value.into()))
}

#[inline(never)]
fn first_odd(values: &[u32]) -> Option<u32> {
    zone!("search");
    for &value in values {
        zone!("look");
        if black_box(value) % 2 == 1 {
            return Some(value);
        }
    }
    None
}

#[inline(never)]
fn twice(values: &[u32]) -> Option<u32> {
    zone!("twice");
    Some(first_odd(values)? * 2)
}

#[inline(never)]
fn walk(depth: u32, value: u32) -> u32 {
    zone!("walk");
    if depth == 0 { value } else { walk(depth - 1, mix(value, depth)) + 1 }
}

#[entry]
fn main() -> ! {
    phase!("boot");
    let mut sum = 0;
    phase!("work");
    for round in 0..ROUNDS {
        let words = [2, 4 + round % 2, 6, 8];
        sum = mix(sum, generic(&words));
        sum = mix(sum, generic(&[1_u8, 2, 3]));
        sum = mix(sum, twice(&words).unwrap_or(round));
        sum = mix(sum, walk(3, sum));
        mark!("round", round);
        mark!("below", round as i32 - 30);
    }
    zone_begin!("print");
    println!("zones: {sum:08x}");
    zone_end!("print");
    exit(0)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
