// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: where the host lacks something that a run needs, the message names the cause and a remedy, and
//! nothing is left.

use std::fs;
use std::path::Path;

use crate::common::{Run, ends_with_us, finish, image, run};

/// Runs a shell script in a mount namespace of its own, with `$harness` and `$image`. The current directory has
/// `here` and `tmp`; the profile is `here/out`.
fn script(text: &str) -> Run {
    let temp = tempfile::tempdir().unwrap();
    for name in ["here", "tmp"] {
        fs::create_dir(temp.path().join(name)).unwrap();
    }
    let mut command = ends_with_us("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-euc", text]).current_dir(temp.path());
    command.env("harness", env!("CARGO_BIN_EXE_harness")).env("image", image("riscv64-exit0"));
    command.env("TMPDIR", temp.path().join("tmp"));
    let output = command.output().expect("unshare runs; it is of util-linux");
    finish(temp, output)
}

const NOEXEC: &str = "mount -t tmpfs -o noexec none here";
const NOEXEC_BOTH: &str = "mount -t tmpfs -o noexec none here; mount -t tmpfs -o noexec none tmp";

#[track_caller]
fn assert_says(run: &Run, parts: &[&str]) {
    for part in parts {
        assert!(run.stderr.contains(part), "{part:?} is not in: {}{}", run.stdout, run.stderr);
    }
}

#[test]
fn where_no_code_can_be_loaded_from_the_plugin_is_among_the_temporary_files() {
    let profile = "cd here; code=0; $harness $image -o out >said || code=$?";
    let left = "ls -A . $TMPDIR; echo code $code; cat out/profile.fwp | sha256sum; sha256sum <out/flamegraph.svg";
    let usual = script(&format!("{profile}; {left}")).expect_code(0);
    let noexec = script(&format!("{NOEXEC}; {profile}; {left}")).expect_code(0);
    assert!(noexec.stdout.contains("code 0"), "{}", noexec.stdout);
    let without_place =
        |text: &str| text.lines().filter(|line| !line.ends_with("tmp:")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(without_place(&noexec.stdout), without_place(&usual.stdout), "the same bytes, and nothing else");
}

#[test]
fn where_no_code_can_be_loaded_at_all_tmpdir_is_the_way_out() {
    let run = script(&format!(
        "{NOEXEC_BOTH}; cd here; code=0; $harness $image -o out || code=$?; ls -A . $TMPDIR >&2; exit $code"
    ));
    let run = run.expect_code(2);
    assert_says(&run, &["out: lies on a file system that is mounted noexec", "set TMPDIR to one elsewhere"]);
    assert!(!run.stderr.contains(".partial-") && !run.stderr.contains(".harness-plugin-"), "{}", run.stderr);
    // The remedy of the message works.
    script(&format!("{NOEXEC_BOTH}; mkdir good; cd here; TMPDIR=../good $harness $image -o out")).expect_code(0);
}

#[test]
fn doctor_tries_what_a_run_here_would_use() {
    let doctor = "cd here; code=0; $harness doctor || code=$?; ls -A . >&2; exit $code";
    script(&format!("{NOEXEC}; {doctor}")).expect_code(0);
    // A warning only: no run uses this place.
    script(&format!("mount -t tmpfs -o noexec none tmp; {doctor}")).expect_code(0);
    let both = script(&format!("{NOEXEC_BOTH}; {doctor}")).expect_code(5);
    assert_eq!(both.stdout.matches("mounted noexec").count(), 4, "{}", both.stdout);
    assert!(both.stdout.contains("set TMPDIR"), "{}", both.stdout);
    assert!(!both.stderr.contains(".harness-doctor"), "{}", both.stderr);
    let unwritable = script(&format!("mount -t tmpfs -o ro none here; {doctor}")).expect_code(0);
    let warning = "warning: a run here cannot write its profile (Read-only file system (os error 30)";
    assert!(unwritable.stdout.contains(warning), "{}", unwritable.stdout);
}

/// Lists the files left in the script's directory.
const LEFT: &str = "ls -A here; exit $code";

#[test]
fn a_limit_on_the_length_of_files_is_named_and_nothing_is_left() {
    let full = run("riscv64-exit0", &[]);
    let bytes = |name: &str| fs::metadata(full.dir.join(name)).unwrap().len();
    let most = bytes("profile.fwp").max(bytes("flamegraph.svg"));
    let (mut refused, mut made) = (0, 0);
    // Limits at which the plugin, its records, or the profile cannot be written.
    for limit in [1, 4096, most / 2, 400_000, 900_000, 1_500_000, 64_000_000] {
        let text =
            format!("cd here; code=0; prlimit --fsize={limit} $harness $image -o out || code=$?; cd ..; {LEFT}");
        let run = script(&text);
        match run.code {
            0 => {
                made += 1;
                assert!(run.stdout.ends_with("\nout\n"), "{limit}: {}", run.stdout);
            }
            code => {
                refused += 1;
                assert!([2, 4, 5].contains(&code), "{limit}: {code}: {}{}", run.stdout, run.stderr);
                assert_says(&run, &["bytes at most (`ulimit -f`): raise the limit"]);
                assert!(!run.stdout.contains(".out.partial-"), "{limit}: left {}", run.stdout);
            }
        }
    }
    assert!(refused >= 4 && made >= 1, "{refused} {made}");
}

#[test]
fn a_limit_on_open_files_is_named_before_anything_is_made() {
    for limit in [6, 16, 63] {
        for words in ["$image -o out", "test suite.toml", "run $image"] {
            let text = format!(
                "cd here; printf '[[image]]\\nelf = \"%s\"\\n' $image >../suite.toml; mv ../suite.toml .; code=0; \
                 prlimit --nofile={limit} $harness {words} || code=$?; rm suite.toml; cd ..; {LEFT}"
            );
            let code = if words.starts_with("run") { 125 } else { 2 };
            let run = script(&text).expect_code(code);
            assert_says(
                &run,
                &[&format!("at most {limit} files may be open (`ulimit -n`), and a run needs "), ": raise the limit"],
            );
            assert_eq!(run.stdout, "", "{limit} {words}");
        }
    }
    // A soft limit is raised up to the hard one.
    script("cd here; prlimit --nofile=16:4096 $harness $image -o out").expect_code(0);
}

#[test]
fn a_host_without_proc_is_said_to_have_none() {
    let without = |words: &str| {
        script(&format!("cd here; mount -t tmpfs none /proc; code=0; $harness {words} || code=$?; cd ..; {LEFT}"))
    };
    let cause = "/proc is not mounted, which harness starts programs by; mount -t proc proc /proc";
    let profile = without("$image -o out").expect_code(5);
    assert_says(&profile, &["cannot be run: ", cause]);
    assert!(
        !profile.stderr.contains("QEMU 9.2") && profile.stdout.is_empty(),
        "{}{}",
        profile.stdout,
        profile.stderr
    );
    let doctor = without("doctor").expect_code(5);
    assert_eq!(doctor.stdout.matches(cause).count(), 4, "{}", doctor.stdout);
    assert!(!doctor.stdout.contains("install"), "{}", doctor.stdout);
    let text = "printf '[[image]]\\nelf = \"%s\"\\n' $image >here/harness.toml";
    let suite =
        script(&format!("{text}; mount -t tmpfs none /proc; cd here; $harness test --no-cache")).expect_code(2);
    assert!(suite.stdout.contains(cause), "{}{}", suite.stdout, suite.stderr);
    assert!(Path::new("/proc/self").exists(), "it was mounted where others see it");
}
