// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: one image of a suite that takes too long fails alone, wherever it does, and Ctrl-C ends all of them.

use std::fs;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use harness::gate::result::SuiteResult;

use super::suite::{Suite, entry, finish, target};
use crate::common::built::{scratch, slow_to_read};
use crate::common::{child_of, cpu_ticks, is_alive, signal};

fn ends(report: &SuiteResult) -> Vec<(&str, u8, &str)> {
    report.cases.iter().map(|case| (case.name.as_str(), case.exit_code, case.end.as_str())).collect()
}

/// Lists the files that a suite's run has written besides its reports: profiles and their parts.
fn profiles(suite: &Suite) -> Vec<String> {
    let entries = fs::read_dir(suite.path("harness-report")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.contains(".p")).collect();
    names.sort();
    names
}

fn start(suite: &Suite, args: &[&str]) -> Child {
    suite.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn wait_until(what: impl Fn() -> bool) {
    while !what() {
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_image_that_takes_too_long_to_read_is_a_timeout_and_the_others_are_kept() {
    let built = scratch();
    let slow = slow_to_read(built.path());
    let text = [
        target("riscv64-exit0", "name = \"first\""),
        entry(&slow, "name = \"slow\"\ntimeout = 0.5"),
        target("riscv64-exit3", "name = \"last\"\nexit = 3"),
    ];
    let suite = Suite::new(&text.concat());
    for jobs in ["1", "3"] {
        let result = suite.run(&["-j", jobs, "--no-cache"]).expect_code(4);
        let why = "--timeout ended it before the firmware ran; no profile is kept";
        let report = result.report();
        let ends = ends(&report);
        assert!(ends[0].1 == 0 && ends[2].1 == 0, "{ends:?}");
        assert_eq!(ends[1], ("slow", 4, why));
        assert!(result.stdout.contains(&format!("harness.toml:4: error: slow: {why}")), "{}", result.stdout);
        assert_eq!(profiles(&suite), ["first.profile", "last.profile"]);
    }
}

#[test]
fn an_interrupt_ends_what_is_read_and_what_runs() {
    let built = scratch();
    let slow = slow_to_read(built.path());
    let text = [entry(&slow, "name = \"slow\""), target("riscv64-spin", "name = \"spin\"\nfor = \"100G\"")];
    let text = [text.concat(), target("riscv64-exit0", "name = \"never\"")].concat();
    let suite = Suite::new(&text);
    for name in ["INT", "TERM"] {
        let child = start(&suite, &["-j", "2", "--no-cache"]);
        let pid = child.id();
        wait_until(|| child_of(pid).is_some());
        let qemu = child_of(pid).unwrap();
        wait_until(|| cpu_ticks(qemu) > 30);
        signal(pid, name);
        let result = finish(child.wait_with_output().unwrap(), suite.path("harness-report")).expect_code(4);
        assert!(!is_alive(qemu), "SIG{name}");
        let report = result.report();
        let ends = ends(&report);
        assert_eq!(ends[0], ("slow", 4, "interrupted before the firmware ran; no profile is kept"), "SIG{name}");
        assert!(ends[1].1 == 4 && ends[1].2.starts_with("interrupted; the host ended it"), "SIG{name}: {ends:?}");
        assert_eq!(ends[2], ("never", 4, "it was not run: interrupted"), "SIG{name}");
        assert_eq!(profiles(&suite), ["spin.profile"], "SIG{name}");
        fs::remove_dir_all(suite.path("harness-report")).unwrap();
    }
}

#[test]
fn an_interrupt_ends_the_making_of_a_profile() {
    // A sample at every instruction, so that building the profile takes long.
    let suite = Suite::new(&target("riscv64-freertos", "name = \"much\"\nfor = \"3M\"\nperiod = 1"));
    let child = start(&suite, &["--no-cache"]);
    let pid = child.id();
    wait_until(|| child_of(pid).is_some());
    wait_until(|| child_of(pid).is_none());
    sleep(Duration::from_millis(20));
    signal(pid, "INT");
    let result = finish(child.wait_with_output().unwrap(), suite.path("harness-report")).expect_code(4);
    let report = result.report();
    assert_eq!(ends(&report), [("much", 4, "interrupted while the profile was made; no profile is kept")]);
    assert_eq!(profiles(&suite), [""; 0]);
}

#[test]
fn reports_that_cannot_be_written_are_bad_input_before_anything_runs() {
    let suite = Suite::new(&target("riscv64-exit0", ""));
    for name in ["report.json", "junit.xml", "summary.md"] {
        fs::create_dir_all(suite.path("harness-report").join(name)).unwrap();
        let result = suite.run(&[]).expect_code(2);
        assert!(result.stderr.contains(name) && result.stderr.contains("cannot be written"), "{}", result.stderr);
        assert!(profiles(&suite).is_empty(), "it has run");
        fs::remove_dir_all(suite.path("harness-report")).unwrap();
    }
    let mut command = suite.command(&[]);
    command.env("GITHUB_STEP_SUMMARY", suite.path("no/such/file"));
    let result = finish(command.output().unwrap(), suite.path("harness-report")).expect_code(2);
    assert!(result.stderr.contains("GITHUB_STEP_SUMMARY cannot be written"), "{}", result.stderr);
    assert!(profiles(&suite).is_empty(), "it has run");
}

#[test]
fn a_baseline_that_is_a_pipe_is_not_waited_for() {
    let suite = Suite::new(&target("riscv64-exit0", "name = \"only\""));
    fs::create_dir_all(suite.path("baselines/main")).unwrap();
    let pipe = suite.path("baselines/main/only.baseline");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let result = suite.run(&["--baseline", "main"]).expect_code(2);
    assert!(result.stdout.contains("it is not a regular file"), "{}", result.stdout);
}

#[test]
fn an_image_that_stands_still_fails_unless_its_suite_lets_it_wait_there() {
    let text = [
        target("cortex-m3-polling", "name = \"fails\"\nfor = \"3M\""),
        target("cortex-m3-polling", "name = \"waits\"\nfor = \"3M\"\npolls = [\"wait_for_*\"]"),
        target("cortex-m3-polling", "name = \"elsewhere\"\nfor = \"3M\"\npolls = [\"main\"]"),
    ];
    let suite = Suite::new(&text.concat());
    let result = suite.run(&["--no-cache"]).expect_code(1);
    let report = result.report();
    let codes: Vec<u8> = report.cases.iter().map(|case| case.exit_code).collect();
    assert_eq!(codes, [1, 0, 1], "{}", result.stdout);
    let failure = report.cases[0].failures().next().unwrap().message.clone();
    for part in ["polled 0x4000f000", "in wait_for_clock", "--stub wait_for_clock", "polls = [\"wait_for_clock\"]"] {
        assert!(failure.contains(part), "{part}: {failure}");
    }
    assert!(result.files()[2].contains("the firmware stands still"), "{}", result.files()[2]);
}
