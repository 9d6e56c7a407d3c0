//! Rust as firmware has it: generics, closures, traits, `dyn`, iterators, a heap, formatting; and a panic from the
//! depth, which ends the run.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::hint::black_box;

#[cfg(target_arch = "arm")]
use cortex_m_rt::entry;
// It has the critical section that riscv-rt wants.
#[cfg(target_arch = "arm")]
use cortex_m as _;
#[cfg(not(target_arch = "arm"))]
use riscv as _;
#[cfg(not(target_arch = "arm"))]
use riscv_rt::entry;
use support::{exit, expect_panic, mix, println, xorshift};

const ROUNDS: u32 = 48;

/// Sorts by anything, recursively: one instance for each kind of value and closure.
#[inline(never)]
fn generic_sort<T: Copy, K: Ord>(values: &mut [T], key: &impl Fn(&T) -> K) {
    if values.len() < 2 {
        return;
    }
    let pivot = key(&values[values.len() / 2]);
    let (mut low, mut high) = (0, values.len() - 1);
    while low <= high {
        while key(&values[low]) < pivot {
            low += 1;
        }
        while key(&values[high]) > pivot {
            high -= 1;
        }
        if low <= high {
            values.swap(low, high);
            low += 1;
            if high == 0 {
                break;
            }
            high -= 1;
        }
    }
    let (left, right) = values.split_at_mut(low);
    generic_sort(&mut left[..=high.min(low.saturating_sub(1))], key);
    generic_sort(right, key);
}

trait Shape {
    fn area(&self) -> u32;
    fn scaled(&self, factor: u32) -> Box<dyn Shape>;
    fn perimeter(&self) -> u32 {
        self.area() / 3 + 1
    }
}

struct Square(u32);
struct Circle {
    radius: u32,
}
struct Group(Vec<Box<dyn Shape>>);

impl Shape for Square {
    fn area(&self) -> u32 {
        self.0.wrapping_mul(self.0)
    }
    fn scaled(&self, factor: u32) -> Box<dyn Shape> {
        Box::new(Square(self.0.wrapping_mul(factor)))
    }
    fn perimeter(&self) -> u32 {
        self.0.wrapping_mul(4)
    }
}

impl Shape for Circle {
    fn area(&self) -> u32 {
        self.radius.wrapping_mul(self.radius).wrapping_mul(355) / 113
    }
    fn scaled(&self, factor: u32) -> Box<dyn Shape> {
        Box::new(Circle { radius: self.radius.wrapping_mul(factor) })
    }
}

impl Shape for Group {
    fn area(&self) -> u32 {
        self.0.iter().map(|shape| shape.area()).fold(0, u32::wrapping_add)
    }
    fn scaled(&self, factor: u32) -> Box<dyn Shape> {
        Box::new(Group(self.0.iter().map(|shape| shape.scaled(factor)).collect()))
    }
}

#[inline(never)]
fn shapes(seed: &mut u32) -> u32 {
    let mut group = Vec::new();
    for _ in 0..6 {
        let size = xorshift(seed) % 50;
        group.push(if size & 1 == 0 {
            Box::new(Square(size)) as Box<dyn Shape>
        } else {
            Box::new(Circle { radius: size })
        });
    }
    let outer = Group(alloc::vec![Box::new(Group(group)) as Box<dyn Shape>, Box::new(Square(7))]);
    let larger = outer.scaled(3);
    outer.area().wrapping_add(larger.perimeter())
}

#[inline(never)]
fn apply(action: &mut dyn FnMut(u32) -> u32, times: u32) -> u32 {
    (0..times).fold(0, |sum, i| mix(sum, action(i)))
}

#[inline(never)]
fn closures(seed: &mut u32) -> u32 {
    let mut calls = 0;
    let offset = xorshift(seed);
    let mut counting = |x: u32| {
        calls += 1;
        x.wrapping_add(offset) ^ calls
    };
    let sum = apply(&mut counting, 20);
    let boxed: [Box<dyn Fn(u32) -> u32>; 3] =
        [Box::new(move |x| x ^ offset), Box::new(|x| x.rotate_left(3)), Box::new(move |x| mix(x, sum))];
    boxed.iter().fold(sum, |value, step| step(value)).wrapping_add(calls)
}

#[inline(never)]
fn texts(seed: &mut u32) -> u32 {
    let mut words = BTreeMap::new();
    for i in 0..12 {
        let mut word = String::new();
        let number = xorshift(seed) % 1000;
        let _ = write!(word, "{number:>4}/{i:02x}-{:?}", Some(number & 3));
        *words.entry(number % 7).or_insert(0u32) += word.bytes().map(u32::from).sum::<u32>();
    }
    words.iter().fold(0, |sum, (key, value)| mix(sum, key ^ value))
}

#[inline(never)]
fn sorts(seed: &mut u32) -> u32 {
    let mut numbers: [u32; 40] = core::array::from_fn(|_| xorshift(seed));
    let mut pairs: [(u16, i8); 20] = core::array::from_fn(|i| ((xorshift(seed) & 0x3ff) as u16, i as i8));
    generic_sort(&mut numbers, &|value| *value);
    generic_sort(&mut pairs, &|pair| core::cmp::Reverse(pair.0));
    generic_sort(&mut numbers, &|value| value & 0xff);
    numbers.sort_unstable_by_key(|value| value.rotate_left(9));
    mix(numbers[7], u32::from(pairs[3].0))
}

/// Fibonacci by `Result`, so that every level looks at what the one below gave.
#[inline(never)]
fn fallible(n: u32) -> Result<u32, &'static str> {
    match n {
        90.. => Err("too deep"),
        0 | 1 => Ok(n),
        _ => Ok(black_box(fallible(n - 1)? + fallible(n - 2)?)),
    }
}

#[inline(never)]
fn descends(depth: u32, values: &[u32]) -> u32 {
    if depth == 0 {
        // Out of bounds: the end.
        return values[black_box(values.len() + 3)];
    }
    black_box(descends(depth - 1, &values[..values.len() - 1])) + 1
}

#[entry]
fn main() -> ! {
    let mut seed = 1;
    let mut sum = 1;
    for round in 0..ROUNDS {
        sum = mix(sum, sorts(&mut seed));
        sum = mix(sum, shapes(&mut seed));
        sum = mix(sum, closures(&mut seed));
        sum = mix(sum, texts(&mut seed));
        sum = mix(sum, fallible(9 + round % 3).unwrap_or(0));
        if round % 16 == 15 {
            println!("hello: {} rounds {sum:08x}", round + 1);
        }
    }
    expect_panic();
    let values: Vec<u32> = (0..12).collect();
    println!("never: {}", descends(6, &values));
    exit(1)
}
// SPDX-License-Identifier: MIT OR Apache-2.0
