// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a reader that closes the pipe early (`| head`) causes no error, in any command and format.

use std::io::pipe;
use std::process::{Command, Output};

use harness::export::{FORMATS, Writer};

use crate::common::{image, run};

/// Runs a command whose standard output has no reader.
fn unread(args: &[&str]) -> Output {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    Command::new(env!("CARGO_BIN_EXE_harness")).args(args).stdout(writer).output().unwrap()
}

#[track_caller]
fn assert_quiet(args: &[&str], code: i32) {
    let output = unread(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert!(!stderr.contains("pipe") && !stderr.contains("error:"), "{args:?}: {stderr}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let run = run("cortex-m3-heap4", &["--heap", "--timeline", "--exact", "--slice", "100k"]).expect_code(0);
    let profile = run.dir.to_str().unwrap();
    for format in FORMATS.iter().filter(|format| matches!(format.writer(), Writer::File(_))) {
        assert_quiet(&["export", profile, "--format", format.name()], 0);
        // The same pipe, by its name.
        assert_quiet(&["export", profile, "--format", format.name(), "-o", "/dev/stdout"], 0);
    }
    let shown: [&[&str]; 22] = [
        &["top", profile],
        &["top", profile, "--json"],
        &["annotate", profile, "main"],
        &["coverage", profile],
        &["bins", profile],
        &["bins", profile, "--json"],
        &["heap", profile],
        &["callers", profile, "main"],
        &["callers", profile, "main", "--json"],
        &["diff", profile, profile],
        &["report", profile, "-o", "-"],
        &["list", "machines"],
        &["list", "formats"],
        &["export"],
        &["export", "--schema"],
        &["test", "--schema"],
        &["doctor"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["help", "export"],
        &["--version"],
    ];
    shown.iter().for_each(|args| assert_quiet(args, 0));
}

#[test]
fn a_run_without_a_reader_has_its_own_status() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("out");
    let (place, good, bad) = (place.to_str().unwrap(), image("riscv64-exit0"), image("riscv64-exit3"));
    for (image, code) in [(good, 0), (bad, 1)] {
        let image = image.to_str().unwrap();
        assert_quiet(&["profile", image, "-o", place], code);
        assert_quiet(&["profile", image, "-o", place, "--json"], code);
        assert_quiet(&["profile", image, "-o", place, "--quiet"], code);
    }
}
