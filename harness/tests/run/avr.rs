//! Arduino's AVR: its ends, the instructions that QEMU starts twice, interrupts, stacks without debug information.

use std::collections::{BTreeMap, BTreeSet};

use harness::analysis::functions;
use harness::analysis::stack_proof;
use harness::analysis::stack_vs_tree::{Differences, How};
use harness::analysis::stacks::Exceptions;
use harness::profile::{End, Profile};
use wire::definition::{FrameKind, Unknown};

use crate::common::{in_parallel, refused, run};

/// All images of AVR.
const IMAGES: [&str; 7] = [
    "avr/uno",
    "avr/uno-O2",
    "avr/uno-prologues",
    "avr/uno-timer",
    "avr/uno-timer-O2",
    "avr/uno-timer-prologues",
    "avr/uno-sketch",
];

fn count(profile: &Profile, pc: u64) -> u64 {
    profile.vcpus[0].insns.iter().find(|insn| insn.pc == pc).map_or(0, |insn| insn.count)
}

#[test]
fn a_return_from_main_ends_the_run() {
    for name in ["avr/uno", "avr/uno-O2", "avr/uno-prologues"] {
        let run = run(name, &[]).expect_code(0);
        assert!(run.console().contains("fibonacci 610\n") && run.console().ends_with("root 14142\n"), "{name}");
        let profile = run.profile();
        let End::Exit { status: 0, pc } = profile.facts.end else { panic!("{name}: {:?}", profile.facts.end) };
        assert_eq!(count(&profile, pc), 1, "{name}");
        assert_eq!(profile.facts.machine, "uno");
    }
}

#[test]
fn a_sleep_without_interrupts_ends_the_run() {
    let run = run("avr/uno-timer", &[]).expect_code(0);
    assert_eq!(run.console(), "200 interrupts\n");
    assert!(matches!(run.profile().facts.end, End::Exit { status: 0, .. }));
}

/// QEMU tries an access of a device as one of memory first, so that a wrong count would be twice the number of bytes.
#[test]
fn an_access_of_a_device_counts_once() {
    let run = run("avr/uno", &[]).expect_code(0);
    let (profile, bytes) = (run.profile(), run.console().len() as u64);
    // sts 0x00c6, of any register: USART0's data.
    let is_print = |pc: u64| {
        let code = profile.code_at(pc).unwrap_or_default();
        matches!(code, [low, high, 0xc6, 0x00, ..] if low & 0x0f == 0 && high & 0xfe == 0x92)
    };
    let stores: u64 = profile.vcpus[0].insns.iter().filter(|insn| is_print(insn.pc)).map(|insn| insn.count).sum();
    assert_eq!(stores, bytes);
}

/// In between its two starts, QEMU takes an interrupt that was held off.
#[test]
fn an_access_that_an_interrupt_comes_before_counts_once() {
    for name in &IMAGES[3..6] {
        let profile = run(name, &[]).expect_code(0).profile();
        let mut compared = 0;
        for insn in &profile.vcpus[0].insns {
            // out SREG, of any register; lds of any register, USART0's status.
            let code = profile.code_at(insn.pc).unwrap_or_default();
            let &[low, high, next_low, next_high, 0xc0, 0x00, ..] = code else { continue };
            if low & 0x0f == 0x0f && high & 0xfe == 0xbe && next_low & 0x0f == 0 && next_high & 0xfe == 0x90 {
                assert_eq!(count(&profile, insn.pc + 2), insn.count, "{name}");
                compared += insn.count;
            }
        }
        assert!(compared > 100, "{name}: {compared}");
    }
}

#[test]
fn calls_are_exact() {
    let profile = run("avr/uno", &[]).expect_code(0).profile();
    let table = functions::table(&profile);
    let calls = |name: &str| table.rows.iter().find(|row| row.name == name).map_or(0, |row| row.calls);
    // One from `switched`.
    assert_eq!((calls("fill"), calls("by_pointers"), calls("sorted")), (2, 2, 1));
    assert_eq!(calls("count_bits"), 257);
}

#[test]
fn an_interrupt_has_its_name_and_its_place_on_the_stack() {
    let profile = run("avr/uno-timer", &["--period", "101"]).expect_code(0).profile();
    let names = Exceptions::new(&profile);
    let mut found = BTreeSet::new();
    let mut whole = 0_u64;
    for frame in &profile.stacks {
        match frame.kind {
            FrameKind::Exception { number, handler, .. } => {
                found.insert(names.name(number, handler));
            }
            FrameKind::Unknown(why) => panic!("{why:?}"),
            FrameKind::Caller { .. } => whole += 1,
        }
    }
    assert_eq!(found, BTreeSet::from(["[irq TIMER1_COMPA]".to_owned()]));
    assert!(whole > 20, "{whole}");
}

/// Timer0, the clock of Arduino's core, and the converter are not in QEMU's machine.
#[test]
fn a_sketch_waits_by_the_clock_of_arduinos_core() {
    let run = run("avr/uno-sketch", &[]).expect_code(0);
    let turns: String = (0..5).map(|turn| format!("turn {turn} primes 46 light 0\r\n")).collect();
    assert_eq!(run.console(), turns + "clocks agree\r\n");
    let profile = run.profile();
    // A round of Timer0 is 256 ticks of 64 cycles, on a clock of 62.5 ns, where an instruction takes 64 ns.
    let rounds = profile.total_insns() * 64 / (256 * 64 * 125 / 2);
    let calls = functions::table(&profile);
    let calls = |vector: &str| calls.rows.iter().find(|row| row.name == vector).map_or(0, |row| row.calls);
    let ticks = calls("__vector_16");
    assert!(ticks > 90 && ticks.abs_diff(rounds) <= 1, "{ticks} {rounds}");
    // 10 ms of 2 kHz, with two edges in each period, and the interrupt that ends it.
    assert_eq!(calls("__vector_7"), 2 * 2_000 / 100 + 1);
}

#[test]
fn a_chip_file_says_what_an_input_measures() {
    let file = std::env::temp_dir().join(format!("light-{}.toml", std::process::id()));
    let text = "[chip]\nlike = \"atmega328p\"\n[[stimulus]]\nat = 0\nset = [\"ADC.IN0=777\"]\n";
    std::fs::write(&file, text).unwrap();
    let run = run("avr/uno-sketch", &["--chip", file.to_str().unwrap()]).expect_code(0);
    assert!(run.console().starts_with("turn 0 primes 46 light 777\r\n"), "{}", run.console());
    std::fs::remove_file(&file).unwrap();
    let shown = crate::common::harness().args(["chip", "show"]).arg(&run.dir).output().unwrap();
    let said = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(shown.status.code() == Some(2) && said.contains("not counted on AVR"), "{said}");
    refused("avr/uno-sketch", &["--chip", "atmega1280"], &["atmega1280"]);
    refused("avr/uno-sketch", &["--chip", "stm32f407"], &["AVR"]);
}

/// The ancestor of this project printed and cleared its table once a minute.
#[test]
fn a_slice_may_be_a_time() {
    let profile = run("avr/uno-sketch", &["--slice", "64ms"]).expect_code(0).profile();
    assert_eq!(profile.parts.slice_insns, Some(1_000_000), "at 64 ns each");
    assert_eq!(profile.parts.slices(), 3);
    let refused_lengths = ["0ms", "s", "1.5s", "-1s", "1h", "99999999999999s"];
    for length in refused_lengths {
        refused("avr/uno-sketch", &[&format!("--slice={length}")], &["--slice", "or a time in s, ms, us or ns"]);
    }
}

#[test]
fn what_is_not_for_avr_says_so() {
    refused("avr/uno", &["--heap"], &["--heap is not for AVR"]);
    refused("avr/uno", &["--machine", "mega"], &["atmega1280", "avr5"]);
    refused("avr/uno", &["--machine", "mps2-an385"], &["an image for AVR", "a machine of Cortex-M", "uno"]);
}

/// Comparison that `sweep/oracle.rs` makes for the other processors.
#[test]
fn counts_and_samples_are_those_of_the_oracle() {
    in_parallel(&IMAGES, |name| {
        for period in ["1", "97"] {
            let fast = run(name, &["--period", period, "--no-stacks"]).profile();
            let oracle = run(name, &["--period", period, "--no-stacks", "--oracle"]).profile();
            assert_eq!(fast.facts.end, oracle.facts.end, "{name}");
            assert_eq!(fast.vcpus[0].insns, oracle.vcpus[0].insns, "{name}");
            assert_eq!(fast.vcpus[0].arcs, oracle.vcpus[0].arcs, "{name}");
            assert!(fast.samples == oracle.samples, "{name} {period}: the samples differ");
            assert!(fast.total_insns() > 50_000, "{name}");
        }
    });
}

/// Stacks whose outer end is unknown: they are in libgcc's common prologue and epilogue, which functions enter in their
/// middles, and one in `_exit`, to which start-up code falls through.
const CUT: [&[(How, u64)]; 7] = [
    &[(How::Cut(Unknown::NoUnwindInfo), 12)],
    &[(How::Cut(Unknown::NoUnwindInfo), 6)],
    &[(How::Cut(Unknown::NoUnwindInfo), 166), (How::Cut(Unknown::Corrupt), 1)],
    &[],
    &[],
    &[],
    &[],
];

/// Comparison that `sweep/stacks.rs` makes.
#[test]
fn sampled_stacks_are_those_of_the_exact_tree_but_for_code_that_is_entered_in_its_middle() {
    let images: Vec<_> = IMAGES.into_iter().zip(CUT).collect();
    in_parallel(&images, |&(name, expected)| {
        let profile = run(name, &["--exact", "--period", "97"]).expect_code(0).profile();
        assert!(stack_proof::has_exact_tree(&profile), "{name}: {:?}", stack_proof::faults(&profile));
        let Differences { counts, pairs } = Differences::of(&profile);
        let expected: BTreeMap<How, u64> = expected.iter().copied().collect();
        assert_eq!(counts, expected, "{name}: of {}: {pairs:#?}", profile.samples.len());
    });
}
