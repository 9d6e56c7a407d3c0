// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the sampled stacks of any firmware with its call tree: `ci/check-stacks [OPTION…] ELF…`.
//!
//! Options are those of `harness`, each in one word (`--for=20M`), and hold for every ELF. `--pairs=N` is the number
//! of differing stacks shown for each.

use std::env;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use harness::analysis::stack_vs_tree::{Differences, Pair};
use harness::profile::Profile;
use harness::run::contain::launcher;

mod shared;

/// Distance of samples unless `--period` says otherwise.
const PERIOD: &str = "--period=997";

/// Differing stacks of each image that are shown unless `--pairs` says otherwise.
const PAIRS: usize = 5;

fn main() -> Result<ExitCode> {
    if let Some(failure) = launcher::serve() {
        return Ok(failure);
    }
    let (options, elfs): (Vec<String>, Vec<String>) = env::args().skip(1).partition(|word| word.starts_with('-'));
    if elfs.is_empty() {
        bail!("usage: ci/check-stacks [--pairs=N] [OPTION of harness, in one word]… ELF…");
    }
    let (pairs, options): (Vec<_>, Vec<_>) = options.into_iter().partition(|word| word.starts_with("--pairs="));
    let pairs = pairs.last().map(|word| word["--pairs=".len()..].parse()).transpose().context("--pairs=N")?;
    let mut is_good = true;
    for elf in elfs {
        match shared::profile(&elf, &[PERIOD], &options) {
            Ok(profile) => is_good &= show(&elf, &profile, pairs.unwrap_or(PAIRS)),
            Err(error) => {
                println!("{elf}: {error:#}");
                is_good = false;
            }
        }
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints one image's line and its most frequent differences. False: some stacks are wrong.
fn show(elf: &str, profile: &Profile, most: usize) -> bool {
    let samples = profile.samples.len() as u64;
    let differences = Differences::of(profile);
    let share = |count: u64| 100.0 * count as f64 / samples.max(1) as f64;
    let (wrong, cut) = (differences.wrong(), differences.cut());
    let complete = samples - wrong - cut;
    println!(
        "{elf}: {samples} samples, {wrong} wrong ({:.3} %), {cut} cut ({:.3} %), {complete} complete ({:.3} %)",
        share(wrong),
        share(cut),
        share(complete)
    );
    let mut pairs: Vec<(&Pair, &u64)> = differences.pairs.iter().collect();
    pairs.sort_by_key(|&(pair, count)| (!pair.how.is_wrong(), std::cmp::Reverse(*count)));
    for (Pair { how, unwound, followed, pc }, count) in pairs.into_iter().take(most) {
        println!("  {count} {how} at {pc:#x}\n    sampled  {unwound}\n    followed {followed}");
    }
    wrong == 0
}
