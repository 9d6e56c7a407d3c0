// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--cycles=CORE`: the cycles that the core's RTL takes, function by function, however the run is measured.

use std::collections::{BTreeMap, BTreeSet};

use harness::analysis::cycles;
use harness::profile::Profile;
use wire::definition::NodeKind;

use super::limit::suite;
use crate::common::{in_parallel, refused, run};

/// Rows of `testdata/cycles.csv`: image, function, core, cycles, instructions.
fn rows() -> Vec<(String, String, String, u64, u64)> {
    let text = include_str!("../../../testdata/cycles.csv");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let rows = lines.skip(1).map(|line| {
        let [image, function, core, cycles, insns] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        (
            image.strip_suffix(".elf").unwrap().into(),
            function.into(),
            core.into(),
            cycles.parse().unwrap(),
            insns.parse().unwrap(),
        )
    });
    rows.collect()
}

/// Cycles and instructions of each call that `_start` makes, with all that it calls, by the function's name.
fn measured(profile: &Profile) -> BTreeMap<String, (u64, u64)> {
    let mut sums: Vec<(u64, u64)> = profile.tree.iter().map(|node| (node.cycles, node.insns)).collect();
    for (index, node) in profile.tree.iter().enumerate().rev() {
        let (cycles, insns) = sums[index];
        if let Some(parent) = (node.parent as usize).checked_sub(1) {
            sums[parent].0 += cycles;
            sums[parent].1 += insns;
        }
    }
    let name = |kind: &NodeKind| match *kind {
        NodeKind::Function { entry } => profile.names.functions.iter().find(|function| function.start == entry),
        _ => None,
    };
    let mut calls = BTreeMap::new();
    for (node, &sum) in profile.tree.iter().zip(&sums) {
        let parent = (node.parent as usize).checked_sub(1).and_then(|parent| name(&profile.tree[parent].kind));
        if parent.is_some_and(|parent| parent.name == "_start") {
            calls.insert(name(&node.kind).expect("it has a name").name.clone(), sum);
        }
    }
    calls
}

#[test]
fn each_function_takes_the_cycles_of_the_rtl() {
    let rows = rows();
    let runs: BTreeSet<_> = rows.iter().map(|(image, _, core, ..)| (image.clone(), core.clone())).collect();
    assert!(rows.len() > 60 && runs.len() == 7, "{} {}", rows.len(), runs.len());
    in_parallel(&runs.into_iter().collect::<Vec<_>>(), |(name, core)| {
        let option = format!("--cycles={core}");
        let profile = run(name, &["--exact", &option]).expect_code(0).profile();
        let measured = measured(&profile);
        for (_, function, _, cycles, insns) in rows.iter().filter(|row| row.0 == *name && row.2 == *core) {
            assert_eq!(measured.get(function), Some(&(*cycles, *insns)), "{name} on {core}: {function}");
        }
    });
}

#[test]
fn cycles_do_not_depend_on_how_the_run_is_measured() {
    let ways: [&[&str]; 6] = [
        &["--exact"],
        &["--branches"],
        &["--oracle", "--no-stacks"],
        &["--period", "1"],
        &["--slice", "100"],
        &["--timeline"],
    ];
    in_parallel(&[("riscv32-paced", "hazard3"), ("riscv32-paced-imc", "ibex-3")], |(name, core)| {
        let option = format!("--cycles={core}");
        let plain = run(name, &[&option]).profile();
        let total = cycles::total(&plain).expect("they are counted");
        assert!(total > plain.total_insns(), "{total}");
        assert_eq!(plain.cycles.as_ref().unwrap().clock, total, "by the clock and by instructions");
        for way in ways {
            let other = run(name, &[&[option.as_str()], way].concat()).profile();
            assert_eq!(plain.cycles, other.cycles, "{core} {way:?}");
        }
    });
}

#[test]
fn the_parts_of_a_run_add_up_to_its_cycles() {
    let option = "--cycles=hazard3";
    let whole = run("riscv32-paced", &[option]).profile();
    let sliced = run("riscv32-paced", &[option, "--slice", "100"]).profile();
    let parts: u64 = sliced.parts.list.iter().map(|part| part.cycles.clock).sum();
    assert!(sliced.parts.list.len() > 10);
    assert_eq!(Some(parts), cycles::total(&whole));
    // Two windows that follow each other, each of which begins with the core as it is then.
    let total =
        |window: &[&str]| cycles::total(&run("riscv32-paced", &[&[option], window].concat()).profile()).unwrap();
    let before = total(&["--until", "turns"]);
    let behind = total(&["--from", "turns"]);
    assert_eq!(Some(before + behind), cycles::total(&whole), "{before} {behind}");
}

#[test]
fn an_interrupt_has_cycles_of_its_own() {
    let profile = run("riscv32-storm-pg", &["--cycles=hazard3"]).profile();
    let (of, total) = (cycles::by_interrupt(&profile).expect("they are known"), cycles::total(&profile).unwrap());
    let insns: u64 = profile.zones.exceptions.iter().map(|exception| exception.insns).sum();
    assert!(of.len() == 1 && of.values().all(|&cycles| insns < cycles && cycles < total), "{of:?} of {total}");
}

#[test]
fn a_window_that_ends_within_a_block_has_the_cycles_up_to_there() {
    let total = |insns: u64| {
        let insns = insns.to_string();
        cycles::total(&run("riscv32-paced", &["--cycles=ibex-2", "--for", &insns]).profile()).unwrap()
    };
    let totals: Vec<u64> = (1..60).map(|insns| total(insns * 7)).collect();
    assert!(totals.windows(2).all(|pair| pair[0] + 7 <= pair[1]), "{totals:?}");
    // Among divisions, whose operands are known as they start: those behind the end do not count.
    let divides = run("riscv32-paced-im", &["--cycles=hazard3", "--until", "divides"]).profile().total_insns();
    in_parallel(&(divides..divides + 24).collect::<Vec<_>>(), |insns| {
        let profile = run("riscv32-paced-im", &["--cycles=hazard3", "--for", &insns.to_string()]).profile();
        assert_eq!(cycles::total(&profile), profile.cycles.as_ref().map(|cycles| cycles.clock), "{insns}");
    });
}

#[test]
fn the_table_has_the_most_cycles_first() {
    let place = |output: &str, function: &str| {
        let found = output.lines().position(|line| line.split_whitespace().next() == Some(function));
        found.unwrap_or_else(|| panic!("{function}: {output}"))
    };
    // 22 instructions take 361 cycles; 127 take 188.
    let by_cycles = run("riscv32-paced-im", &["--cycles=ibex-2"]).stdout;
    assert!(place(&by_cycles, "divides") < place(&by_cycles, "loops"));
    let heading = by_cycles.lines().find(|line| line.starts_with("Function")).unwrap();
    assert_eq!(
        heading.split_whitespace().take(4).collect::<Vec<_>>(),
        ["Function", "Cycles", "Share", "Instructions"]
    );
    assert!(by_cycles.contains(" of ibex-2, "), "{by_cycles}");
    let by_insns = run("riscv32-paced-im", &[]).stdout;
    assert!(place(&by_insns, "loops") < place(&by_insns, "divides"));
}

#[test]
fn a_chip_file_names_the_core() {
    let folder = run("riscv32-paced-im", &[]);
    let chip = |core: &str| {
        let file = folder.dir.join(format!("{core}.toml"));
        std::fs::write(&file, format!("[chip]\nlike = \"gd32vf103\"\ncore = \"{core}\"\n")).unwrap();
        file.display().to_string()
    };
    let own = run("chips/gd32vf103-csrs", &["--chip", &chip("ibex-2"), "--cycles"]);
    assert_eq!(own.profile().cycles.and_then(|cycles| cycles.core).as_deref(), Some("ibex-2"), "{own:?}");
    let message = "ibex-9.toml:3: no core is called ibex-9; one of cortex-m0, cortex-m0plus, cortex-m3, cortex-m4, hazard3, ibex-2";
    refused("chips/gd32vf103-csrs", &["--chip", &chip("ibex-9"), "--cycles"], &[message]);
    refused("chips/gd32vf103-csrs", &["--chip", "gd32vf103", "--cycles"], &["name it, as in --cycles=hazard3"]);
}

#[test]
fn a_suite_limits_the_cycles_of_a_core() {
    let output = run("riscv32-paced-im", &[]);
    let limited =
        |limits: &str| suite(&output, "riscv32-paced-im", &format!("cycles = \"ibex-2\"\nassert = [{limits}]"));
    assert_eq!(limited("'cycles <= 8k', 'self_cycles(\"divides\") <= 361'"), Some(0));
    assert_eq!(limited("'self_cycles(\"divides\") <= 360'"), Some(1));
    assert_eq!(suite(&output, "riscv32-paced-im", "cycles = \"ibex-4\""), Some(2));
}

#[test]
fn a_core_is_a_file_and_what_it_lacks_is_not_guessed() {
    const CYCLES: &str = "isa = \"rv32imac\"\n[cycles]\nalu = 2\nshift = 2\nload = 3\nstore = 2\nbranch = 2\n\
        branch-taken = 4\njump = 3\njump-register = 3\ncsr = 1\nmultiply = 5\nmultiply-high = 6\n";
    let output = run("riscv32-paced-im", &[]);
    let cycles = |name: &str, more: &str| {
        let file = output.dir.join(name);
        std::fs::write(&file, format!("{CYCLES}{more}")).unwrap();
        run("riscv32-paced-im", &[&format!("--cycles={}", file.display())]).expect_code(0)
    };
    let known = cycles("slow.toml", "divide = 9\n");
    assert!(known.profile().cycles.is_some_and(|cycles| cycles.core.is_some_and(|core| core.starts_with("slow/"))));
    assert!(cycles::total(&known.profile()).is_some_and(|total| total > 3_000));
    let unknown = cycles("slower.toml", "");
    assert_eq!(cycles::total(&unknown.profile()), None);
    assert!(unknown.stdout.contains("has none in the description of slower/"), "{}", unknown.stdout);
}
