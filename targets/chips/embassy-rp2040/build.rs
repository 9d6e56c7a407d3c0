//! The chip's memory, for the linker.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let memory = "MEMORY\n{\n  BOOT2 : ORIGIN = 0x10000000, LENGTH = 0x100\n  FLASH : ORIGIN = 0x10000100, LENGTH = 2048K - 0x100\n  RAM : ORIGIN = 0x20000000, LENGTH = 264K\n}\n";
    fs::write(out.join("memory.x"), memory).expect("OUT_DIR can be written");
    println!("cargo::rustc-link-search={}", out.display());
    println!("cargo::rustc-link-arg-bins=-Tlink-rp.x");
}
