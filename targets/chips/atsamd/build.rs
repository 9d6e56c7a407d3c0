//! The chip's memory, for the linker.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let is_samd21 = env::var_os("CARGO_FEATURE_SAMD21G18").is_some();
    let (flash_kib, ram_kib) = if is_samd21 { (256, 32) } else { (512, 192) };
    let memory = format!(
        "MEMORY\n{{\n  FLASH : ORIGIN = 0x00000000, LENGTH = {flash_kib}K\n  RAM : ORIGIN = 0x20000000, LENGTH = {ram_kib}K\n}}\n"
    );
    fs::write(out.join("memory.x"), memory).expect("OUT_DIR can be written");
    println!("cargo::rustc-link-search={}", out.display());
}
