// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--cycles=cortex-m3` and its kin: cycles as an interval, the same however the run is measured, and limits that only the whole
//! interval crosses.

use std::fs;

use harness::analysis::cycles;

use super::limit::suite;
use crate::common::{Run, harness, image, in_parallel, refused, run};

#[test]
fn the_interval_does_not_depend_on_how_the_run_is_measured() {
    let ways: [&[&str]; 6] = [
        &["--exact"],
        &["--branches"],
        &["--oracle", "--no-stacks"],
        &["--period", "1"],
        &["--slice", "1000"],
        &["--timeline"],
    ];
    let images =
        [("cortex-m3-freertos", "cortex-m3"), ("cortex-m4-nested", "cortex-m4"), ("cortex-m0-bare", "cortex-m0")];
    in_parallel(&images, |(name, core)| {
        let option = format!("--cycles={core}");
        let plain = run(name, &[&option]).profile();
        let total = cycles::total(&plain).expect("they are counted");
        assert_eq!(plain.cycles.as_ref().unwrap().clock, total, "{name}: by the clock and by instructions");
        match cycles::interval(&plain) {
            Some((least, most)) => {
                assert!(
                    plain.total_insns() / 2 < least && least < total && total < most,
                    "{name}: {least} {total} {most}"
                );
                assert!(most - least < total / 2, "{name}: {least} to {most}");
            }
            None => assert_eq!(*core, "cortex-m0", "the manual has a number for each"),
        }
        for way in ways {
            let other = run(name, &[&[option.as_str()], way].concat()).profile();
            assert_eq!(plain.cycles, other.cycles, "{name} {way:?}");
        }
    });
}

#[test]
fn an_interrupt_has_its_entries_and_its_returns() {
    let profile = run("cortex-m3-nested", &["--cycles=cortex-m3"]).profile();
    let executions = profile.insns();
    let insns = &profile.cycles.as_ref().unwrap().insns;
    let handlers: Vec<_> = profile.zones.exceptions.iter().map(|exception| exception.handler & !1).collect();
    assert!(handlers.len() > 6, "{handlers:x?}");
    let mut alone = 0;
    for handler in handlers {
        let (insn, times) =
            (insns.iter().find(|insn| insn.pc == handler).expect("it executed"), executions[&handler]);
        let (least, most) = (insn.cycles - insn.fewer, insn.cycles + insn.more);
        // Six behind another handler, and 12 or more otherwise.
        assert!(least >= 6 * times && insn.cycles >= 6 * times && most <= 40 * times, "{insn:?} {times}");
        alone += usize::from(insn.cycles >= 12 * times);
    }
    assert!(alone > 2, "{alone}");
    let by_interrupt = cycles::by_interrupt(&profile).expect("they are known");
    assert!(by_interrupt.values().all(|&cycles| cycles > 10_000), "{by_interrupt:?}");
    assert!(by_interrupt.values().sum::<u64>() < cycles::total(&profile).unwrap(), "{by_interrupt:?}");
}

#[test]
fn the_interval_stands_beside_the_number_wherever_it_is_read() {
    let output = run("cortex-m3-bare", &["--cycles=cortex-m3"]);
    let (least, most) = cycles::interval(&output.profile()).expect("divisions are not read");
    assert!(output.stdout.contains(" of cortex-m3 (between "), "{}", output.stdout);
    let heading = output.stdout.lines().find(|line| line.starts_with("Function")).unwrap();
    assert_eq!(heading.split_whitespace().take(4).collect::<Vec<_>>(), ["Function", "Cycles", "±", "Share"]);
    let json = harness().args(["top", "--json"]).arg(&output.dir).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["total_cycles_between"], serde_json::json!([least, most]));
    let functions = json["functions"].as_array().unwrap().iter().filter(|row| row["self_insns"] != 0);
    let sums = functions.fold([0, 0], |[fewest, all], row| {
        let of = |index: usize| row["cycles_between"][index].as_u64().unwrap();
        [fewest + of(0), all + of(1)]
    });
    assert_eq!(sums, [least, most]);
    let csv = output.dir.join("functions.csv");
    assert!(harness().args(["export", "-f", "csv", "-o"]).arg(&csv).arg(&output.dir).status().unwrap().success());
    let csv = fs::read_to_string(csv).unwrap();
    assert!(csv.lines().next().unwrap().ends_with(",cycles,cycles_least,cycles_most"), "{csv}");
    // A core without public numbers says so.
    let small = run("cortex-m0-bare", &["--cycles=cortex-m0"]);
    assert!(small.stdout.contains("by its manual, and held on no board"), "{}", small.stdout);
}

/// Status of a suite with a run's image, and what it prints.
fn judged(output: &Run, lines: &str) -> (Option<i32>, String) {
    let (path, elf) = (output.dir.join("judged.toml"), image("cortex-m3-bare"));
    fs::write(&path, format!("[[image]]\nelf = {elf:?}\ncycles = \"cortex-m3\"\n{lines}\n")).unwrap();
    let output =
        harness().args(["test", "--no-cache", "-o"]).arg(output.dir.join("reports")).arg(path).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn a_limit_is_crossed_only_if_the_whole_interval_is_beyond_it() {
    let output = run("cortex-m3-bare", &["--cycles=cortex-m3"]);
    let (least, most) = cycles::interval(&output.profile()).unwrap();
    let middle = least.midpoint(most);
    let suite = |lines: &str| suite(&output, "cortex-m3-bare", &format!("cycles = \"cortex-m3\"\n{lines}"));
    for (limit, fails) in [(least - 1, true), (middle, false), (most, false)] {
        let status = |failed| Some(if fails { failed } else { 0 });
        assert_eq!(suite(&format!("assert = ['cycles <= {limit}']")), status(1), "{limit}");
        assert_eq!(suite(&format!("[image.thresholds]\ncycles = \"{limit}\"")), status(3), "{limit}");
    }
    let assertion = format!("assert = ['cycles <= {middle}']");
    for (lines, failed) in [(assertion, 1), (format!("[image.thresholds]\ncycles = \"{middle}\""), 3)] {
        let (status, said) = judged(&output, &lines);
        assert!(status == Some(0) && said.contains("undecided") && said.contains("between"), "{status:?} {said}");
        let (status, said) = judged(&output, &format!("strict = true\n{lines}"));
        assert!(status == Some(failed) && said.contains("undecided"), "{status:?} {said}");
    }
    assert_eq!(suite(&format!("strict = true\nassert = ['cycles <= {most}']")), Some(0));
    // Of a single call only the most likely number is known.
    let (status, said) = judged(&output, "assert = ['max_cycles(\"crc\") <= 1M']");
    assert!(status != Some(0) && said.contains("known to an interval only"), "{status:?} {said}");
}

#[test]
fn a_core_that_the_image_is_not_for_or_that_nobody_knows_is_refused_with_the_reason() {
    for (name, core, why) in [
        ("cortex-m3-bare", "cortex-m0", "the core executes Armv6-M, and the image is for"),
        ("cortex-m3-bare", "hazard3", "the core executes RV32, and the image is for"),
        ("riscv32-paced", "cortex-m3", "the core executes Armv7-M, and the image is for"),
        ("cortex-m33-bare", "cortex-m4", "the core executes Armv7-M, and the image is for"),
        ("cortex-m33-bare", "cortex-m33", "cortex-m33 is not served: "),
        ("cortex-m7-bare", "cortex-m7", "two instructions in a cycle"),
    ] {
        refused(name, &[&format!("--cycles={core}")], &[why]);
    }
}
