// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts for the gate that people and harness write: suites, baselines, reports.

use std::fs;
use std::path::Path;

use harness::analysis::compare::compare;
use harness::gate::baseline::Baseline;
use harness::gate::budget;
use harness::gate::result::{Missing, SuiteResult};
use harness::gate::suite::Suite;
use harness::gate::{junit, lines, markdown};
use harness::image::linker_map::LinkerMap;
use harness::image::linker_memory;
use harness::show::diff;
use harness::show::table_size::TableSize;

use super::random::Random;
use super::session::Seed;
use super::{made, mutate};
use crate::common::images_dir;

/// Suite with every key.
const KEYS: &str = r#"
name = "fleet"
baseline = "main"
baselines = "baselines"
[budget]
flash = "256k"
ram = "95%"
stack_bound = { net = "2k", "@all" = "90%" }
[stack]
bounds = { "parse" = 12 }
calls = { "dispatch" = ["on_*"] }
priorities = { UART = 3 }
[defaults]
max-insns = "400M"
timeout = 300
tags = ["all"]
[defaults.thresholds]
total = "0.1%"
self = { "draw_*" = "2%", "@all" = ["5%", 100] }
[[image]]
elf = "app.elf"
name = "app"
for = "30M"
exact = true
strict = true
exit = 3
period = 1009
machine = "mps2-an385"
args = ["-v", "a b"]
input = [{ text = "go\n", after = "ready" }, { text = "x", at = "10M" }]
console = ["ok", { regex = 'result [0-9a-f]{8}\n' }, { text = "up", by = "10M" }]
console-not = [{ regex = "(?i)panic" }]
assert = ['self("main") <= 40%', 'calls("f") == 12', 'task("IDLE") > 0%', 'max("isr") < 900', 'coverage("a.c") >= 95%']
thresholds = { inclusive = "0%", stack = { "@all" = ["0%", 2048] }, work = { "draw" = "1%" } }
matrix = { shift = [4, 5], period = [1009, 10007] }
"#;

/// Linker script and map file in one.
const MEMORY: &str = "
MEMORY {
  FLASH (rx) : ORIGIN = 0x08000000, LENGTH = (256K - 2 * 1K) / 2 /* half */
  RAM (xrw) : org = ORIGIN(FLASH) + 0x18000000, len = LENGTH(FLASH)
}
Memory Configuration

Name  Origin  Length  Attributes
FLASH 0x08000000 0x00040000 xr
*default* 0x0 0xffffffffffffffff
";

pub(crate) fn suites(_: &Path) -> Vec<Seed> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harness.toml");
    vec![
        Seed { name: "harness.toml".to_owned(), bytes: fs::read(own).unwrap() },
        Seed { name: "keys".to_owned(), bytes: KEYS.into() },
        Seed { name: "memory.ld".to_owned(), bytes: MEMORY.into() },
    ]
}

pub(crate) fn baselines(_: &Path) -> Vec<Seed> {
    made::files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/baselines/main"), "")
}

pub(crate) fn reports(dir: &Path) -> Vec<Seed> {
    made::files(&dir.join("report"), "report.json")
}

pub(crate) fn mutated(random: &mut Random, seeds: &[Seed], seed: usize) -> Vec<u8> {
    let mut bytes = seeds[seed].bytes.clone();
    let other = &random.pick(seeds).bytes;
    mutate::text(random, &mut bytes, other);
    bytes
}

pub(crate) fn read_suite(_: &Seed, bytes: &[u8], scratch: &Path) -> bool {
    let path = scratch.join("suite.toml");
    fs::write(&path, bytes).unwrap();
    let app = scratch.join("app.elf");
    if !app.exists() {
        fs::copy(images_dir().join("cortex-m3-exit0.elf"), app).unwrap();
    }
    let text = String::from_utf8_lossy(bytes);
    let is_other = linker_memory::parse(&path, &text).is_ok() | budget::File::parse(&path, &text).is_ok();
    let is_other = is_other | LinkerMap::parse(&path, &text).is_ok();
    Suite::load(&path).is_ok() || is_other
}

pub(crate) fn read_baseline(seed: &Seed, bytes: &[u8], _: &Path) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(baseline) = Baseline::from_text(text) else { return false };
    let again = Baseline::from_text(&baseline.to_text()).expect("what was read can be written and read");
    let well_formed = Baseline::from_text(std::str::from_utf8(&seed.bytes).unwrap()).unwrap();
    let mut out = Vec::new();
    for (before, after) in [(&baseline, &well_formed), (&well_formed, &again)] {
        before.mismatches(after);
        let comparison = compare(Some(&before.metrics), &after.metrics);
        drop(diff::write(&comparison, TableSize { top_rows: None, width_columns: Some(40) }, &mut out));
        comparison.explain();
    }
    true
}

pub(crate) fn read_report(seed: &Seed, bytes: &[u8], scratch: &Path) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(result) = SuiteResult::from_json(text) else { return false };
    let mut out = Vec::new();
    drop(junit::write(&result, &|_| scratch.to_owned(), &mut out));
    drop(markdown::write(&result, &|_| scratch.to_owned(), &mut out));
    drop(lines::verdict(&result, result.code(), &mut out));
    drop(lines::annotations(&result, &mut out));
    for case in &result.cases {
        for width_columns in [None, Some(60)] {
            let view = lines::View { name_columns: 20, directory: scratch, command: None, width_columns };
            drop(lines::case(case, view, &mut out));
        }
    }
    SuiteResult::from_json(&result.to_json().unwrap()).expect("what was read can be written and read");
    let well_formed = SuiteResult::from_json(std::str::from_utf8(&seed.bytes).unwrap()).unwrap();
    let parts = || vec![("a".to_owned(), well_formed.clone()), ("b".to_owned(), result.clone())];
    drop(SuiteResult::merge(parts(), Missing::Refuse));
    drop(SuiteResult::merge(parts(), Missing::Fail));
    true
}
