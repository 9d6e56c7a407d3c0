// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: firmware that only waits or has given up is distinguished from firmware that works or idles, even
//! with a periodic tick: in the first line, and by `--strict`.

use std::path::{Path, PathBuf};

use harness::profile::no_progress::Standstill;
use harness::profile::{End, Profile};
use tempfile::TempDir;

use crate::common::built::{Target, cortex_m, riscv, scratch};
use crate::common::{Run, image, run_file};

/// A tick that never stops, and `start` to begin it. `WORD` is a register of a missing device.
const TICK: &str = r#"
#define NOIPA __attribute__((noipa))
volatile unsigned ticks;
volatile int flag;
NOIPA void work(void) { for (volatile int i = 0; i < 20; i++) {} }
NOIPA void on_tick(void);
#ifdef __riscv
#define REGISTER(address) (*(volatile unsigned *)(address))
#define STATUS 0x30000000
#define MTIME (*(volatile unsigned long *)0x0200bff8)
#define MTIMECMP (*(volatile unsigned long *)0x02004000)
#define COUNTER ((unsigned)MTIME)
__attribute__((interrupt, aligned(4))) void trap(void) { MTIMECMP = MTIME + 50; ticks++; on_tick(); }
static void start(void) {
    __asm__ volatile("csrw mtvec, %0" ::"r"(trap));
    MTIMECMP = MTIME + 50;
    __asm__ volatile("csrw mie, %0\n csrsi mstatus, 8" ::"r"(0x80));
}
#else
#define REGISTER(address) (*(volatile unsigned *)(address))
#define STATUS 0x4000f000
#define COUNTER REGISTER(0xe000e018)
void tick(void) { ticks++; on_tick(); }
static const void *table[16] __attribute__((aligned(128)));
static void start(void) {
    table[15] = (const char *)tick + ((unsigned long)tick & 1 ? 0 : 1);
    REGISTER(0xe000ed08) = (unsigned)table;
    REGISTER(0xe000e014) = 399;
    REGISTER(0xe000e018) = 0;
    REGISTER(0xe000e010) = 7;
}
#endif
NOIPA static void wait(void) { __asm__ volatile("wfi"); }
"#;

/// Firmware at a standstill: its name, and its source.
const STANDING: [(&str, &str); 5] = [
    (
        "waits-for-a-device",
        "void on_tick(void) {}\n\
         NOIPA int clock_config(void) { while (!(REGISTER(STATUS) & 1)) {} return 0; }\n\
         NOIPA int main(void) { start(); clock_config(); work(); return 0; }",
    ),
    (
        "waits-by-a-function-that-reads",
        "void on_tick(void) { work(); }\n\
         NOIPA unsigned status(unsigned mask) { return REGISTER(STATUS) & mask; }\n\
         NOIPA unsigned now(void) { return ticks; }\n\
         NOIPA int clock_config(void) { unsigned from = now(); while (!status(1)) if (now() - from > 0x7fffffff) return 1; return 0; }\n\
         NOIPA int main(void) { start(); clock_config(); work(); return 0; }",
    ),
    (
        "waits-in-main",
        "void on_tick(void) { flag ^= 1; }\n\
         NOIPA int main(void) { start(); while (!(REGISTER(STATUS) & 1)) {} work(); return 0; }",
    ),
    (
        "gives-up",
        "void on_tick(void) {}\n\
         NOIPA void error_handler(void) { for (;;) {} }\n\
         NOIPA int clock_config(void) { for (int i = 0; i < 100; i++) if (REGISTER(STATUS) & 1) return 0; error_handler(); return 1; }\n\
         NOIPA int main(void) { start(); clock_config(); work(); return 0; }",
    ),
    (
        "gives-up-in-main",
        "void on_tick(void) { flag++; }\n\
         NOIPA int init(void) { return -1; }\n\
         NOIPA void error_handler(void) { for (;;) __asm__ volatile(\"nop\"); }\n\
         NOIPA int main(void) { start(); if (init()) error_handler(); for (;;) work(); }",
    ),
];

/// Firmware that must not be taken for a standstill: its name, and its source.
const HONEST: [(&str, &str); 12] = [
    // Polls before each character; the register always reads the same.
    (
        "prints",
        "void on_tick(void) {}\nvolatile unsigned printed;\n\
         NOIPA int main(void) { start(); for (;;) { work(); while (REGISTER(STATUS) & 1) {} REGISTER(STATUS + 8) = 'a' + printed++ % 26; } }",
    ),
    // Reads a register that only the firmware changes.
    (
        "reads-its-own-setting",
        "void on_tick(void) {}\n\
         #ifdef __riscv\nNOIPA unsigned group(void) { return ticks; }\n\
         #else\nNOIPA unsigned group(void) { return REGISTER(0xe000ed0c) >> 8 & 7; }\n#endif\n\
         NOIPA int main(void) { start(); for (;;) { work(); flag = group(); } }",
    ),
    // A loop that polls a device each time round, and does the work that the tick asks for.
    (
        "superloop",
        "void on_tick(void) { flag = 1; }\n\
         NOIPA void run(void) { for (;;) { if (REGISTER(STATUS) & 1) work(); if (flag) { flag = 0; work(); } } }\n\
         NOIPA int main(void) { start(); run(); work(); return 0; }",
    ),
    // The same loop, with the work in a function that it always calls.
    (
        "superloop-of-functions",
        "void on_tick(void) { if (ticks % 64 == 0) flag = 1; }\n\
         NOIPA void serve(void) { if (REGISTER(STATUS) & 1) work(); if (flag) { flag = 0; work(); } }\n\
         NOIPA void run(void) { for (;;) serve(); }\n\
         NOIPA int main(void) { start(); run(); work(); return 0; }",
    ),
    // Interrupts do all the work.
    ("interrupts", "void on_tick(void) { work(); }\nNOIPA int main(void) { start(); for (;;) {} }"),
    (
        "interrupts-and-a-last-function",
        "void on_tick(void) { work(); }\n\
         NOIPA void run_for_ever(void) { for (;;) {} }\n\
         NOIPA int main(void) { start(); run_for_ever(); return 0; }",
    ),
    // Sleeps, and polls a device each time it wakes.
    (
        "sleep",
        "void on_tick(void) { work(); }\n\
         NOIPA void idle(void) { for (;;) { wait(); if (REGISTER(STATUS) & 1) work(); } }\n\
         NOIPA int main(void) { start(); idle(); work(); return 0; }",
    ),
    // Most of the time goes to waits for a time.
    (
        "delays",
        "void on_tick(void) {}\n\
         NOIPA void delay(void) { unsigned from = ticks; while (ticks - from < 20) (void)COUNTER; }\n\
         NOIPA void run(void) { for (;;) { delay(); work(); } }\n\
         NOIPA int main(void) { start(); run(); work(); return 0; }",
    ),
    // A long computation in one loop, still under way when the window closes.
    (
        "computes",
        "volatile unsigned result;\nvoid on_tick(void) {}\n\
         NOIPA unsigned compute(unsigned n) { unsigned sum = 1; while (n--) sum = sum * 1103515245 + (sum >> 7); return sum; }\n\
         NOIPA int main(void) { start(); result = compute(-1); work(); return 0; }",
    ),
    // The program is over: the loop of start-up code that follows.
    (
        "is-over",
        "void on_tick(void) {}\n\
         NOIPA void stop(int status) { for (;;) {} }\n\
         NOIPA int main(void) { start(); work(); return 0; }\n#define AFTER stop(",
    ),
    // `main` never ends; if it did, start-up code would continue.
    (
        "interrupts-below-start-up-code",
        "void on_tick(void) { work(); }\n\
         NOIPA int main(void) { start(); for (;;) {} }\n\
         NOIPA void after(int status) { work(); }\n\
         NOIPA int port_main(void) { after(main()); return 0; }\n#define AFTER (port_main(), ",
    ),
    // The awaited flag comes after the middle of the window.
    (
        "comes-late",
        "void on_tick(void) { if (ticks == 1500) flag = 1; }\n\
         NOIPA int clock_config(void) { while (!flag && !(REGISTER(STATUS) & 1)) {} return 0; }\n\
         NOIPA int main(void) { start(); clock_config(); for (;;) work(); }",
    ),
];

const RESET: &str = "\n#ifndef AFTER\n#define AFTER (\n#endif\nvoid reset(void) { AFTER main()); for (;;) {} }\n";

fn targets() -> [(&'static str, Target); 2] {
    [
        ("m3", cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_4000)),
        ("rv", riscv(64, 0x8000_0000, 0x8000_0000, 0x8001_0000)),
    ]
}

fn build(dir: &Path, target: &Target, name: &str, source: &str) -> PathBuf {
    target.build_source(dir, name, &[TICK, source, RESET].concat())
}

fn standstill(run: &Run) -> Option<Standstill> {
    run.profile().facts.only.standstill
}

fn function(profile: &Profile, pc: u64) -> String {
    profile.names.function_at(pc).unwrap().name.clone()
}

/// Window for the images above: some thousand ticks.
const WINDOW: [&str; 2] = ["--for", "1M"];

#[test]
fn firmware_that_only_waits_or_has_given_up_says_so_first_and_is_no_success_under_strict() {
    let dir = scratch();
    for (core, target) in targets() {
        for (name, source) in STANDING {
            let what = format!("{core}-{name}");
            let elf = build(dir.path(), &target, &what, source);
            let has_given_up = name.starts_with("gives-up");
            let run = run_file(&elf, &WINDOW).expect_code(has_given_up.into());
            let first = run.stdout.lines().next().unwrap();
            let profile = run.profile();
            let pc = match (&profile.facts.only.standstill, &profile.facts.end) {
                (Some(found), End::For) if !has_given_up => {
                    assert!(first.starts_with("warning: "), "{what}: {first}");
                    assert!(found.insns > 500_000, "{what}: {found:?}");
                    found.pc
                }
                (None, End::EndlessLoop { pc, .. }) if has_given_up => *pc,
                other => panic!("{what}: {other:?} {}", run.stdout),
            };
            let (place, words): (_, &[&str]) = match name {
                "waits-in-main" => ("main", &[" poll", ": it was 0x", "in main ("]),
                "gives-up" => {
                    ("error_handler", &["gave up in an endless loop at 0x", ", called at 0x", "in clock_config ("])
                }
                "gives-up-in-main" => {
                    ("error_handler", &["gave up in an endless loop at 0x", ", called at 0x", "in main ("])
                }
                "waits-by-a-function-that-reads" => {
                    ("clock_config", &[": it was 0x", "in status (", "--stub status makes it return"])
                }
                _ => (
                    "clock_config",
                    &[
                        ": it was 0x",
                        "in clock_config (",
                        "--stub clock_config makes it return",
                        "--stub clock_config=VALUE",
                    ],
                ),
            };
            assert_eq!(function(&profile, pc), place, "{what}");
            for word in words {
                assert!(first.contains(word), "{what}: {word:?} is not in: {first}");
            }
            let strict = run_file(&elf, &[&WINDOW[..], &["--strict"]].concat()).expect_code(1);
            let is_said = strict.stdout.contains("the firmware stands still, and --strict makes that a failure");
            assert_eq!(is_said, !has_given_up, "{what}");
        }
    }
}

#[test]
fn firmware_that_works_or_idles_does_not_stand_still() {
    let dir = scratch();
    for (core, target) in targets() {
        for (name, source) in HONEST {
            let what = format!("{core}-{name}");
            let elf = build(dir.path(), &target, &what, source);
            let run = run_file(&elf, &[&WINDOW[..], &["--strict"]].concat());
            assert_eq!(standstill(&run), None, "{what}: {}", run.stdout);
            assert_eq!(run.code, 0, "{what}: {}{}", run.stdout, run.stderr);
        }
    }
}

#[test]
fn whether_it_stands_still_is_the_same_however_the_run_is_measured() {
    let dir = scratch();
    for (core, target) in targets() {
        let elf = build(dir.path(), &target, &format!("{core}-waits"), STANDING[1].1);
        let plain = standstill(&run_file(&elf, &WINDOW)).unwrap();
        for options in [&["--period", "97"][..], &["--exact"], &["--no-stacks"], &["--oracle"], &["--slice", "100k"]]
        {
            let run = run_file(&elf, &[&WINDOW[..], options].concat());
            assert_eq!(standstill(&run), Some(plain.clone()), "{core} {options:?}: {}", run.stderr);
        }
        // A limit on the run bounds the window, too, from its opening instruction on.
        let limited = run_file(&elf, &["--from", "clock_config", "--max-insns", "1M"]).expect_code(4);
        assert_eq!(standstill(&limited).map(|found| found.pc), Some(plain.pc), "{core}: {}", limited.stdout);
    }
}

#[test]
fn the_second_half_begins_at_the_instruction_in_the_middle() {
    let (dir, source): (TempDir, _) = (
        scratch(),
        "NOIPA void once(void) { flag = 1; }\nvoid on_tick(void) { if (ticks == 100) once(); }\n\
         NOIPA int clock_config(void) { while (!(REGISTER(STATUS) & 1)) {} return 0; }\n\
         NOIPA int main(void) { start(); clock_config(); work(); return 0; }",
    );
    for (core, target) in targets() {
        let elf = build(dir.path(), &target, &format!("{core}-once"), source);
        let before = run_file(&elf, &["--until", "once"]).expect_code(0).profile().total_insns();
        let with = |window: u64| standstill(&run_file(&elf, &["--for", &window.to_string()]));
        // The last new instruction comes at most this many after the first of `once`.
        assert_eq!(with(2 * before), None, "{core}");
        assert!(with(2 * (before + 40)).is_some(), "{core}");
    }
}

#[test]
fn firmware_without_names_that_polls_stands_still_as_far_as_a_register_alone_is_read() {
    let dir = scratch();
    let (core, target) = &targets()[0];
    let source =
        "void on_tick(void) {}\nNOIPA int main(void) { while (!(REGISTER(STATUS) & 1)) {} work(); return 0; }";
    let elf = build(dir.path(), target, core, source);
    let stripped = dir.path().join("stripped.elf");
    crate::common::built::run(std::process::Command::new("arm-none-eabi-strip").arg("-o").arg(&stripped).arg(&elf));
    let run = run_file(&stripped, &[&WINDOW[..], &["--strict"]].concat()).expect_code(1);
    assert_eq!(standstill(&run).unwrap().register.address, 0x4000_f000);
}

#[test]
fn images_that_never_end_and_do_not_wait_for_a_device_are_a_success_under_strict() {
    for name in ["riscv64-spin", "cortex-m3-spin", "riscv64-hang", "cortex-m3-hang", "cortex-m3-freertos"] {
        let run = run_file(&image(name), &["--for", "4M", "--strict"]).expect_code(0);
        assert_eq!(standstill(&run), None, "{name}");
    }
    for name in ["riscv64-polling", "cortex-m3-polling"] {
        let run = run_file(&image(name), &["--for", "4M", "--strict"]).expect_code(1);
        assert!(standstill(&run).is_some(), "{name}");
    }
}
