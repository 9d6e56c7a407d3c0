//! The chip's memory, for the linker.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let memory =
        "MEMORY\n{\n  FLASH : ORIGIN = 0x08000000, LENGTH = 128K\n  RAM : ORIGIN = 0x20000000, LENGTH = 32K\n}\n";
    let regions =
        [("TEXT", "FLASH"), ("RODATA", "FLASH"), ("DATA", "RAM"), ("BSS", "RAM"), ("HEAP", "RAM"), ("STACK", "RAM")];
    let aliases: String =
        regions.iter().map(|(name, of)| format!("REGION_ALIAS(\"REGION_{name}\", {of});\n")).collect();
    fs::write(out.join("memory.x"), format!("{memory}{aliases}")).expect("OUT_DIR can be written");
    println!("cargo::rustc-link-search={}", out.display());
    println!("cargo::rustc-link-arg=-Tmemory.x");
    println!("cargo::rustc-link-arg=-Tlink.x");
}
