//! The chip's memory, for the linker.

use memory::{flash_and_ram, riscv_regions, write};

fn main() {
    write("memory.x", &(flash_and_ram((0x0000_0000, 64), (0x2000_0000, 20)) + &riscv_regions()));
    // The interrupts that a chip has, of which this one uses none.
    write("device.x", "");
    println!("cargo::rustc-link-arg=-Tlink.x");
}
// SPDX-License-Identifier: MIT OR Apache-2.0
