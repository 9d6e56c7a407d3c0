// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise of the cross-check: the firmware's own `_mcount` counts equal the profiler's on every instrumented
//! image, wherever the run ends; where they cannot, the cause is named.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use harness::analysis::crosscheck::in_target::Cause;
use harness::analysis::functions;
use harness::profile::{InTarget, Profile};

use crate::common::{Run, comparison, image, in_parallel, measured, run};

fn calls(profile: &Profile, name: &str) -> u64 {
    functions::table(profile).rows.iter().find(|row| row.name == name).map_or(0, |row| row.calls)
}

#[test]
fn every_tile_is_counted_three_ways() {
    // Tiles drawn: 32 x 24 tiles, 2 layers, 288 frames.
    const TILES: u64 = 442_368;
    let levels = ["", "-pg", "-pg-O0", "-pg-Os", "-pg-O3"];
    for name in ["riscv64", "cortex-m3"].iter().flat_map(|chip| levels.map(|level| format!("{chip}-tiles{level}"))) {
        let profile = measured(&name, &[]).expect_code(0).profile();
        assert_eq!(calls(profile, "draw_8x8_tile"), TILES, "{name}");
        assert_eq!((calls(profile, "draw_layer"), calls(profile, "draw_frame")), (576, 288), "{name}");
        if !name.contains("-pg") {
            assert_eq!(profile.in_target, None);
            continue;
        }
        let Some(InTarget::Table(table)) = &profile.in_target else { panic!("{name}") };
        let start = profile.names.functions.iter().find(|function| function.name == "draw_8x8_tile").unwrap();
        let own = table.arcs.iter().filter(|arc| (arc.callee & !1).wrapping_sub(start.start) < start.size_bytes);
        assert_eq!(own.map(|arc| arc.count).sum::<u64>(), TILES, "{name}");
    }
}

/// `name count` lines that the firmware printed.
fn printed(run: &Run) -> BTreeMap<String, u64> {
    let console = run.console();
    let pairs = console.lines().filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(name, count)| Some((name.to_owned(), count.trim().parse().ok()?))).collect()
}

#[test]
fn a_storm_of_interrupts_costs_no_count_where_updates_are_protected() {
    for chip in ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m33", "riscv32", "riscv64"] {
        let run = run(&format!("{chip}-storm-pg"), &["--strict"]).expect_code(0);
        let (profile, printed) = (run.profile(), printed(&run));
        assert_eq!(printed.len(), 6, "{chip}");
        for (name, &own) in &printed {
            assert_eq!(calls(&profile, name), own, "{chip}: {name}");
        }
        assert_eq!(comparison(&profile).differences, []);
    }
}

#[test]
fn the_functions_whose_counts_a_lossy_runtime_lost_are_named() {
    for name in ["riscv64-storm-pg-lossy", "cortex-m3-storm-pg-lossy"] {
        let run = run(name, &["--strict", "--top", "0"]).expect_code(1);
        let (profile, printed) = (run.profile(), printed(&run));
        let comparison = comparison(&profile);
        let mut named: BTreeMap<&str, u64> = BTreeMap::new();
        for difference in &comparison.differences {
            *named.entry(&difference.callee).or_default() += difference.calls;
        }
        // Calls that the table lost, from the firmware's own two counts: its variable's less its table's.
        let Some(InTarget::Table(table)) = &profile.in_target else { panic!("{name}") };
        let mut lost: BTreeMap<&str, u64> = BTreeMap::new();
        for (function, own) in &printed {
            let place = profile.names.functions.iter().find(|place| place.name == *function).unwrap();
            let counted =
                table.arcs.iter().filter(|arc| (arc.callee & !1).wrapping_sub(place.start) < place.size_bytes);
            let missing = own - counted.map(|arc| arc.count).sum::<u64>();
            if missing > 0 {
                lost.insert(function, missing);
            }
        }
        assert!(lost.len() >= 3, "{name}: {lost:?}");
        assert_eq!(named, lost, "{name}");
        assert!(run.stdout.contains("lost update: "), "{}", run.stdout);
    }
}

#[test]
fn they_agree_at_whatever_instruction_the_run_ends() {
    let ends: Vec<(String, u64)> =
        ["cortex-m3-storm-pg", "cortex-m0-storm-pg", "riscv64-storm-pg", "riscv32-storm-pg"]
            .into_iter()
            .flat_map(|name| (0..40).map(move |end| (name.to_owned(), 20_000 + 1009 * end + end % 7)))
            .chain(
                ["cortex-m3-freertos-pg-O0", "riscv64-freertos-pg-Os"]
                    .into_iter()
                    .flat_map(|name| (0..12).map(move |end| (name.to_owned(), 1_000_000 + 700_001 * end))),
            )
            .collect();
    let in_flight = std::sync::atomic::AtomicU64::new(0);
    in_parallel(&ends, |(name, end)| {
        let run = run(name, &["--strict", "--for", &end.to_string()]).expect_code(0);
        let flying = comparison(&run.profile()).differences.iter().map(|difference| difference.calls).sum();
        in_flight.fetch_add(flying, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(in_flight.into_inner() > 20, "hardly a run ended on the way into a function");
}

#[test]
fn they_agree_in_whatever_window() {
    let windows: &[(&str, &[&str])] = &[
        ("riscv64-tiles-pg", &["--from", "draw_layer", "--for", "1234567"]),
        ("cortex-m3-tiles-pg", &["--from", "draw_8x8_tile", "--until", "draw_layer"]),
        ("cortex-m3-storm-pg", &["--from", "right", "--for", "300001"]),
        ("riscv64-storm-pg", &["--from", "leaf", "--for", "300002"]),
        ("cortex-m0-storm-pg", &["--from", "SysTick_Handler", "--for", "300003"]),
        // The run ends, or the window opens, while a call is counted.
        ("cortex-m3-bare-pg", &["--until", "__gnu_mcount_nc"]),
        ("riscv64-bare-pg", &["--until", "_mcount"]),
        ("cortex-m3-bare-pg", &["--from", "__gnu_mcount_nc", "--for", "100003"]),
        ("cortex-m3-storm-pg", &["--from", "mcount_count", "--for", "100003"]),
        ("riscv64-storm-pg", &["--from", "_mcount", "--for", "100003"]),
        ("cortex-m3-freertos-pg-Os", &["--from", "xTaskIncrementTick", "--until", "vTaskDelete"]),
        ("riscv64-freertos-pg-Os", &["--from", "vTaskSwitchContext", "--until", "vTaskDelete"]),
    ];
    for (name, window) in windows {
        let options = [&["--strict"], *window].concat();
        run(name, &options).expect_code(0);
    }
}

#[test]
fn tail_calls_interrupts_and_first_entries_are_counted_as_what_they_are() {
    for chip in ["riscv64", "cortex-m3"] {
        let of = |app: &str| comparison(measured(&format!("{chip}-{app}-pg"), &[]).expect_code(0).profile());
        // 5,000 rounds: by_name to last, twice to by_name, by_pointer to either.
        assert_eq!(of("tail").by_tail_call, 15_000, "{chip}");
        let irq = of("irq");
        let expected = if chip == "riscv64" { (0, 1_000) } else { (1_000, 0) };
        assert_eq!((irq.by_interrupt, irq.without_call), expected, "{chip}");
        // Functions without a call: five kinds of work, the reporter, the timer task and the idle task.
        let tasks = of("freertos");
        assert!((7..=8).contains(&tasks.without_call), "{chip}: {tasks:?}");
        let partly = of("partly");
        assert!(partly.not_instrumented.iter().any(|name| name == "silent"), "{partly:?}");
        assert!(partly.not_instrumented.iter().any(|name| name == "silent_leaf"), "{partly:?}");
        assert!(!partly.not_instrumented.iter().any(|name| name == "counted"), "{partly:?}");
    }
}

#[test]
fn what_the_runtime_says_of_itself_accounts_for_all_that_is_missing() {
    for chip in ["riscv64", "cortex-m3"] {
        for (app, cause) in
            [("tablefull", Cause::TableFull), ("ignored", Cause::Ignored), ("hottest", Cause::Decayed)]
        {
            let profile = measured(&format!("{chip}-calls-pg-{app}"), &[]).expect_code(0).profile();
            let Some(InTarget::Table(table)) = &profile.in_target else { panic!("{chip} {app}") };
            let comparison = comparison(profile);
            let missing: u64 = comparison.differences.iter().map(|difference| difference.calls).sum();
            let said = if cause == Cause::Ignored { table.ignored } else { table.dropped };
            assert_eq!(missing, u64::from(said), "{chip} {app}");
            assert!(missing > 0, "{chip} {app}");
        }
    }
}

#[test]
fn the_small_mode_follows_what_is_hot_now() {
    for name in ["riscv64-calls-pg-hottest", "cortex-m3-calls-pg-hottest"] {
        let hottest = comparison(measured(name, &[]).expect_code(0).profile()).hottest;
        // In the second phase 20 of 32 calls are work12's and 10 of 32 are work11's; work1 and work2, frequent in the
        // first phase, are not called.
        assert_eq!((hottest[0].0.as_str(), hottest[1].0.as_str()), ("work12", "work11"), "{name}: {hottest:?}");
        assert!(hottest[0].1.abs_diff(640) < 20 && hottest[1].1.abs_diff(320) < 20, "{name}: {hottest:?}");
        assert!(hottest.iter().all(|(function, _)| function != "work1" && function != "work2"), "{hottest:?}");
    }
}

/// Runs an image on plain QEMU, as `targets/check` does; returns its output.
fn on_plain_qemu(name: &str) -> String {
    let scratch = tempfile::tempdir().unwrap();
    let console = scratch.path().join("console");
    let (qemu, machine, shift) = match name.split('-').next() {
        Some("riscv64") => ("qemu-system-riscv64", "virt", 3),
        _ => ("qemu-system-arm", "mps2-an385", 5),
    };
    let status = Command::new(qemu)
        .args(["-M", machine, "-display", "none", "-monitor", "none", "-net", "none", "-kernel"])
        .arg(image(name))
        .args(["-icount", &format!("shift={shift},align=off,sleep=off"), "-chardev"])
        .arg(format!("file,id=con,path={},mux=on", console.display()))
        .args(["-serial", "chardev:con", "-semihosting-config", "enable=on,target=native,chardev=con"])
        .args(if machine == "virt" { &["-bios", "none"][..] } else { &[] })
        .status()
        .unwrap();
    assert!(status.success(), "{name}: {status}");
    fs::read_to_string(console).unwrap()
}

#[test]
fn without_a_harness_the_firmware_prints_the_same_table() {
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap();
    for name in ["riscv64-tiles-pg", "cortex-m3-tiles-pg", "cortex-m3-calls-pg-tablefull", "riscv64-calls-pg-ignored"]
    {
        let printed = on_plain_qemu(name);
        let mut lines = printed.lines().filter_map(|line| line.strip_prefix("mcount "));
        let profile = measured(name, &[]).expect_code(0).profile();
        let Some(InTarget::Table(table)) = &profile.in_target else { panic!("{name}") };
        let head =
            format!("arcs {} dropped {} ignored {} resets 0", table.capacity_entries, table.dropped, table.ignored);
        assert_eq!(lines.next(), Some(head.as_str()), "{name}");
        let mut arcs: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            *arcs.entry((hex(words[0]), hex(words[1]))).or_default() += words[2].parse::<u64>().unwrap();
        }
        let harness: BTreeMap<(u64, u64), u64> =
            table.arcs.iter().map(|arc| ((arc.caller, arc.callee), arc.count)).collect();
        assert!(harness.len() > 5, "{name}");
        assert_eq!(arcs, harness, "{name}");
    }
    let printed = on_plain_qemu("cortex-m3-calls-pg-hottest");
    assert!(printed.contains("mcount hottest 4 dropped ") && printed.contains("/1024\n"), "{printed}");
}

/// Numbers of one column of a Markdown table, by the image that the first cell names.
fn documented(file: &str, column: usize) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)).unwrap();
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        let name = cells[0].strip_prefix('`')?.strip_suffix('`')?;
        let number = cells.get(column)?.trim_end_matches(['%', 'M', ' ']).parse().ok()?;
        Some((name.to_owned(), number))
    });
    rows.collect()
}

/// Whether a number is within 10 % of the documented one, so that another version of the compiler passes.
fn is_near(measured: f64, documented: f64) -> bool {
    (measured - documented).abs() < 0.1 * documented
}

#[test]
fn the_price_of_pg_is_the_documented_one() {
    let per_call = documented("targets/mcount/README.md", 2);
    assert!(per_call.len() >= 6, "{per_call:?}");
    for (name, documented) in per_call {
        let overhead = comparison(measured(&name, &[]).expect_code(0).profile()).overhead;
        let measured = overhead.insns as f64 / overhead.calls as f64;
        assert!(is_near(measured, documented), "{name}: {measured:.2} instructions per call");
    }
    // Columns: instructions with and without instrumentation, and those of the runtime, in millions.
    let columns = [1, 2, 3].map(|column| documented("docs/in-target.md", column));
    assert_eq!(columns[2].len(), 4, "{columns:?}");
    for name in columns[2].keys() {
        let plain = measured(name, &[]).expect_code(0).profile().total_insns();
        let counting = measured(&format!("{name}-pg"), &[]).expect_code(0).profile();
        let runtime = comparison(counting).overhead.insns;
        let measured = [plain, counting.total_insns(), runtime].map(|insns| insns as f64 / 1e6);
        for (column, measured) in columns.iter().zip(measured) {
            assert!(is_near(measured, column[name]), "{name}: {measured:.2}, documented {}", column[name]);
        }
        // The rest is the calls of the runtime, and code that the compiler made differently.
        assert!(plain + runtime < counting.total_insns(), "{name}");
    }
}
