// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: without a usable QEMU there is exit code 5, a remedy, and the original message of the program that
//! failed; and no process is left behind, however the emulator behaves.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Run, command, emulator, finish, harness, image, program, run, run_again, timed_out};

const ANSWERS: &str = r#"if [ "$1" = --version ]; then echo "QEMU emulator version 99.1.0"; exit; fi"#;

/// A directory to be the PATH, with scripts in place of emulators.
struct Programs(TempDir);

impl Programs {
    fn none() -> Programs {
        Programs(tempfile::tempdir().unwrap())
    }

    fn with(script: &str) -> Programs {
        let programs = Programs::none();
        for name in ["qemu-system-arm", "qemu-system-riscv64", "qemu-system-riscv32"] {
            program(&programs.0.path().join(name), script);
        }
        programs
    }

    /// Profiles an image with these emulators.
    #[track_caller]
    fn profile(&self, args: &[&str]) -> Run {
        let temp = tempfile::tempdir().unwrap();
        let output =
            command(&image("cortex-m3-exit0"), args, temp.path()).env("PATH", self.0.path()).output().unwrap();
        assert_no_process_in(temp.path());
        finish(temp, output)
    }

    /// Message of a run that is refused with exit code 5; asserts that it contains the texts and leaves no file.
    #[track_caller]
    fn refused(&self, args: &[&str], needles: &[&str]) -> String {
        let run = self.profile(args).expect_code(5);
        assert_eq!(run.stdout, "");
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        for needle in needles {
            assert!(run.stderr.contains(needle), "{needle:?} is not in: {}", run.stderr);
        }
        let left = fs::read_dir(run.dir.parent().unwrap()).unwrap().count();
        assert_eq!(left, 0, "left behind: {}", run.stderr);
        run.stderr
    }

    #[track_caller]
    fn doctor(&self, code: i32) -> String {
        doctor(self.0.path(), code)
    }
}

#[track_caller]
fn doctor(path: &Path, code: i32) -> String {
    let output = harness().arg("doctor").env("PATH", path).output().unwrap();
    let run = finish(tempfile::tempdir().unwrap(), output).expect_code(code);
    assert_eq!(run.stderr, "");
    run.stdout
}

/// Asserts that no process works below a directory. An emulator works below the profile's directory, so it can be
/// told from those of other tests. A killed process may need a moment to be gone.
#[track_caller]
fn assert_no_process_in(dir: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let left = processes_in(dir);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "processes left behind: {left:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn processes_in(dir: &Path) -> Vec<String> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|process| {
            let process = process.ok()?.path();
            let inside = fs::read_link(process.join("cwd")).ok()?.starts_with(dir);
            inside.then(|| fs::read_to_string(process.join("cmdline")).unwrap_or_default().replace('\0', " "))
        })
        // A killed process that is not yet gone has no memory any more, and so no command line.
        .filter(|command_line| !command_line.is_empty())
        .collect()
}

/// Everything that says how to get one, wherever harness is.
const REMEDY: [&str; 2] = ["QEMU 9.2 or newer is needed", "install"];

#[test]
fn a_missing_emulator_gets_the_command_that_installs_it() {
    Programs::none().refused(&[], &[&["qemu-system-arm is not installed", "PATH"], &REMEDY[..]].concat());
    let lines = Programs::none().doctor(5);
    assert_eq!(lines.matches("missing  qemu-system-").count(), 3, "{lines}");
    let absent = "absent   qemu-system-avr (needed for AVR alone): qemu-system-avr is not installed (not found on the PATH)\n         \
                  Debian has it in qemu-system-misc";
    assert!(lines.contains(absent), "{lines}");
    assert!(REMEDY.iter().all(|part| lines.contains(part)), "{lines}");
}

#[test]
fn the_emulator_of_few_is_no_failure_and_is_named_with_its_package() {
    let programs = Programs::none();
    for name in ["qemu-system-arm", "qemu-system-riscv64", "qemu-system-riscv32"] {
        program(&programs.0.path().join(name), &format!("exec {} \"$@\"", emulator(name).display()));
    }
    let named = |output: std::process::Output| {
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &found["works"]), (Some(0), &Value::Bool(true)), "{found}");
        assert_eq!(found["emulators"].as_array().map(Vec::len), Some(3), "{found}");
        found["absent"][0]["remedy"].as_str().unwrap().to_owned()
    };
    let doctor = || {
        let mut command = harness();
        command.args(["doctor", "--json"]);
        command
    };
    let by_path = named(doctor().env("PATH", programs.0.path()).output().unwrap());
    let by_folder = named(doctor().env("HARNESS_QEMU", programs.0.path()).output().unwrap());
    for remedy in [by_path, by_folder] {
        assert!(remedy.contains("qemu-system-misc"), "{remedy}");
    }
}

/// Output of `harness doctor` without any emulator, of a program in a folder with these files.
fn doctor_beside(files: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let installed = folder.path().join("target/debug/harness");
    fs::create_dir_all(installed.parent().unwrap()).unwrap();
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_harness")).arg(&installed).status().unwrap().success());
    let nothing = Programs::none();
    let output = Command::new(&installed).arg("doctor").env("PATH", nothing.0.path()).output().unwrap();
    let run = finish(tempfile::tempdir().unwrap(), output).expect_code(5);
    assert!(REMEDY.iter().all(|part| run.stdout.contains(part)), "{}", run.stdout);
    run.stdout
}

#[test]
fn ci_setup_is_a_remedy_in_a_clone_and_nowhere_else() {
    let clone = doctor_beside(&["ci/setup", "harness/Cargo.toml"]);
    assert!(clone.contains("run ci/setup, or: "), "{clone}");
    for others in [&[][..], &["ci/setup"]] {
        let outside = doctor_beside(others);
        assert!(!outside.contains("ci/setup"), "{others:?}: {outside}");
    }
}

#[test]
fn an_old_emulator_gets_the_command_that_installs_a_newer_one() {
    for version in ["7.2.18", "9.1.3", "9.1.90 (v9.2.0-rc0)"] {
        let old = Programs::with(&format!("echo 'QEMU emulator version {version}'"));
        let number = version.split(' ').next().unwrap();
        old.refused(&[], &[&["too old", "qemu-system-arm", number], &REMEDY[..]].concat());
        let lines = old.doctor(5);
        assert_eq!(lines.matches(&format!("QEMU {number}, which is too old")).count(), 3, "{lines}");
        assert!(REMEDY.iter().all(|part| lines.contains(part)), "{lines}");
    }
}

#[test]
fn doctor_prints_no_directory_raw_and_says_the_same_to_a_reader_that_has_gone() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("\x1b[2J\nmissing\u{202e}");
    fs::create_dir(&dir).unwrap();
    for name in ["qemu-system-arm", "qemu-system-riscv64", "qemu-system-riscv32"] {
        program(&dir.join(name), &format!("exec /usr/bin/{name} \"$@\""));
    }
    let lines = doctor(&dir, 0);
    // The three, the verdict, and two lines about the emulator of AVR, which is not there.
    assert_eq!(lines.lines().count(), 6, "{lines:?}");
    assert!(!lines.contains(['\x1b', '\u{202e}']) && lines.contains("[2J"), "{lines:?}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = harness();
    let status = command.arg("doctor").env("PATH", temp.path()).stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(5));
}

#[test]
fn an_old_emulator_that_runs_is_told_by_its_greeting() {
    let greeting = r#"{"QMP": {"version": {"qemu": {"micro": 3, "minor": 1, "major": 9}}, "capabilities": []}}"#;
    // It fails to answer `--version`: only its greeting has the version.
    let old = Programs::with(&format!("[ \"$1\" = --version ] && exit; echo '{greeting}' >&3; exec /bin/sleep 600"));
    old.refused(&[], &[&["too old", "qemu-system-arm", "9.1.3"], &REMEDY[..]].concat());
}

#[test]
fn what_is_no_message_does_not_hide_the_greeting() {
    let greeting = r#"{"QMP": {"version": {"qemu": {"micro": 3, "minor": 1, "major": 9}}, "capabilities": []}}"#;
    // A byte that is not text, a line that is not JSON, and a line that is longer than any message.
    let noise = "printf '\\377\\n{\\n' >&3; /usr/bin/head -c 9000000 /dev/zero >&3; echo >&3";
    let script = format!("[ \"$1\" = --version ] && exit; {noise}; echo '{greeting}' >&3; exec /bin/sleep 600");
    Programs::with(&script).refused(&[], &["too old", "9.1.3"]);
}

#[test]
fn what_an_emulator_says_may_be_no_text() {
    let dies = Programs::with(&format!("{ANSWERS}; printf 'no \\377 text\\n' >&2; exit 4"));
    dies.refused(&[], &["exit status: 4", "it said:\nno \u{fffd} text"]);
    // The message is found on either output stream.
    let dies = Programs::with(&format!("{ANSWERS}; echo 'no such luck'; exit 4"));
    dies.refused(&[], &["exit status: 4", "it said:\nno such luck"]);
}

#[test]
fn an_emulator_that_says_no_version_is_quoted() {
    Programs::with("echo; echo garbage").refused(&[], &["--version", "it said: garbage", REMEDY[0]]);
    Programs::with("exit 3").refused(&[], &["exit status: 3", "it said: nothing", REMEDY[0]]);
    let broken = Programs::with("echo 'cannot open libpixman-1.so.0' >&2; exit 127");
    broken.refused(&[], &["exit status: 127", "cannot open libpixman-1.so.0", REMEDY[0]]);
    assert!(broken.doctor(5).contains("cannot open libpixman-1.so.0"));
}

#[test]
fn an_emulator_that_hangs_is_given_up() {
    let hangs = Programs::with("exec /bin/sleep 600");
    hangs.refused(&[], &["--version", "not ended after 10 seconds", REMEDY[0]]);
}

#[test]
fn an_emulator_that_may_not_be_executed_is_named() {
    let programs = Programs::with("exit");
    let file = programs.0.path().join("qemu-system-arm");
    fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    programs.refused(&[], &["qemu-system-arm cannot be run: Permission denied", REMEDY[0]]);
}

#[test]
fn an_emulator_that_dies_at_once_is_quoted() {
    let dies = Programs::with(&format!("{ANSWERS}; echo 'no such luck' >&2; exit 4"));
    dies.refused(&[], &["ended before it ran the firmware", "exit status: 4", "it said:\nno such luck"]);
    let crashes = Programs::with(&format!("{ANSWERS}; kill -SEGV $$"));
    crashes.refused(&[], &["SIGSEGV", "it said nothing"]);
    let lines = dies.doctor(5);
    assert_eq!(lines.matches("unfit    qemu-system-").count(), 3, "{lines}");
    assert!(lines.contains("qemu-system-arm 99.1.0 (Cortex-M): ") && lines.contains("no such luck"), "{lines}");
}

/// Script that refuses a plugin as QEMU does, for its API version.
fn refuses(least: i32) -> String {
    format!(
        "echo 'qemu: Could not load plugin p: plugin requires API version 4, but this QEMU supports only a minimum \
             version of {least}' >&2; exit 1"
    )
}

#[test]
fn an_emulator_that_takes_only_a_newer_plugin_is_asked_for_that_once_more() {
    // A QEMU of the newer API offers an object for its monitor.
    let newer = Programs::with(&format!(
        "{ANSWERS}; case \"$*\" in *'-mon '*) ;; *monitor-qmp,*) echo 'asked again' >&2; exit 4;; esac; {}",
        refuses(7)
    ));
    let said = newer.refused(&[], &["exit status: 4", "it said:\nasked again"]);
    assert!(!said.contains("minimum version"), "{said}");
    // A QEMU that refuses every API version is not asked for ever.
    Programs::with(&format!("{ANSWERS}; {}", refuses(7))).refused(&[], &["exit status: 1", "minimum version of 7"]);
}

#[test]
fn an_emulator_that_is_too_new_is_named_with_what_is_known() {
    let new = Programs::with(&format!("{ANSWERS}; {}", refuses(8)));
    new.refused(&[], &["qemu-system-arm is QEMU 99.1.0, which is too new", "API 8", "9.2 to 11.1", "older QEMU"]);
}

#[test]
fn an_emulator_that_never_starts_the_firmware_ends_with_the_timeout() {
    let sleeps = Programs::with(&format!("{ANSWERS}; exec /bin/sleep 600"));
    sleeps.refused(&["--timeout", "0.5"], &["had not started to run the firmware", "--timeout"]);
}

#[test]
fn an_emulator_behind_a_script_works_and_ends() {
    let wrapped = Programs::with(r#"/usr/bin/$(/usr/bin/basename "$0") "$@""#);
    wrapped.profile(&[]).expect_code(0);
}

#[test]
fn an_emulator_that_is_not_needed_may_be_missing() {
    let programs = Programs::none();
    std::os::unix::fs::symlink(emulator("qemu-system-arm"), programs.0.path().join("qemu-system-arm")).unwrap();
    programs.profile(&[]).expect_code(0);
    let lines = programs.doctor(5);
    assert!(lines.starts_with("ok       qemu-system-arm "), "{lines}");
    assert_eq!(lines.matches("\nmissing  qemu-system-riscv").count(), 2, "{lines}");
}

#[test]
fn doctor_finds_everything_where_everything_is_installed() {
    let path = std::env::var_os("PATH").unwrap();
    let lines = doctor(Path::new(&path), 0);
    assert_eq!(lines.matches("ok       qemu-system-").count(), 4, "{lines}");
    assert_eq!(lines.matches(", plugin API ").count(), 4, "{lines}");
    assert!(lines.contains("Everything that harness needs is installed"), "{lines}");
}

#[test]
fn doctor_says_the_same_as_json() {
    let doctor = |programs: &Programs, code: i32| -> Value {
        let output = harness().args(["doctor", "--json"]).env("PATH", programs.0.path()).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(code), 0));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let only = Programs::none();
    std::os::unix::fs::symlink(emulator("qemu-system-arm"), only.0.path().join("qemu-system-arm")).unwrap();
    let found = doctor(&only, 5);
    assert_eq!(found["works"], false);
    let [arm, riscv64] = [0, 1].map(|index| &found["emulators"][index]);
    assert_eq!((&arm["architecture"], &arm["works"]), (&"Cortex-M".into(), &true.into()));
    assert!(arm["plugin_api"].as_i64().is_some_and(|api| api >= 4) && arm["problem"].is_null(), "{arm}");
    assert_eq!((&riscv64["works"], &riscv64["path"]), (&false.into(), &Value::Null));
    assert!(riscv64["problem"].as_str().is_some_and(|what| what.contains("is not installed")), "{riscv64}");
    assert!(riscv64["remedy"].as_str().is_some_and(|what| what.contains(REMEDY[0])), "{riscv64}");
}

#[test]
fn an_emulator_without_plugins_is_named_as_that() {
    let without = Programs::with(&format!("{ANSWERS}; echo \"$0: -plugin: invalid option\" >&2; exit 1"));
    without.refused(&[], &[&["qemu-system-arm was built without plugins"], &REMEDY[..]].concat());
    let lines = without.doctor(5);
    assert_eq!(lines.matches("was built without plugins").count(), 3, "{lines}");
    assert_eq!(lines.matches(REMEDY[0]).count(), 1, "{lines}");
}

#[test]
fn what_the_emulator_says_as_it_fails_is_passed_on() {
    let run = run("riscv64-exit0", &["--qemu-arg=-device", "--qemu-arg=no-such-device"]).expect_code(5);
    assert!(run.stderr.contains("'no-such-device' is not a valid device model name"), "{}", run.stderr);
    assert!(!run.has_profile());
}

#[test]
fn an_emulator_that_waits_for_a_debugger_does_not_sleep_for_ever() {
    let once = |seconds: &str| run_again("riscv64-exit0", &["--qemu-arg=-S", "--timeout", seconds]);
    let run = timed_out(once, |run| !run.stderr.contains("had not started to run")).expect_code(4);
    assert!(run.stdout.contains("--timeout ended the run; nothing was measured"), "{}", run.stdout);
}

/// A QEMU whose monitor receives `instead` in place of `said`. The monitor is then two pipes: sed writes, cat reads.
fn told_otherwise(said: &str, instead: &str) -> Programs {
    let qemu = emulator("qemu-system-arm");
    Programs::with(&format!(
        "for argument; do\n\
           shift\n\
           case $argument in\n\
             socket,id=monitor,*) argument=file,id=monitor,path=/dev/fd/4,input-path=/dev/fd/5;;\n\
           esac\n\
           set -- \"$@\" \"$argument\"\n\
         done\n\
         /bin/sed -u 's/{said}/{instead}/' <&3 | {} \"$@\" 5<&0 4>&1 </dev/null | /bin/cat >&3",
        qemu.display()
    ))
}

#[test]
fn without_a_memory_tree_the_table_is_what_is_known_and_the_run_says_so() {
    for (instead, why) in [("info version", "no view in it is a processor's"), ("info", "no view in it")] {
        let run = told_otherwise("info mtree -f", instead).profile(&[]).expect_code(0);
        let warning = "warning: QEMU's memory tree (info mtree -f) cannot be read";
        assert!(run.stderr.contains(warning) && run.stderr.contains(why), "{}", run.stderr);
        assert!(run.stderr.contains("the table of machines has memory"), "{}", run.stderr);
        assert!(run.profile().total_insns() > 100, "{}", run.stdout);
    }
    let refused = told_otherwise("human-monitor-command", "no-such-command").profile(&[]).expect_code(0);
    assert!(
        refused.stderr.contains("QEMU says: The command no-such-command has not been found"),
        "{}",
        refused.stderr
    );
    // The built-in table of memory is used: the status is read from the stack.
    let run = told_otherwise("info mtree -f", "info version");
    let output = command(&image("cortex-m3-exit3"), &[], run.0.path()).env("PATH", run.0.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("the firmware exited with status 3"), "{text}");
}

#[test]
fn a_machine_that_qemu_does_not_start_is_an_emulators_failure() {
    let needles = ["QEMU does not start the machine; it says: ", "no-such-command"];
    told_otherwise("\"cont\"", "\"no-such-command\"").refused(&[], &needles);
}

#[test]
fn what_an_emulators_script_leaves_behind_ends_with_it() {
    let qemu = emulator("qemu-system-arm");
    let script = format!("/bin/sleep 600 </dev/null >/dev/null & {} \"$@\"", qemu.display());
    Programs::with(&script).profile(&[]).expect_code(0);
}

#[test]
fn an_emulator_that_answers_nothing_ends_with_the_timeout() {
    let greeting = r#"{"QMP": {"version": {"qemu": {"micro": 0, "minor": 0, "major": 10}}, "capabilities": []}}"#;
    let mute = Programs::with(&format!("{ANSWERS}; echo '{greeting}' >&3; exec /bin/sleep 600"));
    mute.refused(&["--timeout", "0.5"], &["had not started to run the firmware", "--timeout"]);
}

/// Library that aborts the emulator within an allocation, with the allocator's lock held, once its CPU has run for a
/// while.
const ABORTS_IN_MALLOC: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

static pthread_mutex_t heap = PTHREAD_MUTEX_INITIALIZER;
static unsigned long allocations;

static void enter(void) {
    pthread_mutex_lock(&heap);
    if (gettid() != getpid() && ++allocations > 20000)
        abort();
}
static void leave(void) { pthread_mutex_unlock(&heap); }

void *malloc(size_t size) { enter(); void *p = __libc_malloc(size); leave(); return p; }
void *calloc(size_t n, size_t size) { enter(); void *p = __libc_calloc(n, size); leave(); return p; }
void *realloc(void *old, size_t size) { enter(); void *p = __libc_realloc(old, size); leave(); return p; }
void free(void *p) { enter(); __libc_free(p); leave(); }
"#;

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn an_emulator_that_aborts_while_it_allocates_ends_and_leaves_its_profile() {
    let temp = tempfile::tempdir().unwrap();
    // The library lies beside the script, where the sandbox lets it be loaded.
    let programs = Programs::none();
    let (source, library) = (temp.path().join("aborts.c"), programs.0.path().join("aborts.so"));
    fs::write(&source, ABORTS_IN_MALLOC).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]).status();
    assert!(built.expect("cc is missing: run ci/setup --tests").success());
    let emulator = emulator("qemu-system-arm");
    let script = format!("LD_PRELOAD={} exec {} \"$@\"", library.display(), emulator.display());
    program(&programs.0.path().join("qemu-system-arm"), &script);
    let path = programs.0.path();
    // On a Cortex-M the plugin's handler reads registers. When it allocated for that, it waited for the lock that its
    // own thread held, and the run ended as one whose CPU stands still.
    let args = ["--timeout", "100", "--for", "200G"];
    let output = command(&image("cortex-m3-freertos"), &args, temp.path()).env("PATH", path).output().unwrap();
    let run = finish(temp, output).expect_code(5);
    assert!(run.stdout.contains("killed by SIGABRT (signal 6)"), "{}{}", run.stdout, run.stderr);
    assert!(run.profile().total_insns() > 1_000, "{}", run.stdout);
}
