// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: inferno's own programs draw, compare and collapse the folded stacks, and no instruction is lost on
//! the way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use harness::analysis::functions;
use harness::profile::{FILE_NAME, Profile};
use quick_xml::escape::unescape;

use crate::common::{names, run, synthetic, tools};

const IMAGES: [&str; 2] = ["riscv64-freertos", "cortex-m3-freertos"];

/// Parses lines like inferno: the number is after the last space.
fn parse(text: &str) -> Vec<(Vec<&str>, u64)> {
    let line = |line: &'_ str| -> (usize, u64) {
        let (stack, insns) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no number: {line:?}"));
        (stack.len(), insns.parse().unwrap_or_else(|_| panic!("no number at the end: {line:?}")))
    };
    assert!(text.is_empty() || text.ends_with('\n'));
    text.split_terminator('\n')
        .map(|text| (line(text), text))
        .map(|((len, insns), text)| (text[..len].split(';').collect(), insns))
        .collect()
}

fn total(stacks: &[(Vec<&str>, u64)]) -> u64 {
    stacks.iter().map(|(_, insns)| insns).sum()
}

fn folded(profile: &Path, args: &[&str]) -> String {
    String::from_utf8(tools::export(profile, "folded", args)).unwrap()
}

/// All frames of a flamegraph of the stacks, with their widths.
fn frames<'t>(stacks: &[(Vec<&'t str>, u64)]) -> BTreeMap<Vec<&'t str>, u64> {
    let mut frames = BTreeMap::new();
    for (stack, insns) in stacks {
        for depth in 1..=stack.len() {
            *frames.entry(stack[..depth].to_vec()).or_default() += insns;
        }
    }
    frames
}

/// Name and width of all frames that inferno-flamegraph draws, sorted.
fn drawn(folded: &Path, args: &[&str]) -> Vec<(String, u64)> {
    let mut command = tools::cargo("inferno-flamegraph");
    let usual = ["--minwidth", "0", "--countname", "instructions"];
    let svg = tools::stdout(command.args(usual).args(args).arg(folded));
    let titles = svg.split("<title>").skip(1).map(|text| text.split_once("</title>").unwrap().0);
    let mut frames: Vec<(String, u64)> = titles
        .map(|title| {
            let title = unescape(title).unwrap();
            let (name, numbers) = title.rsplit_once(" (").unwrap();
            (name.to_owned(), numbers.split_once(" instructions").unwrap().0.replace(',', "").parse().unwrap())
        })
        .collect();
    frames.sort();
    frames
}

#[track_caller]
fn assert_drawn(text: &str, insns: u64) {
    let stacks = parse(text);
    assert_eq!(total(&stacks), insns);
    let distinct: BTreeSet<_> = stacks.iter().map(|(stack, _)| stack).collect();
    assert_eq!(distinct.len(), stacks.len(), "a path has two lines");
    assert!(stacks.iter().map(|(stack, _)| stack).is_sorted(), "not in the order of frames");
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let mut expected: Vec<(String, u64)> =
        frames(&stacks).into_iter().map(|(stack, insns)| (stack.last().unwrap().to_string(), insns)).collect();
    expected.push(("all".to_owned(), insns));
    expected.sort();
    assert_eq!(drawn(file.path(), &["--flamechart"]), expected);
    // Otherwise it sorts lines as text, which tears some frames apart (`f`, `f2`, `f;g`); their sum is the same.
    let sum = |frames: Vec<(String, u64)>| {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (name, insns) in frames {
            *sums.entry(name).or_default() += insns;
        }
        sums
    };
    assert_eq!(sum(drawn(file.path(), &[])), sum(expected));
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn inferno_draws_every_frame_as_wide_as_its_instructions() {
    for image in IMAGES {
        for args in [&["--for", "5M"][..], &["--for", "5M", "--exact"], &["--for", "5M", "--no-stacks"]] {
            let run = run(image, args).expect_code(0);
            for options in [&[][..], &["--fold-irqs"]] {
                assert_drawn(&folded(&run.dir, options), 5_000_000);
            }
        }
    }
}

#[test]
fn functions_have_their_exact_instructions_whatever_is_inlined_into_them() {
    for image in IMAGES {
        let run = run(image, &["--for", "5M"]).expect_code(0);
        let text = folded(&run.dir, &[]);
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (stack, insns) in parse(&text) {
            let function = stack.iter().rfind(|frame| !frame.ends_with(" (inlined)")).unwrap();
            *sums.entry((*function).to_owned()).or_default() += insns;
        }
        let rows = functions::table(&run.profile()).rows;
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for row in rows.into_iter().filter(|row| row.self_insns > 0) {
            *expected.entry(row.name).or_default() += row.self_insns;
        }
        assert_eq!(sums, expected, "{image}");
        assert!(text.lines().any(|line| line.starts_with("task crc;")) && text.contains(";[irq "), "{image}");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn differences_of_two_profiles_keep_both_totals() {
    let temp = tempfile::tempdir().unwrap();
    let paths = ["3M", "5M"].map(|insns| {
        let run = run("cortex-m3-freertos", &["--for", insns]).expect_code(0);
        let path = temp.path().join(insns);
        fs::write(&path, folded(&run.dir, &[])).unwrap();
        path
    });
    let text = tools::stdout(tools::cargo("inferno-diff-folded").args(&paths));
    let (mut before, mut after) = (0, 0);
    for line in text.lines() {
        let mut numbers = line.rsplitn(3, ' ');
        after += numbers.next().unwrap().parse::<u64>().unwrap();
        before += numbers.next().unwrap().parse::<u64>().unwrap();
    }
    assert_eq!((before, after), (3_000_000, 5_000_000));
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn recursion_collapses_without_loss() {
    let temp = tempfile::tempdir().unwrap();
    let run = run("riscv64-freertos", &["--for", "20M", "--exact"]).expect_code(0);
    let text = folded(&run.dir, &[]);
    let deepest = |text: &str| parse(text).iter().map(|(stack, _)| stack.len()).max();
    let path = temp.path().join("folded");
    fs::write(&path, &text).unwrap();
    let collapsed = tools::stdout(tools::cargo("inferno-collapse-recursive").arg(&path));
    assert_eq!(total(&parse(&collapsed)), 20_000_000);
    assert!(deepest(&collapsed) < deepest(&text), "nothing in it calls itself");
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn names_that_hurt_are_each_one_frame() {
    let temp = tempfile::tempdir().unwrap();
    let path = names::save(temp.path());
    let insns = Profile::load(&path).unwrap().total_insns();
    let text = folded(&path, &[]);
    assert_drawn(&text, insns);
    assert!(!text.contains(|character: char| character.is_control() && character != '\n'));
    let inferno = temp.path().join("folded");
    fs::write(&inferno, &text).unwrap();
    for program in ["inferno-collapse-recursive", "inferno-diff-folded"] {
        let mut command = tools::cargo(program);
        command.arg(&inferno);
        if program == "inferno-diff-folded" {
            command.arg(&inferno);
        }
        let lines = tools::stdout(&mut command);
        let sum: u64 = lines.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
        assert_eq!(sum, insns, "{program}");
    }
    let stacks = parse(&text);
    let frames: BTreeSet<&str> = stacks.iter().flat_map(|(stack, _)| stack.iter().copied()).collect();
    for name in [
        "std::map<int, char>::operator[](int const&)_42",
        "void put<':', '\"', '<'>(char const*, ...)",
        "operator<< <int: 3>_7",
        "<[u8: 16] as core::fmt::Debug>::fmt",
        "größe_ändern::测量",
        "🚀_e\u{301}_שלום",
        "x_99",
        "x_1.5",
        "?",
        "?--",
        "?# comment",
        "a?b?c?d?[31me?f?g?h",
        "task net:rx_1",
        "task net:rx 1 (2)",
    ] {
        assert!(frames.contains(name), "{name:?} is not among {frames:#?}");
    }
    let long = frames.iter().filter(|frame| frame.chars().count() == 1000).count();
    assert_eq!(long, 2);
    // The two functions of one name are a single frame, called by `main`.
    let sum = |name: &str| -> u64 {
        stacks.iter().filter(|(stack, _)| stack.last() == Some(&name)).map(|(_, insns)| insns).sum()
    };
    let init = names::functions().into_iter().filter(|function| function.name == "init");
    assert_eq!(sum("init"), init.map(|function| function.self_insns - function.inlined_insns).sum::<u64>());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(FILE_NAME);
    fs::write(&path, synthetic::profile(20_000).to_bytes().unwrap()).unwrap();
    for format in ["folded", "pprof"] {
        assert_eq!(tools::export_to_nobody(&path, format), (Some(0), String::new()), "{format}");
    }
    let text = folded(&path, &[]);
    let profile = Profile::load(&path).unwrap();
    assert_eq!(total(&parse(&text)), profile.total_insns());
    assert!(parse(&text).len() > 15_000);
}
