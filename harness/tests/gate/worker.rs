// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: an image that ends the process that reads it fails alone. The results of the other images, and all
//! reports, stay as they would be without it.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::suite::{Suite, entry, finish, target};
use crate::common::built::{deeply_inlined, scratch};
use crate::common::{child_of, cpu_ticks, is_alive, parent_of};

fn wait_until(what: impl Fn() -> bool) {
    while !what() {
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_image_that_ends_its_process_fails_alone() {
    let text = [
        target("riscv64-exit0", "name = \"first\""),
        target("riscv64-spin", "name = \"spin\"\nfor = \"1000G\""),
        target("riscv64-exit3", "name = \"last\"\nexit = 3"),
    ];
    let suite = Suite::new(&text.concat());
    // The signals that a failed abort, a defect in unsafe code, and exhausted memory end a process by.
    for (by, jobs) in [(Signal::SIGABRT, "1"), (Signal::SIGSEGV, "2"), (Signal::SIGKILL, "1")] {
        let how = by.as_str();
        let mut command = suite.command(&["--no-cache", "-j", jobs]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(|| child_of(child.id()).is_some_and(|qemu| cpu_ticks(qemu) > 30));
        let qemu = child_of(child.id()).unwrap();
        let worker = parent_of(qemu).unwrap();
        while is_alive(worker) {
            // Rust's handler ignores the first SIGSEGV that no memory access caused.
            let _ = kill(Pid::from_raw(worker.cast_signed()), by);
            sleep(Duration::from_millis(50));
        }
        let result = finish(child.wait_with_output().unwrap(), suite.path("harness-report")).expect_code(2);
        wait_until(|| !is_alive(qemu));
        let report = result.report();
        let codes: Vec<_> = report.cases.iter().map(|case| (case.name.as_str(), case.exit_code)).collect();
        assert_eq!(codes, [("first", 0), ("spin", 2), ("last", 0)], "{how}");
        let end = &report.cases[1].end;
        assert!(end.starts_with("harness itself failed on this image: it was ") && end.contains(how), "{end}");
        assert!(result.stdout.contains(&format!("error: spin: {end}")), "{}", result.stdout);
        for file in result.files() {
            assert!(file.contains(how) && file.contains("first") && file.contains("last"), "{how}: {file}");
        }
        let entries = fs::read_dir(suite.path("harness-report")).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let expected = ["first.profile", "junit.xml", "last.profile", "report.json", "summary.md"];
        assert_eq!(names, expected, "{how} has left something");
        fs::remove_dir_all(suite.path("harness-report")).unwrap();
    }
}

#[test]
fn an_image_with_bad_debug_information_fails_none_of_the_others() {
    let dir = scratch();
    let deep = deeply_inlined(dir.path(), 30_000);
    let text = [
        target("riscv64-exit0", "name = \"first\""),
        entry(&deep, "name = \"deep\""),
        target("riscv64-exit3", "name = \"last\"\nexit = 3"),
    ];
    let suite = Suite::new(&text.concat());
    let result = suite.run(&["--no-cache", "-j", "1"]).expect_code(0);
    let report = result.report();
    let messages = report.cases[1].messages.concat();
    assert!(messages.contains("functions are inlined into each other more than 256 deep"), "{messages}");
    assert!(report.cases[0].messages.is_empty() && report.cases[2].messages.is_empty());
}
