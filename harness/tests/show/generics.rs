// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: every command and option finds a function by its name in the source or by any of its symbols. A
//! generic's name finds all instances together or a single one. Different functions are never taken for one.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use harness::analysis::functions::{self, Row};
use harness::profile::Profile;
use wire::definition::SpanKind;

use crate::common::built::scratch;
use crate::common::{Run, image, listed_images, run, say};

/// Rust images that are built here; others are reported.
fn rust(names: &[&str]) -> Vec<String> {
    let listed = listed_images();
    let is_built = |name: &&&str| {
        let is_built = listed.iter().any(|file| file.strip_suffix(".elf") == Some(**name));
        if !is_built {
            say(&format!("not tested: {name}, which wants Rust's compiler"));
        }
        is_built
    };
    names.iter().filter(is_built).map(|name| (*name).to_owned()).collect()
}

const HELLO: [&str; 2] = ["cortex-m3-rust-hello-O3", "riscv64-rust-hello-O3"];

fn harness(verb: &str, profile: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_harness")).arg(verb).arg(profile).args(args).output().unwrap()
}

#[track_caller]
fn shown(verb: &str, run: &Run, args: &[&str]) -> String {
    let output = harness(verb, &run.dir, args);
    assert!(output.status.success(), "{verb} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn refused(verb: &str, run: &Run, args: &[&str]) -> String {
    let output = harness(verb, &run.dir, args);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{verb} {args:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Rows of all instances of `hello::generic_sort`, by address.
fn sorts(profile: &Profile) -> Vec<Row> {
    let mut rows = functions::table(profile).rows;
    rows.retain(|row| row.name.starts_with("hello::generic_sort::<"));
    rows.sort_by_key(|row| row.start);
    assert!(rows.len() > 1, "{rows:?}");
    rows
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn a_generic_is_annotated_one_instance_after_another_or_one_of_them() {
    for name in rust(&HELLO) {
        let run = run(&name, &[]);
        let rows = sorts(&run.profile());
        let text = shown("annotate", &run, &["generic_sort"]);
        assert_eq!(shown("annotate", &run, &["hello::generic_sort"]), text);
        assert!(text.starts_with(&format!("hello::generic_sort: {} instances, ", rows.len())), "{name}: {text}");
        let mut parts = text.split("\n#").skip(1);
        for (index, row) in rows.iter().enumerate() {
            let number = index + 1;
            let alone = shown("annotate", &run, &[&format!("generic_sort#{number}")]);
            assert!(alone.starts_with(&format!("{}\n", row.name)), "{name}: {alone}");
            assert_eq!(parts.next().unwrap().trim_end(), format!("{number}  {}", alone.trim_end()));
            let address = format!("{:#x}", row.start.unwrap());
            for one in [row.name.clone(), address.clone(), format!("generic_sort@{address}")] {
                assert_eq!(shown("annotate", &run, &[&one]), alone, "{name}: {one}");
            }
        }
        assert_eq!(parts.next(), None);
        let error = refused("annotate", &run, &["generic_sort#9"]);
        assert!(error.contains(&format!("names {} functions", rows.len())), "{error}");
        let error = refused("callers", &run, &["area"]);
        assert!(error.contains("`area` names 3 functions") && error.contains("\n  #2  0x"), "{error}");
        assert!(error.contains("<hello::Circle as hello::Shape>::area"), "{error}");
        assert!(shown("callers", &run, &["Circle::area"]).contains("  <hello::Circle as hello::Shape>::area  "));
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn the_instances_of_a_generic_are_one_function_between_its_callers_and_callees() {
    for name in rust(&HELLO) {
        let run = run(&name, &["--exact"]);
        let rows = sorts(&run.profile());
        let text = shown("callers", &run, &["generic_sort", "--top", "0"]);
        let line = |wanted: &dyn Fn(&str) -> bool| {
            text.lines().find(|line| wanted(line)).unwrap_or_else(|| panic!("{text}"))
        };
        let numbers = |line: &str| -> Vec<u64> {
            line.split_whitespace().map_while(|word| word.replace(',', "").parse().ok()).collect()
        };
        let whole = numbers(line(&|line| line.ends_with(&format!("({} instances)", rows.len()))));
        assert_eq!(whole[0], rows.iter().map(|row| row.calls).sum::<u64>(), "{name}: {text}");
        let itself = numbers(line(&|line| line.ends_with("    (itself)")));
        assert_eq!(itself, [rows.iter().map(|row| row.self_insns).sum::<u64>()], "{name}: {text}");
        // The function calls itself, in any instance, and `sorts` calls it: three times in each of 48 rounds.
        let recursion = numbers(line(&|line| line.ends_with("    hello::generic_sort")));
        let caller = numbers(line(&|line| line.ends_with("    hello::sorts")));
        assert_eq!((caller[0], recursion[0] + caller[0], caller[1]), (144, whole[0], whole[1]), "{name}: {text}");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn the_window_and_spans_begin_and_end_at_any_instance() {
    for name in rust(&HELLO) {
        let rows = sorts(&run(&name, &[]).profile());
        let addresses: Vec<String> = rows.iter().map(|row| format!("{:#x}", row.start.unwrap())).collect();
        for bound in ["--from", "--until"] {
            let insns = |function: &str| {
                let profile = run(&name, &[bound, function]).profile();
                if bound == "--from" { profile.facts.before_window_insns } else { profile.total_insns() }
            };
            let first = addresses.iter().map(|address| insns(address)).min();
            assert_eq!(Some(insns("generic_sort")), first, "{name} {bound}");
            assert_eq!(insns("generic_sort#2"), insns(&addresses[1]), "{name} {bound}");
        }
        let options = ["--span", "generic_sort..generic_sort", "--span", "generic_sort#2..hello::texts"];
        let counted = run(&name, &options);
        let profile = counted.profile();
        assert_eq!(profile.spans, run(&name, &[&options[..], &["--oracle"]].concat()).profile().spans, "{name}");
        let insns = profile.insns();
        let executions: u64 = rows.iter().map(|row| insns[&row.start.unwrap()]).sum();
        let is_all = |kind| matches!(kind, SpanKind::Between { from, until } if from == until);
        let span = profile.spans.iter().find(|span| is_all(span.kind)).unwrap();
        assert_eq!(span.count, executions - 1, "{name}");
        let text = shown("top", &counted, &[]);
        assert!(text.contains(&format!("generic_sort..generic_sort: {}", number(span.count))), "{text}");
        assert!(text.contains(&format!("{}..hello::texts: ", rows[1].name)), "{text}");
    }
    for name in rust(&HELLO[..1]) {
        let elf = image(&name);
        let args = ["--span", "generic_sort..texts", "--span", "generic_sort#1..texts"];
        let dir = scratch();
        let output = harness("profile", &elf, &[&args[..], &["-o", dir.path().join("p").to_str().unwrap()]].concat());
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("generic_sort#1..texts: another --span"), "{error}");
    }
}

fn number(number: u64) -> String {
    harness::text::number::group(number)
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn suites_count_the_instances_of_a_generic_together() {
    for name in rust(&HELLO) {
        let profile = run(&name, &[]).profile();
        let rows = sorts(&profile);
        let calls: u64 = rows.iter().map(|row| row.calls).sum();
        let elf = fs::canonicalize(image(&name)).unwrap();
        let suite = |lines: &str, expected: i32, said: &[&str]| {
            let dir = scratch();
            fs::write(dir.path().join("harness.toml"), format!("[[image]]\nelf = {elf:?}\n{lines}\n")).unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
            let command = command.current_dir(dir.path()).args(["test", "--cache-dir"]).arg(dir.path().join("cache"));
            let output = command.output().unwrap();
            let text =
                String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(expected), "{name}: {lines}\n{text}");
            said.iter().for_each(|said| assert!(text.contains(said), "{name}: {said}\n{text}"));
        };
        let asserts = [
            format!("calls(\"generic_sort\") == {calls}"),
            format!("calls(\"hello::generic_sort\") == {calls}"),
            "min(\"generic_sort\") > 0".to_owned(),
            "depth(\"hello::generic_sort\") > 1".to_owned(),
            "mean(\"generic_sort..texts\") > 0".to_owned(),
        ];
        suite(&format!("assert = {asserts:?}"), 0, &[]);
        suite("assert = ['calls(\"area\") == 0']", 2, &["`area` names 3 functions"]);
        let threshold = |limit: u64| format!("[image.thresholds]\ncalls = {{ generic_sort = {limit} }}");
        suite(&threshold(calls), 0, &[]);
        let crossed = format!("calls of generic_sort {}, allowed at most {}", number(calls), number(calls - 1));
        suite(&threshold(calls - 1), 3, &[&crossed]);
        suite("[image.thresholds]\nself = { area = 1 }", 2, &["`area` names 3 functions"]);
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn tasks_of_embassy_are_told_by_their_bodies_and_are_whole_in_a_pipe() {
    for name in rust(&["cortex-m3-rust-embassy-O3", "cortex-m3-rust-embassy-Oz"]) {
        let run = run(&name, &["--for", "2M"]);
        let bodies = run.profile().names.async_bodies;
        let wrapped =
            |task: &str| format!("embassy_demo::__{task}_task::__{task}_task_inner_function::{{closure#0}}");
        for task in ["producer_task", "consumer_task", "ticker_task"] {
            assert!(bodies.contains(&wrapped(task)), "{name}: {bodies:?}");
            let whole = format!("<embassy_executor::raw::TaskStorage<{}>>::poll", wrapped(task));
            assert!(shown("top", &run, &["--top", "0"]).contains(&format!("\n{whole}  ")), "{name}: {whole}");
            assert!(shown("annotate", &run, &[&whole]).starts_with(&format!("{whole}\n")));
        }
        // The closure that makes a task is not a task's body.
        assert!(!bodies.contains(&"embassy_demo::producer_task::{closure#0}".to_owned()), "{bodies:?}");
        // The async function has no code of its own; its part of the code that it is inlined into is shown.
        let body = shown("annotate", &run, &["producer_task (async)"]);
        let start = "producer_task (async), inlined into <embassy_executor::raw::TaskStorage<";
        assert!(body.starts_with(start), "{body}");
        assert!(shown("callers", &run, &["TaskStorage::poll"]).contains("(4 instances)"), "{name}");
    }
}

#[test]
fn a_function_is_found_by_each_of_its_symbols() {
    let run = run("cortex-m3-abi-pg", &[]);
    let profile = run.profile();
    let function = profile
        .names
        .functions
        .iter()
        .find(|function| function.name.contains("dadd") || function.name == "__adddf3")
        .unwrap();
    for verb in ["annotate", "callers"] {
        let text = shown(verb, &run, &[&function.name]);
        for alias in ["__adddf3", "__aeabi_dadd"] {
            assert_eq!(shown(verb, &run, &[alias]), text);
        }
        assert_eq!(text.contains("__adddf3"), function.name == "__adddf3");
    }
}
