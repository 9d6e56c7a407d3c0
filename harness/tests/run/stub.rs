// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--stub`: functions that return at once, so that firmware for a real chip goes on where QEMU's machine lacks
//! something.

use std::collections::BTreeMap;
use std::path::Path;

use harness::analysis::calltree::CallTree;
use harness::analysis::stacks::{self, View};
use harness::profile::{Profile, Stub};

use crate::common::built::{Target, cortex_m, riscv, scratch};
use crate::common::{Run, run, run_file};

/// Waits for a clock that never gets ready, in functions that begin with a push; one of them is empty.
const CHIP: &str = r#"
volatile unsigned ready, sink;
__attribute__((noinline)) void tick(volatile unsigned *word) { sink += *word; }
#define WAIT_IN(f, returns) __attribute__((noinline)) returns f(unsigned x) { \
    volatile unsigned frame[9]; \
    for (unsigned i = 0; i < 9; i++) frame[i] = x; \
    while (!ready) tick(&frame[x & 7]); \
    return frame[2]; \
}
WAIT_IN(HAL_RCC_OscConfig, int)
WAIT_IN(HAL_RCC_ClockConfig, int)
WAIT_IN(HAL_GetUID, unsigned long)
__attribute__((noinline)) void HAL_RCC_Callback(void) { __asm__ volatile(""); }
__attribute__((noinline)) unsigned work(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 500; i++) sum += HAL_RCC_ClockConfig(i);
    return sum;
}
void reset(void) {
    int good = HAL_RCC_OscConfig(1) == 0;
    HAL_RCC_Callback();
    good &= work() == 500 * 0;
    host(4, good && HAL_GetUID(7) == UID ? "clocked\n" : "not clocked\n");
    host(0x18, STOPPED);
    for (;;) {}
}
"#;

fn chips() -> Vec<(&'static str, Target, &'static str)> {
    let m0 = cortex_m("-mcpu=cortex-m0 -DUID=0x12345678", 0, 0x2000_0000, 0x2000_4000);
    let m3 = cortex_m("-mcpu=cortex-m3 -DUID=0x12345678", 0, 0x2000_0000, 0x2000_4000);
    let riscv32 = riscv(32, 0x8000_0000, 0x8000_0000, 0x8001_0000).with("-DUID=0xfedcba98ul");
    let riscv64 = riscv(64, 0x8000_0000, 0x8000_0000, 0x8001_0000).with("-DUID=0x1122334455667788ul");
    vec![
        ("m0", m0, "305419896"),
        ("m3", m3, "0x12345678"),
        ("riscv32", riscv32, "0xfedcba98"),
        ("riscv64", riscv64, "0x1122334455667788"),
    ]
}

fn build(target: &Target, dir: &Path, name: &str) -> std::path::PathBuf {
    target.build_source(dir, name, CHIP)
}

/// Calls of a function, and executions of its instructions.
fn counts(profile: &Profile, name: &str) -> (u64, u64) {
    let function = profile.names.functions.iter().find(|function| function.name == name).unwrap();
    let range = function.start..function.start + function.size_bytes;
    let inside = profile.vcpus[0].insns.iter().filter(|insn| range.contains(&insn.pc)).map(|insn| insn.count).sum();
    let table = harness::analysis::functions::table(profile);
    let row = table.rows.iter().find(|row| row.name == name).unwrap();
    (row.calls, inside)
}

fn stubbed(elf: &Path, uid: &str, more: &[&str]) -> Run {
    let uid = format!("HAL_GetUID={uid}");
    let stubs = ["--stub", "HAL_RCC_Callback", "--stub", "HAL_RCC_*=0", "--stub", &uid];
    run_file(elf, &[&stubs, more].concat())
}

#[test]
fn firmware_goes_on_where_its_chip_would() {
    let dir = scratch();
    for (name, target, uid) in chips() {
        let elf = build(&target, dir.path(), name);
        // Without the stub, QEMU's machine never gets past the clock.
        run_file(&elf, &["--max-insns", "2M"]).expect_code(4);
        let result = stubbed(&elf, uid, &["--max-insns", "2M", "--period", "7"]).expect_code(0);
        assert_eq!(result.console(), "clocked\n", "{name}");
        let profile = result.profile();
        let stubs = &profile.facts.stubs;
        let returns: BTreeMap<&str, Option<i64>> =
            stubs.iter().map(|Stub { name, returns, .. }| (&**name, *returns)).collect();
        assert_eq!(returns["HAL_RCC_OscConfig"], Some(0));
        assert_eq!(returns["HAL_RCC_Callback"], None, "{name}: a name counts more than a pattern");
        assert_eq!(returns.len(), 4, "{name}: {returns:?}");
        assert!(result.stdout.contains("4 functions returned at once (--stub): "), "{}", result.stdout);
        // It is called as often as without the stub, and executes two instructions each time.
        assert_eq!(counts(&profile, "HAL_RCC_ClockConfig"), (500, 1000), "{name}");
        assert_eq!(counts(&profile, "HAL_RCC_Callback"), (1, 1), "{name}");
        // The profile keeps the code that ran; the replaced code's lines are not attributed to it.
        let start = stubs.iter().find(|stub| stub.name == "HAL_RCC_ClockConfig").unwrap().address;
        assert_eq!(profile.names.line_at(start), None, "{name}");
        assert_eq!(profile.names.code_line_at(start), None, "{name}");
        assert_eq!(profile.names.frames_at(start).len(), 1, "{name}");
    }
}

#[test]
fn stacks_of_and_behind_a_stub_are_right() {
    let dir = scratch();
    for (name, target, uid) in chips() {
        // Unwound by DWARF's rules, and by the code alone.
        for flags in ["-g", "-g0 -fno-asynchronous-unwind-tables"] {
            let elf = build(&target.clone().with(flags), dir.path(), name);
            for exact in [&[][..], &["--exact"]] {
                // A value that takes several instructions: in the middle of them, the old code would have pushed
                // already.
                let more = ["--stub", "HAL_RCC_ClockConfig=0x12345678", "--from", "reset", "--period", "3"];
                let result = stubbed(&elf, uid, &[&more, exact].concat());
                let profile = result.expect_code(0).profile();
                assert_eq!(stacks::unknown(&profile), BTreeMap::new(), "{name} {flags}");
                assert_eq!(profile.facts.resynchronised, 0, "{name} {flags}");
                let tree = CallTree::new(&profile, View { fold_irqs: false }).stacks();
                let inside: Vec<Vec<&str>> = tree
                    .keys()
                    .map(|stack| stack.iter().map(|frame| &*frame.name).collect())
                    .filter(|stack: &Vec<&str>| stack.last() == Some(&"HAL_RCC_ClockConfig"))
                    .collect();
                assert_eq!(inside.len(), 1, "{name} {flags}: {inside:?}");
                assert!(inside[0].ends_with(&["reset", "work", "HAL_RCC_ClockConfig"]), "{name} {flags}: {inside:?}");
            }
        }
    }
}

#[test]
fn the_firmwares_own_counts_agree_without_what_was_stubbed() {
    for name in ["cortex-m3-calls-pg", "riscv64-calls-pg"] {
        let all = run(name, &["--strict"]).expect_code(0);
        let result = run(name, &["--stub", "work3=1", "--stub", "work1?", "--strict"]).expect_code(0);
        let line = result.stdout.lines().find(|line| line.contains("not instrumented")).unwrap();
        for function in ["work3", "work10", "work11", "work12"] {
            assert!(line.contains(function), "{name}: {line}");
        }
        let calls = |run: &Run| counts(&run.profile(), "work3");
        assert_eq!(calls(&result).0, calls(&all).0, "{name}");
        assert!(calls(&result).1 < calls(&all).1, "{name}");
    }
}

#[test]
fn what_cannot_be_stubbed_is_refused_with_what_to_do() {
    let dir = scratch();
    let elf = build(&cortex_m("-mcpu=cortex-m3 -DUID=1", 0, 0x2000_0000, 0x2000_4000), dir.path(), "fw");
    for (stub, expected) in [
        ("HAL_SPI_*=0", &["no function's name matches"][..]),
        ("HAL_RCC_OscConfi", &["no function is called", "did you mean `HAL_RCC_OscConfig`"]),
        ("HAL_RCC_Callback=0", &["has 2 bytes", "takes 4", "--stub 'HAL_RCC_Callback' behind"]),
        ("HAL_RCC_*=0", &["HAL_RCC_Callback", "has 2 bytes"]),
        ("HAL_RCC_Callback=0x123456789", &["takes 1"]),
        ("work=some", &["not a value to return"]),
        ("0x20000000", &["no function is at 0x20000000"]),
        ("=1", &["write FUNC or FUNC=VALUE"]),
    ] {
        let result = run_file(&elf, &["--stub", stub]).expect_code(2);
        for expected in expected {
            assert!(result.stderr.contains(expected), "{stub}: {expected:?} not in {}", result.stderr);
        }
        let is_about_the_file = !stub.contains("some") && !stub.starts_with('=');
        assert_eq!(result.stderr.contains("fw.elf: --stub "), is_about_the_file, "{}", result.stderr);
        assert!(!result.has_profile());
    }
}

#[test]
fn a_value_is_what_the_calling_convention_makes_of_it() {
    let dir = scratch();
    // The compiler compares the whole register where the type has its width.
    let source = r#"
#define WAIT_IN(f, type) __attribute__((noipa)) type f(volatile int *x) { \
    volatile int frame[9]; \
    while (!*x) for (int i = 0; i < 9; i++) frame[i] = *x; \
    return frame[2]; \
}
WAIT_IN(narrow, unsigned)
WAIT_IN(signed_narrow, int)
WAIT_IN(wide, unsigned long long)
WAIT_IN(small_wide, unsigned long long)
static volatile int zero;
void reset(void) {
    int good = narrow(&zero) == 0xffffffffu && signed_narrow(&zero) == -1;
    good &= (unsigned long long)narrow(&zero) == 0xffffffffull;
    good &= wide(&zero) == 0x1122334455667788ull && small_wide(&zero) == 0xffffffffull;
    host(4, good ? "good\n" : "bad\n");
    host(0x18, STOPPED);
    for (;;) {}
}
"#;
    for (name, target, _) in chips() {
        let elf = target.build_source(dir.path(), name, source);
        let stubs = ["--stub", "narrow=0xffffffff", "--stub", "signed_narrow=4294967295"];
        let long = ["--stub", "wide=0x1122334455667788", "--stub", "small_wide=0x00000000ffffffff"];
        let result = run_file(&elf, &[&stubs[..], &long, &["--max-insns", "2M"]].concat()).expect_code(0);
        assert_eq!(result.console(), "good\n", "{name}");
        // Printed in the form that `--stub` accepts.
        for said in ["signed_narrow=-1", " wide=0x1122334455667788", "small_wide=0x00000000ffffffff"] {
            assert!(result.stdout.contains(said), "{name}: {said:?} is not in {}", result.stdout);
        }
    }
}

#[test]
fn a_trap_handler_is_no_function_that_returns() {
    let dir = scratch();
    let source = r#"
__attribute__((interrupt, used)) void trap(void) { __asm__ volatile("csrw mie, zero"); }
void reset(void) { host(0x18, STOPPED); for (;;) {} }
"#;
    let elf = riscv(64, 0x8000_0000, 0x8000_0000, 0x8001_0000).build_source(dir.path(), "fw", source);
    let result = run_file(&elf, &["--stub", "trap=0"]).expect_code(2);
    assert!(result.stderr.contains("mret"), "{}", result.stderr);
}
