//! The chip's memory, for the linker.

use memory::{flash_and_ram, write};

fn main() {
    write("memory.x", &flash_and_ram((0x0000_0000, 512), (0x2000_0000, 256)));
}
// SPDX-License-Identifier: MIT OR Apache-2.0
