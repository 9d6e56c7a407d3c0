//! The chip's memory, for the linker.

use memory::{flash_and_ram, riscv_regions, write};

fn main() {
    write("memory.x", &(flash_and_ram((0x0800_0000, 128), (0x2000_0000, 32)) + &riscv_regions()));
    println!("cargo::rustc-link-arg=-Tmemory.x");
    println!("cargo::rustc-link-arg=-Tlink.x");
}
// SPDX-License-Identifier: MIT OR Apache-2.0
