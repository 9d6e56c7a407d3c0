//! Puts the board's memory.x where the linker looks for it. (Not by way of `support`, which has a panic handler, too.)

use std::path::Path;
use std::{env, fs};

fn main() {
    let out = env::var("OUT_DIR").expect("cargo says");
    let script = "../support/memory/lm3s6965evb.x";
    fs::copy(script, Path::new(&out).join("memory.x")).expect("the script is there");
    println!("cargo:rustc-link-search={out}");
    println!("cargo:rerun-if-changed={script}");
}
// SPDX-License-Identifier: MIT OR Apache-2.0
