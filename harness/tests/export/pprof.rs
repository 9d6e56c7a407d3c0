// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: `go tool pprof` opens the export and shows exactly the counted numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::path::Path;

use harness::analysis::calltree::{self, CallTree};
use harness::analysis::functions;
use harness::analysis::owner::Owner;
use harness::analysis::part;
use harness::analysis::stacks::{Frame, FrameRole, View};
use harness::profile::Profile;

use crate::common::{images_dir, names, run, tools};

const IMAGES: [&str; 2] = ["riscv64-freertos", "cortex-m3-freertos"];

/// Writes the export beside the profile.
fn export(profile: &Path, args: &[&str]) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".pb.gz").tempfile().unwrap();
    fs::write(file.path(), tools::export(profile, "pprof", args)).unwrap();
    file
}

fn pprof(file: &tempfile::NamedTempFile, args: &[&str]) -> String {
    // In another directory, since pprof shortens paths that contain the directory's name.
    pprof_in(Path::new("/"), file, args)
}

fn pprof_in(directory: &Path, file: &tempfile::NamedTempFile, args: &[&str]) -> String {
    let mut command = tools::system("go");
    command.args(["tool", "pprof"]).args(args).arg(file.path()).current_dir(directory);
    tools::stdout(&mut command)
}

/// Flat and cumulative values of each name in `-top`, and the total.
fn top(file: &tempfile::NamedTempFile, args: &[&str]) -> (BTreeMap<String, (u64, u64)>, u64) {
    let all = ["-top", "-nodecount=1000000", "-nodefraction=0", "-edgefraction=0"];
    let text = pprof(file, &[&all, args].concat());
    let (head, rows) = text.split_once("cum%\n").unwrap_or_else(|| panic!("no table: {text}"));
    let total = head.rsplit_once(" total").and_then(|(before, _)| before.rsplit_once(' ')).unwrap().1;
    let mut values: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in rows.lines() {
        let mut rest = row;
        let mut numbers = [0; 5];
        for number in &mut numbers {
            let (word, after) = rest.trim_start().split_once(' ').unwrap_or_else(|| panic!("{row:?}"));
            *number = word.parse().unwrap_or(0);
            rest = after;
        }
        let name = rest.trim_start();
        let name = name.strip_suffix(" (inline)").or(name.strip_suffix(" (partial-inline)")).unwrap_or(name);
        let (flat, cum) = values.entry(name.to_owned()).or_default();
        (*flat, *cum) = (*flat + numbers[0], *cum + numbers[3]);
    }
    (values, total.parse().unwrap())
}

fn flat(values: &BTreeMap<String, (u64, u64)>) -> BTreeMap<String, u64> {
    values.iter().filter(|(_, (flat, _))| *flat > 0).map(|(name, &(flat, _))| (name.clone(), flat)).collect()
}

/// Values in harness's own table.
fn table(profile: &Profile, value: fn(&functions::Row) -> u64) -> BTreeMap<String, u64> {
    let mut table = BTreeMap::new();
    for row in functions::table(profile).rows.iter().filter(|row| value(row) > 0) {
        *table.entry(row.name.clone()).or_default() += value(row);
    }
    table
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn pprof_says_of_every_function_what_our_table_says() {
    for image in IMAGES {
        for args in [&["--for", "20M"][..], &["--for", "5M", "--exact"], &["--for", "5M", "--no-stacks"]] {
            let run = run(image, args).expect_code(0);
            let profile = run.profile();
            for options in [&[][..], &["--fold-irqs"]] {
                let file = export(&run.dir, options);
                // Instructions are the default value.
                let (values, total) = top(&file, &["-noinlines"]);
                assert_eq!(flat(&values), table(&profile, |row| row.self_insns), "{image} {args:?} {options:?}");
                assert_eq!(total, profile.total_insns());
                for (index, value) in
                    [("calls", (|row| row.calls) as fn(&functions::Row) -> u64), ("samples", |row| row.samples)]
                {
                    let (values, total) = top(&file, &["-noinlines", "-sample_index", index]);
                    let expected = table(&profile, value);
                    assert_eq!(flat(&values), expected, "{image} {args:?} {options:?} {index}");
                    assert_eq!(total, expected.values().sum::<u64>());
                }
            }
        }
    }
}

/// Values by function, including its callees, and by task.
type Sums = (BTreeMap<String, u64>, BTreeMap<String, u64>);

type Value = fn(&calltree::Path) -> u64;

/// Values of the flamegraph.
fn inclusive(profile: &Profile, fold_irqs: bool, value: Value) -> Sums {
    let (mut functions, mut tasks): Sums = Sums::default();
    let tree = CallTree::new(profile, View { fold_irqs });
    let visited: Result<(), Infallible> = tree.each(|members, path| {
        let value = value(path);
        let is_task = |frame: &Frame| frame.role == FrameRole::Task || frame.name == "[no task]";
        let frames = members.iter().map(|member| &member.frame);
        let placed = frames.filter(|frame| frame.role != FrameRole::Inlined && !is_task(frame));
        for name in placed.map(|frame| &frame.name).collect::<BTreeSet<_>>() {
            *functions.entry(name.clone()).or_default() += value;
        }
        if is_task(&members[0].frame) {
            let name = members[0].frame.name.trim_start_matches("task ");
            *tasks.entry(name.to_owned()).or_default() += value;
        }
        Ok(())
    });
    let Ok(()) = visited;
    (functions, tasks)
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn callers_and_tasks_have_in_them_what_the_flamegraph_shows_in_them() {
    // The exact tree has instructions of each path. Without it they are divided as the samples are, by function in
    // the flamegraph and by line here.
    let values: [(&str, Value); 2] = [("samples", |path| path.samples), ("instructions", |path| path.insns)];
    for image in IMAGES {
        for (args, values) in [(&["--for", "20M"][..], &values[..1]), (&["--for", "5M", "--exact"], &values)] {
            let run = run(image, args).expect_code(0);
            for fold_irqs in [false, true] {
                let file = export(&run.dir, if fold_irqs { &["--fold-irqs"] } else { &[] });
                for &(index, value) in values {
                    let (mut functions, tasks) = inclusive(&run.profile(), fold_irqs, value);
                    functions.retain(|_, value| *value > 0);
                    let (values, _) = top(&file, &["-noinlines", "-sample_index", index]);
                    let cum = values.into_iter().map(|(name, (_, cum))| (name, cum)).filter(|&(_, cum)| cum > 0);
                    let cum: BTreeMap<String, u64> = cum.collect();
                    assert_eq!(cum, functions, "{image} {args:?} {fold_irqs} {index}");
                    assert!(cum.keys().any(|name| name.starts_with("[irq ")), "no interrupt in {image}");
                    assert!(tasks.len() > 4, "{tasks:?}");
                    for (task, value) in tasks.into_iter().filter(|&(_, value)| value > 0) {
                        let focus = format!("-tagfocus=task=^{}$", regex::escape(&task));
                        let (values, _) = top(&file, &["-noinlines", "-sample_index", index, &focus]);
                        assert_eq!(values.values().map(|(flat, _)| flat).sum::<u64>(), value, "{image} {task}");
                    }
                }
            }
        }
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn known_cycles_are_a_value_of_their_own() {
    // One without interrupts: those have cycles of their own, which the table has in the vectors' row.
    let run = run("avr/uno", &["--cycles", "--exact"]).expect_code(0);
    let profile = run.profile();
    let file = export(&run.dir, &[]);
    let (values, total) = top(&file, &["-noinlines", "-sample_index", "cycles"]);
    let cycles: fn(&functions::Row) -> u64 = |row| row.cycles.unwrap();
    assert_eq!(flat(&values), table(&profile, cycles));
    assert_eq!(Some(total), functions::table(&profile).total_cycles);
    let (mut functions, _) = inclusive(&profile, false, |path| path.cycles);
    functions.retain(|_, value| *value > 0);
    let cum = values.into_iter().map(|(name, (_, cum))| (name, cum)).filter(|&(_, cum)| cum > 0);
    assert_eq!(cum.collect::<BTreeMap<_, _>>(), functions);
    let file = export(&crate::common::run("avr/uno", &["--exact"]).dir, &[]);
    assert!(!pprof(&file, &["-raw"]).contains("cycles/count"));
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn inlined_functions_and_lines_have_their_exact_instructions() {
    for image in IMAGES {
        let run = run(image, &["--for", "5M"]).expect_code(0);
        let profile = run.profile();
        let names = &profile.names;
        let (mut by_name, mut by_line) = (BTreeMap::new(), BTreeMap::new());
        for (pc, insns) in profile.insns() {
            let inlined = names.frames_at(pc).last().filter(|frame| frame.inlined);
            let place = Owner::of(&profile, pc).to_string();
            let name = inlined.map_or(&place, |frame| &names.strings[frame.function as usize]);
            *by_name.entry(name.clone()).or_default() += insns;
            if let Some((_, line)) = names.line_at(pc) {
                *by_line.entry((name.clone(), line)).or_default() += insns;
            }
        }
        let file = export(&run.dir, &[]);
        let (values, _) = top(&file, &[]);
        assert_eq!(flat(&values), by_name, "{image}");
        let (values, _) = top(&file, &["-lines"]);
        let mut lines: BTreeMap<(String, u32), u64> = BTreeMap::new();
        for (name, (flat, _)) in values.into_iter().filter(|(_, (flat, _))| *flat > 0) {
            // Such as `function file:line`.
            if let Some((before, line)) = name.rsplit_once(':')
                && let Ok(line) = line.parse()
                && line > 0
            {
                *lines.entry((before.split_once(' ').unwrap().0.to_owned(), line)).or_default() += flat;
            }
        }
        assert_eq!(lines, by_line, "{image}");
        assert!(names.stacks.iter().any(|frames| frames.len() > 2), "nothing is inlined twice in {image}");
    }
}

/// Instructions of each line on the page of sources (`/source` of `-http`, which `-weblist` writes).
fn source_view(directory: &Path, file: &tempfile::NamedTempFile) -> BTreeMap<(String, u32), u64> {
    let page = tempfile::Builder::new().suffix(".html").tempfile().unwrap();
    pprof_in(directory, file, &["-weblist=.", "-output", page.path().to_str().unwrap()]);
    let tags = regex::Regex::new("<[^>]*>").unwrap();
    let (mut lines, mut name) = (BTreeMap::new(), String::new());
    for text in fs::read_to_string(page.path()).unwrap().lines() {
        if let Some((_, rest)) = text.split_once("class=\"filename\">") {
            name = rest.split_once('<').unwrap().0.to_owned();
        }
        let Some((_, rest)) = text.split_once("<span class=line>") else { continue };
        let rest = tags.replace_all(rest, " ");
        let mut words = rest.split_whitespace();
        let line: u32 = words.next().unwrap().parse().unwrap();
        // A point stands for none.
        if let Ok(insns) = words.next().unwrap().parse::<u64>() {
            *lines.entry((name.clone(), line)).or_default() += insns;
        }
    }
    lines
}

/// Removes the steps back that compilers leave in a path, as pprof does.
fn clean(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            ".." if steps.last().is_some_and(|step| !step.is_empty()) => drop(steps.pop()),
            "." => {}
            step => steps.push(step),
        }
    }
    steps.join("/")
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn the_page_of_sources_has_the_exact_instructions_of_each_line() {
    for (image, args) in [(IMAGES[0], &["--for", "5M", "--exact"][..]), (IMAGES[1], &["--for", "5M"])] {
        let run = run(image, args).expect_code(0);
        let profile = run.profile();
        let names = &profile.names;
        let mut expected: BTreeMap<(String, u32), u64> = BTreeMap::new();
        for (pc, insns) in profile.insns() {
            // Inlined code counts at its own line, and again at the line that it is inlined into.
            for frame in names.frames_at(pc) {
                if let (Some(file), Some(line)) = (frame.file, frame.line) {
                    *expected.entry((clean(&names.strings[file as usize]), line)).or_default() += insns;
                }
            }
        }
        expected.retain(|(_, line), insns| *line > 0 && *insns > 0);
        let file = export(&run.dir, &[]);
        // Whether or not pprof finds the image, whose code it cannot decode.
        for directory in [Path::new("/"), &images_dir()] {
            let mut seen = source_view(directory, &file);
            seen.retain(|(_, line), _| *line > 0);
            let lines = seen.keys().chain(expected.keys());
            let other: BTreeSet<_> = lines
                .filter(|line| seen.get(line) != expected.get(line))
                .map(|line| (line, seen.get(line), expected.get(line)))
                .collect();
            let at = directory.display();
            assert!(other.is_empty(), "{image} in {at}: line, seen, expected: {other:?}");
        }
        assert!(expected.len() > 100, "{image} has {} lines", expected.len());
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn pprof_knows_the_image_the_period_and_how_the_run_ended() {
    let run = run("cortex-m3-freertos", &["--for", "5M", "--period", "1009"]).expect_code(0);
    let file = export(&run.dir, &[]);
    let bytes = fs::read(file.path()).unwrap();
    // RFC 1952: no time, no name, no system, so the bytes are the same everywhere.
    assert_eq!((&bytes[..4], &bytes[4..8], bytes[9]), (&[0x1f, 0x8b, 8, 0][..], &[0; 4][..], 255));
    let raw = pprof(&file, &["-raw"]);
    let facts = run.profile().facts;
    for expected in [
        "PeriodType: instructions count\nPeriod: 1009\n".to_owned(),
        "samples/count instructions/count[dflt] calls/count".to_owned(),
        format!(" cortex-m3-freertos.elf {} [FN][FL][LN][IN]", facts.image_sha256),
        // 32 ns per instruction.
        "Duration: 160m".to_owned(),
    ] {
        assert!(raw.contains(&expected), "{expected:?} is not in {}", &raw[..2000]);
    }
    assert!(!raw.contains("Time:"));
    let comments = pprof(&file, &["-comments"]);
    for expected in [
        "# image: cortex-m3-freertos.elf",
        &format!("# sha256: {}", facts.image_sha256),
        &format!("# qemu: {}", facts.qemu_version),
        "# machine: mps2-an385",
        "# isa: thumb-v7m",
        "# window: for 5000000 instructions; 0 instructions before it",
        "# period: one sample every 1009 instructions",
        "# end: the window of 5,000,000 instructions is complete",
    ] {
        assert!(comments.lines().any(|line| line == expected), "{expected:?} is not in {comments}");
    }
    let traces = pprof(&file, &["-traces", "-tagfocus=irq=SysTick"]);
    assert!(traces.contains("  irq:  SysTick\n") && traces.contains("   [irq SysTick]\n"), "{traces}");
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn names_that_hurt_are_each_one_row() {
    let temp = tempfile::tempdir().unwrap();
    let path = names::save(temp.path());
    let profile = Profile::load(&path).unwrap();
    let file = export(&path, &[]);
    let shown = |name: &str| match name.trim() {
        "" => "?".to_owned(),
        name => name.replace(|character: char| character.is_control() || character == '\u{2028}', "?"),
    };
    for (args, value) in [
        (&["-noinlines"][..], (|row| row.self_insns) as fn(&functions::Row) -> u64),
        (&["-noinlines", "-sample_index=calls"], |row| row.calls),
        (&["-noinlines", "-sample_index=samples"], |row| row.samples),
    ] {
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for (name, value) in table(&profile, value) {
            *expected.entry(shown(&name)).or_default() += value;
        }
        assert_eq!(flat(&top(&file, args).0), expected, "{args:?}");
    }
    // Files tell namesakes apart, if that is asked for.
    let (values, _) = top(&file, &["-noinlines", "-filefunctions"]);
    for function in names::functions().iter().filter(|function| function.name == "init") {
        let row = format!("init {}", function.file.as_ref().unwrap());
        assert_eq!(values.get(&row).map(|(flat, _)| *flat), Some(function.self_insns), "{row:?} in {values:#?}");
    }
    let tags = pprof(&file, &["-tags"]);
    for task in ["net;rx 1", "net;rx 1 (2)", "größe \"x\" <y>", "a?b??[1mc", "IDLE 42", "[no task]"] {
        assert!(tags.lines().any(|line| line.ends_with(&format!(": {task}"))), "{task:?} is not in {tags}");
    }
}

/// Number in a row of the table of functions.
type Count = fn(&functions::Row) -> u64;

#[test]
#[ignore = "needs ci/setup --viewers"]
fn phases_are_labels_and_each_has_what_our_table_of_it_says() {
    let values: [(&str, Count); 3] =
        [("instructions", |row| row.self_insns), ("calls", |row| row.calls), ("samples", |row| row.samples)];
    for image in ["riscv64-zones", "cortex-m3-zones"] {
        let run = run(image, &["--period", "1009"]).expect_code(0);
        let profile = run.profile();
        let phases = part::by_phase(&profile).unwrap();
        assert!(phases.len() > 3, "{image} has {} phases", phases.len());
        let file = export(&run.dir, &["--by", "phase"]);
        for (name, phase) in &phases {
            let focus = format!("-tagfocus=phase=^{}$", regex::escape(name));
            for (index, value) in values {
                let expected = table(phase, value);
                if expected.is_empty() {
                    continue;
                }
                let (seen, _) = top(&file, &["-noinlines", "-sample_index", index, &focus]);
                assert_eq!(flat(&seen), expected, "{image} {name} {index}");
            }
        }
        let (seen, total) = top(&file, &["-noinlines"]);
        assert_eq!((flat(&seen), total), (table(&profile, values[0].1), profile.total_insns()), "{image}");
        assert!(!pprof(&export(&run.dir, &[]), &["-tags"]).contains("phase:"), "{image}");
    }
}
