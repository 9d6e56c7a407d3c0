// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promises of `harness init`: the written suite passes `harness test` at once, from any directory; a failing
//! image is left out, with the reason; existing files stay unchanged.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::suite::{Result, finish};
use crate::common::built::scratch;
use crate::common::{self, image};

/// A command in a folder.
fn harness(dir: &Path, args: &[&str]) -> Result {
    let mut command = common::harness();
    command.current_dir(dir).args(args).env("XDG_CACHE_HOME", dir.join("cache"));
    command.env_remove("GITHUB_ACTIONS").env_remove("GITHUB_STEP_SUMMARY");
    finish(command.output().unwrap(), dir.join("harness-report"))
}

/// A folder with these images, each by where it is.
fn project(images: &[(&str, &str)]) -> TempDir {
    let dir = scratch();
    for (path, name) in images {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(image(name), path).unwrap();
    }
    dir
}

fn text(dir: &Path) -> String {
    fs::read_to_string(dir.join("harness.toml")).unwrap()
}

#[test]
fn what_is_written_passes_at_once_and_from_elsewhere_and_notices_a_change() {
    let project = project(&[
        ("my build/it's \"the\" app.elf", "riscv64-exit0"),
        ("my build/debug/uart", "cortex-m3-uart"),
        ("my build/release/uart", "cortex-m3-calls-pg"),
        ("copy of uart.elf", "cortex-m3-uart"),
        ("spin.elf", "riscv64-spin"),
        ("three.elf", "riscv64-exit3"),
        ("crash.elf", "cortex-m3-lockup-busfault"),
    ]);
    let dir = project.path();
    fs::write(dir.join("notes.elf"), "no firmware").unwrap();
    let made = harness(dir, &["init", "--for", "2M"]).expect_code(0);
    assert!(made.stdout.contains("harness.toml: 4 images (2 left out, with the reason)"), "{}", made.stdout);
    assert!(made.stdout.contains("three.elf") && made.stdout.contains("left out: the firmware exited with status 3"));
    let suite = text(dir);
    for part in [
        "elf = \"spin.elf\"\nfor = \"2M\" ",
        "# Left out: the firmware exited with status 3 ",
        "# [[image]]\n# elf = \"three.elf\"\n# exit = 3 ",
        "# exit = \"lock-up\" ",
        // Of two identical files, the one in the upper folder is taken.
        "elf = \"copy of uart.elf\"\n",
        "elf = \"my build/release/uart\"\n",
    ] {
        assert!(suite.contains(part), "{part:?} is not in\n{suite}");
    }
    assert!(!suite.contains("debug/uart") && !suite.contains("notes.elf"), "{suite}");
    let baselines = fs::read_dir(dir.join("baselines/main")).unwrap().count();
    assert_eq!(baselines, 4);

    // The written budgets are judged for one profile, too.
    harness(dir, &["spin.elf", "--for", "1M", "-q", "-o", "spin.profile"]).expect_code(0);
    let judged = harness(dir, &["budget", "spin.elf", "spin.profile"]).expect_code(0);
    assert!(judged.stdout.lines().filter(|line| line.ends_with("yes")).count() == 2, "{}", judged.stdout);

    let here = harness(dir, &["test"]).expect_code(0);
    assert!(here.stdout.contains("4 of 4 passed; "), "{}", here.stdout);
    assert!(!here.stdout.contains("note:") && !here.stdout.contains("warning"), "{}", here.stdout);
    let elsewhere = scratch();
    let path = dir.join("harness.toml").display().to_string();
    let there = harness(elsewhere.path(), &["test", &path, "--no-cache"]).expect_code(0);
    assert_eq!(there.stdout.lines().filter(|line| line.starts_with("PASS")).count(), 4, "{}", there.stdout);

    fs::copy(image("cortex-m3-cpp"), dir.join("my build/release/uart")).unwrap();
    let changed = harness(dir, &["test"]).expect_code(3);
    assert!(changed.stdout.contains("FAIL  uart "), "{}", changed.stdout);
}

/// Places in which Arduino's IDE and PlatformIO leave their builds.
#[test]
fn sketches_are_found_and_make_a_suite() {
    let project = project(&[
        ("build/arduino.avr.uno/sketch.ino.elf", "avr/uno-sketch"),
        (".pio/build/uno/firmware.elf", "avr/uno-timer"),
    ]);
    let dir = project.path();
    let made = harness(dir, &["init"]).expect_code(0);
    assert!(made.stdout.contains("harness.toml: 2 images"), "{}", made.stdout);
    let suite = text(dir);
    for elf in ["build/arduino.avr.uno/sketch.ino.elf", ".pio/build/uno/firmware.elf"] {
        assert!(suite.contains(&format!("elf = \"{elf}\"")), "{suite}");
    }
    let passed = harness(dir, &["test"]).expect_code(0);
    assert!(passed.stdout.contains("2 of 2 passed; "), "{}", passed.stdout);
}

#[test]
fn what_is_there_already_stays_as_it_is() {
    let project = project(&[("a.elf", "riscv64-exit0")]);
    let dir = project.path();
    fs::write(dir.join("harness.toml"), "mine").unwrap();
    let refused = harness(dir, &["init"]).expect_code(2);
    assert!(refused.stderr.contains("harness.toml: exists already"), "{}", refused.stderr);
    assert_eq!((text(dir).as_str(), dir.join("baselines").exists()), ("mine", false));

    fs::remove_file(dir.join("harness.toml")).unwrap();
    fs::create_dir_all(dir.join("baselines/main")).unwrap();
    fs::write(dir.join("baselines/main/a.baseline"), "mine").unwrap();
    let refused = harness(dir, &["init"]).expect_code(2);
    assert!(refused.stderr.contains("baselines/main: exists already"), "{}", refused.stderr);
    assert_eq!(fs::read(dir.join("baselines/main/a.baseline")).unwrap(), b"mine");
    assert!(!dir.join("harness.toml").exists());
}

#[test]
fn where_nothing_is_worth_a_suite_none_is_written() {
    let project = project(&[("three.elf", "riscv64-exit3"), ("sub/reset.elf", "cortex-m3-reset")]);
    let dir = project.path();
    // The cache is the user's, and only lies here for the tests.
    let names = |dir: &Path| {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name != "cache").count()
    };
    let failed = harness(dir, &["init"]).expect_code(1);
    assert!(failed.stderr.contains("nothing was written"), "{}", failed.stderr);
    assert!(failed.stdout.contains("status 3") && failed.stdout.contains("sub/reset.elf"), "{}", failed.stdout);
    assert_eq!(names(dir), 2, "something is left behind");
    let empty = scratch();
    let none = harness(empty.path(), &["init"]).expect_code(2);
    assert!(none.stderr.contains("no ELF file for a Cortex-M, RISC-V or AVR processor in ."), "{}", none.stderr);
    assert_eq!(names(empty.path()), 0);
    harness(empty.path(), &["init", "missing.elf"]).expect_code(2);
    harness(dir, &["init", "--for", "never"]).expect_code(2);
    harness(dir, &["init", "--timeout", "0"]).expect_code(2);
}
