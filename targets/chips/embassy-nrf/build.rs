//! The chip's memory, for the linker.

use std::env;

use memory::{flash_and_ram, write};

fn main() {
    let kib = if env::var_os("CARGO_FEATURE_NRF5340").is_some() { 512 } else { 256 };
    write("memory.x", &flash_and_ram((0x0000_0000, 1024), (0x2000_0000, kib)));
}
// SPDX-License-Identifier: MIT OR Apache-2.0
