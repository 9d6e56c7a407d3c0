//! The chip's memory, for the linker.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let kib = if env::var_os("CARGO_FEATURE_NRF5340").is_some() { 512 } else { 256 };
    let memory = format!(
        "MEMORY\n{{\n  FLASH : ORIGIN = 0x00000000, LENGTH = 1024K\n  RAM : ORIGIN = 0x20000000, LENGTH = {kib}K\n}}\n"
    );
    fs::write(out.join("memory.x"), memory).expect("OUT_DIR can be written");
    println!("cargo::rustc-link-search={}", out.display());
}
