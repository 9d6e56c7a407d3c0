//! The chip's memory, for the linker: what the build scripts write.

use std::path::PathBuf;
use std::{env, fs};

/// The linker's description of a flash and a RAM; each has its start and its KiB.
pub fn flash_and_ram(flash: (u32, u32), ram: (u32, u32)) -> String {
    let line = |name: &str, (start, kib): (u32, u32)| format!("  {name} : ORIGIN = {start:#010x}, LENGTH = {kib}K\n");
    format!("MEMORY\n{{\n{}{}}}\n", line("FLASH", flash), line("RAM", ram))
}

/// Names that riscv-rt's script has for the regions of [`flash_and_ram`].
pub fn riscv_regions() -> String {
    let regions =
        [("TEXT", "FLASH"), ("RODATA", "FLASH"), ("DATA", "RAM"), ("BSS", "RAM"), ("HEAP", "RAM"), ("STACK", "RAM")];
    regions.iter().map(|(name, of)| format!("REGION_ALIAS(\"REGION_{name}\", {of});\n")).collect()
}

/// Writes a file where the linker looks for scripts.
pub fn write(name: &str, script: &str) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join(name), script).expect("OUT_DIR can be written");
    println!("cargo::rustc-link-search={}", out.display());
}
// SPDX-License-Identifier: MIT OR Apache-2.0
