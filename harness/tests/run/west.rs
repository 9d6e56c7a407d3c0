// SPDX-License-Identifier: MIT OR Apache-2.0
//! `west harness`, the extension of Zephyr's west: its own tests, which run it with stand-ins for west's classes.

use std::path::Path;

use crate::common::{ends_with_us, images_dir};

#[test]
fn wests_extension_finds_what_was_built_and_passes_on_what_harness_says() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../west/test_harness.py");
    let mut command = ends_with_us("python3");
    command.arg("-B").arg(tests).env("HARNESS", env!("CARGO_BIN_EXE_harness")).env("IMAGES", images_dir());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("skipped"), "{said}");
}
