// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: callgrind_annotate shows of an exported profile the numbers that harness itself shows.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use harness::analysis::callgraph::{CallGraph, Party};
use harness::analysis::calltree::CallTree;
use harness::analysis::flow::Branches;
use harness::analysis::functions;
use harness::analysis::stacks::View;
use harness::profile::Profile;

use crate::common::run;

const IMAGES: [&str; 2] = ["riscv64-freertos", "cortex-m3-freertos"];

fn annotate(file: &Path, args: &[&str]) -> String {
    let mut tool = Command::new("callgrind_annotate");
    tool.args(["--threshold=100", "--show-percs=no", "--auto=no"]).args(args).arg(file);
    let output =
        tool.output().expect("callgrind_annotate is missing: run ci/setup --viewers, which installs valgrind");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn export(dir: &Path) -> std::path::PathBuf {
    let file = dir.with_extension("callgrind");
    let mut harness = Command::new(env!("CARGO_BIN_EXE_harness"));
    let status = harness.arg("export").arg(dir).args(["--format", "callgrind", "-o"]).arg(&file).status().unwrap();
    assert!(status.success());
    file
}

/// Function name in `FILE:FUNCTION [IMAGE]`, without the address that tells it from its namesakes. Lines that were
/// inlined from another file have no image.
fn function(shown: &str, image: &str) -> String {
    let shown = shown.trim();
    let name = shown.strip_suffix(&format!(" [{image}]")).unwrap_or(shown);
    let name = name.split_once(':').unwrap_or_else(|| panic!("no file: {shown}")).1;
    name.split_once(" [0x").map_or(name, |(name, _)| name).to_owned()
}

fn number(shown: &str) -> u64 {
    shown.trim().replace(',', "").parse().unwrap_or_else(|_| panic!("no number: {shown}"))
}

/// Counts of one event by function, including its inlined lines in other files; and the total.
fn by_function(text: &str, image: &str) -> (BTreeMap<String, u64>, u64) {
    let mut counts = BTreeMap::new();
    let (head, rows) = text.split_once(" file:function\n").unwrap();
    let total = head.lines().find_map(|line| line.strip_suffix(" PROGRAM TOTALS")).unwrap();
    // Rows begin below the line under the title.
    for row in rows.lines().skip(1).filter(|row| !row.is_empty()) {
        let (count, name) = row.trim_start().split_once(' ').unwrap();
        if count != "." {
            *counts.entry(function(name, image)).or_default() += number(count);
        }
    }
    counts.retain(|_, count| *count > 0);
    (counts, number(total))
}

fn by_row(profile: &Profile, count: fn(&functions::Row) -> u64) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for row in functions::table(profile).rows.iter().filter(|row| count(row) > 0) {
        *counts.entry(row.name.clone()).or_default() += count(row);
    }
    counts
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn callgrind_annotate_shows_the_instructions_samples_and_calls_of_the_table() {
    for image in IMAGES {
        let run = run(image, &["--for", "8M"]).expect_code(0);
        let (profile, file) = (run.profile(), export(&run.dir));
        let elf = &profile.facts.image_name;
        let shown = |event: &str| by_function(&annotate(&file, &[event]), elf);
        assert_eq!(shown("--show=Ir"), (by_row(&profile, |row| row.self_insns), profile.total_insns()), "{image}");
        let samples = profile.samples.len() as u64;
        assert_eq!(shown("--show=Samples"), (by_row(&profile, |row| row.samples), samples), "{image}");
        let (calls, _) = shown("--show=Calls");
        assert_eq!(calls, by_row(&profile, |row| row.calls), "{image}");
    }
}

type Calls = BTreeMap<(String, String), (u64, u64)>;

/// Calls and their costs, as listed below each function.
fn shown_calls(text: &str, image: &str) -> Calls {
    let mut calls = Calls::new();
    let mut caller = String::new();
    for line in text.lines() {
        if let Some((_, name)) = line.split_once(" *  ") {
            caller = function(name, image);
        } else if let Some((insns, callee)) = line.split_once(" >   ") {
            let (callee, rest) = callee.rsplit_once(" (").unwrap();
            let (count, object) = rest.split_once("x)").unwrap();
            let callee = function(&format!("{callee}{object}"), image);
            let sums: &mut (u64, u64) = calls.entry((caller.clone(), callee)).or_default();
            sums.0 += number(count);
            // A cost of 0 is a dot.
            sums.1 += if insns.trim() == "." { 0 } else { number(insns) };
        }
    }
    calls
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn callgrind_annotate_shows_every_call_and_what_it_costs() {
    for (image, args) in IMAGES.into_iter().flat_map(|image| [(image, &[][..]), (image, &["--exact"])]) {
        let run = run(image, &[&["--for", "8M"], args].concat()).expect_code(0);
        let (profile, file) = (run.profile(), export(&run.dir));
        let graph = CallGraph::new(&profile, &CallTree::new(&profile, View::default()));
        let text = annotate(&file, &["--show=Ir", "--inclusive=yes", "--tree=both"]);
        let mut expected = Calls::new();
        for ((caller, callee), edge) in &graph.edges {
            if matches!(caller, Party::Outside(_)) {
                continue;
            }
            if edge.calls == 0 {
                panic!(
                    "{image}: {} calls {} at a cost without being counted",
                    caller.name(&profile),
                    callee.name(&profile)
                );
            }
            let sums = expected.entry((caller.name(&profile), callee.name(&profile))).or_default();
            sums.0 += edge.calls;
            sums.1 += edge.inclusive.insns;
        }
        assert!(expected.len() > 50, "{image}: {expected:?}");
        assert_eq!(shown_calls(&text, &profile.facts.image_name), expected, "{image} {args:?}");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn callgrind_annotate_shows_the_cycles_of_functions_and_calls() {
    for args in [&["--cycles"][..], &["--cycles", "--exact"]] {
        let run = run("avr/uno-sketch", args).expect_code(0);
        let (profile, file) = (run.profile(), export(&run.dir));
        let elf = &profile.facts.image_name;
        let total = functions::table(&profile).total_cycles.unwrap();
        let shown = by_function(&annotate(&file, &["--show=Cycles"]), elf);
        assert_eq!(shown, (by_row(&profile, |row| row.cycles.unwrap()), total), "{args:?}");
        let graph = CallGraph::new(&profile, &CallTree::of_calls(&profile));
        let text = annotate(&file, &["--show=Cycles", "--inclusive=yes", "--tree=both"]);
        let calls = shown_calls(&text, elf);
        let mut compared = 0;
        for ((caller, callee), edge) in &graph.edges {
            if matches!(caller, Party::Outside(_)) || edge.inclusive.cycles == 0 {
                continue;
            }
            let (_, cycles) = calls[&(caller.name(&profile), callee.name(&profile))];
            assert_eq!(cycles, edge.inclusive.cycles, "{args:?} {caller:?} {callee:?}");
            compared += usize::from(edge.inclusive.cycles > edge.inclusive.insns);
        }
        assert!(compared > 5, "{args:?}: {compared}");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn conditional_jumps_have_their_exact_numbers() {
    let run = run("cortex-m3-freertos", &["--for", "8M"]).expect_code(0);
    let text = std::fs::read_to_string(export(&run.dir)).unwrap();
    let mut shown = BTreeMap::new();
    let lines: Vec<&str> = text.lines().collect();
    for (line, next) in lines.iter().zip(&lines[1..]) {
        let Some((counts, target)) = line.strip_prefix("jcnd=").and_then(|jump| jump.split_once(' ')) else {
            continue;
        };
        let (taken, executions) = counts.split_once('/').unwrap();
        let address = |words: &str| words.split(' ').next().unwrap().to_owned();
        shown.insert(address(next), (address(target), number(taken), number(executions)));
    }
    let mut expected = BTreeMap::new();
    for branch in Branches::of(&run.profile()).iter() {
        let taken = branch.both().and_then(|(taken, _)| taken.exact()).filter(|&taken| taken > 0);
        if let (Some(taken), Some(target)) = (taken, branch.ways[0].target) {
            let of = (format!("{target:#x}"), taken, branch.executions);
            expected.insert(format!("{:#x}", branch.site), of);
        }
    }
    assert!(expected.len() > 50, "{expected:?}");
    assert_eq!(shown, expected);
    // The tool reads them, and takes none for a cost.
    annotate(&export(&run.dir), &["--show=Ir"]);
}

#[test]
fn the_same_profile_is_the_same_file() {
    let run = run("cortex-m3-freertos", &["--for", "1M"]).expect_code(0);
    let first = std::fs::read(export(&run.dir)).unwrap();
    assert_eq!(first, std::fs::read(export(&run.dir)).unwrap());
    let text = String::from_utf8(first).unwrap();
    assert!(text.starts_with("# callgrind format\nversion: 1\n"), "{text}");
}
