// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the memory map comes from the running machine. Aliases, RAM of another size and machines that no
//! table lists work for stacks, for semihosting's texts, and for the firmware's own counts.

use std::collections::BTreeMap;

use harness::analysis::stacks::unknown;
use harness::profile::End;

use crate::common::{Run, comparison, image, run, run_file};

/// Asserts that every stack is complete, and that the status was read from one.
#[track_caller]
fn assert_complete(run: Run) {
    let run = run.expect_code(0);
    let profile = run.profile();
    assert!(profile.samples.len() > 1000, "{}", run.stdout);
    assert_eq!(unknown(&profile), BTreeMap::new(), "{}{}", run.stdout, run.stderr);
    assert!(matches!(profile.facts.end, End::Exit { status: 0, .. }), "{}", run.stdout);
    assert!(!run.stderr.contains("memory tree"), "{}", run.stderr);
}

#[test]
fn a_stack_at_an_alias_of_ram_is_complete() {
    assert_complete(run("cortex-m3-stacks-mirror", &["--period", "997"]));
}

#[test]
fn a_stack_in_ram_that_was_made_larger_is_complete() {
    assert_complete(run("cortex-m0-stacks-wide", &["--period", "997"]));
    // The usual RAM ends far below this image's stack.
    let usual = run_file(&image("cortex-m0-stacks-wide"), &["--machine", "microbit"]);
    assert!(!matches!(usual.profile().facts.end, End::Exit { status: 0, .. }), "{}", usual.stdout);
}

#[test]
fn a_stack_on_a_machine_that_no_table_knows_is_complete() {
    let run = run_file(&image("cortex-m3-stacks-mirror"), &["--machine", "mps2-an511", "--period", "997"]);
    assert!(run.stderr.contains("mps2-an511 is not in the table of machines"), "{}", run.stderr);
    assert_complete(run);
}

#[test]
fn what_semihosting_is_told_is_read_at_an_alias_of_ram() {
    let status = run("cortex-m3-exit3-mirror", &[]).expect_code(1);
    assert!(matches!(status.profile().facts.end, End::Exit { status: 3, .. }), "{}", status.stdout);
    // A path that cannot be read is denied, since it could name any file; this one is read.
    let file = run("cortex-m3-file-inside-mirror", &[]).expect_code(0);
    assert!(file.console().contains("left to write: 0") && !file.stdout.contains("denied"), "{}", file.stdout);
}

#[test]
fn the_firmwares_own_counts_are_read_at_an_alias_of_ram() {
    let profile = run("cortex-m3-calls-pg-mirror", &["--strict"]).expect_code(0).profile();
    let comparison = comparison(&profile);
    assert!(comparison.differences.is_empty() && comparison.calls > 2, "{comparison:?}");
}
