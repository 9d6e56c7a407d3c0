//! Puts the board's memory.x, which cortex-m-rt and riscv-rt want, where the linker looks for it.

use std::path::Path;
use std::{env, fs};

fn main() {
    let target = env::var("TARGET").expect("cargo says");
    let board = match target.as_str() {
        "thumbv6m-none-eabi" => "microbit",
        "thumbv7em-none-eabihf" => "mps2-an386",
        "thumbv7m-none-eabi" => "lm3s6965evb",
        _ if env::var_os("CARGO_FEATURE_LARGE").is_some() => "virt-large",
        _ => "virt",
    };
    let out = env::var("OUT_DIR").expect("cargo says");
    let script = format!("memory/{board}.x");
    fs::copy(&script, Path::new(&out).join("memory.x")).expect("the script is there");
    println!("cargo:rustc-link-search={out}");
    println!("cargo:rerun-if-changed={script}");
}
// SPDX-License-Identifier: MIT OR Apache-2.0
