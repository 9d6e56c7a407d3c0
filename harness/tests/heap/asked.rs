// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options that name missing things end with 2 and the nearest names; unreadable rules end with their column.

use crate::common::refused;

#[test]
fn an_image_without_an_allocator_that_is_known_says_so() {
    refused(
        "cortex-m3-bare",
        &["--heap"],
        &["--heap: no function of the image is known to allocate", "--heap-alloc '"],
    );
    refused("cortex-m3-bare-stripped", &["--heap"], &["--heap: the image has no symbols"]);
}

#[test]
fn a_rule_that_matches_nothing_names_what_is_near() {
    refused(
        "cortex-m3-heap4",
        &["--heap-alloc", "pool_gte(size=r0)"],
        &["--heap-alloc: no function is called `pool_gte`", "`pool_get`"],
    );
    refused("cortex-m3-heap4", &["--heap", "--heap-free", "pool_pu"], &["--heap-free: ", "`pool_put`"]);
}

#[test]
fn a_rule_that_cannot_be_read_shows_where() {
    refused(
        "cortex-m3-heap4",
        &["--heap-alloc", "pool_get(size=q0)"],
        &["--heap-alloc: column 15: `q0` is not an argument", "\n  pool_get(size=q0)\n                ^"],
    );
    refused("riscv64-heap4", &["--heap-alloc", "pool_get(size=r0)"], &["column 15: RISC-V has no register r0"]);
}

#[test]
fn it_needs_call_stacks() {
    refused("cortex-m3-heap4", &["--heap", "--no-stacks"], &["--heap needs call stacks"]);
}

#[test]
fn an_address_in_an_image_without_symbols_is_one_where_it_has_code() {
    refused(
        "cortex-m3-bare-stripped",
        &["--heap-alloc", "0xf0000000(size=arg0)"],
        &["--heap-alloc: no function is at 0xf0000000: the image has no symbols, and no code there; give "],
    );
    // In an image with symbols, an address outside of all functions is an error.
    refused("cortex-m3-heap4", &["--heap-alloc", "0x4(size=arg0)"], &["--heap-alloc: no function is at 0x4"]);
}
