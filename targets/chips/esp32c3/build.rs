//! The HAL's own script, for the linker.

fn main() {
    println!("cargo::rustc-link-arg=-Tlinkall.x");
}
// SPDX-License-Identifier: MIT OR Apache-2.0
