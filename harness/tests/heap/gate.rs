// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heap in suites: keys, assertions, thresholds.

use std::fs;
use std::path::Path;

use crate::common::{harness, image};

/// Runs a suite; returns exit code and output.
fn suite(directory: &Path, text: &str, args: &[&str]) -> (i32, String) {
    fs::write(directory.join("harness.toml"), text).unwrap();
    let output = harness().arg("test").args(args).current_dir(directory).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.code().unwrap(), text)
}

fn entry(name: &str, more: &str) -> String {
    format!("[[image]]\nname = \"heap\"\nelf = {:?}\n{more}", image(name).display().to_string())
}

#[test]
fn assertions_and_thresholds_judge_the_heap() {
    let temp = tempfile::tempdir().unwrap();
    let good = "heap = true\nheap-alloc = [\"pool_get(size=arg0)\"]\nheap-free = [\"pool_put\"]\n\
                assert = ['heap_peak == 15332', 'heap_leaked < 11k', 'heap_allocs(\"tick_takes\") == 24']\n";
    let (code, text) =
        suite(temp.path(), &entry("cortex-m3-heap4", good), &["--no-cache", "--save-baseline", "main"]);
    assert_eq!(code, 0, "{text}");
    // Another heap of the same firmware, which leaks all blocks.
    let limit = "heap = true\nheap-alloc = [\"pool_get(size=arg0)\"]\nheap-free = [\"pool_put\"]\n\
                 thresholds = { heap_leaked = \"5%\" }\n";
    let (code, text) = suite(temp.path(), &entry("cortex-m3-heap4", limit), &["--no-cache", "--baseline", "main"]);
    assert_eq!(code, 0, "{text}");
    let (code, text) = suite(temp.path(), &entry("cortex-m3-heap1", limit), &["--no-cache", "--baseline", "main"]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("heap"), "{text}");
}

#[test]
fn a_rule_that_cannot_be_read_names_its_line() {
    let temp = tempfile::tempdir().unwrap();
    let (code, text) = suite(temp.path(), &entry("cortex-m3-heap4", "heap-alloc = [\"pool_get(size=q0)\"]\n"), &[]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("harness.toml:4:") && text.contains("column 15"), "{text}");
    let (code, text) = suite(temp.path(), &entry("cortex-m3-heap4", "assert = ['heap_peak < 5']\n"), &["--no-cache"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("heap = true"), "{text}");
}
