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
