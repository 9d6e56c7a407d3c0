//! What a signal leaves behind, by where the run is when it comes: no emulator, no file beside the profile, and a profile
//! that is whole, the old one or the new one.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::profile::Profile;

use crate::common::{child_of, command, image, is_alive, signal};

/// Where the run is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// It reads the image, or prepares.
    Start,
    /// The firmware executes.
    Running,
    /// The emulator has ended; tables and pictures are made.
    Exporting,
}

const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until a look gives something.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(1));
    }
}

/// Waits until a run is there; the emulator's process, where there is one.
fn reach(stage: Stage, child: &mut Child) -> Option<u32> {
    if stage == Stage::Start {
        return None;
    }
    let qemu = wait_for("QEMU did not start", || child_of(child.id()));
    match stage {
        // Its plugin is there, with which it ends when its parent does.
        Stage::Running => sleep(Duration::from_millis(500)),
        _ => wait_for("QEMU does not end", || (!is_alive(qemu)).then_some(())),
    }
    Some(qemu)
}

/// Ends a run by a signal and looks at what is there then; the run's status, and whether there is a new profile.
#[track_caller]
fn assert_clean(stage: Stage, name: &str) -> (ExitStatus, bool) {
    let case = format!("SIG{name} at {stage:?}");
    let temp = tempfile::tempdir().unwrap();
    let firmware = image("cortex-m3-freertos-pg");
    let old = command(&firmware, &["--for", "10k"], temp.path()).output().unwrap();
    assert!(old.status.success(), "{case}: {}", String::from_utf8_lossy(&old.stderr));
    let before = fs::read(temp.path().join("out/profile.fwp")).unwrap();
    // Long where it is to be met while it runs; else with much to show.
    let args: &[&str] =
        if stage == Stage::Exporting { &["--for", "4M", "--period", "20"] } else { &["--for", "1000G"] };
    let mut command = command(&firmware, args, temp.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let qemu = reach(stage, &mut child);
    signal(child.id(), name);
    let status = wait_for(&format!("{case}: the harness does not end"), || child.try_wait().unwrap());
    if let Some(qemu) = qemu {
        wait_for(&format!("{case}: QEMU {qemu} still runs"), || (!is_alive(qemu)).then_some(()));
    }
    let out = temp.path().join("out");
    Profile::load(&out).unwrap_or_else(|error| panic!("{case}: {error:#}"));
    let is_new = fs::read(out.join("profile.fwp")).unwrap() != before;
    for file in ["flamegraph.svg", "console.log"] {
        assert!(out.join(file).is_file(), "{case}: {file} is missing");
    }
    // What is killed cannot tidy up.
    if name != "KILL" {
        assert_eq!(names(temp.path()), ["out"], "{case}");
    }
    (status, is_new)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_signal_at_the_start_leaves_the_old_profile_or_ends_the_run_with_a_new_one() {
    for name in ["INT", "TERM", "KILL"] {
        let (status, is_new) = assert_clean(Stage::Start, name);
        // Before there is anything to tidy up, the signal does what it does to any program.
        assert!(status.signal().is_some() || status.code() == Some(4), "SIG{name}: {status}");
        assert!(!is_new || status.code() == Some(4), "SIG{name}: {status}");
    }
}

#[test]
fn a_signal_while_the_firmware_runs_ends_the_run_with_a_new_profile_but_for_a_kill() {
    for (name, code) in [("INT", Some(4)), ("TERM", Some(4)), ("KILL", None)] {
        let (status, is_new) = assert_clean(Stage::Running, name);
        assert_eq!((status.code(), is_new), (code, code.is_some()), "SIG{name}");
    }
}

#[test]
fn a_signal_while_the_profile_is_written_leaves_the_old_or_the_new_one() {
    for name in ["INT", "TERM", "KILL"] {
        let (status, is_new) = assert_clean(Stage::Exporting, name);
        assert!(is_new || !status.success(), "SIG{name}: {status}");
    }
}
