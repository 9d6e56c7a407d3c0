//! The chip's memory, for the linker.

use std::env;

const RP2040: &str = "MEMORY
{
  BOOT2 : ORIGIN = 0x10000000, LENGTH = 0x100
  FLASH : ORIGIN = 0x10000100, LENGTH = 2048K - 0x100
  RAM : ORIGIN = 0x20000000, LENGTH = 264K
}
";

/// The boot ROM looks for the block that says what the image is in the flash's first 4 KiB.
const RP2350: &str = "MEMORY
{
  FLASH : ORIGIN = 0x10000000, LENGTH = 4096K
  RAM : ORIGIN = 0x20000000, LENGTH = 520K
}
SECTIONS
{
  .start_block : ALIGN(4)
  {
    KEEP(*(.start_block));
  } > FLASH
} INSERT AFTER .vector_table;
_stext = ADDR(.start_block) + SIZEOF(.start_block);
";

fn main() {
    let is_rp2350 = env::var_os("CARGO_FEATURE_RP2350").is_some();
    memory::write("memory.x", if is_rp2350 { RP2350 } else { RP2040 });
    if !is_rp2350 {
        println!("cargo::rustc-link-arg-bins=-Tlink-rp.x");
    }
}
// SPDX-License-Identifier: MIT OR Apache-2.0
