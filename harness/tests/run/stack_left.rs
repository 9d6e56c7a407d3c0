// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a main stack that grows into the variables below it has failed, whatever the firmware says, and the first
//! line names place and variable, and the very instruction. A firmware that changes its stack has not.

use std::path::{Path, PathBuf};

use harness::profile::{End, LeftStack, Profile, StackLeft};
use serde_json::{Value, json};

use crate::common::built::{self, GROWING, Target, cortex_m, riscv, scratch};
use crate::common::{command, finish, harness, run_file};

/// Firmware that goes over to a stack in an array and back, with the main stack far above; with `DEPTH`, it leaves the array.
const OTHER: &str = r#"
volatile char before[256];
static char other[1024] __attribute__((aligned(16)));
volatile char behind[256];
__attribute__((noinline)) int deeper(int depth) {
    volatile char frame[40];
    frame[0] = depth;
    return depth == 0 ? frame[0] : deeper(depth - 1) + frame[0];
}
__attribute__((noinline)) void on_other(void (*call)(void), void *top);
#ifdef __riscv
__asm__(".globl on_other\n.type on_other, @function\non_other: addi sp, sp, -16\n sw s0, 8(sp)\n sw ra, 12(sp)\n"
        " addi s0, sp, 16\n mv sp, a1\n jalr a0\n addi sp, s0, -16\n lw s0, 8(sp)\n lw ra, 12(sp)\n addi sp, sp, 16\n ret\n"
        ".size on_other, . - on_other\n");
#else
__asm__(".globl on_other\n.thumb_func\n.type on_other, %function\non_other: push {r7, lr}\n add r7, sp, #0\n mov sp, r1\n"
        " blx r0\n mov sp, r7\n pop {r7, pc}\n.size on_other, . - on_other\n");
#endif
__attribute__((noinline)) void work(void) {
    for (int round = 0; round < 300; round++) {
        before[round & 255]++;
        behind[round & 255]++;
        deeper(DEPTH);
    }
}
void reset(void) {
    for (int round = 0; round < 4; round++) { deeper(4); on_other(work, other + sizeof other); }
    host(4, "done\n"); host(0x18, STOPPED); for (;;) {}
}
"#;

/// Firmware whose heap grows by 64 bytes `BLOCKS` times from 2,400 bytes below the stack's end, as newlib's does.
const HEAP: &str = r#"
extern char stack_top[];
__attribute__((noinline)) void *sbrk(int more) {
    static char *heap_end;
    if (!heap_end) heap_end = stack_top - 2400;
    char *old = heap_end;
    heap_end += more;
    return old;
}
__attribute__((noinline)) int deeper(int depth) {
    volatile char frame[40];
    frame[0] = depth;
    return depth == 0 ? frame[0] : deeper(depth - 1) + frame[0];
}
void reset(void) {
    for (int block = 0; block < BLOCKS; block++) *(volatile char *)sbrk(64) = block;
    for (int round = 0; round < 300; round++) deeper(20);
    host(4, "done\n"); host(0x18, STOPPED); for (;;) {}
}
"#;

/// Firmware with an array whose length it is told.
const LENGTH: &str = r#"
volatile unsigned counters[64];
volatile char table[1024];
__attribute__((noinline)) int use(volatile char *line, int length) { line[0] = length; return line[length - 1]; }
__attribute__((noinline)) int parse(int length) { char line[length]; return use(line, length); }
void reset(void) {
    counters[3]++;
    table[5]++;
    volatile int length = 3000;
    parse(length);
    host(0x18, STOPPED); for (;;) {}
}
"#;

fn targets() -> Vec<(&'static str, Target)> {
    let arm = |processor: &str| cortex_m(&format!("-mcpu={processor}"), 0, 0x2000_0000, 0x2000_1000);
    vec![
        ("m0", arm("cortex-m0")),
        ("m3", arm("cortex-m3")),
        ("m3-O0", arm("cortex-m3").with("-O0")),
        ("m4-Os", arm("cortex-m4").with("-Os")),
        ("m33", cortex_m("-mcpu=cortex-m33", 0x1000_0000, 0x3800_0000, 0x3800_1000)),
        ("rv32", riscv(32, 0x8000_0000, 0x8008_0000, 0x8008_1000)),
        ("rv64", riscv(64, 0x8000_0000, 0x8008_0000, 0x8008_1000)),
        ("rv32-O0", riscv(32, 0x8000_0000, 0x8008_0000, 0x8008_1000).with("-O0")),
    ]
}

fn left(profile: &Profile) -> &StackLeft {
    assert!(
        matches!(profile.facts.end, End::StackOverflow { stack: LeftStack::Main, .. }),
        "{:?}",
        profile.facts.end
    );
    profile.facts.stack_left.as_ref().unwrap()
}

fn build(target: &Target, dir: &Path, name: &str, source: &str, flags: &str) -> PathBuf {
    target.clone().with(flags).build_source(dir, name, source)
}

#[test]
fn a_main_stack_that_grows_into_variables_has_failed() {
    let dir = scratch();
    for (name, target) in targets() {
        let brief = build(&target, dir.path(), &format!("{name}-brief"), GROWING, "-DDEPTH=70 -DROUNDS=1");
        let long = build(&target, dir.path(), &format!("{name}-long"), GROWING, "-DDEPTH=70 -DROUNDS=300");
        for elf in [&brief, &long] {
            let exact = run_file(elf, &["--exact"]).expect_code(1);
            let first = exact.stdout.lines().next().unwrap();
            for words in
                ["the main stack left its 2,816 bytes at instruction ", " in deeper (", "into .bss: variable "]
            {
                assert!(first.contains(words), "{name}: {words:?} is not in: {first}");
            }
            assert!(exact.console().contains("done"), "{name}: it went on");
            let profile = exact.profile();
            let first = left(&profile).overflow;
            assert!(first.is_first && profile.facts.main_stack_lowest.unwrap() <= first.sp, "{name}: {first:?}");
            assert!(left(&profile).low > first.sp && left(&profile).low - first.sp < 200, "{name}: {first:?}");
            for options in
                [&["--exact", "--period", "97"][..], &[], &["--period", "1M"], &["--branches", "--period", "97"]]
            {
                let other = run_file(elf, options).expect_code(1);
                assert_eq!(left(&other.profile()), left(&profile), "{name} {options:?}: whatever is sampled");
                assert_eq!(other.stdout.lines().next(), exact.stdout.lines().next(), "{name} {options:?}");
            }
        }
    }
}

#[test]
fn without_the_registers_place_a_sample_shows_that_a_main_stack_was_left() {
    let dir = scratch();
    let target = cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_1000);
    let long = build(&target, dir.path(), "long", GROWING, "-DDEPTH=70 -DROUNDS=300");
    let temp = tempfile::tempdir().unwrap();
    let output = command(&long, &[], temp.path()).env("HARNESS_NO_TRICKS", "1").output().unwrap();
    let run = finish(temp, output).expect_code(1);
    let first = run.stdout.lines().next().unwrap();
    for words in ["the main stack had left its 2,816 bytes by instruction ", ": variable ", "--exact finds"] {
        assert!(first.contains(words), "{words:?} is not in: {first}");
    }
    assert!(!left(&run.profile()).overflow.is_first);
}

#[test]
fn a_stack_that_stays_above_the_variables_is_good() {
    let dir = scratch();
    for (name, target) in targets() {
        let good = build(&target, dir.path(), name, GROWING, "-DDEPTH=20 -DROUNDS=300");
        for options in [&["--exact"][..], &["--period", "97"]] {
            let profile = run_file(&good, options).expect_code(0).profile();
            assert_eq!(profile.facts.stack_left, None, "{name} {options:?}");
        }
    }
}

#[test]
fn a_stack_in_an_array_is_not_the_main_stack_and_fails_when_it_leaves_the_array() {
    let dir = scratch();
    for (name, target) in targets() {
        if name.starts_with("rv64") {
            // The firmware's assembly is for registers of 32 bits.
            continue;
        }
        let good = build(&target, dir.path(), &format!("{name}-good"), OTHER, "-DDEPTH=8");
        let bad = build(&target, dir.path(), &format!("{name}-bad"), OTHER, "-DDEPTH=22");
        for options in [&["--exact"][..], &["--period", "97"]] {
            let profile = run_file(&good, options).expect_code(0).profile();
            assert_eq!(profile.facts.stack_left, None, "{name} {options:?}");
            let run = run_file(&bad, options).expect_code(1);
            let profile = run.profile();
            let first = run.stdout.lines().next().unwrap();
            assert!(first.contains("the stack in other ") && first.contains("its 1,024 bytes"), "{name}: {first}");
            assert_eq!(left(&profile).variable.as_deref(), Some("other"), "{name} {options:?}");
        }
    }
}

#[test]
fn an_array_of_a_length_that_the_firmware_is_told_is_seen_as_it_is_made() {
    let dir = scratch();
    for (name, target) in targets() {
        // Armv6-M makes it by setting the stack pointer, as code does that goes over to another stack.
        if name != "m0" {
            let elf = target.build_source(dir.path(), name, LENGTH);
            let run = run_file(&elf, &["--exact"]).expect_code(1);
            let first = run.stdout.lines().next().unwrap();
            assert!(first.contains(" in parse (") && first.contains("the main stack left"), "{name}: {first}");
        }
    }
}

#[test]
fn a_main_stack_that_meets_the_heap_has_failed() {
    let dir = scratch();
    for (name, target) in targets() {
        let good = build(&target, dir.path(), &format!("{name}-good"), HEAP, "-DBLOCKS=10");
        let bad = build(&target, dir.path(), &format!("{name}-bad"), HEAP, "-DBLOCKS=28");
        for options in [&["--exact", "--period", "97"][..], &["--period", "997"]] {
            let profile = run_file(&good, options).expect_code(0).profile();
            assert_eq!(profile.facts.stack_left, None, "{name} {options:?}");
            let run = run_file(&bad, options).expect_code(1);
            let first = run.stdout.lines().next().unwrap();
            for words in ["the main stack had left its 608 bytes by instruction ", "into the heap, which ends at 0x"]
            {
                assert!(first.contains(words), "{name} {options:?}: {words:?} is not in: {first}");
            }
            assert!(left(&run.profile()).is_heap && !first.contains("--exact"), "{name}: {first}");
        }
    }
}

#[test]
fn a_stack_that_was_left_is_in_every_output() {
    let dir = scratch();
    let target = cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_1000);
    let elf = build(&target, dir.path(), "long", GROWING, "-DDEPTH=70 -DROUNDS=300");
    let run = run_file(&elf, &[]).expect_code(1);
    let printed = harness().arg("top").arg(&run.dir).arg("--json").output().unwrap();
    let json: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let found = &json["facts"]["stack_left"];
    assert_eq!(json["facts"]["end"], "stack-overflow");
    assert_eq!((&found["bytes"], &found["variable"]), (&json!(2816), &Value::Null), "{found}");
    assert_eq!(found["reached"], "into .bss: variable table");
    let page = harness().arg("report").arg(&run.dir).args(["-o", "-"]).output().unwrap();
    assert!(String::from_utf8_lossy(&page.stdout).contains(r#""trouble":"the main stack left its "#));
}

/// Firmware of an ATmega328P, which has 2,048 bytes of RAM.
const AVR: &str = "
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
volatile unsigned char counters[600];
__attribute__((noinline)) int deeper(int depth) {
    volatile char frame[20];
    frame[0] = depth;
    return depth == 0 ? frame[0] : deeper(depth - 1) + frame[0];
}
int main(void) {
    for (int round = 0; round < 200; round++) { counters[round]++; deeper(DEPTH); }
    cli();
    sleep_mode();
}
";

#[test]
fn an_avr_whose_stack_grows_into_variables_has_failed() {
    let dir = scratch();
    let source = dir.path().join("growing.c");
    std::fs::write(&source, AVR).unwrap();
    for (flag, depth, is_good) in [("-O1", 70, false), ("-O0", 70, false), ("-Os", 25, true), ("-O0", 25, true)] {
        let elf = dir.path().join(format!("growing{flag}-{depth}.elf"));
        built::avr("atmega328p", &["-g", flag, &format!("-DDEPTH={depth}")], &source, &elf);
        for options in [&["--exact"][..], &["--period", "97"]] {
            let run = run_file(&elf, options);
            let left = run.profile().facts.stack_left;
            assert_eq!(left.is_none(), is_good, "{flag} {options:?}: {}", run.stdout);
            let words = ["its 1,448 bytes", " in deeper", "into .bss: variable counters"];
            assert!(
                is_good || words.iter().all(|words| run.stdout.lines().next().unwrap().contains(words)),
                "{left:?}"
            );
        }
    }
}
