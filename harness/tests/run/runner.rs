// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness run`: firmware as an ordinary program, with output, arguments and exit status.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use harness::profile::End;
use tempfile::TempDir;

use crate::common::{self, Run, child_of, finish, image, listed_images, say, signal, timed_out};

/// `harness run`, not yet run; its profile goes to `dir/out`.
fn command(firmware: &Path, options: &[&str], args: &[&str], dir: &Path) -> Command {
    let mut command = common::harness();
    command.arg("run").arg("-o").arg(dir.join("out")).args(options).arg(firmware).args(args);
    command
}

fn run(name: &str, options: &[&str], args: &[&str]) -> Run {
    let temp = tempfile::tempdir().unwrap();
    let output = command(&image(name), options, args, temp.path()).output().unwrap();
    finish(temp, output)
}

/// Starts firmware that never ends, and reads the first line of its output.
fn spinning() -> (Child, impl BufRead, TempDir) {
    let temp = tempfile::tempdir().unwrap();
    // The timeout only bounds the time of a failing test.
    let mut command = command(&image("riscv64-spin"), &["--timeout", "300"], &[], temp.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "spin: working for ever\n");
    (child, stdout, temp)
}

#[test]
fn the_firmwares_status_is_the_exit_status() {
    for (name, status) in [
        ("riscv64-exit0", 0),
        ("cortex-m3-exit0", 0),
        ("riscv64-exit3", 3),
        ("cortex-m3-exit3", 3),
        ("riscv64-finisher-fail", 3),
    ] {
        let run = run(name, &[], &[]).expect_code(status);
        assert!(matches!(run.profile().facts.end, End::Exit { status: seen, .. } if seen == status as u32), "{name}");
    }
}

#[test]
fn ends_without_a_status_are_1() {
    for (name, words) in [
        ("riscv64-reset", "reset itself"),
        ("cortex-m3-lockup-busfault", "locked up"),
        ("cortex-m3-sleep", "sleeps for ever"),
        ("riscv64-file-outside", "forbidden operation"),
    ] {
        let run = run(name, &[], &[]).expect_code(1);
        assert!(run.stderr.contains(words), "{name}: {}", run.stderr);
    }
    let unopened = run("cortex-m3-exit0", &["--from", "Default_Handler"], &[]).expect_code(1);
    assert!(unopened.stderr.contains("--from Default_Handler was not reached"), "{}", unopened.stderr);
}

#[test]
fn limits_are_124_and_windows_that_were_asked_for_0() {
    let limit = run("cortex-m3-spin", &["--max-insns", "100k"], &[]).expect_code(124);
    assert_eq!(limit.profile().facts.end, End::MaxInsns);
    let once = |seconds: &str| run("riscv64-spin", &["--timeout", seconds], &[]);
    let timeout = timed_out(once, Run::has_profile).expect_code(124);
    // The default has no limit on instructions.
    assert_eq!(timeout.profile().facts.window.for_insns, None);
    run("riscv64-spin", &["--for", "100k"], &[]).expect_code(0);
    run("riscv64-bare", &["--until", "main"], &[]).expect_code(0);
}

#[test]
fn failures_of_the_harness_are_125_and_say_what_to_do() {
    let temp = tempfile::tempdir().unwrap();
    let fails = |command: &mut Command, words: &str| {
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(stderr.contains(words), "{words:?} is not in:\n{stderr}");
        assert!(output.stdout.is_empty());
        assert!(!temp.path().join("out").exists());
    };
    let exit0 = image("riscv64-exit0");
    fails(Command::new(env!("CARGO_BIN_EXE_harness")).arg("run"), "<FIRMWARE>");
    fails(&mut command(&exit0, &["--no-such-option"], &[], temp.path()), "--no-such-option");
    fails(&mut command(&exit0, &["--period", "often"], &[], temp.path()), "--period often: not a number");
    fails(&mut command(Path::new("no/such.elf"), &[], &[], temp.path()), "no such file");
    fails(command(&exit0, &[], &[], temp.path()).env("PATH", temp.path()), "not installed");
    // Asking for help is not a failure.
    let help = Command::new(env!("CARGO_BIN_EXE_harness")).args(["run", "--help"]).output().unwrap();
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("runner = \"harness run\""));
}

#[test]
fn a_killed_emulator_is_125_with_what_was_printed_and_measured() {
    let (child, mut stdout, temp) = spinning();
    signal(child_of(child.id()).expect("QEMU runs"), "KILL");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let run = finish(temp, child.wait_with_output().unwrap()).expect_code(125);
    assert!(run.stderr.contains("killed by SIGKILL (signal 9"), "{}", run.stderr);
    assert!(matches!(run.profile().facts.end, End::EmulatorFailed { .. }));
}

#[test]
fn stdout_is_the_console_byte_for_byte() {
    for name in ["riscv64-freertos", "cortex-m3-freertos", "cortex-m0-bare", "riscv64-tiles-pg", "cortex-m3-cpp"] {
        let temp = tempfile::tempdir().unwrap();
        let output = command(&image(name), &[], &[], temp.path()).output().unwrap();
        let console = fs::read(temp.path().join("out/console.log")).unwrap();
        assert!(console.len() > 20 && output.stdout == console, "{name}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(stderr.lines().count(), 1, "{name}: {stderr}");
        let end = "the firmware exited with status 0";
        assert!([name, end, "profile in "].iter().all(|word| stderr.contains(word)), "{name}: {stderr}");
    }
}

#[test]
fn what_the_firmware_prints_arrives_while_it_runs() {
    // The first line has arrived and the firmware still runs, so Ctrl-C ends the run after the line.
    let (child, mut stdout, temp) = spinning();
    signal(child.id(), "INT");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let run = finish(temp, child.wait_with_output().unwrap()).expect_code(124);
    assert_eq!(run.profile().facts.end, End::Interrupted);
    assert_eq!(format!("spin: working for ever\n{rest}"), run.console());
}

#[test]
fn nobody_needs_to_listen() {
    let temp = tempfile::tempdir().unwrap();
    let mut command = command(&image("riscv64-exit3"), &[], &[], temp.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(temp.path().join("out/profile.fwp").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_is_lost_is_a_failure() {
    let temp = tempfile::tempdir().unwrap();
    let mut command = command(&image("riscv64-exit0"), &[], &[], temp.path());
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command.stdout(full).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("No space left on device") && stderr.contains("console.log"), "{stderr}");
}

#[test]
fn all_that_follows_the_firmware_is_the_firmwares() {
    for arch in ["riscv64", "cortex-m3"] {
        for (args, line) in [
            (&[][..], "firmware"),
            // Arguments that are options of harness, and commas, which QEMU parses itself.
            (&["--exact", "-o", "x,y", "--help"], "firmware --exact -o x,y --help"),
            (&["two words", ",", ",,a=b,", "", "ö", "enable=off"], "firmware two words , ,,a=b,  ö enable=off"),
            (&["--", "--for", "1"], "firmware --for 1"),
            (&["--", "--", "a", "--"], "firmware -- a --"),
        ] {
            let run = run(&format!("{arch}-cmdline"), &[], args).expect_code(0);
            assert_eq!(run.stdout, format!("cmdline: {} bytes: [{line}]\n", line.len()), "{arch}");
            let args = args.strip_prefix(&["--"]).unwrap_or(args);
            assert_eq!(run.profile().facts.firmware_args, args, "{arch}: a result depends on them");
        }
    }
    use std::os::unix::ffi::OsStrExt;
    let temp = tempfile::tempdir().unwrap();
    let mut command = command(&image("riscv64-cmdline"), &[], &[], temp.path());
    let output = command.arg(OsStr::from_bytes(b"a\xff")).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("not UTF-8"), "{stderr}");
}

#[test]
fn the_profile_is_that_of_harness_profile() {
    for name in ["riscv64-bare", "cortex-m3-crew"] {
        let profiled = common::run(name, &["--period", "997"]).expect_code(0);
        let same = run(name, &["--period", "997", "--for", "2G"], &[]).expect_code(0);
        let names: Vec<String> = same.files().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["console.log", "flamegraph.svg", "profile.fwp"], "{name}");
        assert!(same.files() == profiled.files(), "{name}: files differ");
        // Measured without a window, it is the same run; only the recorded question differs.
        let mut whole = run(name, &["--period", "997"], &[]).profile();
        assert_eq!(whole.facts.window.for_insns.replace(2_000_000_000), None);
        assert!(whole == profiled.profile(), "{name}: profiles differ");
    }
}

/// Makes a user's crate whose firmware prints its arguments or exits with 3: the configuration of README.md, and the
/// linker arguments that every crate on cortex-m-rt has.
fn cargo_crate() -> TempDir {
    let temp = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = temp.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let root = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    let support = root.join("targets/rust/support");
    let bin = |name: &str| format!("\n[[bin]]\nname = \"{name}\"\nharness = false\n");
    let manifest = format!(
        "[package]\nname = \"demo\"\nedition = \"2024\"\n\n[workspace]\n{}{}\n[dependencies]\ncortex-m = {{ version = \
         \"0.7\", features = [\"critical-section-single-core\"] }}\ncortex-m-rt = \"0.7\"\nsupport = {{ path = {support:?} }}\n",
        bin("cmdline"),
        bin("exit3"),
    );
    write("Cargo.toml", &manifest);
    // The versions that are already downloaded here.
    write("Cargo.lock", &fs::read_to_string(root.join("targets/rust/Cargo.lock")).unwrap());
    let program = |body: &str| {
        format!("#![no_std]\n#![no_main]\nuse cortex_m as _;\n#[cortex_m_rt::entry]\nfn main() -> ! {{\n{body}}}\n")
    };
    write(
        "src/bin/cmdline.rs",
        &program(
            "    let mut buffer = [0; 80];\n    let line = support::command_line(&mut buffer);\n    \
             support::println!(\"cmdline: {} bytes: [{line}]\", line.len());\n    support::exit(0)\n",
        ),
    );
    write(
        "src/bin/exit3.rs",
        &program("    support::println!(\"exit3: leaving with status 3\");\n    support::exit(3)\n"),
    );
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let config = "[target.'cfg(target_os = \"none\")']\n    runner = \"harness run\"\n";
    assert!(readme.contains(config), "README.md does not say {config}");
    let flags = "[target.thumbv7m-none-eabi]\nrustflags = [\"-Clink-arg=-Tlink.x\"]\n";
    write(".cargo/config.toml", &format!("{}\n{flags}", config.replace("    ", "")));
    temp
}

/// Environment that cargo needs to build for a target, from targets/rust/build, which also chooses the cargo; `None`:
/// no Rust for the target.
fn cargo_environment(target: &str) -> Option<Vec<(String, String)>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets/rust/build");
    let output = Command::new(&script).args(["--env", target]).output().unwrap();
    assert!(output.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let pairs = lines.lines().map(|line| line.split_once('=').unwrap());
    let pairs: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    (!pairs.is_empty()).then_some(pairs)
}

/// Runs cargo as a user who has `harness` on the PATH.
fn cargo(args: &[&str], dir: &Path, environment: &[(String, String)]) -> (Option<i32>, String, String) {
    let bin = PathBuf::from(env!("CARGO_BIN_EXE_harness"));
    let paths = env::split_paths(&env::var_os("PATH").unwrap()).collect::<Vec<_>>();
    let path = env::join_paths([bin.parent().unwrap().to_owned()].into_iter().chain(paths)).unwrap();
    let mut command = Command::new(&environment.iter().find(|(name, _)| name == "CARGO").unwrap().1);
    for (name, _) in env::vars_os() {
        // Variables set for the cargo that runs this test are not meant for this one.
        let name = name.to_string_lossy().into_owned();
        if (name.starts_with("CARGO_") && name != "CARGO_HOME") || name.starts_with("RUST") && name != "RUSTUP_HOME" {
            command.env_remove(name);
        }
    }
    let output = command
        .args(args)
        .current_dir(dir)
        .envs(environment.iter().cloned())
        .env("PATH", path)
        // Rust's own library is compiled once, not for each test.
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("runner"))
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn cargo_runs_and_tests_firmware_with_it() {
    let target = "thumbv7m-none-eabi";
    let Some(environment) = cargo_environment(target) else {
        // A machine that must have the Rust images has the compiler, too.
        let image = "cortex-m3-rust-hello-O3.elf";
        assert!(!listed_images().iter().any(|file| file == image), "no Rust for {target}: run ci/setup --viewers");
        say(&format!("not tested: cargo with its runner, for there is no Rust for {target}"));
        return;
    };
    let demo = cargo_crate();
    let dir = demo.path();
    let program = ["--offline", "--target", target, "--bin", "cmdline"];
    let with = |verb: &str, args: &[&str]| [&[verb], &program[..], &["--"], args].concat().join("\n");
    for (verb, args) in [("run", &["--exact", "a b"][..]), ("test", &["--exact", "some_test"])] {
        let line = with(verb, args);
        let (code, stdout, stderr) = cargo(&line.split('\n').collect::<Vec<_>>(), dir, &environment);
        assert_eq!(code, Some(0), "cargo {verb}:\n{stdout}\n{stderr}");
        let given = format!("firmware {}", args.join(" "));
        assert_eq!(stdout, format!("cmdline: {} bytes: [{given}]\n", given.len()), "cargo {verb}:\n{stderr}");
    }
    assert!(dir.join("cmdline.profile/flamegraph.svg").exists());
    let exit3 = ["run", "--offline", "--quiet", "--target", target, "--bin", "exit3"];
    let (code, stdout, stderr) = cargo(&exit3, dir, &environment);
    assert_eq!((code, stdout.as_str()), (Some(3), "exit3: leaving with status 3\n"), "{stderr}");
}
