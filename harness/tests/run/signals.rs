// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remains after a signal, for each command that runs firmware and each stage of the run: no emulator, no file beside
//! the profile that the next run does not remove, and a whole profile, the old one or the new one.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::profile::Profile;

use crate::common::{child_of, cpu_ticks, harness, image, in_parallel, is_alive, signal};

/// Command that runs the firmware.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Profile,
    Run,
    Test,
}

/// Stage of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Reads the image or prepares the run.
    Start,
    /// The emulator loads the plugin.
    Loading,
    /// The firmware executes.
    Running,
    /// The emulator has ended; tables and pictures are written.
    Exporting,
}

const WHAT: [What; 3] = [What::Profile, What::Run, What::Test];
const STAGES: [Stage; 4] = [Stage::Start, Stage::Loading, Stage::Running, Stage::Exporting];
const SIGNALS: [&str; 4] = ["INT", "TERM", "HUP", "KILL"];
const DEADLINE: Duration = Duration::from_secs(120);
/// Firmware whose export takes its time, and firmware that does not end, however late the signal comes.
const IMAGES: [&str; 2] = ["cortex-m3-freertos-pg", "cortex-m3-spin"];

/// Waits until `look` returns a value.
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

impl What {
    /// Command with this firmware, length of run and sampling period.
    fn command(self, dir: &Path, [firmware, for_insns, period]: [&str; 3]) -> Command {
        let mut command = harness();
        let firmware = fs::canonicalize(image(firmware)).unwrap();
        let window = ["--for", for_insns, "--period", period, "-o", "out"];
        match self {
            What::Profile => command.arg(firmware).args(window),
            What::Run => command.arg("run").args(window).arg(firmware),
            What::Test => {
                let firmware = firmware.display();
                let suite = format!(
                    "[[image]]\nelf = \"{firmware}\"\nname = \"f\"\nfor = \"{for_insns}\"\nperiod = {period}\n"
                );
                fs::write(dir.join("suite.toml"), suite).unwrap();
                command.args(["test", "suite.toml", "--no-cache", "-o", "out"])
            }
        };
        command.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Directory that contains the profile's.
    fn place(self, dir: &Path) -> PathBuf {
        if self == What::Test { dir.join("out") } else { dir.to_owned() }
    }

    fn profile(self, dir: &Path) -> PathBuf {
        if self == What::Test { dir.join("out/f.profile") } else { dir.join("out") }
    }

    /// Exit status where a limit or a signal has ended the run.
    fn limit(self) -> i32 {
        if self == What::Run { 124 } else { 4 }
    }
}

/// Waits until a run has reached the stage; returns the emulator's process id, if it has started.
fn reach(stage: Stage, child: &mut Child) -> Option<u32> {
    if stage == Stage::Start {
        return None;
    }
    let qemu = wait_for("QEMU did not start", || child_of(child.id()));
    match stage {
        Stage::Start | Stage::Loading => {}
        Stage::Running => wait_for("QEMU does nothing", || (cpu_ticks(qemu) > 30).then_some(())),
        Stage::Exporting => wait_for("QEMU does not end", || (!is_alive(qemu)).then_some(())),
    }
    Some(qemu)
}

/// Directories that runs have not removed.
fn left_by_runs(place: &Path) -> Vec<String> {
    let names = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(".partial-")).collect()
}

/// Ends a run by a signal and asserts that its remains are clean; returns the run's status, and whether there is a
/// new profile.
fn assert_clean(what: What, stage: Stage, name: &str) -> (ExitStatus, bool) {
    let case = format!("{what:?}, SIG{name} at {stage:?}");
    let temp = tempfile::tempdir().unwrap();
    let [exported, endless] = IMAGES;
    let quick = || {
        let status = what.command(temp.path(), [exported, "10k", "997"]).status().unwrap();
        assert!(status.success(), "{case}: {status}");
    };
    quick();
    let profile = what.profile(temp.path());
    let before = fs::read(profile.join("profile.fwp")).unwrap();
    // A long run to be met while it executes, or a short one with many samples to export.
    let run = if stage == Stage::Exporting { [exported, "4M", "20"] } else { [endless, "1000G", "10007"] };
    let mut child = what.command(temp.path(), run).spawn().unwrap();
    let qemu = reach(stage, &mut child);
    signal(child.id(), name);
    let status = wait_for(&format!("{case}: the harness does not end"), || child.try_wait().unwrap());
    if let Some(qemu) = qemu {
        wait_for(&format!("{case}: QEMU {qemu} still runs"), || (!is_alive(qemu)).then_some(()));
    }
    Profile::load(&profile).unwrap_or_else(|error| panic!("{case}: {error:#}"));
    let is_new = fs::read(profile.join("profile.fwp")).unwrap() != before;
    for file in ["flamegraph.svg", "console.log"] {
        assert!(profile.join(file).is_file(), "{case}: {file} is missing");
    }
    // A killed command cannot tidy up: the next run does.
    let place = what.place(temp.path());
    if name == "KILL" {
        quick();
    }
    assert_eq!(left_by_runs(&place), [""; 0], "{case}");
    (status, is_new)
}

#[test]
fn a_signal_at_any_stage_of_any_command_leaves_a_whole_profile_and_nothing_else() {
    let table: Vec<(What, Stage, &str)> = WHAT
        .into_iter()
        .flat_map(|what| STAGES.map(|stage| (what, stage)))
        .flat_map(|(what, stage)| SIGNALS.map(|name| (what, stage, name)))
        .collect();
    assert_eq!(table.len(), 48);
    in_parallel(&table, |&(what, stage, name)| {
        let case = format!("{what:?}, SIG{name} at {stage:?}");
        let (status, is_new) = assert_clean(what, stage, name);
        let is_limit = status.code() == Some(what.limit());
        match (stage, name) {
            (_, "KILL") => {
                assert!(status.signal().is_some() && (!is_new || stage == Stage::Exporting), "{case}: {status}")
            }
            // Before there is anything to tidy up, the signal has its default effect.
            (Stage::Start, _) => assert!((status.signal().is_some() && !is_new) || is_limit, "{case}: {status}"),
            // An emulator that ended before the firmware ran counts as one that failed.
            (Stage::Loading, _) => assert!(is_limit || matches!(status.code(), Some(5 | 125)), "{case}: {status}"),
            (Stage::Running, _) => assert!(is_limit && is_new, "{case}: {status}"),
            // The run may have been about to end.
            (Stage::Exporting, _) => assert!(is_limit || (status.success() && is_new), "{case}: {status}"),
        }
    });
}
