// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: firmware fills no disk. Its output and its files have a bound, at which the run ends at the same
//! instruction each time and keeps its profile; the next run removes the remains of a killed one.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::profile::End;

use crate::common::built::{cortex_m, riscv, scratch};
use crate::common::{Run, command, finish, image, run, run_again, run_file};

/// Semihosting calls and their results.
const CALL: &str = r#"
#ifdef __riscv
static long call(int op, const void *arg) {
    register long a0 __asm__("a0") = op;
    register const void *a1 __asm__("a1") = arg;
    __asm__ volatile(".balign 16\n.option push\n.option norvc\nslli x0,x0,0x1f\nebreak\nsrai x0,x0,7\n"
                     ".option pop" : "+r"(a0) : "r"(a1) : "memory");
    return a0;
}
#define NOWHERE 0x08000000
#else
static long call(int op, const void *arg) {
    register long r0 __asm__("r0") = op;
    register const void *r1 __asm__("r1") = arg;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}
#define NOWHERE 0x50000000
#endif
typedef unsigned long word;
static char block[4096];
static long length(const char *text) { long n = 0; while (text[n]) n++; return n; }
static long open_file(const char *name) { word b[3] = {(word)name, 4, length(name)}; return call(1, b); }
static void close_file(long file) { word b[1] = {file}; call(2, b); }
static void write_file(long file, long bytes) { word b[3] = {file, (word)block, bytes}; call(5, b); }
static void rewind_file(long file) { word b[2] = {file, 0}; call(10, b); }
static void remove_file(const char *name) { word b[2] = {(word)name, length(name)}; call(14, b); }
"#;

/// Runs `reset` with this body twice on each architecture; asserts that both runs give the same bytes within the
/// bound.
#[track_caller]
fn bounded(body: &str, args: &[&str], code: i32, check: impl Fn(&Run)) {
    bounded_by("1M", 1_000_000, body, args, code, check);
}

/// Runs it as [`bounded`] does, with another bound in thousands of bytes.
#[track_caller]
fn limited(bound: &str, body: &str, code: i32, check: impl Fn(&Run)) {
    let thousands: u64 = bound.trim_end_matches('k').parse().unwrap();
    bounded_by(bound, thousands * 1000, body, &[], code, check);
}

#[track_caller]
fn bounded_by(bound: &str, bytes: u64, body: &str, args: &[&str], code: i32, check: impl Fn(&Run)) {
    let dir = scratch();
    let source = format!("{CALL}void reset(void) {{ {body} }}");
    let images = [
        riscv(64, 0x8000_0000, 0x8000_0000, 0x8010_0000).build_source(dir.path(), "riscv", &source),
        cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2001_0000).build_source(dir.path(), "arm", &source),
    ];
    for image in images {
        let args = [&["--max-output", bound], args].concat();
        let runs = [(); 2].map(|()| run_file(&image, &args).expect_code(code));
        assert_eq!(runs[0].files(), runs[1].files());
        let end = runs[0].profile().facts.end;
        let is_bound = matches!(end, End::Output { limit_bytes, .. } if limit_bytes == bytes);
        assert_eq!(is_bound, code == 4, "{end:?}");
        assert!(runs[0].profile().total_insns() > 0);
        check(&runs[0]);
    }
}

#[test]
fn what_is_printed_by_semihosting_never_exceeds_the_bound() {
    for board in ["riscv64", "cortex-m3"] {
        let run =
            run_file(&image(&format!("{board}-tt-endless")), &["--for", "50M", "--max-output", "1M"]).expect_code(4);
        assert!(run.stdout.contains("end: the firmware has printed and written to files as much as --max-output"));
        let printed = run.files().iter().find(|(name, _)| name.ends_with("console.log")).unwrap().1.len();
        assert!((900_000..=1_000_000).contains(&printed), "{printed}");
    }
    bounded("for (;;) host(4, \"a line of text\\n\");", &[], 4, |run| {
        assert!(run.console().len() <= 1_000_015, "{}", run.console().len());
    });
}

#[test]
fn what_a_device_prints_ends_the_run_soon_after_the_bound() {
    let body = "for (;;) *(volatile char *)UART = 'x';";
    let dir = scratch();
    let source = format!("#define UART 0x10000000\nvoid reset(void) {{ {body} }}");
    let image = riscv(64, 0x8000_0000, 0x8000_0000, 0x8010_0000).build_source(dir.path(), "uart", &source);
    let runs = [(); 2].map(|()| run_file(&image, &["--max-output", "1M"]).expect_code(4));
    assert_eq!(runs[0].files(), runs[1].files());
    let printed = runs[0].console().len();
    assert!((1_000_001..1_070_000).contains(&printed), "{printed}");
}

#[test]
fn files_are_bounded_with_the_console_together() {
    bounded("long f = open_file(\"log\"); for (;;) write_file(f, 4096);", &[], 4, |run| {
        assert_eq!(run.console(), "");
    });
    // Half of the bytes to each file.
    let body = "long out = open_file(\":tt\"), f = open_file(\"log\");
        for (int i = 0; i < 150; i++) write_file(out, 4000);
        for (int i = 0; i < 150; i++) write_file(f, 4000);
        host(0x18, STOPPED); for (;;) {}";
    bounded(body, &[], 4, |run| assert_eq!(run.console().len(), 600_000));
    bounded(&body.replace("150", "100"), &[], 0, |run| assert_eq!(run.console().len(), 400_000));
}

#[test]
fn files_without_a_name_and_without_contents_are_bounded() {
    let body = "long f = open_file(\"log\"); remove_file(\"log\"); for (;;) write_file(f, 4096);";
    bounded(body, &[], 4, |_| ());
    let body = "char name[8] = \"aaaaaa\";
        for (;;) {
            close_file(open_file(name));
            for (int i = 0; ++name[i] > 'z'; i = (i + 1) % 6) name[i] = 'a';
        }";
    bounded(body, &[], 4, |_| ());
}

/// Runs an image with these limits of descriptors, the soft and the hard one.
fn run_below([soft, hard]: [&str; 2], name: &str, args: &[&str]) -> Run {
    let temp = tempfile::tempdir().unwrap();
    let harness = command(&image(name), args, temp.path());
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -Sn $1 && ulimit -Hn $2 && shift 2 && exec \"$@\"", "sh", soft, hard]);
    limited.arg(harness.get_program()).args(harness.get_args());
    let output = limited.output().unwrap();
    finish(temp, output)
}

#[test]
fn what_the_firmware_can_open_depends_neither_on_the_host_nor_on_what_was_asked_of_the_run() {
    for board in ["riscv64", "cortex-m3"] {
        let name = format!("{board}-descriptors");
        let whole = run(&name, &[]).expect_code(0);
        let total = whole.profile().total_insns();
        // The first samples come before the first file is opened, or after the last.
        for args in [
            &["--period", "13"][..],
            &["--period", "70001"],
            &["--no-stacks"],
            &["--exact"],
            &["--timeline"],
            &["--branches"],
            &["--slice", "100us"],
            &["--oracle"],
            &["--sandbox", "off"],
        ] {
            let other = run(&name, args).expect_code(0).profile().total_insns();
            assert_eq!(other, total, "{name} {args:?}");
        }
        // What is kept of the counts when the window opens, after the last file.
        let window = run(&name, &["--from", "board_exit"]).expect_code(0).profile();
        assert!(window.total_insns() > 0 && window.total_insns() < 100, "{}", window.total_insns());
        for limits in [["1024", "1024"], ["1024", "4096"], ["4096", "4096"]] {
            for args in [&["--sandbox", "off"][..], &["--sandbox", "off", "--timeline"]] {
                let other = run_below(limits, &name, args).expect_code(0).profile().total_insns();
                assert_eq!(other, total, "{name}: {limits:?} {args:?}");
            }
        }
    }
}

#[test]
fn the_bound_holds_when_the_firmware_has_all_descriptors() {
    for board in ["riscv64", "cortex-m3"] {
        let runs =
            [(); 2].map(|()| run_again(&format!("{board}-descriptors"), &["--max-output", "1M"]).expect_code(4));
        assert_eq!(runs[0].files(), runs[1].files());
        assert!(matches!(runs[0].profile().facts.end, End::Output { limit_bytes: 1_000_000, .. }));
        assert_eq!(runs[0].console(), "descriptors: none left\n");
        // Below the bound, the write succeeds.
        let whole = run_again(&format!("{board}-descriptors"), &[]).expect_code(0);
        assert_eq!(whole.console(), "descriptors: none left\nwritten\n");
    }
    // Console output, and a file that has been removed while open.
    let hold = "long file = -1, next; while ((next = open_file(\"held\")) != -1) file = next;";
    bounded(&format!("{hold} for (;;) host(4, \"a line of text\\n\");"), &[], 4, |run| {
        assert!(run.console().len() <= 1_000_015, "{}", run.console().len());
    });
    bounded(&format!("{hold} remove_file(\"held\"); for (;;) write_file(file, 4096);"), &["--for", "5M"], 4, |_| ());
    let again = "for (;;) { rewind_file(file); write_file(file, 4096); }";
    bounded(&format!("{hold} {again}"), &["--for", "400k"], 0, |_| ());
    bounded(&format!("{hold} remove_file(\"held\"); {again}"), &["--for", "400k"], 0, |_| ());
}

#[test]
fn a_file_that_is_written_again_and_again_is_no_flood() {
    let body = "long f = open_file(\"log\"); for (;;) { rewind_file(f); write_file(f, 4096); }";
    bounded(body, &["--for", "200k"], 0, |_| ());
    // A file that is written and removed over and over does not either.
    let body = "for (;;) { long f = open_file(\"log\"); write_file(f, 4096); close_file(f); remove_file(\"log\"); }";
    bounded(body, &["--for", "200k"], 0, |_| ());
}

#[test]
fn a_text_beyond_the_bound_is_not_printed_though_the_firmware_exits_next() {
    let body = "static char text[40001]; for (int i = 0; i < 40000; i++) *(volatile char *)(text + i) = 'x';
        host(4, text); host(0x18, STOPPED); for (;;) {}";
    bounded(body, &[], 0, |run| assert_eq!(run.console().len(), 40_000));
    limited("20k", body, 4, |run| assert_eq!(run.console(), ""));
}

#[test]
fn a_hole_in_a_file_counts_as_the_firmware_exits() {
    let body = "long f = open_file(\"log\"); word b[2] = {f, 900000}; call(10, b); write_file(f, 1);
        host(0x18, STOPPED); for (;;) {}";
    bounded(body, &[], 0, |_| ());
    limited("800k", body, 4, |_| ());
}

#[test]
fn what_cannot_be_written_does_not_count() {
    // Four invalid writes: no file, a handle that was never opened, an unmapped address, a closed file.
    let body = "write_file(-1, 900000); write_file(77, 900000); long f = open_file(\":tt\");
        word b[3] = {f, NOWHERE, 900000}; call(5, b); close_file(f); write_file(f, 4000);
        host(4, \"ok\\n\"); host(0x18, STOPPED); for (;;) {}";
    limited("3k", body, 0, |run| assert_eq!(run.console(), "ok\n"));
}

#[test]
fn files_that_are_given_do_not_count() {
    let dir = scratch();
    fs::write(dir.path().join("large"), vec![0; 3_000_000]).unwrap();
    let given = format!("large={}", dir.path().join("large").display());
    bounded("host(4, \"ok\\n\"); host(0x18, STOPPED); for (;;) {}", &["--file", &given], 0, |run| {
        assert_eq!(run.console(), "ok\n");
    });
}

#[test]
fn what_a_killed_run_left_goes_with_the_next_one_and_what_a_living_one_has_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let partial = |dir: &Path| {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".out.partial-")).collect::<Vec<_>>()
    };
    let endless = ["--for", "100000G"];
    let mut living = command(&image("riscv64-spin"), &endless, dir.path()).spawn().unwrap();
    while partial(dir.path()).is_empty() {
        std::thread::yield_now();
    }
    let held = partial(dir.path());
    // A second run beside it.
    let quick = || command(&image("riscv64-exit0"), &[], dir.path()).output().unwrap();
    assert!(quick().status.success());
    assert_eq!(partial(dir.path()), held);
    // A killed run cannot clean up.
    living.kill().unwrap();
    living.wait().unwrap();
    assert_eq!(partial(dir.path()), held);
    assert!(quick().status.success());
    assert_eq!(partial(dir.path()), [""; 0]);
}

#[test]
fn tables_that_cannot_be_printed_are_no_bad_input() {
    let dir = tempfile::tempdir().unwrap();
    let mut command: Command = command(&image("riscv64-exit3"), &[], dir.path());
    command.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the tables could not be printed"), "{stderr}");
    assert!(dir.path().join("out/profile.fwp").is_file());
}
