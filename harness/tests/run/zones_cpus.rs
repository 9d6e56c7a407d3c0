// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise of zones on several CPUs, with and without shared translations: each CPU's zones are its own. They
//! have the length that arithmetic and a span over the same addresses give, and that one callback per instruction
//! sees.

use harness::analysis::part;
use harness::analysis::zone::{self, Row};
use harness::profile::zone::{Context, ZoneCounts};
use harness::profile::{Profile, SpanKind};

use crate::common::{Run, run, run_again};

/// Two harts that share translations, and two CPUs that do not.
const IMAGES: [&str; 2] = ["riscv64-smp-zones", "cortex-m33-an521-amp-zones"];

/// Rounds and calls of the first CPU in `zones-cpus.c`; the second has twice as many.
const ROUNDS: u64 = 300;
const CALLS: u64 = 50;

fn row(rows: &[Row], name: &str) -> Row {
    rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no zone {name}")).clone()
}

/// Interrupts of each CPU, as counted by the firmware.
fn ticks(run: &Run) -> Vec<u64> {
    let console = run.console();
    let words = console.split([' ', ',']).skip_while(|word| *word != "ticks").skip(1).take(2);
    words.map(|word| word.parse().unwrap_or_else(|_| panic!("{console}"))).collect()
}

#[test]
fn each_has_the_length_that_arithmetic_and_a_span_say() {
    for name in IMAGES {
        let run = run(name, &["--period", "5003", "--span", "from_here..until_here"]).expect_code(0);
        let profile = run.profile();
        let rows = zone::table(&profile);
        let numbers = |name: &str| {
            let all = row(&rows, name).all;
            [all.calls, all.min_insns, all.max_insns, all.sum_insns, all.own_insns]
        };
        assert_eq!(numbers("exactly"), [3 * CALLS, 41, 41, 3 * CALLS * 41, 3 * CALLS * 20], "{name}");
        assert_eq!(numbers("inner"), [3 * CALLS, 21, 21, 3 * CALLS * 21, 3 * CALLS * 21], "{name}");
        // The zone excludes the other CPU's turns and its own interrupts; the span includes the latter.
        let between = profile.spans.iter().find(|span| matches!(span.kind, SpanKind::Between { .. })).unwrap();
        let [calls, min, max, sum, _] = numbers("stretch");
        assert_eq!((calls, min), (3 * ROUNDS, between.min_insns), "{name}");
        assert!((sum..sum + profile.total_insns() / 20).contains(&between.sum_insns), "{name}: {between:?}, {sum}");
        assert!(max <= between.max_insns, "{name}");
        let contexts = |zone: &str| -> Vec<(String, u64)> {
            row(&rows, zone).contexts.iter().map(|(name, counts)| (name.clone(), counts.calls)).collect()
        };
        let ticks = ticks(&run);
        assert!(ticks.len() == 2 && ticks.iter().all(|&ticks| ticks > 10), "{name}: {ticks:?}");
        let expected = if name.starts_with("riscv") {
            vec![("[irq timer]".to_owned(), ticks[0]), ("[irq software]".to_owned(), ticks[1])]
        } else {
            vec![("[irq SysTick]".to_owned(), ticks[0] + ticks[1])]
        };
        assert_eq!(contexts("tick"), expected, "{name}");
        assert_eq!(contexts("filter")[0], ("[thread]".to_owned(), 2 * 3 * ROUNDS), "{name}");
        for (zone, expected) in [("handed", [0, 1, 1, 1]), ("whole", [0, 0, 0, 2])] {
            let all = row(&rows, zone).all;
            assert_eq!([all.left, all.orphans, all.foreign, all.open], expected, "{name}: {zone}");
            assert_eq!(all.calls, 0, "{name}: {zone}");
        }
        let [mark] = profile.zones.marks[..] else { panic!("{name}: {:?}", profile.zones.marks) };
        let sum = (0..ROUNDS).chain(0..2 * ROUNDS).sum::<u64>() as i64;
        assert_eq!((mark.count, mark.min, mark.max, mark.sum), (3 * ROUNDS, 0, 2 * ROUNDS as i64 - 1, sum), "{name}");
    }
}

#[test]
fn one_callback_per_instruction_sees_the_same_zones() {
    for name in IMAGES {
        let zones = |options: &[&str]| run(name, options).expect_code(0).profile().zones;
        let (plain, oracle) = (zones(&[]), zones(&["--oracle"]));
        assert_eq!(plain, run_again(name, &[]).profile().zones, "{name}");
        assert_eq!(plain.zones, zones(&["--no-stacks"]).zones, "{name}");
        assert_eq!(plain.marks, oracle.marks, "{name}");
        if name.starts_with("riscv") {
            assert_eq!(plain, oracle, "{name}");
            continue;
        }
        // On Cortex-M a handler's return is noticed at the next block with a callback; up to there, instructions
        // count for the handler. Zones that the tick does not interrupt, and the tick's own, are the same.
        assert_eq!(plain.zones.len(), oracle.zones.len(), "{name}");
        for (plain, oracle) in plain.zones.iter().zip(&oracle.zones) {
            assert_eq!((plain.name, plain.context), (oracle.name, oracle.context), "{name}");
            let balance =
                |counts: &ZoneCounts| [counts.calls, counts.left, counts.orphans, counts.foreign, counts.open];
            assert_eq!(balance(&plain.counts), balance(&oracle.counts), "{name}");
            if matches!(plain.context, Context::Exception(_)) {
                assert_eq!(plain.counts, oracle.counts, "{name}");
            }
        }
    }
}

fn insns(profile: &Profile) -> Vec<u64> {
    profile.vcpus.iter().map(|vcpu| vcpu.clock_insns).collect()
}

#[test]
fn slices_and_phases_of_both_sum_to_the_whole() {
    for name in IMAGES.into_iter().chain(["riscv64-smp"]) {
        let plain = run(name, &[]).expect_code(0).profile();
        for options in [&["--slice", "9999"][..], &["--slice", "33333", "--oracle"]] {
            let sliced = run(name, options).expect_code(0).profile();
            assert_eq!(sliced.vcpus, plain.vcpus, "{name} {options:?}");
            let sum = part::of(&sliced, |_| true);
            assert_eq!(insns(&sum), insns(&plain), "{name} {options:?}");
            for (sum, whole) in sum.vcpus.iter().zip(&plain.vcpus) {
                assert_eq!(sum.insns, whole.insns, "{name} {options:?}");
            }
            let length: u64 = options[1].parse().unwrap();
            assert_eq!(u64::from(sliced.parts.slices()), plain.vcpus[0].clock_insns.div_ceil(length), "{name}");
        }
        if name != "riscv64-smp" {
            let phases = part::by_phase(&plain).unwrap();
            let names: Vec<&str> = phases.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, [part::NO_PHASE, "both", "one"], "{name}");
            let calls = |phase: usize| {
                let table = harness::analysis::functions::table(&phases[phase].1);
                table.rows.iter().find(|row| row.name == "exactly").map_or(0, |row| row.calls)
            };
            assert_eq!([0, 1, 2].map(calls), [0, 3 * CALLS, 0], "{name}");
        }
    }
}
