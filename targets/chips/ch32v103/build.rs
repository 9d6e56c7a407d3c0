//! The chip's memory, for the linker.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let memory =
        "MEMORY\n{\n  FLASH : ORIGIN = 0x00000000, LENGTH = 64K\n  RAM : ORIGIN = 0x20000000, LENGTH = 20K\n}\n";
    let regions =
        [("TEXT", "FLASH"), ("RODATA", "FLASH"), ("DATA", "RAM"), ("BSS", "RAM"), ("HEAP", "RAM"), ("STACK", "RAM")];
    let aliases: String =
        regions.iter().map(|(name, of)| format!("REGION_ALIAS(\"REGION_{name}\", {of});\n")).collect();
    fs::write(out.join("memory.x"), format!("{memory}{aliases}")).expect("OUT_DIR can be written");
    println!("cargo::rustc-link-search={}", out.display());
    // The interrupts that a chip has, of which this one uses none.
    fs::write(out.join("device.x"), "").expect("OUT_DIR can be written");
    println!("cargo::rustc-link-arg=-Tlink.x");
}
