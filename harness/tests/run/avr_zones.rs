// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zones, phases and marks on AVR: their lengths are those of arithmetic, and they cost a word of flash each and no RAM.

use harness::analysis::part;
use harness::analysis::zone::{self, Row};
use harness::profile::Profile;
use harness::profile::zone::{Context, ZoneCounts};
use object::{Object as _, ObjectSection as _};

use crate::common::{image, run};

/// Images of `uno-zones.c`.
const IMAGES: [&str; 3] = ["avr/uno-zones", "avr/uno-zones-O2", "avr/uno-zones-lto"];

/// Rounds and depth in `uno-zones.c`.
const ROUNDS: u64 = 50;
const DEPTH: u64 = 6;

/// Instructions of its `spin`.
const SPIN: u64 = 1 + 2 * 200;

fn row(rows: &[Row], name: &str) -> ZoneCounts {
    rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no zone {name}")).all
}

/// Number of marks of a name, with their lowest and highest value.
fn mark(profile: &Profile, name: &str) -> (u64, i64, i64) {
    let marks = &profile.zones.marks;
    let mark = marks.iter().find(|mark| profile.zones.name(mark.name) == name).unwrap();
    (mark.count, mark.min, mark.max)
}

#[test]
fn zones_are_as_long_as_arithmetic_says_under_interrupts() {
    for name in IMAGES {
        let run = run(name, &[]).expect_code(0);
        assert!(!run.stderr.contains("warning:"), "{name}: {}", run.stderr);
        let profile = run.profile();
        let rows = zone::table(&profile);
        let numbers = |counts: ZoneCounts| [counts.calls, counts.min_insns, counts.max_insns, counts.own_insns];
        let (exactly, inner) = (row(&rows, "exactly"), row(&rows, "inner"));
        assert_eq!(numbers(exactly), [ROUNDS, SPIN + 23, SPIN + 23, ROUNDS * (SPIN + 2)], "{name}");
        // The end of the inner zone is an instruction of the outer one.
        assert_eq!(numbers(inner), [ROUNDS, 21, 21, ROUNDS * 21], "{name}");
        assert!(exactly.elapsed_insns > exactly.sum_insns, "{name}: no interrupt came within");
        let walk = row(&rows, "walk");
        assert_eq!((walk.calls, walk.recursive), (ROUNDS * (DEPTH + 1), ROUNDS * DEPTH), "{name}");
        let scoped = row(&rows, "scoped");
        assert!(scoped.calls == ROUNDS && scoped.max_insns >= scoped.min_insns + 5, "{name}: {scoped:?}");
        for counts in [exactly, inner, walk, scoped, row(&rows, "tick")] {
            assert_eq!([counts.left, counts.orphans, counts.foreign, counts.open], [0; 4], "{name}");
        }
        assert!(!profile.zones.names.iter().any(|name| name == "dropped"), "{name}: the linker has dropped it");
    }
}

#[test]
fn a_zone_of_an_interrupt_is_its_own() {
    for name in IMAGES {
        let profile = run(name, &[]).expect_code(0).profile();
        let number = profile.zones.exceptions[0].number;
        let ticks: Vec<_> =
            profile.zones.zones.iter().filter(|zone| profile.zones.name(zone.name) == "tick").collect();
        assert_eq!(ticks.iter().map(|zone| zone.context).collect::<Vec<_>>(), [Context::Exception(number)], "{name}");
        let counts = ticks[0].counts;
        // A round of the timer takes 1,500 cycles of 62.5 ns, an instruction 64 ns.
        let rounds = profile.total_insns() * 64 / (1_500 * 125 / 2);
        assert!(counts.calls > 10 && counts.calls.abs_diff(rounds) <= 1, "{name}: {} {rounds}", counts.calls);
        assert_eq!(counts.min_insns, counts.max_insns, "{name}");
        assert_eq!(mark(&profile, "ticks"), (counts.calls, 1, counts.calls as i64), "{name}");
        // The whole handler is of the exception, and more than its zone.
        assert!(profile.zones.exceptions[0].insns > counts.sum_insns, "{name}");
    }
}

#[test]
fn a_mark_has_the_value_of_its_type() {
    for name in IMAGES {
        let profile = run(name, &[]).expect_code(0).profile();
        for (mark_name, value) in [
            ("byte", 200),
            ("small", -3),
            ("word", 50_000),
            ("wide", -70_000),
            ("is", 1),
            ("constant", 40_000),
            ("negative", -5),
        ] {
            assert_eq!(mark(&profile, mark_name), (1, value, value), "{name}: {mark_name}");
        }
    }
}

#[test]
fn phases_are_the_whole_run() {
    for name in IMAGES {
        let profile = run(name, &[]).expect_code(0).profile();
        let phases: Vec<(String, u64)> = part::by_phase(&profile)
            .unwrap()
            .into_iter()
            .map(|(name, profile)| (name, profile.total_insns()))
            .collect();
        let names: Vec<&str> = phases.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [part::NO_PHASE, "exactly", "alone", "end"], "{name}");
        assert_eq!(phases[2].1, 1 + SPIN, "{name}: interrupts are off");
        assert_eq!(phases.iter().map(|(_, insns)| insns).sum::<u64>(), profile.total_insns(), "{name}");
    }
}

#[test]
fn zones_are_those_of_the_oracle() {
    for name in IMAGES {
        let fast = run(name, &[]).profile();
        for other in ["--oracle", "--exact", "--no-stacks"] {
            let other = run(name, &[other]).profile();
            assert_eq!(fast.zones.zones, other.zones.zones, "{name}");
            assert_eq!(fast.zones.marks, other.zones.marks, "{name}");
            assert_eq!(fast.zones.exceptions, other.zones.exceptions, "{name}");
        }
    }
}

#[test]
fn an_event_takes_a_word_of_flash_and_no_ram() {
    let sizes = |name: &str| {
        let bytes = std::fs::read(image(name)).unwrap();
        let elf = object::File::parse(&*bytes).unwrap();
        let size = |name: &str| elf.section_by_name(name).map_or(0, |section| section.size());
        (size(".text"), size(".data") + size(".bss"))
    };
    let profile = run("avr/uno-zones", &[]).expect_code(0).profile();
    let ((with, ram), (without, ram_without)) = (sizes("avr/uno-zones"), sizes("avr/uno-zones-off"));
    assert_eq!(ram, ram_without);
    // Two each of exactly, inner, scoped, walk and tick, three phases, eight marks; some values want a word for each byte.
    let events = 2 * 5 + 3 + 8;
    assert!((2 * events..=4 * events).contains(&(with - without)), "{}", with - without);
    let off = run("avr/uno-zones-off", &[]).expect_code(0).profile();
    assert!(off.zones.zones.is_empty() && off.zones.names.is_empty());
    assert!(off.total_insns() < profile.total_insns());
}
