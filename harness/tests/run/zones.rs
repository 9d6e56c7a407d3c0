// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise of zones: each has the length that arithmetic, a span over the same addresses and the exact tree give,
//! in tasks that preempt each other, in interrupts, and however code is left. It costs the firmware one instruction.

use harness::analysis::part;
use harness::analysis::zone::{self, ContextNames, Row};
use harness::profile::zone::{Context, Mark, ZoneCounts};
use harness::profile::{Profile, SpanKind, VcpuCounts};
use wire::timeline::What;

use crate::common::built::{cortex_m, riscv, scratch};
use crate::common::{run, run_again, run_file};

/// Images of `zones.c`, by optimisation level, compiler and processor.
const IMAGES: [&str; 16] = [
    "riscv64-zones",
    "cortex-m3-zones",
    "riscv64-zones-O0",
    "cortex-m3-zones-O0",
    "riscv64-zones-Os",
    "cortex-m3-zones-Os",
    "riscv64-zones-O3",
    "cortex-m3-zones-O3",
    "riscv64-zones-lto",
    "cortex-m3-zones-lto",
    "riscv64-zones-clang",
    "cortex-m3-zones-clang",
    "riscv64-zones-pie",
    "riscv32-zones",
    "cortex-m0-zones",
    "cortex-m33-zones",
];

/// Rounds and depth in `zones.c`.
const ROUNDS: u64 = 25;
const DEPTH: u64 = 6;

/// Row of the zone with this name.
fn row(rows: &[Row], name: &str) -> Row {
    rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no zone {name}")).clone()
}

/// Calls, shortest, longest, sum of a zone.
fn numbers(counts: &ZoneCounts) -> [u64; 4] {
    [counts.calls, counts.min_insns, counts.max_insns, counts.sum_insns]
}

fn balance(counts: &ZoneCounts) -> [u64; 4] {
    [counts.left, counts.orphans, counts.foreign, counts.open]
}

/// Asserts that a zone of one function matches the exact calls of that function; the instructions outside of the zone
/// are the same in each call.
fn assert_as_calls(profile: &Profile, rows: &[Row], name: &str) {
    let function = profile.names.functions.iter().find(|function| function.name == name).unwrap();
    let kind = SpanKind::Call { entry: function.start };
    let span = profile.spans.iter().find(|span| span.kind == kind).unwrap();
    let all = row(rows, name).all;
    assert_eq!(all.calls, span.count, "{name}");
    let outside = span.min_insns - all.min_insns;
    assert!((1..80).contains(&outside), "{name}: {outside} instructions outside of it");
    assert_eq!(span.max_insns - all.max_insns, outside, "{name}");
    assert_eq!(span.sum_insns - all.sum_insns, span.count * outside, "{name}");
}

#[test]
fn a_zone_is_as_long_as_a_span_and_arithmetic_say_whatever_made_the_code() {
    for name in IMAGES {
        let exact = run(name, &["--exact", "--span", "from_here..until_here"]).expect_code(0).profile();
        let rows = zone::table(&exact);
        let exactly = row(&rows, "exactly").all;
        assert_eq!(numbers(&exactly), [50, 41, 41, 50 * 41], "{name}");
        assert_eq!(exactly.own_insns, 50 * (41 - 21), "{name}");
        assert_eq!(numbers(&row(&rows, "inner").all), [50, 21, 21, 50 * 21], "{name}");
        let between = exact.spans.iter().find(|span| matches!(span.kind, SpanKind::Between { .. })).unwrap();
        let stretch = row(&rows, "stretch").all;
        if !name.ends_with("-O0") {
            // The functions' first instructions belong to the zone.
            let span = [between.count, between.min_insns, between.max_insns, between.sum_insns];
            assert_eq!(numbers(&stretch), span, "{name}");
        }
        assert_as_calls(&exact, &rows, "filter");
        let walk = row(&rows, "walk").all;
        let nested = ROUNDS * DEPTH;
        assert_eq!((walk.calls, walk.recursive), (ROUNDS * (DEPTH + 1), nested), "{name}");
        // The deepest zones are one call each, and the shortest ones.
        assert!(walk.total_insns == ROUNDS * walk.max_insns && walk.own_insns == walk.total_insns, "{name}");
        // Instructions outside of all zones are no zone's own; all others are one zone's own.
        let own: u64 = rows.iter().map(|row| row.all.own_insns).sum();
        assert!(own <= exact.total_insns(), "{name}");
        let plain = run(name, &["--period", "5003"]).expect_code(0).profile();
        assert_eq!(plain.zones.zones, exact.zones.zones, "{name}");
        assert_eq!(plain.zones.exceptions, exact.zones.exceptions, "{name}");
        let bare = run(name, &["--no-stacks"]).expect_code(0).profile();
        assert_eq!(bare.zones.zones, exact.zones.zones, "{name}");
        let events = exact.zones.names.len();
        assert_eq!(events, plain.zones.names.len());
    }
}

#[test]
fn what_is_not_balanced_is_counted_apart() {
    for name in IMAGES {
        let profile = run(name, &[]).expect_code(0).profile();
        let rows = zone::table(&profile);
        for (zone, expected) in
            [("whole", [0, 0, 0, 1]), ("orphan", [0, 3, 0, 0]), ("abandoned", [1, 0, 0, 0]), ("handed", [0, 1, 1, 1])]
        {
            let all = row(&rows, zone).all;
            assert_eq!((all.calls, balance(&all)), (0, expected), "{name}: {zone}");
        }
        if name != "riscv64-zones-clang" {
            let left = row(&rows, "left").all;
            assert_eq!((left.calls, balance(&left)), (0, [2 * ROUNDS, 0, 0, 0]), "{name}");
            assert_eq!(row(&rows, "landed").all.calls, ROUNDS, "{name}");
            assert_eq!(row(&rows, "lands").all.calls, ROUNDS, "{name}");
        }
        for balanced in ["decode", "bit", "inlined", "filter", "walk", "tick", "exactly"] {
            assert_eq!(balance(&row(&rows, balanced).all), [0; 4], "{name}: {balanced}");
        }
        // Every way out of the loop ends its scope.
        let (decode, bit) = (row(&rows, "decode").all, row(&rows, "bit").all);
        let inlined = row(&rows, "inlined").all;
        let full = inlined.calls - bit.calls;
        assert!(full <= decode.calls && bit.calls >= 4 * full, "{name}");
        assert!(bit.calls <= 4 * decode.calls, "{name}");
    }
}

/// A zone that is left by a jump, ten times; its code then runs in a living frame, in a zone of its own.
const LEFT: &str = r#"
#include "zone.h"
#define NOIPA __attribute__((noipa))
static void *out[5];
NOIPA void parse(int fails) { ZONE_BEGIN("parse"); if (fails) __builtin_longjmp(out, 1); ZONE_END("parse"); }
NOIPA void deeper(int fails) { volatile int room[40]; room[fails] = 1; parse(fails); room[1] = 2; }
NOIPA void request(int fails) { if (!__builtin_setjmp(out)) deeper(fails); }
NOIPA void frame(void) { ZONE("frame"); parse(0); }
void reset(void) {
    for (int i = 0; i < 10; i++) { request(1); frame(); }
    host(0x18, STOPPED);
    for (;;) {}
}
"#;

#[test]
fn a_zone_that_a_jump_left_takes_none_with_it_that_goes_on() {
    let dir = scratch();
    let zone = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../targets/zone");
    for elf in [
        riscv(64, 0x8000_0000, 0x8000_0000, 0x8010_0000).with(zone).build_source(dir.path(), "riscv", LEFT),
        cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2001_0000).with(zone).build_source(dir.path(), "arm", LEFT),
    ] {
        let profile = run_file(&elf, &["--timeline"]).expect_code(0).profile();
        let rows = zone::table(&profile);
        for (name, left) in [("parse", 10), ("frame", 0)] {
            let all = row(&rows, name).all;
            assert_eq!((all.calls, balance(&all)), (10, [left, 0, 0, 0]), "{elf:?}: {name}");
        }
        // In the timeline an event ends where the firmware ends it.
        let named = |wanted: fn(&What) -> bool| {
            let events = profile.timeline.as_ref().unwrap().events();
            events.filter(|event| wanted(&event.what)).count()
        };
        assert_eq!(named(|what| matches!(what, What::Begun { .. })), 30, "{elf:?}");
        assert_eq!(named(|what| matches!(what, What::Ended { .. })), 20, "{elf:?}");
        assert_eq!(named(|what| matches!(what, What::Abandoned { .. })), 10, "{elf:?}");
    }
}

#[test]
fn zones_of_an_interrupt_are_its_own() {
    for name in ["riscv64-zones", "cortex-m3-zones", "cortex-m0-zones", "riscv32-zones"] {
        let profile = run(name, &[]).expect_code(0).profile();
        let rows = zone::table(&profile);
        let tick = row(&rows, "tick");
        assert_eq!((tick.all.calls, tick.contexts.len()), (40, 1), "{name}");
        assert!(tick.contexts[0].0.starts_with("[irq "), "{name}: {:?}", tick.contexts);
        // Without interruptions, filters of the same length take the same time in every call.
        let filter = row(&rows, "filter");
        let [thread, interrupt] = ["[thread]", &tick.contexts[0].0].map(|context| {
            filter.contexts.iter().find(|(name, _)| name == context).unwrap_or_else(|| panic!("{name}: {context}")).1
        });
        assert_eq!(thread.min_insns, thread.max_insns, "{name}");
        assert!(interrupt.calls == 40 && interrupt.max_insns < thread.min_insns, "{name}");
        assert_eq!(tick.all.total_insns, tick.all.own_insns + interrupt.total_insns, "{name}");
    }
}

#[test]
fn marks_keep_their_values() {
    for name in IMAGES {
        let profile = run(name, &[]).expect_code(0).profile();
        let mark = |name: &str| -> Mark {
            let marks = &mut profile.zones.marks.iter();
            *marks.find(|mark| profile.zones.name(mark.name) == name).unwrap()
        };
        let values = |mark: Mark| (mark.count, mark.min, mark.max, mark.sum, mark.last);
        assert_eq!(values(mark("turns")), (50, 0, 147, 49 * 25 * 3, 147), "{name}");
        assert_eq!(values(mark("constant")), (1, -7, -7, -7, -7), "{name}");
        assert_eq!(values(mark("signed")), (25, -10, 14, 50, 14), "{name}");
    }
}

#[test]
fn tasks_that_preempt_each_other_have_each_its_own_time() {
    for name in ["riscv64-zones-tasks", "cortex-m3-zones-tasks", "riscv64-zones-tasks-Os", "cortex-m3-zones-tasks-Os"]
    {
        let exact = run(name, &["--exact"]).expect_code(0).profile();
        let rows = zone::table(&exact);
        for function in ["crunch", "shuffle", "tick"] {
            assert_as_calls(&exact, &rows, function);
        }
        let crunch = row(&rows, "crunch");
        for task in ["busy", "busier"] {
            let of_task = crunch.contexts.iter().find(|(name, _)| name == task).unwrap().1;
            assert!(of_task.calls > 100 && of_task.min_insns == of_task.max_insns, "{name}: {of_task:?}");
        }
        let tick = row(&rows, "tick");
        assert!(tick.contexts.iter().all(|(name, _)| name.starts_with("[irq ")), "{name}: {tick:?}");
        let baton = row(&rows, "baton").all;
        assert_eq!((baton.calls, balance(&baton)), (0, [1, 1, 1, 0]), "{name}");
        assert_eq!(row(&rows, "wait").all.calls, 60, "{name}");
        let plain = run(name, &[]).expect_code(0).profile();
        assert_eq!(plain.zones, run_again(name, &[]).profile().zones, "{name}");
        assert_eq!(plain.zones.zones, exact.zones.zones, "{name}");
    }
}

#[test]
fn what_is_thrown_ends_the_scopes_that_it_leaves() {
    for name in ["cortex-m3-zones-throw", "cortex-m3-zones-throw-Os"] {
        let run = run(name, &["--exact"]).expect_code(0);
        let profile = run.profile();
        let rows = zone::table(&profile);
        let console = run.console();
        let numbers: Vec<u64> = console.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [caught, returned] = numbers[..] else { panic!("{console}") };
        assert!(caught > 10 && returned > 10 && caught + returned == 40, "{console}");
        assert_eq!((row(&rows, "deep").all.calls, row(&rows, "round").all.calls), (3 * 40, 40), "{name}");
        assert_eq!(row(&rows, "scaled").all.calls, 2 * 40, "{name}");
        assert_eq!(row(&rows, "caught").all.calls, caught, "{name}");
        for balanced in ["deep", "round", "scaled", "caught"] {
            assert_eq!(balance(&row(&rows, balanced).all), [0; 4], "{name}: {balanced}");
        }
        let by_hand = row(&rows, "by hand").all;
        assert_eq!((by_hand.calls, balance(&by_hand)), (returned, [caught, 0, 0, 0]), "{name}");
    }
}

#[test]
fn what_began_before_the_window_is_no_zone_and_its_end_no_error() {
    for name in ["riscv64-zones", "cortex-m3-zones"] {
        // The window opens within `whole` and `decode`.
        let profile = run(name, &["--from", "decode"]).expect_code(0).profile();
        let rows = zone::table(&profile);
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert!(!names.contains(&"whole") && !names.contains(&"exactly"), "{name}: {names:?}");
        let whole = run(name, &[]).profile();
        let all = zone::table(&whole);
        assert_eq!(numbers(&row(&rows, "decode").all), numbers(&row(&all, "decode").all), "{name}");
        // A zone that began before the window and ended in it.
        let handed = rows.iter().find(|row| row.name == "handed");
        assert!(handed.is_none_or(|row| row.all.open == 0), "{name}");
        let late = run(name, &["--from", "until_here"]).expect_code(0).profile();
        let rows = zone::table(&late);
        let stretch = row(&rows, "stretch").all;
        assert_eq!((stretch.calls, stretch.orphans), (49, 0), "{name}");
        assert!(late.zones.zones.iter().all(|zone| matches!(zone.context, Context::Task(0) | Context::Exception(_))));
    }
}

#[test]
fn an_event_is_one_instruction_of_the_firmware() {
    for arch in ["riscv64", "cortex-m3"] {
        let [on, off] = ["", "-off"].map(|suffix| {
            let profile = run(&format!("{arch}-zones{suffix}"), &[]).expect_code(0).profile();
            let rows = harness::analysis::functions::table(&profile).rows;
            move |name: &str| {
                let row = rows.iter().find(|row| row.name == name).unwrap();
                assert_eq!(row.self_insns % row.calls, 0, "{name}");
                row.self_insns / row.calls
            }
        });
        for (function, events) in [("exactly", 4), ("from_here", 1), ("until_here", 1), ("note", 1)] {
            assert_eq!(on(function) - off(function), events, "{arch}: {function}");
        }
    }
}

#[test]
fn built_off_there_is_nothing() {
    for name in ["riscv64-zones-off", "cortex-m3-zones-off"] {
        let profile = run(name, &[]).expect_code(0).profile();
        assert_eq!(profile.zones, harness::profile::Zones::default(), "{name}");
        let names = ContextNames::new(&profile);
        assert_eq!(names.name(Context::Task(0)), "[thread]");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn rust_has_the_same_at_every_level() {
    for name in [
        "cortex-m0-rust-zones-Oz",
        "cortex-m3-rust-zones-O0",
        "cortex-m3-rust-zones-O3",
        "riscv64-rust-zones-O3",
        "riscv64-rust-zones-Oz",
    ] {
        let profile = run(name, &[]).expect_code(0).profile();
        let rows = zone::table(&profile);
        let calls = |zone: &str| row(&rows, zone).all.calls;
        assert_eq!((calls("generic"), calls("search"), calls("twice"), calls("print")), (40, 20, 20, 1), "{name}");
        // Every other search ends at its second look, by a return out of the scope.
        assert_eq!(calls("look"), 10 * 2 + 10 * 4, "{name}");
        let walk = row(&rows, "walk").all;
        assert_eq!((walk.calls, walk.recursive), (80, 60), "{name}");
        assert!(rows.iter().all(|row| balance(&row.all) == [0; 4]), "{name}");
        let marks: Vec<_> =
            profile.zones.marks.iter().map(|mark| (mark.count, mark.min, mark.max, mark.last)).collect();
        assert_eq!(marks, [(20, -30, -11, -11), (20, 0, 19, 19)], "{name}");
    }
}

/// Counts of all parts together.
fn sum_of_parts(profile: &Profile) -> Vec<VcpuCounts> {
    part::of(profile, |_| true).vcpus
}

#[test]
fn slices_and_phases_sum_to_the_whole_and_change_nothing() {
    let images = [
        "riscv64-zones",
        "cortex-m3-zones",
        "riscv64-zones-tasks",
        "cortex-m3-zones-tasks",
        "cortex-m3-nested",
        "riscv64-smp",
        "cortex-m33-an521-amp",
    ];
    for name in images {
        let plain = run(name, &[]).expect_code(0).profile();
        for options in [&["--slice", "9999"][..], &["--slice", "100k", "--exact"], &["--slice", "33333", "--oracle"]]
        {
            if name.contains("smp") || name.contains("amp") && options.contains(&"--exact") {
                continue;
            }
            let sliced = run(name, options).expect_code(0).profile();
            assert_eq!(sliced.vcpus, plain.vcpus, "{name} {options:?}");
            for (sum, whole) in sum_of_parts(&sliced).iter().zip(&plain.vcpus) {
                assert_eq!(sum.clock_insns, whole.clock_insns, "{name} {options:?}");
                assert_eq!(sum.insns, whole.insns, "{name} {options:?}");
            }
            let parts = &sliced.parts;
            let length: u64 = options[1].replace('k', "000").parse().unwrap();
            assert_eq!(u64::from(parts.slices()), plain.vcpus[0].clock_insns.div_ceil(length), "{name}");
            for slice in 0..parts.slices() {
                let slice = part::of(&sliced, |part| part.slice == slice);
                let counts = &slice.vcpus[0];
                assert_eq!(counts.insns.iter().map(|insn| insn.count).sum::<u64>(), counts.clock_insns, "{name}");
                let sampled: u64 = slice.samples.iter().filter(|sample| sample.vcpu == 0).count() as u64;
                assert!(counts.clock_insns <= length && sampled <= length / 10_007 + 1, "{name}");
            }
            assert_eq!(parts.of_samples().count(), sliced.samples.len(), "{name}");
            if plain.vcpus.len() == 1 {
                // Each instruction belongs to a task, to none, or to an exception.
                for part in &parts.list {
                    let tasks: u64 = part.tasks.iter().map(|&(_, insns)| insns).sum();
                    let exceptions: u64 = part.exceptions.iter().map(|&(_, insns)| insns).sum();
                    assert_eq!(tasks + exceptions, part.total_insns(), "{name} {options:?} {}", part.slice);
                }
            }
        }
    }
}

#[test]
fn a_phase_is_from_one_phase_to_the_next() {
    for name in ["riscv64-zones", "cortex-m3-zones", "cortex-m0-zones"] {
        let profile = run(name, &[]).expect_code(0).profile();
        let phases = part::by_phase(&profile).unwrap();
        let names: Vec<&str> = phases.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [part::NO_PHASE, "boot", "alone", "ticking", "late"], "{name}");
        assert_eq!(sum_of_parts(&profile), profile.vcpus, "{name}");
        let calls = |phase: usize, name: &str| {
            let table = harness::analysis::functions::table(&phases[phase].1);
            table.rows.iter().find(|row| row.name == name).map_or(0, |row| row.calls)
        };
        // Zones are counted in the part where the firmware executes them, and in no other.
        assert_eq!((calls(1, "exactly"), calls(1, "from_here"), calls(2, "exactly")), (50, 50, 0), "{name}");
        assert_eq!((calls(2, "walk"), calls(3, "walk")), (ROUNDS * (DEPTH + 1), 0), "{name}");
        assert_eq!(calls(3, "tick_work") + calls(4, "tick_work"), 40, "{name}");
        assert_eq!(calls(3, "tick_work"), 20, "{name}");
        // The first instruction of a part is that of the event itself.
        let whole = zone::table(&profile);
        assert!(phases[1].1.total_insns() >= row(&whole, "exactly").all.total_insns, "{name}");
    }
}

#[test]
fn tables_bins_and_stacks_come_by_phase_and_by_slice() {
    let run = run("cortex-m3-zones", &["--slice", "100k", "--by", "phase", "--zones"]).expect_code(0);
    assert!(run.stdout.contains("\nPhase ") && run.stdout.contains("\n13 slices of 100,000 instructions"));
    let profile = run.profile();
    let picture = std::fs::read_to_string(run.dir.join("flamegraph.svg")).unwrap();
    assert!(picture.contains("[phase ticking]") && picture.contains("[zone decode]"));
    let dir = run.dir.to_str().unwrap();
    let harness = |args: &[&str]| {
        let output = crate::common::harness().args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let sum = |folded: &str| -> u64 {
        folded.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    let folded = harness(&["export", dir, "--format", "folded", "--by", "phase"]);
    assert_eq!(sum(&folded), profile.total_insns());
    assert!(folded.lines().all(|line| line.starts_with("[phase ") || line.starts_with("[no phase];")));
    let zones = harness(&["export", dir, "--format", "folded", "--zones"]);
    assert_eq!(sum(&zones), profile.total_insns());
    assert!(zones.contains("[zone decode];decode"), "{zones}");
    assert_eq!(sum(&harness(&["export", dir, "--format", "folded", "--slice", "2..3"])), 200_000);
    assert!(harness(&["bins", dir, "--slice", "12"]).contains("Total"));
    let by_phase = harness(&["bins", dir, "--by", "phase"]);
    assert_eq!(by_phase.matches("\nTotal").count(), 5, "{by_phase}");
    assert!(harness(&["top", dir, "--by", "phase"]).contains("phase late: "));
    let fails = |args: &[&str], what: &str| {
        let output = crate::common::harness().args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(what), "{args:?}: {said}");
    };
    fails(&["bins", dir, "--slice", "13"], "slices 0 to 12");
    fails(&["bins", dir, "--slice", "3..2"], "slices 0 to 12");
    let off = crate::common::run("cortex-m3-zones-off", &[]);
    let dir = off.dir.to_str().unwrap();
    fails(&["bins", dir, "--slice", "0"], "--slice 1M");
    fails(&["top", dir, "--by", "phase"], "no phase");
}

#[test]
fn suites_assert_what_zones_take() {
    let temp = tempfile::tempdir().unwrap();
    let suite = temp.path().join("suite.toml");
    let elf = crate::common::image("cortex-m3-zones");
    let write = |assert: &str| {
        let text = format!("[[image]]\nelf = {elf:?}\nslice = \"100k\"\nassert = [{assert}]\n");
        std::fs::write(&suite, text).unwrap();
        let mut command = crate::common::harness();
        command.args(["test", "--no-cache", "-o"]).arg(temp.path().join("out")).arg(&suite);
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    };
    let holds = r#"'zone_max("exactly") == 41', 'zone_calls("tick") == 40', 'zone("filter") > 50%', 'zone_min("inner") == 21'"#;
    let (code, said) = write(holds);
    assert_eq!(code, 0, "{said}");
    let (code, said) = write(r#"'zone_mean("exactly") < 41', 'zone_max("exactl") < 3'"#);
    // An unknown name is a mistake in the suite, whatever other checks fail.
    assert!(
        code == 2 && said.contains("the firmware has no zone `exactl`; did you mean `exactly`?"),
        "{code} {said}"
    );
    assert!(said.contains(r#"zone_mean("exactly") < 41 does not hold: 41"#), "{said}");
}

#[test]
fn what_a_zone_takes_is_kept_in_baselines_limited_and_compared() {
    let temp = tempfile::tempdir().unwrap();
    let suite = temp.path().join("suite.toml");
    let elf = crate::common::image("cortex-m3-zones");
    let test = |thresholds: &str, options: &[&str]| {
        let text = format!("baseline = \"main\"\n[[image]]\nelf = {elf:?}\nthresholds = {{ {thresholds} }}\n");
        std::fs::write(&suite, text).unwrap();
        let mut command = crate::common::harness();
        command.args(["test", "--no-cache", "-o"]).arg(temp.path().join("out")).arg(&suite).args(options);
        let output = command.current_dir(&temp).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let all = "zone = { '@all' = '0%' }, zone_calls = { '@all' = '0%' }, zone_mean = { '@all' = '0%' }, \
               zone_max = { exactly = '0%', tick = '+100' }";
    let (code, said) = test("total = '50%'", &["--save-baseline", "main"]);
    assert_eq!(code, 0, "{said}");
    let (code, said) = test(all, &[]);
    assert_eq!(code, 0, "{said}");
    // Lower the shortest time in the baseline.
    let kept = std::fs::read_dir(temp.path().join("baselines/main")).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&kept).unwrap();
    let line = text.lines().find(|line| line.starts_with("zone\texactly\t")).unwrap_or_else(|| panic!("{text}"));
    // Calls 50 times 41 instructions; the last column includes what others execute.
    assert!(line.ends_with("\t41\t41\t41\t2050"), "{line}");
    let shorter = line.replace("\t41\t41\t41", "\t40\t40\t40");
    std::fs::write(&kept, text.replace(line, &shorter)).unwrap();
    let (code, said) = test(all, &[]);
    assert_eq!(code, 3, "{said}");
    for what in ["mean instructions of zone exactly", "most instructions of zone exactly"] {
        assert!(said.contains(&format!("{what} +2.50 %, allowed 0 % (40 \u{2192} 41)")), "{what}: {said}");
    }
    // Two profiles side by side.
    let run = run("cortex-m3-zones", &[]).expect_code(0);
    let other = crate::common::run("cortex-m3-zones", &["--for", "500k"]);
    let mut command = crate::common::harness();
    let output = command.arg("diff").args([&other.dir, &run.dir]).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let line = shown.lines().find(|line| line.starts_with("tick ")).unwrap_or_else(|| panic!("{shown}"));
    assert!(shown.contains("Longest") && line.contains(" \u{2192} "), "{shown}");
}

#[test]
fn the_page_and_json_have_zones_phases_and_slices() {
    let run = run("cortex-m3-zones", &["--slice", "100k"]).expect_code(0);
    let dir = run.dir.to_str().unwrap();
    let harness = |args: &[&str]| {
        let output = crate::common::harness().args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&harness(&["export", dir, "--format", "json"])).unwrap();
    let total = json["total_insns"].as_u64().unwrap();
    for parts in ["phases", "slices"] {
        let list = json[parts].as_array().unwrap();
        let sum = |key: &str| -> u64 { list.iter().map(|part| part[key].as_u64().unwrap()).sum() };
        assert_eq!(sum("insns"), total, "{parts}");
        assert_eq!(sum("samples"), json["total_samples"].as_u64().unwrap(), "{parts}");
        for part in list {
            for (key, insns) in [("functions", "self_insns"), ("contexts", "insns")] {
                let of = part[key].as_array().unwrap().iter().map(|one| one[insns].as_u64().unwrap());
                assert_eq!(of.sum::<u64>(), part["insns"].as_u64().unwrap(), "{parts} {key}");
            }
        }
    }
    let exactly = json["zones"].as_array().unwrap().iter().find(|zone| zone["name"] == "exactly").unwrap();
    assert_eq!(exactly["all"]["max_insns"], 41);
    assert_eq!(json["marks"].as_array().unwrap().len(), 3);
    let page = harness(&["report", dir, "-o", "-"]);
    for part in ["\"slice_insns\":100000", "\"exactly\"", "Drag over"] {
        assert!(page.to_lowercase().contains(&part.to_lowercase()), "{part}");
    }
    assert!(!page.contains("// {zones}"));
}
