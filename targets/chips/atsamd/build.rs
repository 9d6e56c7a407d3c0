//! The chip's memory, for the linker.

use std::env;

use memory::{flash_and_ram, write};

fn main() {
    let is_samd21 = env::var_os("CARGO_FEATURE_SAMD21G18").is_some();
    let (flash_kib, ram_kib) = if is_samd21 { (256, 32) } else { (512, 192) };
    write("memory.x", &flash_and_ram((0x0000_0000, flash_kib), (0x2000_0000, ram_kib)));
}
// SPDX-License-Identifier: MIT OR Apache-2.0
