// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: firmware that crashed never looks good. Each kind of fault, in each kind of handler, on each core, fails at
//! once, and the first line names the fault and the line it came from; so does a failed assertion. Firmware that is done
//! stays good.

use std::path::Path;

use harness::profile::End;

use crate::common::built::{self, Target, cortex_m, riscv, scratch};
use crate::common::{Run, run_file};

/// Start-up code, and a vector table that leads to `handler` alone.
const START: &str = r#"
extern char stack_top[];
__attribute__((used)) void reset(void);
__attribute__((used)) void handler(void);
int main(void);
static volatile unsigned sink;
#define NOINLINE __attribute__((noinline))
#ifdef __riscv
__asm__(".globl _start\n_start: la sp, stack_top\n la t0, handler\n csrw mtvec, t0\n j reset\n");
#define ENTRY __attribute__((aligned(4)))
#define WILD 0xf0000000
#define RESET_REQUEST() *(volatile unsigned *)0x100000 = 0x7777
#define UNDEFINED() __asm__ volatile("unimp")
#define BREAKPOINT() __asm__ volatile("ebreak")
#else
#define ENTRY
__attribute__((section(".vec"), used)) const void *const vectors[48] = {
    stack_top, reset, handler, handler, handler, handler, handler, handler, 0, 0, 0, handler, handler, 0, handler, handler};
#define WILD 0xf0023800
#define RESET_REQUEST() *(volatile unsigned *)0xe000ed0c = 0x05fa0004
#define UNDEFINED() __asm__ volatile("udf #0")
#define BREAKPOINT() __asm__ volatile("bkpt 1")
#endif
void reset(void) { main(); for (;;) {} }
"#;

/// Firmware whose `culprit` faults by KIND; its handler does HANDLER.
const CRASH: &str = r#"
static void (*volatile callback)(void);
static volatile int zero;
NOINLINE static void load(void) { sink = *(volatile unsigned *)WILD; }
NOINLINE static void store(void) { *(volatile unsigned *)WILD = 1; }
NOINLINE static void undefined(void) { UNDEFINED(); }
NOINLINE static void null_call(void) { callback(); sink++; }
NOINLINE static void wild_call(void) { callback = (void (*)(void))(WILD + 1); callback(); sink++; }
NOINLINE static void breakpoint(void) { BREAKPOINT(); }
#ifndef __riscv
NOINLINE static void divide(void) { *(volatile unsigned *)0xe000ed14 |= 1 << 4; sink = 4 / zero; }
NOINLINE static void unaligned(void) { *(volatile unsigned *)0xe000ed14 |= 1 << 3; sink = *(volatile unsigned *)(0x20000001 + zero); }
#endif
int main(void) { for (int i = 0; i < 10; i++) sink += i; KIND(); sink = 99; for (;;) sink++; }

ENTRY void handler(void) {
#if HANDLER == 0
    for (;;) {}
#elif HANDLER == 1
    for (unsigned i = 0;; i++) __asm__ volatile("" :: "r"(i));
#elif HANDLER == 2
    for (;;) sink++;
#elif HANDLER == 3
    RESET_REQUEST(); for (;;) {}
#elif HANDLER == 4
    UNDEFINED(); for (;;) {}
#elif HANDLER == 5
    BREAKPOINT(); for (;;) {}
#elif HANDLER == 6
    for (;;) __asm__ volatile("wfi");
#endif
}
"#;

/// Cores: name and target.
fn cores() -> Vec<(&'static str, Target)> {
    let m = |flags: &str| cortex_m(flags, 0, 0x2000_0000, 0x2000_2000);
    vec![
        ("m0", m("-mcpu=cortex-m0")),
        ("m3", m("-mcpu=cortex-m3")),
        ("m4f", m("-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16")),
        ("m7", m("-mcpu=cortex-m7")),
        ("m33", m("-mcpu=cortex-m33")),
        ("rv32", riscv(32, 0x8000_0000, 0x8000_0000, 0x8001_0000)),
        ("rv64", riscv(64, 0x8000_0000, 0x8000_0000, 0x8001_0000)),
    ]
}

/// Kinds of fault by function of the firmware.
const KINDS: [&str; 8] =
    ["load", "store", "undefined", "null_call", "wild_call", "breakpoint", "divide", "unaligned"];

/// Kinds of handlers, by number.
const HANDLERS: std::ops::Range<usize> = 0..7;

/// Reason why a core has no such fault; None: it has.
fn missing(core: &str, kind: &str) -> Option<&'static str> {
    match (core, kind) {
        ("rv32" | "rv64", "divide") => {
            Some("a division by zero gives -1 (The RISC-V Instruction Set Manual, M extension)")
        }
        ("rv32" | "rv64", "unaligned") => Some("QEMU's processors do unaligned accesses"),
        ("m0", "divide") => Some("Armv6-M has no division"),
        ("m0", "load" | "store" | "wild_call") => {
            Some("QEMU's microbit has a device at each address that has no memory, and executes it")
        }
        _ => None,
    }
}

fn flags(target: &Target, kind: &str, handler: usize, more: &str) -> Target {
    target.clone().with(format!("-O2 -DKIND={kind} -DHANDLER={handler} {more}").trim())
}

#[track_caller]
fn assert_crashed(run: &Run, what: &str, kind: &str, handler: usize) {
    assert_eq!(run.code, 1, "{what}: {}{}", run.stdout, run.stderr);
    let first = run.stdout.lines().next().unwrap_or_default();
    let culprit = format!(" in {kind} (");
    let profile = run.profile();
    let end = &profile.facts.end;
    let is_arm = profile.facts.is_arm();
    // On RISC-V only the code itself tells that it is in a handler, and none executes while the processor sleeps.
    if handler != 6 || is_arm {
        assert!(first.contains(&culprit), "{what}: {culprit:?} is not in: {first}");
    }
    let is_right = match handler {
        3 => matches!(end, End::Reset { .. }),
        4 | 5 if is_arm => matches!(end, End::LockUp { .. }),
        6 => matches!(end, End::Asleep { .. }),
        _ => matches!(end, End::Faulting { .. }),
    };
    assert!(is_right, "{what}: {end:?}");
    if handler < 2 {
        assert!(profile.total_insns() < 1_000, "{what}: it ended after {} instructions", profile.total_insns());
    }
}

/// Builds and runs one cell of the table.
fn cell(dir: &Path, (core, target): &(&str, Target), kind: &str, handler: usize, more: &str) {
    if missing(core, kind).is_some() {
        return;
    }
    let what = format!("{core}-{kind}-{handler}{}", more.replace(' ', ""));
    let elf = flags(target, kind, handler, more).build_whole(dir, &what, &[START, CRASH].concat());
    assert_crashed(&run_file(&elf, &["--for", "300k"]), &what, kind, handler);
}

#[test]
fn each_fault_on_each_core_fails_at_once_and_names_its_line() {
    let (dir, is_whole) = (scratch(), std::env::var("HARNESS_CRASHES").is_ok_and(|crashes| crashes == "all"));
    for core in &cores() {
        for (index, kind) in KINDS.into_iter().enumerate() {
            // By default each kind and each handler once a core; the whole product under `.ci/run --all`.
            for handler in HANDLERS.filter(|handler| is_whole || *handler == 0 || index == 2) {
                cell(dir.path(), core, kind, handler, "");
            }
        }
        cell(dir.path(), core, "undefined", 0, "-flto");
    }
}

/// Firmware that gave up: name, source, and the words of the first line.
const GAVE_UP: [(&str, &str, &[&str]); 10] = [
    // The function that blinks has a name that says nothing; the one that called it, or jumped to it, says what it is.
    (
        "blinks",
        "NOINLINE static void led(int x) { sink = x; }\n\
         NOINLINE static void blink(void) { for (;;) { led(1); led(0); } }\n\
         NOINLINE static void assertion_failed(int x) { sink = x; blink(); }\n\
         int main(void) { sink = 3; if (sink == 3) assertion_failed(7); return 0; }",
        &["gave up in an endless loop at ", " in blink ("],
    ),
    (
        "blinks-in-an-interrupted-world",
        "NOINLINE static void led(int x) { sink = x; }\n\
         NOINLINE static void blink(void) { for (;;) { led(1); led(0); } }\n\
         NOINLINE static void assertion_failed(int x) { sink = x; blink(); }\n\
         int main(void) { TICK(); sink = 3; if (sink != 2) assertion_failed(7); return 0; }",
        &["gave up in an endless loop at ", " in blink ("],
    ),
    // Its last words.
    (
        "prints",
        "#ifdef __riscv\n#define PRINT(c) *(volatile char *)0x10000000 = (c)\n\
         #else\n#define PRINT(c) *(volatile unsigned *)0x40004000 = (c)\n#endif\n\
         NOINLINE static void put(const char *text) { while (*text) PRINT(*text++); }\n\
         NOINLINE static void check_failed(void) { put(\"boot\\nassert x > 3\\n\"); for (;;) {} }\n\
         NOINLINE static void report(void) { sink = 7; }\n\
         int main(void) { START_CONSOLE(); sink = 3; if (sink != 4) check_failed(); report(); return 0; }",
        &["in check_failed (", "; the last line printed is \"assert x > 3\""],
    ),
    // The compiler knows that it never returns, so nothing follows its call.
    (
        "assert",
        "NOINLINE static void my_assert(void) { for (;;) {} }\n\
         NOINLINE static void report(void) { sink = 7; }\n\
         int main(void) { sink = 3; if (sink != 4) my_assert(); report(); return 0; }",
        &["in my_assert (", ", called at 0x", "in main ("],
    ),
    // A neutral name, and a caller that should have gone on.
    (
        "check",
        "NOINLINE static void stop_here(void) { for (;;) {} }\n\
         NOINLINE static int check(int x) { if (x < 5) stop_here(); return x; }\n\
         NOINLINE static void report(void) { sink = 7; }\n\
         int main(void) { sink = 3; sink = check(sink); report(); return 0; }",
        &["in stop_here (", "in check ("],
    ),
    // Blinks for ever, under a tick.
    (
        "blinks",
        "NOINLINE static void Error_Handler(void) { for (;;) { sink ^= 1; for (volatile int i = 0; i < 50; i++) {} } }\n\
         NOINLINE static void report(void) { sink = 7; }\n\
         int main(void) { TICK(); sink = 3; if (sink != 4) Error_Handler(); report(); return 0; }",
        &["in Error_Handler (", "in main ("],
    ),
    // Exits under a tick.
    (
        "exits-under-a-tick",
        "NOINLINE void _exit(int status) { sink = status; for (;;) {} }\n\
         int main(void) { TICK(); sink = 3; if (sink != 4) _exit(3); sink = 5; return 0; }",
        &["exited with status 3 at 0x", "in _exit ("],
    ),
    // A counter in the loop.
    (
        "counts",
        "NOINLINE static void abort_now(void) { for (unsigned i = 0;; i++) __asm__ volatile(\"\" :: \"r\"(i)); }\n\
         int main(void) { sink = 3; if (sink != 4) abort_now(); sink = 5; return 0; }",
        &["in abort_now (", "in main ("],
    ),
    // Under a tick: the name says what it is.
    (
        "ticks",
        "NOINLINE static void Error_Handler(void) { for (;;) {} }\n\
         NOINLINE static void report(void) { sink = 7; }\n\
         int main(void) { TICK(); sink = 3; if (sink != 4) Error_Handler(); report(); return 0; }",
        &["in Error_Handler (", "in main ("],
    ),
    // By way of `_exit`, as newlib's `abort`.
    (
        "exit",
        "NOINLINE void _exit(int status) { sink = status; for (;;) {} }\n\
         NOINLINE static void abort(void) { _exit(1); }\n\
         int main(void) { sink = 3; if (sink != 4) abort(); sink = 5; return 0; }",
        &["exited with status 1 at 0x", "in _exit ("],
    ),
];

/// Firmware that is done: name and source.
const DONE: [(&str, &str); 12] = [
    // A loop that blinks, after a failure that was mended and went through the same function by a tail call.
    (
        "blinks-after-a-mended-failure",
        "NOINLINE static void led(int x) { sink = x; }\n\
         NOINLINE static void blink(int turns) { for (int i = 0; i != turns; i++) { led(1); led(0); } }\n\
         NOINLINE static void report_failure(int x) { sink = x; blink(3); }\n\
         int main(void) { report_failure(7); blink(-1); return 0; }",
    ),
    ("main-stays", "int main(void) { sink = 3; if (sink != 3) { sink = 4; } for (;;) {} }"),
    ("main-returns", "int main(void) { sink = 3; return 0; }"),
    (
        "last-function",
        "NOINLINE static void done(void) { for (;;) {} }\n\
         NOINLINE static void error_handler(void) { sink = 9; for (;;) {} }\n\
         int main(void) { sink = 3; if (sink != 3) error_handler(); done(); return 0; }",
    ),
    (
        "exits",
        "NOINLINE void _exit(int status) { sink = status; for (;;) {} }\nint main(void) { sink = 3; _exit(0); return 0; }",
    ),
    ("interrupts", "int main(void) { TICK(); for (;;) {} }"),
    (
        "last-function-under-ticks",
        "NOINLINE static void run_for_ever(void) { for (;;) {} }\n\
         NOINLINE static void error_handler(void) { sink = 9; for (;;) {} }\n\
         int main(void) { TICK(); if (sink == 77) error_handler(); run_for_ever(); return 0; }",
    ),
    (
        "check-with-a-loop-of-its-own",
        "NOINLINE static void led(int x) { sink = x; }\n\
         int main(void) {\n sink = 3;\n if (sink != 3) {\n  led(1);\n  for (;;) {}\n }\n led(2);\n for (;;) {}\n}",
    ),
    // What was printed says that it is good; the other branch comes later.
    (
        "passes-first",
        "NOINLINE static void put(int x) { sink = x; }\n\
         int main(void) {\n sink = 3;\n if (sink == 3) {\n  put(1);\n  for (;;) {}\n }\n put(2);\n for (;;) {}\n}",
    ),
    // A scheduler's idle loop, with a line after it for the case that it returns.
    (
        "scheduler",
        "NOINLINE static void idle(void) { for (;;) {} }\n\
         NOINLINE static int start_scheduler(void) { TICK(); if (sink != 77) idle(); return 1; }\n\
         NOINLINE static void out_of_memory(void) { sink = 9; }\n\
         int main(void) { start_scheduler(); out_of_memory(); for (;;) {} }",
    ),
    (
        "default-task",
        "NOINLINE static void StartDefaultTask(void) { for (;;) {} }\nint main(void) { TICK(); StartDefaultTask(); return 0; }",
    ),
    // A failure that was mended.
    (
        "recovers",
        "NOINLINE static int test_failed(int x) { sink = x; return x > 3; }\n\
         int main(void) { for (int i = 0; test_failed(i) == 0; i++) {} for (;;) {} }",
    ),
];

/// A tick, whose handler only counts.
const TICK: &str = r#"
#ifdef __riscv
#define MTIME (*(volatile unsigned long long *)0x0200bff8)
#define MTIMECMP (*(volatile unsigned long long *)0x02004000)
__attribute__((interrupt, aligned(4))) void handler(void) { MTIMECMP = MTIME + 50; sink++; }
#define START_CONSOLE() 0
#define TICK() (MTIMECMP = MTIME + 50, ({ __asm__ volatile("csrw mie, %0\n csrsi mstatus, 8" ::"r"(0x80)); }))
#else
void handler(void) { sink++; }
#define START_CONSOLE() *(volatile unsigned *)0x40004008 = 1
#define TICK() (*(volatile unsigned *)0xe000e014 = 399, *(volatile unsigned *)0xe000e018 = 0, *(volatile unsigned *)0xe000e010 = 7)
#endif
"#;

#[test]
fn firmware_that_gave_up_fails_and_says_where_and_who_called() {
    let dir = scratch();
    for (core, target) in cores() {
        for (name, source, words) in GAVE_UP {
            for optimised in ["-O2", "-Os -flto"] {
                // Only the CMSDK boards and RISC-V's have these serial interfaces.
                if name == "prints" && !["m3", "m4f", "m7", "rv32", "rv64"].contains(&core) {
                    continue;
                }
                if (name, optimised) == ("exits-under-a-tick", "-Os -flto") {
                    // The argument is a constant of `_exit`'s copy, and never passed.
                    continue;
                }
                let what = format!("{core}-{name}{}", optimised.replace(' ', ""));
                let elf =
                    target.clone().with(optimised).build_whole(dir.path(), &what, &[START, TICK, source].concat());
                let run = run_file(&elf, &["--for", "200k"]);
                assert_eq!(run.code, 1, "{what}: {}{}", run.stdout, run.stderr);
                let shown = if name.starts_with("exit") { &run.stdout } else { run.stdout.lines().next().unwrap() };
                for word in words {
                    // Whole-program optimisation may inline the function that called.
                    assert!(
                        shown.contains(word) || optimised.ends_with("lto"),
                        "{what}: {word:?} is not in: {shown}"
                    );
                }
            }
        }
    }
}

#[test]
fn firmware_that_is_done_stays_good() {
    let dir = scratch();
    for (core, target) in cores() {
        for (name, source) in DONE {
            let what = format!("{core}-{name}");
            let elf = target.clone().with("-O2").build_whole(dir.path(), &what, &[START, TICK, source].concat());
            let run = run_file(&elf, &["--for", "200k", "--strict"]);
            assert_eq!(run.code, 0, "{what}: {}{}", run.stdout, run.stderr);
            let end = run.profile().facts.end;
            let is_right = if name == "exits" { matches!(end, End::Exit { status: 0, .. }) } else { end == End::For };
            assert!(is_right, "{what}: {end:?}");
        }
    }
}

/// Recursion without an end: the board lets the writes vanish, or the writes fault.
const RECURSES: &str = "NOINLINE static int parse(int depth) { volatile char buffer[256];\n\
     for (int i = 0; i < 256; i++) buffer[i] = depth;\n return parse(depth + 1) + buffer[depth & 255]; }\n\
     int main(void) { sink = parse(0); for (;;) {} }";

#[test]
fn a_stack_that_leaves_the_memory_ends_the_run_and_names_the_function() {
    let dir = scratch();
    for (core, target) in cores() {
        let elf = target.clone().with("-O1").build_whole(dir.path(), core, &[START, TICK, RECURSES].concat());
        for options in [&[][..], &["--exact"], &["--no-stacks"]] {
            let run = run_file(&elf, &[&["--for", "3M"], options].concat());
            assert_eq!(run.code, 1, "{core}: {}{}", run.stdout, run.stderr);
            let first = run.stdout.lines().next().unwrap();
            let words = [
                "the stack has left the RAM that begins at 0x",
                "its stack had left the memory",
                "the CPU locked up",
            ];
            let is_named = ["in parse (", "in handler ("].iter().any(|place| first.contains(place));
            assert!(words.iter().any(|word| first.contains(word)) && is_named, "{core}: {first}");
            assert!(run.profile().total_insns() < 2_500_000, "{core} {options:?}: {first}");
        }
    }
}

/// Firmware that starts anew twice, by a jump, and then stays in `main`; with BOOTS it starts an application instead.
const RESTARTS: &str = "static volatile int starts;\n\
     NOINLINE static void application(void) { sink = 5; for (;;) {} }\n\
     static void (*volatile entry)(void);\n\
     NOINLINE static void again(void) { entry(); sink++; }\n\
     #ifdef __riscv\nvoid _start(void);\n#else\n#define _start reset\n#endif\n\
     int main(void) { entry = BOOTS ? application : _start; if (starts++ < 2) again(); for (;;) {} }";

#[test]
fn firmware_that_comes_through_its_entry_again_restarted_and_a_boot_loader_did_not() {
    let dir = scratch();
    for (core, target) in cores() {
        let build = |boots: u32| {
            let target = target.clone().with(&format!("-O2 -DBOOTS={boots}"));
            target.build_whole(dir.path(), &format!("{core}-{boots}"), &[START, TICK, RESTARTS].concat())
        };
        let run = run_file(&build(0), &["--for", "100k"]);
        assert_eq!(run.code, 1, "{core}: {}{}", run.stdout, run.stderr);
        let first = run.stdout.lines().next().unwrap();
        for word in ["the firmware restarted 2 times without a reset", ", reached from 0x", "in again ("] {
            assert!(first.contains(word), "{core}: {word:?} is not in: {first}");
        }
        run_file(&build(0), &["--for", "100k", "--resets", "2"]).expect_code(0);
        let fewer = run_file(&build(0), &["--for", "100k", "--resets", "3"]).expect_code(1);
        assert!(fewer.stdout.starts_with("the firmware restarted 2 times, --resets expects 3, at its entry 0x"));
        let boots = run_file(&build(1), &["--for", "100k"]);
        assert_eq!(boots.code, 0, "{core}: {}{}", boots.stdout, boots.stderr);
    }
}

/// AVR firmware whose timer has no handler: avr-libc's default one jumps to address 0.
const NO_HANDLER: &str = "#include <avr/interrupt.h>\n#include <avr/io.h>\nvolatile unsigned n;\n\
     int main(void) { TCCR0B = 1; TIMSK0 = 1; sei(); for (;;) n++; }";

#[test]
fn an_interrupt_without_a_handler_restarts_an_avr_and_is_no_success() {
    let dir = scratch();
    let (source, elf) = (dir.path().join("tick.c"), dir.path().join("tick.elf"));
    std::fs::write(&source, NO_HANDLER).unwrap();
    built::avr("atmega328p", &["-Os", "-g"], &source, &elf);
    let run = run_file(&elf, &["--for", "300k"]).expect_code(1);
    let first = run.stdout.lines().next().unwrap();
    assert!(first.starts_with("the firmware restarted ") && first.contains("in __bad_interrupt"), "{first}");
}
