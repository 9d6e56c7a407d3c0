// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of the examples: the options of `harness`, for each ELF file.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use harness::cli::Cli;
use harness::measure::{Listener, measure};
use harness::profile::Profile;
use harness::run::records::read::Progress;
use harness::run::request::options::Options;
use harness::run::store::directory::Output;

struct Silent;

impl Listener for Silent {
    fn say(&mut self, line: &str) {
        eprintln!("{line}");
    }
    fn choice(&mut self, _: &str) {}
    fn progress(&mut self, _: Progress) {}
}

/// Profiles firmware with `--exact`. An option among `defaults` gives way to the user's own, by its name.
pub(crate) fn profile(elf: &str, defaults: &[&str], options: &[String]) -> Result<Profile> {
    let name = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
    let is_kept = |word: &&&str| !options.iter().any(|option| name(option) == name(word));
    let defaults = defaults.iter().filter(is_kept).map(|word| (*word).to_owned());
    let dir = tempfile::tempdir()?;
    let output: PathBuf = dir.path().join("out");
    let args = ["harness", elf, "--exact"].into_iter().map(str::to_owned).chain(defaults);
    let args = args.chain(options.iter().cloned()).chain([format!("--output={}", output.display())]);
    let args = Cli::try_parse_from(args)?.profile.context("only options of a profile")?;
    let options = Options::resolve(args)?;
    let output = Output::prepare_for(&options)?;
    Ok(measure(&options, None, &output, &mut Silent)?.profile)
}
