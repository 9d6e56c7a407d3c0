// SPDX-License-Identifier: MIT OR Apache-2.0
//! Same ELF, options and QEMU give the same bytes in every file, whatever the host's state.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Promise, Runs, findings};
use crate::common::{self, Run, finish, image, image_args};

/// Runs an image in an environment that differs in every property a run must not depend on.
fn run_elsewhere(name: &str, options: &[&str]) -> Run {
    let temp = tempfile::tempdir().unwrap();
    let strange = temp.path().join("a folder, with commas,, and späces");
    fs::create_dir_all(strange.join("home")).unwrap();
    let elf = image(name);
    let copy = strange.join(elf.file_name().unwrap());
    fs::copy(&elf, &copy).unwrap();
    let output = Command::new("sh")
        .args(["-c", "umask 077; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_harness")])
        .arg(Path::new("..").join(copy.strip_prefix(temp.path()).unwrap()))
        .args(image_args(name))
        .args(options)
        .args(["-o", "../out"])
        .current_dir(&strange)
        .env("HOME", strange.join("home"))
        .env("TZ", "Pacific/Chatham")
        .env("LANG", "tr_TR.UTF-8")
        .env("LC_ALL", "tr_TR.UTF-8")
        .env("QEMU_AUDIO_DRV", "none")
        .env("COLUMNS", "40")
        .output()
        .unwrap();
    finish(temp, output)
}

/// Differences between an image's run and one elsewhere. Sweeping keeps more programs busy than there are processors, so
/// QEMU's threads are delayed anywhere.
pub(super) fn errors(runs: &Runs<'_>) -> Vec<String> {
    let (name, here) = (runs.name, runs.default());
    let there = run_elsewhere(name, runs.length);
    assert_eq!(here.code, there.code, "{name}: {}{}", there.stdout, there.stderr);
    let (here_files, there_files) = (here.files(), there.files());
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&here_files), ["console.log", "flamegraph.svg", "profile.fwp"], "{name}");
    assert_eq!(names(&here_files), names(&there_files), "{name}");
    for ((file, one), (_, two)) in here_files.iter().zip(&there_files) {
        assert!(one == two, "{name}: {file} differs between two runs");
    }
    // All lines but the one with the profile's path.
    let table =
        |run: &Run| run.stdout.lines().filter(|line| !line.starts_with("profile in")).collect::<Vec<_>>().join("\n");
    assert_eq!(table(here), table(&there), "{name}");
    Vec::new()
}

#[test]
fn two_runs_of_every_image_give_identical_bytes() {
    findings().expect(Promise::Reproducible);
}

#[test]
fn memory_that_qemu_frees_as_it_runs_ends_no_turn_of_several_cpus() {
    // QEMU 10.2 and later would end a turn at the host's time (see the plugin's `turns`), so that no two runs would
    // be alike.
    let runs = [(); 3].map(|()| common::run_again("riscv64-smp-remap", &[]).expect_code(0));
    for run in &runs {
        assert!(run.files() == runs[0].files(), "{}\n{}", runs[0].stdout, run.stdout);
        assert!(!run.stderr.contains("warning: with several CPUs"), "{}", run.stderr);
    }
}

#[test]
fn the_profile_records_what_it_depends_on() {
    let profile = common::run("cortex-m3-exit0", &["--period", "101", "--seeded-jitter", "9"]).profile();
    let facts = &profile.facts;
    let elf = fs::read(image("cortex-m3-exit0")).unwrap();
    let sha256 = Command::new("sha256sum").arg(image("cortex-m3-exit0")).output().unwrap().stdout;
    assert!(!elf.is_empty() && String::from_utf8_lossy(&sha256).starts_with(&facts.image_sha256));
    assert_eq!((facts.machine.as_str(), facts.icount_shift), ("mps2-an385", 5));
    assert_eq!((facts.period_insns, facts.jitter_seed), (101, Some(9)));
    let version = Command::new("qemu-system-arm").arg("--version").output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&version).contains(&facts.qemu_version) && !facts.qemu_version.is_empty());
}

#[test]
fn saved_profiles_survive_reading_and_writing() {
    let run = common::run("riscv64-bare", &[]);
    let profile = run.profile();
    let bytes = fs::read(run.dir.join("profile.fwp")).unwrap();
    assert_eq!(profile.to_bytes().unwrap(), bytes);
}
