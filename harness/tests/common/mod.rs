// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs harness like a user, on the images in targets/build. A missing image or emulator is a failure that names the
//! command to run, never a skip.
#![expect(unreachable_pub, reason = "declared in the test program, used in its folders")]

pub mod built;
pub mod containers;
pub mod images;
pub mod made;
pub mod names;
pub mod synthetic;
pub mod tools;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, Once, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::analysis::crosscheck::in_target::Comparison;
use harness::analysis::{crosscheck, functions};
use harness::profile::Profile;
use tempfile::TempDir;

pub use images::*;

/// Result of a run of harness.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    /// The profile directory.
    pub dir: PathBuf,
    _temp: TempDir,
}

impl Run {
    pub fn profile(&self) -> Profile {
        match Profile::load(&self.dir) {
            Ok(profile) => profile,
            Err(error) => panic!("{error:#}\n{}{}", self.stdout, self.stderr),
        }
    }

    pub fn console(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.join("console.log")).unwrap()).into_owned()
    }

    pub fn has_profile(&self) -> bool {
        self.dir.exists()
    }

    /// Names and contents of the files in the profile directory.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(&self.dir)
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    #[track_caller]
    pub fn expect_code(self, code: i32) -> Run {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// Command for harness. The process and all its children end with the calling thread, in whatever way that ends.
pub fn harness() -> Command {
    ends_with_us(env!("CARGO_BIN_EXE_harness"))
}

/// Command for a program that ends with the calling thread. Arguments added to the command go to the program.
pub fn ends_with_us(program: &str) -> Command {
    // nohup and a shell's background ignore signals, and programs inherit that; what is handled here begins with the default.
    static SIGNALS: Once = Once::new();
    SIGNALS.call_once(|| ctrlc::set_handler(|| std::process::exit(130)).unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command.args(["--launch-emulator", &std::process::id().to_string(), "--", program]);
    command
}

/// Command to profile a firmware file, not yet run; its output goes to `dir/out`.
pub fn command(firmware: &Path, args: &[&str], dir: &Path) -> Command {
    let mut command = harness();
    command.arg(firmware).args(args).arg("-o").arg(dir.join("out"));
    command
}

pub fn finish(temp: TempDir, output: Output) -> Run {
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        dir: temp.path().join("out"),
        _temp: temp,
    }
}

/// Profiles a firmware file.
pub fn run_file(firmware: &Path, args: &[&str]) -> Run {
    let temp = tempfile::tempdir().unwrap();
    let output = command(firmware, args, temp.path()).output().unwrap();
    finish(temp, output)
}

/// Profiles an image with its own options and `args`, always anew.
pub fn run_again(name: &str, args: &[&str]) -> Run {
    let args: Vec<&str> = image_args(name).iter().chain(args).copied().collect();
    run_file(&image(name), &args)
}

/// Result of a run as tests share it.
struct Shared {
    code: i32,
    stdout: String,
    stderr: String,
    /// The profile directory that the texts name.
    dir: PathBuf,
    /// None: the run has left no directory.
    files: Option<Vec<(String, Vec<u8>)>>,
}

/// Profiles an image as [`run_again`]. Equal arguments give equal bytes (`tests/sweep/reproducible.rs`), so the first test
/// that asks makes the run, and each gets a copy of its files in a directory of its own.
pub fn run(name: &str, args: &[&str]) -> Run {
    type Cell = &'static OnceLock<Shared>;
    static RUNS: Mutex<BTreeMap<Vec<String>, Cell>> = Mutex::new(BTreeMap::new());
    let key = [name].iter().chain(args).map(|&word| word.to_owned()).collect();
    let cell: Cell = RUNS.lock().expect("no thread panicked").entry(key).or_insert_with(|| Box::leak(Box::default()));
    let shared = cell.get_or_init(|| {
        let run = run_again(name, args);
        let files = run.has_profile().then(|| run.files());
        Shared { code: run.code, stdout: run.stdout, stderr: run.stderr, dir: run.dir, files }
    });
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("out");
    if let Some(files) = &shared.files {
        fs::create_dir(&dir).unwrap();
        for (name, bytes) in files {
            fs::write(dir.join(name), bytes).unwrap();
        }
    }
    let [stdout, stderr] = [&shared.stdout, &shared.stderr]
        .map(|text| text.replace(shared.dir.to_str().expect("a temporary path"), dir.to_str().expect("likewise")));
    Run { code: shared.code, stdout, stderr, dir, _temp: temp }
}

/// Result of a run, without its files.
#[derive(Debug)]
pub struct Measured {
    code: i32,
    pub stdout: String,
    stderr: String,
    console: String,
    profile: Profile,
}

impl Measured {
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    pub fn console(&self) -> &str {
        &self.console
    }

    pub fn stderr(&self) -> &str {
        &self.stderr
    }

    #[track_caller]
    pub fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// Result of [`run`], shared by all tests of this program with the same arguments, since equal arguments give equal
/// bytes (`tests/sweep/reproducible.rs`).
pub fn measured(name: &str, args: &[&str]) -> &'static Measured {
    type Cell = &'static OnceLock<Measured>;
    static RUNS: Mutex<BTreeMap<Vec<String>, Cell>> = Mutex::new(BTreeMap::new());
    let key = [name].iter().chain(args).map(|&word| word.to_owned()).collect();
    let cell: Cell = RUNS.lock().expect("no thread panicked").entry(key).or_insert_with(|| Box::leak(Box::default()));
    cell.get_or_init(|| {
        let run = run(name, args);
        let (console, profile) = (run.console(), run.profile());
        Measured { code: run.code, stdout: run.stdout, stderr: run.stderr, console, profile }
    })
}

/// Result of a run that `--timeout` ends, once it has done enough. Nobody knows how much a busy machine executes in half a
/// second, so a run that has done less is repeated with twice the time.
#[track_caller]
pub fn timed_out(once: impl Fn(&str) -> Run, is_enough: impl Fn(&Run) -> bool) -> Run {
    let mut seconds = 0.5;
    loop {
        let run = once(&format!("{seconds}"));
        if is_enough(&run) {
            return run;
        }
        assert!(seconds < 200.0, "not enough in {seconds} s:\n{}{}", run.stdout, run.stderr);
        seconds *= 2.0;
    }
}

/// Result of an endless firmware's run as [`timed_out`] has it, with at least this many instructions in the window.
#[track_caller]
pub fn timed_out_after(insns: u64, firmware: &Path, args: &[&str]) -> Run {
    let once = |seconds: &str| run_file(firmware, &[args, &["--for", "1000G", "--timeout", seconds]].concat());
    timed_out(once, |run| run.has_profile() && run.profile().total_insns() >= insns).expect_code(4)
}

/// Starts a long run, calls `then` while it executes, and waits for its end. Also returns QEMU's pid.
pub fn run_and(firmware: &Path, args: &[&str], then: impl Fn(&mut Child)) -> (Run, u32) {
    let temp = tempfile::tempdir().unwrap();
    let mut command = command(firmware, args, temp.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let qemu = loop {
        if let Some(qemu) = child_of(child.id())
            && cpu_ticks(qemu) > 20
        {
            break qemu;
        }
        assert!(Instant::now() < deadline, "QEMU did not start");
        sleep(Duration::from_millis(20));
    };
    then(&mut child);
    let output = child.wait_with_output().unwrap();
    (finish(temp, output), qemu)
}

/// Sends a signal, by its name without SIG.
pub fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap().success());
}

/// Pid of the QEMU that a process has started.
pub fn child_of(pid: u32) -> Option<u32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    processes.filter_map(|name| name.parse().ok()).find(|&candidate: &u32| {
        let stat = fs::read_to_string(format!("/proc/{candidate}/stat")).unwrap_or_default();
        let parent = parent_of(candidate);
        // A QEMU that only prints its version or its machines executes no firmware.
        let has_plugin =
            || fs::read(format!("/proc/{candidate}/cmdline")).is_ok_and(|line| has_word(&line, "-plugin"));
        stat.contains("(qemu-system") && has_plugin() && [parent, parent.and_then(parent_of)].contains(&Some(pid))
    })
}

fn has_word(command_line: &[u8], word: &str) -> bool {
    command_line.split(|&byte| byte == 0).any(|one| one == word.as_bytes())
}

/// Parent of a process.
pub fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Whether a process exists and has not ended.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| !matches!(fields.trim_start().chars().next(), Some('Z' | 'X')))
}

/// Host CPU time that a process has used in threads but its first, which prepares the machine. A QEMU that has used some
/// is executing the firmware.
pub fn cpu_ticks(pid: u32) -> u64 {
    let of_thread = |thread: &str| -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(11)?.parse().ok()
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let names = threads.filter_map(|thread| thread.ok()?.file_name().into_string().ok());
    names.filter(|name| *name != pid.to_string()).filter_map(|name| of_thread(&name)).sum()
}

/// Runs a script of ci/viewers, which opens a file with another project's program, and returns its findings. If the
/// script's expectations fail, so does the test, with its message.
#[track_caller]
pub fn viewer(script: &str, args: &[&str]) -> serde_json::Value {
    let viewers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ci/viewers");
    assert!(viewers.join("node_modules").is_dir(), "ci/viewers is not installed: run ci/setup --viewers");
    let output = Command::new("node").arg(viewers.join(script)).args(args).output();
    let output =
        output.unwrap_or_else(|error| panic!("cannot run node ({error}): run ci/setup --viewers, which installs it"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ci/viewers/{script}: {stderr}");
    let seen = serde_json::from_slice(&output.stdout);
    seen.unwrap_or_else(|error| panic!("ci/viewers/{script} printed no JSON ({error}): {stderr}"))
}

/// Path of an installed emulator.
pub fn emulator(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut found = std::env::split_paths(&path).map(|dir| dir.join(name)).filter(|path| path.is_file());
    found.next().unwrap_or_else(|| panic!("{name} is missing: run ci/setup --tests"))
}

/// Writes an executable shell script.
pub fn program(path: &Path, script: &str) {
    // The file is written by another process. If this process had it open for writing, so would a child that a
    // parallel test forks at that moment; a file that is open for writing cannot be executed.
    let write =
        ["-c", r#"printf '#!/bin/sh\n%s\n' "$1" >"$2" && chmod 755 "$2""#, "sh", script, path.to_str().unwrap()];
    assert!(Command::new("sh").args(write).status().unwrap().success());
}

/// Calls `work` for every item on all cores, in any order. One call more than there are cores is under way, since each
/// waits for processes now and then.
pub fn in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(3, |cores| cores.get() + 1);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    work(item);
                }
            });
        }
    });
}

/// Profiles an image and expects exit code 2 and a message with all of these parts.
#[track_caller]
pub fn refused(name: &str, args: &[&str], expected: &[&str]) {
    refused_file(&image(name), args, expected);
}

/// Checks like [`refused`], for a firmware file.
pub fn refused_file(firmware: &Path, args: &[&str], expected: &[&str]) {
    let run = run_file(firmware, args).expect_code(2);
    for part in expected {
        assert!(run.stderr.contains(part), "{part:?} is not in:\n{}", run.stderr);
    }
}

/// Comparison of the firmware's own counts with the exact ones.
pub fn comparison(profile: &Profile) -> Comparison {
    let check = crosscheck::check(profile, &functions::table(profile));
    assert_eq!(check.in_target_unread, None);
    check.in_target.expect("the image has the runtime")
}
