// SPDX-License-Identifier: MIT OR Apache-2.0
//! The firmware stays inside: its requests to the host are denied or reported, and leave nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::profile::End;

use crate::common::built::{cortex_m, riscv, scratch};
use crate::common::{command, emulator, finish, image, run, run_again, run_file};

/// Builds an image with this `reset` for each architecture.
fn images(dir: &Path, source: &str) -> [PathBuf; 2] {
    [
        riscv(64, 0x8000_0000, 0x8000_0000, 0x8010_0000).build_source(dir, "riscv", source),
        cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2001_0000).build_source(dir, "arm", source),
    ]
}

#[test]
fn a_command_for_the_host_is_denied_and_named() {
    for name in ["riscv64-system", "cortex-m3-system"] {
        let temp = tempfile::tempdir().unwrap();
        let output = command(&image(name), &[], temp.path()).current_dir(temp.path()).output().unwrap();
        assert!(!temp.path().join("pwned").exists(), "the command ran");
        let run = finish(temp, output).expect_code(0);
        assert!(run.stdout.contains("denied: SYS_SYSTEM \"touch pwned\" at 0x"), "{}", run.stdout);
        assert!(!run.console().contains("returned 0"), "the firmware was told that it worked: {}", run.console());
    }
}

#[test]
fn a_file_outside_scratch_is_denied_before_it_is_touched() {
    for name in ["riscv64-file-outside", "cortex-m3-file-outside"] {
        let run = run(name, &[]).expect_code(1);
        assert!(matches!(run.profile().facts.end, End::Denied { .. }));
        assert!(run.stdout.contains("denied: SYS_OPEN \"/etc/hostname\" at 0x"), "{}", run.stdout);
        assert!(!run.console().contains("opened"), "{}", run.console());
    }
}

#[test]
fn a_call_is_what_qemu_translates_as_one() {
    for name in ["cortex-m3-escape-hlt", "riscv64-escape-rewrite", "riscv64-escape-virtual"] {
        // Only the plugin denies the call.
        let run = run(name, &["--sandbox", "off"]).expect_code(1);
        assert!(matches!(run.profile().facts.end, End::Denied { .. }));
        assert!(run.stdout.contains("denied: SYS_OPEN \"/etc/passwd\" at 0x"), "{name}: {}", run.stdout);
        assert!(!run.console().contains("opened"), "{name}: {}", run.console());
    }
    let run = run("cortex-m3-escape-hlt", &["--sandbox", "off"]);
    assert!(run.console().contains("1 supervisor call,"), "svc 0xab is none: {}", run.console());
}

#[test]
fn what_qemu_does_not_serve_is_no_call() {
    for (name, words) in [("riscv64-unprivileged", "cause 3"), ("cortex-m3-unprivileged", "faulted")] {
        let run = run(name, &[]).expect_code(0);
        assert!(run.console().contains(words), "{}", run.console());
        assert!(run.profile().notes.is_empty(), "{}", run.stdout);
    }
}

#[test]
fn an_exit_and_a_file_at_virtual_addresses_are_seen() {
    let run = run("riscv64-virtual-exit", &[]).expect_code(1);
    assert!(matches!(run.profile().facts.end, End::Exit { status: 3, .. }), "{}", run.stdout);
    assert!(run.console().contains("left to write: 0"), "{}", run.console());
}

#[test]
fn without_semihosting_nothing_is_served_and_the_exit_neither() {
    let off = ["--semihosting", "off", "--for", "10k"];
    // Its handler makes the same call again, for ever.
    let run = run("riscv64-exit3", &off).expect_code(1);
    assert!(matches!(run.profile().facts.end, End::Faulting { .. }), "{}", run.stdout);
    assert!(run.console().contains("unexpected trap: cause 3"), "{}", run.console());
    let run = crate::common::run("cortex-m3-exit3", &off).expect_code(1);
    assert!(matches!(run.profile().facts.end, End::LockUp { .. }), "{}", run.stdout);
    for name in ["riscv64-system", "cortex-m3-file-outside"] {
        assert!(crate::common::run(name, &off).profile().notes.is_empty());
    }
}

#[test]
fn with_the_console_alone_no_file_is_opened() {
    for name in ["riscv64-file-inside", "cortex-m3-file-inside"] {
        let run = run(name, &["--semihosting", "console"]).expect_code(1);
        assert!(matches!(run.profile().facts.end, End::Denied { .. }));
        let reason = "--semihosting does not serve this file";
        assert!(run.stdout.contains("denied: SYS_OPEN \"out.txt\" at 0x") && run.stdout.contains(reason));
    }
    for (name, code) in [("riscv64-clock", 0), ("riscv64-cmdline", 0), ("cortex-m3-exit3", 1)] {
        let [console, scratch] =
            ["console", "scratch"].map(|served| run(name, &["--semihosting", served]).expect_code(code));
        assert!(console.console() == scratch.console(), "{name}: {}", console.console());
    }
}

#[test]
fn a_call_that_the_emulator_would_abort_at_is_an_end_of_the_firmwares() {
    let dir = scratch();
    let source = "static void __attribute__((noinline)) ask(void) { host(0x14, 0); }
        void reset(void) { host(4, \"asks\\n\"); ask(); host(0x18, STOPPED); for (;;) {} }";
    for image in images(dir.path(), source) {
        for served in ["scratch", "console"] {
            let run = run_file(&image, &["--semihosting", served]).expect_code(1);
            assert!(matches!(run.profile().facts.end, End::UnknownCall { operation: 0x14, .. }), "{}", run.stdout);
            let line = "end: the firmware made a semihosting call that QEMU does not have, 0x14, at 0x";
            assert!(run.stdout.contains(line), "{}", run.stdout);
            assert_eq!(run.console(), "asks\n");
        }
    }
}

#[test]
fn a_name_that_cannot_be_read_is_said_to_be_so() {
    let dir = scratch();
    let close = "void reset(void) { host(1, (void *)0x70000000); host(0x18, STOPPED); for (;;) {} }";
    let long = "static char name[5000];
        void reset(void) {
            for (int i = 0; i < 4999; i++) name[i] = 'a';
            const void *block[3] = { name, 0, (void *)4999 };
            host(1, block); host(0x18, STOPPED); for (;;) {}
        }";
    for (source, reason) in [(close, ": its name cannot be read\n"), (long, ": its name cannot be read to its end\n")]
    {
        for image in images(dir.path(), source) {
            let run = run_file(&image, &[]).expect_code(1);
            assert!(matches!(run.profile().facts.end, End::Denied { .. }));
            assert!(run.stdout.contains("denied: SYS_OPEN") && run.stdout.contains(reason), "{}", run.stdout);
        }
    }
}

#[test]
fn a_long_detour_leads_nowhere_either() {
    for name in ["riscv64-file-detour", "cortex-m3-file-detour"] {
        let run = run(name, &[]).expect_code(1);
        assert!(matches!(run.profile().facts.end, End::Denied { .. }));
        assert!(run.stdout.contains("denied: SYS_OPEN \"./././"), "{}", run.stdout);
        assert!(!run.console().contains("opened"), "{}", run.console());
    }
}

#[test]
fn a_file_inside_scratch_works_and_is_gone_afterwards() {
    for name in ["riscv64-file-inside", "cortex-m3-file-inside"] {
        let temp = tempfile::tempdir().unwrap();
        let output = command(&image(name), &[], temp.path()).current_dir(temp.path()).output().unwrap();
        let left: Vec<_> = fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["out"]);
        let run = finish(temp, output).expect_code(0);
        assert!(run.console().contains("left to write: 0"), "{}", run.console());
        assert!(!run.stdout.contains("denied"), "{}", run.stdout);
    }
}

/// QEMU's function that reads the host's clocks for semihosting; the plugin has to find it.
const CLOCKS: &str = "do_common_semihosting";

#[test]
fn semihostings_clocks_are_the_machines() {
    for name in ["riscv64-clock", "cortex-m3-clock"] {
        let once = || run_again(name, &["--period", "101"]).expect_code(0);
        let (first, second) = (once(), once());
        assert!(!first.stdout.contains("depends on the host"), "{CLOCKS} was not found: {}", first.stdout);
        assert!(first.files() == second.files(), "{name}: files differ");
        // A hundredth of a second at 8 or 32 ns per instruction: the clock has moved once, by the executed
        // instructions.
        let insns = first.profile().total_insns();
        let tick = 10_000_000 >> first.profile().facts.icount_shift;
        assert!((tick..tick + tick / 4).contains(&insns), "{name}: {insns} instructions, a tick is {tick}");
    }
}

#[test]
fn the_hosts_clock_marks_the_run() {
    // A QEMU without the symbol of that function: its name is overwritten.
    let temp = tempfile::tempdir().unwrap();
    for (name, qemu) in [("riscv64-clock", "qemu-system-riscv64"), ("cortex-m3-clock", "qemu-system-arm")] {
        let mut bytes = fs::read(emulator(qemu)).unwrap();
        let at = bytes.windows(CLOCKS.len()).position(|window| window == CLOCKS.as_bytes());
        bytes[at.expect("it is shown")] = b'x';
        let (patched, program) = (temp.path().join("patched"), temp.path().join(qemu));
        fs::write(&patched, bytes).unwrap();
        // Install it by another process, see `common::program`.
        let install = Command::new("install").arg("-m755").args([&patched, &program]).status().unwrap();
        assert!(install.success());
        let out = tempfile::tempdir().unwrap();
        let output = command(&image(name), &[], out.path()).env("PATH", temp.path()).output().unwrap();
        let run = finish(out, output).expect_code(0);
        for operation in ["SYS_CLOCK", "SYS_TIME", "SYS_ELAPSED"] {
            let line = format!("depends on the host: {operation} at 0x");
            assert!(run.stdout.contains(&line), "{}", run.stdout);
        }
        assert_eq!(run.profile().notes.len(), 3);
    }
}
