// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: `harness callers` shows the callers of a function with its calls and instructions, and they add up.

use std::path::Path;
use std::process::{Command, Output};

use harness::analysis::functions;
use harness::profile::Profile;
use wire::definition::NodeKind;

use crate::common::run;

fn callers(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_harness")).arg("callers").arg(dir).args(args).output().unwrap()
}

/// Line of the table: calls, instructions, indent, name.
#[derive(Debug)]
struct Line {
    calls: Option<u64>,
    insns: Option<u64>,
    level: usize,
    name: String,
}

/// Callers, the function, and itself with its callees.
#[track_caller]
fn block(dir: &Path, args: &[&str]) -> (Vec<Line>, Line, Vec<Line>) {
    let output = callers(dir, args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let name_at = lines.next().unwrap().find("Callers, function, callees").unwrap();
    let mut parsed = Vec::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let (numbers, name) = line.split_at(name_at);
        let numbers: Vec<&str> = numbers.split_whitespace().rev().collect();
        let number = |text: Option<&&str>| text.and_then(|text| text.replace(',', "").parse().ok());
        let level = (name.len() - name.trim_start().len()) / 4;
        let (calls, insns) = (number(numbers.get(2)), number(numbers.get(1)));
        parsed.push(Line { calls, insns, level, name: name.trim().to_owned() });
    }
    let at = parsed.iter().position(|line| line.level == 0).unwrap_or_else(|| panic!("{text}"));
    let callees = parsed.split_off(at + 1);
    let function = parsed.pop().unwrap();
    (parsed, function, callees)
}

fn sum(lines: &[Line], number: fn(&Line) -> Option<u64>) -> u64 {
    lines.iter().filter(|line| line.level == 1).filter_map(number).sum()
}

/// Instructions of the exact tree below a function's outermost nodes, interrupts left out.
fn inclusive(profile: &Profile, start: u64) -> u64 {
    let entry = NodeKind::Function { entry: start };
    let counts = |node: u32| {
        let path = profile.path(node);
        let since = path.iter().rposition(|node| !matches!(node.kind, NodeKind::Function { .. }));
        path[since.map_or(0, |at| at + 1)..].iter().any(|node| node.kind == entry)
    };
    let numbers = 1..=profile.tree.len() as u32;
    numbers.filter(|&node| counts(node)).map(|node| profile.tree[node as usize - 1].insns).sum()
}

#[test]
fn the_calls_and_costs_of_callers_and_callees_add_up() {
    for image in ["riscv64-freertos", "cortex-m3-freertos"] {
        let run = run(image, &["--for", "8M", "--exact"]).expect_code(0);
        let profile = run.profile();
        let table = functions::table(&profile);
        for name in ["main", "crc32_table", "vListInsert", "pvPortMalloc", "vTaskSwitchContext", "xQueueReceive"] {
            let row = table.rows.iter().find(|row| row.name == name).unwrap();
            let (callers, function, callees) = block(&run.dir, &[name, "--top", "0"]);
            assert_eq!(function.calls, Some(row.calls), "{image} {name}");
            assert_eq!(function.insns, Some(inclusive(&profile, row.start.unwrap())), "{image} {name}");
            assert_eq!(sum(&callers, |line| line.calls), row.calls, "{image} {name}: {callers:?}");
            assert_eq!(sum(&callers, |line| line.insns), function.insns.unwrap(), "{image} {name}: {callers:?}");
            assert_eq!((&*callees[0].name, callees[0].insns), ("(itself)", Some(row.self_insns)), "{image} {name}");
            assert_eq!(sum(&callees, |line| line.insns), function.insns.unwrap(), "{image} {name}: {callees:?}");
            // Rows that do not fit are added up.
            let (cut, _, _) = block(&run.dir, &[name, "--top", "1"]);
            assert_eq!(sum(&cut, |line| line.insns), function.insns.unwrap(), "{image} {name}: {cut:?}");
            assert_eq!(sum(&cut, |line| line.calls), row.calls, "{image} {name}: {cut:?}");
        }
    }
}

#[test]
fn callers_of_callers_are_above_them_and_cost_no_more() {
    let run = run("cortex-m3-freertos", &["--for", "8M", "--exact"]).expect_code(0);
    let (callers, _, callees) = block(&run.dir, &["crc32_bitwise", "--depth", "2"]);
    let names: Vec<(usize, &str)> = callers.iter().map(|line| (line.level, &*line.name)).collect();
    assert_eq!(names, [(2, "worker"), (1, "crc_unit")]);
    assert_eq!(callers[0].insns, callers[1].insns);
    assert_eq!(callees.len(), 1, "{callees:?}");
}

#[test]
fn without_stacks_calls_are_exact_and_their_cost_is_not_made_up() {
    let run = run("cortex-m3-freertos", &["--for", "1M", "--no-stacks"]).expect_code(0);
    let (callers, function, _) = block(&run.dir, &["memset"]);
    assert!(callers.iter().all(|line| line.insns.is_none()), "{callers:?}");
    assert_eq!(function.insns, None);
    assert_eq!(sum(&callers, |line| line.calls), function.calls.unwrap());
}

#[test]
fn a_name_that_is_none_says_what_is_near() {
    let run = run("cortex-m3-freertos", &["--for", "1M"]).expect_code(0);
    let output = callers(&run.dir, &["crc32_tabel"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("did you mean `crc32_table`"), "{error}");
}

#[test]
fn code_without_names_has_callers_as_other_code_has_and_no_calls_that_were_none() {
    let run = run("cortex-m3-bare-stripped", &["--exact"]).expect_code(0);
    let profile = run.profile();
    // The code that executes first has its own node: the function that main returns to.
    let outside = |node: &&harness::profile::Node| !matches!(node.kind, NodeKind::Function { .. });
    let insns: u64 = profile.tree.iter().filter(outside).map(|node| node.insns).sum();
    assert_eq!(insns, 0, "instructions of the tree are in no function");
    let outermost: Vec<_> = profile.tree.iter().filter(|node| node.parent == 1).collect();
    let reset = outermost.iter().find(|node| node.kind == NodeKind::Function { entry: profile.facts.entry });
    assert_eq!(reset.map(|node| node.calls), Some(1), "{outermost:?}");
    let ranges: Vec<String> = functions::table(&profile).rows.into_iter().map(|row| row.name).collect();
    assert!(ranges.len() > 10 && ranges.iter().all(|range| range.starts_with("[0x")), "{ranges:?}");
    let mut calls = 0;
    for range in &ranges {
        let (above, _, below) = block(&run.dir, &[range]);
        for line in above.iter().chain(&below).filter(|line| line.name != "(itself)") {
            assert!(line.calls > Some(0), "{range}: {line:?}");
        }
        calls += sum(&above, |line| line.calls);
    }
    assert_eq!(calls, profile.tree.iter().map(|node| node.calls).sum::<u64>());
}

/// `level`, `mix` and `twice` are inlined, one of them into another; `leaf` is called by them and by `main` itself.
const INLINED: &str = r#"
#define INLINE __attribute__((always_inline)) static inline
#define NOIPA __attribute__((noipa))
NOIPA void leaf(unsigned n) { for (volatile unsigned i = 0; i < n; i++) {} }
NOIPA void other(unsigned n) { leaf(n); __asm__ volatile(""); }
INLINE void mix(unsigned n) { leaf(n); other(n + 1); }
INLINE void level(unsigned n) { for (unsigned i = 0; i < n; i++) mix(n); }
INLINE void twice(void) { leaf(3); leaf(4); }
NOIPA unsigned again(unsigned n);
INLINE unsigned both(unsigned n) { return again(n - 1) + again(n - 2); }
NOIPA unsigned again(unsigned n) { leaf(1); return n < 2 ? n : both(n); }
int main(void) { level(20); twice(); leaf(50); mix(7); again(9); return 0; }
void reset(void) { main(); host(0x18, STOPPED); for (;;) {} }
"#;

#[test]
fn inlined_callers_are_in_the_exact_tree_as_they_are_in_sampled_stacks() {
    let dir = crate::common::built::scratch();
    for (core, target) in [
        ("m3", crate::common::built::cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_4000)),
        ("rv", crate::common::built::riscv(64, 0x8000_0000, 0x8000_0000, 0x8001_0000)),
    ] {
        let elf = target.with("-O2").build_source(dir.path(), core, INLINED);
        let folded = |args: &[&str]| {
            let run = crate::common::run_file(&elf, args).expect_code(0);
            assert!(!run.stdout.contains("NOT exact"), "{}", run.stdout);
            let output = Command::new(env!("CARGO_BIN_EXE_harness"))
                .args(["export", "-f", "folded", "-o", "-"])
                .arg(&run.dir)
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let lines = text.lines().map(|line| line.rsplit_once(' ').unwrap());
            let stacks = lines.map(|(stack, insns)| (stack.to_owned(), insns.parse().unwrap()));
            (stacks.collect::<std::collections::BTreeMap<String, u64>>(), run.profile())
        };
        // Every instruction is a sample.
        let (sampled, _) = folded(&["--period", "1"]);
        let (exact, profile) = folded(&["--exact"]);
        for stack in [
            "main;level (inlined);mix (inlined);leaf",
            "main;level (inlined);mix (inlined);other;leaf",
            "main;twice (inlined);leaf",
            "main;leaf",
            "main;mix (inlined);leaf",
            "main;again;leaf",
        ] {
            let insns = |stacks: &std::collections::BTreeMap<String, u64>| {
                let of = stacks.iter().filter(|(path, _)| path.ends_with(stack));
                of.map(|(_, insns)| insns).sum::<u64>()
            };
            assert!(insns(&exact) > 0, "{core}: {stack} is not in {exact:#?}");
            assert_eq!(insns(&exact), insns(&sampled), "{core}: {stack}");
        }
        // A recursive function is one path per level, even with inlined functions in between; otherwise the tree
        // would grow with the square of the depth.
        assert!(profile.tree.len() < 60, "{core}: {} places", profile.tree.len());
    }
}
