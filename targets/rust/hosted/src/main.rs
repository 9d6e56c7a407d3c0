//! Rust that prints by semihosting's `:tt`, as most of it does in QEMU, and panics there.
#![no_std]
#![no_main]

use cortex_m as _;
use cortex_m_rt::entry;
use cortex_m_semihosting::{heprintln, hprintln};
use panic_semihosting as _;

#[entry]
fn main() -> ! {
    let words = ["one", "two", "three"];
    for (number, word) in words.iter().enumerate() {
        hprintln!("hosted: {} {}", number, word);
    }
    heprintln!("hosted: an error of {:#x}", 0xbadu32);
    let index = core::hint::black_box(7);
    hprintln!("hosted: {}", words[index]);
    loop {}
}
// SPDX-License-Identifier: MIT OR Apache-2.0
