//! Translates the program for the interpreter into its binary form.

use std::path::Path;
use std::{env, fs};

fn main() {
    let binary = wat::parse_file("src/work.wat").expect("the program is WebAssembly");
    let out = env::var("OUT_DIR").expect("cargo says");
    fs::write(Path::new(&out).join("work.wasm"), binary).expect("the folder is there");
    println!("cargo:rerun-if-changed=src/work.wat");
}
// SPDX-License-Identifier: MIT OR Apache-2.0
