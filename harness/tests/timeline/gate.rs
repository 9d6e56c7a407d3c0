// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timeline in suites: its keys.

use std::fs;

use harness::profile::Profile;
use wire::timeline::What;

use crate::common::{harness, image};

/// Runs a suite of one image with these keys; returns exit code, output, and the image's profile.
fn suite(more: &str) -> (i32, String, Option<Profile>) {
    let temp = tempfile::tempdir().unwrap();
    let elf = image("cortex-m3-bare").display().to_string();
    let text = format!("[[image]]\nname = \"bare\"\nelf = {elf:?}\n{more}");
    fs::write(temp.path().join("harness.toml"), text).unwrap();
    let output = harness().args(["test", "--no-cache"]).current_dir(temp.path()).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let profile = Profile::load(&temp.path().join("harness-report/bare.profile")).ok();
    (output.status.code().unwrap(), text, profile)
}

#[test]
fn a_suite_records_it_and_traces() {
    let (code, text, profile) = suite("timeline = true\ntrace = [\"crc32_*\"]\n");
    assert_eq!(code, 0, "{text}");
    let timeline = profile.unwrap().timeline.unwrap();
    assert!(timeline.functions.len() >= 2, "{:?}", timeline.functions);
    assert!(timeline.events().any(|event| matches!(event.what, What::Called { .. })));
    let (code, text, profile) = suite("timeline = false\ntrace = [\"crc32_*\"]\n");
    assert_eq!(code, 0, "{text}");
    assert_eq!(profile.unwrap().timeline, None);
    let (code, text, _) = suite("trace = [\"crc99*\"]\n");
    assert!(code == 2 && text.contains("--trace crc99*"), "{code} {text}");
}
