// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the bounds of stacks with what an exact run uses of them, on any firmware: `ci/check-bounds [OPTION…] ELF…`.
//!
//! Options are those of `harness`, each in one word (`--for=20M`), and hold for every ELF.

use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use harness::analysis::stack_bound::{self, Bound, Certainty, Program, Row, Rules};
use harness::image::{Image, LoadOptions};
use harness::run::contain::launcher;
use harness::text::table::write_table;

mod shared;

/// Length of a run unless `--for` says otherwise: firmware that ends on its own mostly does so by then, and where it
/// prints its results, last, is often its deepest place.
const LENGTH: &str = "--for=60M";

fn main() -> Result<ExitCode> {
    if let Some(failure) = launcher::serve() {
        return Ok(failure);
    }
    let (options, elfs): (Vec<String>, Vec<String>) = env::args().skip(1).partition(|word| word.starts_with('-'));
    if elfs.is_empty() {
        bail!("usage: ci/check-bounds [OPTION of harness, in one word]… ELF…");
    }
    let heads = ["Image", "Stack", "Seen", "Most", "Number is", "Times", "Without failures", "Times"];
    let mut lines = vec![heads.map(str::to_owned)];
    let (mut all, mut returning, mut below) = (Vec::new(), Vec::new(), 0);
    for elf in elfs {
        let rows = match rows(&elf, &options) {
            Ok(rows) => rows,
            Err(error) => {
                println!("{elf}: {error:#}");
                continue;
            }
        };
        for row in rows {
            let Some(seen) = row.seen_bytes else { continue };
            let [one, two] = [&row.bound, &row.returning].map(|bound| ratio(bound, seen));
            below += u32::from([one, two].iter().flatten().any(|ratio| *ratio < 1.0));
            all.extend(one);
            returning.extend(two);
            let times = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
            lines.push([
                Path::new(&elf).file_name().unwrap_or_default().to_string_lossy().into_owned(),
                if row.is_task { format!("task {}", row.name) } else { row.name },
                seen.to_string(),
                row.bound.bytes.to_string(),
                row.bound.certainty.word().to_owned(),
                times(one),
                row.returning.bytes.to_string(),
                times(two),
            ]);
        }
    }
    write_table(&lines, &mut std::io::stdout())?;
    println!(
        "{} stacks with a bound, {:.2} times what was seen (median); without failures {}, {:.2} times; {below} below",
        all.len(),
        median(&mut all),
        returning.len(),
        median(&mut returning)
    );
    Ok(if below == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Stacks of an image with their bounds and use.
fn rows(elf: &str, options: &[String]) -> Result<Vec<Row>> {
    let profile = shared::profile(elf, &[LENGTH], options)?;
    let bytes = fs::read(elf)?;
    let image = Image::from_bytes(Path::new(elf), &bytes, &LoadOptions::default(), None)?;
    let profiles = std::slice::from_ref(&profile);
    let program = Program::read(&bytes, &image, profiles, &Rules::default()).context("an unknown processor")?;
    Ok(stack_bound::rows(&program, &image, profiles, &Rules::default()))
}

/// Bound by what was seen; None: there is no bound.
fn ratio(bound: &Bound, seen: u64) -> Option<f64> {
    (bound.certainty != Certainty::Unbounded).then(|| bound.bytes as f64 / seen.max(1) as f64)
}

fn median(ratios: &mut [f64]) -> f64 {
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(0.0)
}
