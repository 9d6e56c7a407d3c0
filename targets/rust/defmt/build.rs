//! The layout of defmt's table of strings.

fn main() {
    println!("cargo:rustc-link-arg-bins=-Tdefmt.x");
}
// SPDX-License-Identifier: MIT OR Apache-2.0
