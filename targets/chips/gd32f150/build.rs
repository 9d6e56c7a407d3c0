//! The chip's memory, for the linker.

use memory::{flash_and_ram, write};

fn main() {
    write("memory.x", &flash_and_ram((0x0800_0000, 64), (0x2000_0000, 8)));
}
// SPDX-License-Identifier: MIT OR Apache-2.0
