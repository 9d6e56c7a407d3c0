// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs that harness writes and reads itself: the plugin's records, saved profiles, and the reports of a suite,
//! made once by running firmware.

use std::fs;
use std::path::Path;
use std::process::Command;

use clap::Parser as _;
use harness::cli::Cli;
use harness::measure::{Silent, measure};
use harness::run::request::options::Options;
use harness::run::store::directory::Output;

use super::session::Seed;
use crate::common::{image, is_listed};

/// Short runs that together contain every kind of record.
const RUNS: [(&str, &[&str]); 7] = [
    ("avr/uno-timer", &["--for", "60k", "--period", "503", "--exact"]),
    ("cortex-m0-storm-pg", &["--for", "30k", "--period", "101"]),
    ("cortex-m3-cpp", &["--for", "60k", "--period", "503", "--exact"]),
    ("cortex-m3-rust-embassy-Oz", &["--for", "60k", "--period", "503", "--exact"]),
    ("cortex-m3-system", &["--for", "60k", "--period", "503"]),
    ("riscv64-smp", &["--for", "60k", "--period", "503"]),
    ("riscv64-tasks-ends", &["--for", "200k", "--period", "997", "--exact"]),
];

/// Makes profiles and records below a directory.
pub(crate) fn runs(dir: &Path) {
    for (name, args) in RUNS.into_iter().filter(|(name, _)| is_listed(name)) {
        let elf = image(name);
        let words = ["harness", elf.to_str().unwrap()].into_iter().chain(args.iter().copied());
        let cli = Cli::try_parse_from(words).unwrap();
        let options = Options::resolve(cli.profile.unwrap()).unwrap();
        let name = name.replace('/', "-");
        let output = Output::prepare(dir.join(format!("{name}.profile"))).unwrap();
        let measured = measure(&options, None, &output, &mut Silent).unwrap();
        fs::write(dir.join(format!("{name}.fwp")), measured.profile.to_bytes().unwrap()).unwrap();
        let records = dir.join("records").join(&name);
        fs::create_dir_all(&records).unwrap();
        for entry in fs::read_dir(output.run_directory().join("records")).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, records.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// Makes the reports of a suite below a directory, with passing and failing images.
pub(crate) fn reports(dir: &Path) {
    let (bare, fault) = (image("cortex-m3-bare"), image("cortex-m3-exit3"));
    let report = dir.join("report");
    // The second image fails, and so does the first by its assertion, once it has a baseline.
    for (options, asserted) in [(["--save-baseline", "main"], 1), (["--baseline", "main"], 7)] {
        let suite = format!(
            "[[image]]\nelf = {bare:?}\nmax-insns = '400M'\nassert = ['calls(\"main\") == {asserted}']\n\
             [[image]]\nelf = {fault:?}\nmax-insns = '1M'\nconsole = ['never']\n"
        );
        fs::write(dir.join("suite.toml"), suite).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
        command.arg("test").arg(dir.join("suite.toml")).arg("--no-cache").arg("-o").arg(&report).args(options);
        let output = command.output().unwrap();
        assert!(report.join("report.json").is_file(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Files below a directory whose names have this ending, by name.
pub(crate) fn files(dir: &Path, end: &str) -> Vec<Seed> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut seeds: Vec<Seed> = paths
        .filter(|path| path.is_file() && path.to_string_lossy().ends_with(end))
        .map(|path| Seed { name: path.display().to_string(), bytes: fs::read(&path).unwrap() })
        .collect();
    seeds.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(!seeds.is_empty(), "no *{end} in {}", dir.display());
    seeds
}
