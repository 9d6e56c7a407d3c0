//! The chip's memory, for the linker.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let memory =
        "MEMORY\n{\n  FLASH : ORIGIN = 0x00000000, LENGTH = 512K\n  RAM : ORIGIN = 0x20000000, LENGTH = 256K\n}\n";
    fs::write(out.join("memory.x"), memory).expect("OUT_DIR can be written");
    println!("cargo::rustc-link-search={}", out.display());
}
