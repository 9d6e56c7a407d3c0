// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every end of a run: its exit code, its message, and the profile that it keeps.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::analysis::functions;
use harness::profile::{End, Profile, SpanKind};

use crate::common::built::{cortex_m, riscv, scratch};
use crate::common::{Run, child_of, image, is_alive, run, run_again, run_and, run_file, signal, timed_out_after};

#[track_caller]
fn assert_says(run: &Run, words: &[&str]) {
    for word in words {
        assert!(run.stdout.contains(word), "{word:?} is not in:\n{}", run.stdout);
    }
}

fn calls(profile: &Profile, name: &str) -> u64 {
    functions::table(profile).rows.iter().find(|row| row.name == name).map_or(0, |row| row.calls)
}

#[test]
fn the_firmware_exits_with_its_own_status() {
    for arch in ["riscv64", "cortex-m3"] {
        let good = run(&format!("{arch}-exit0"), &[]).expect_code(0);
        assert!(matches!(good.profile().facts.end, End::Exit { status: 0, .. }));
        assert!(good.console().contains("exit0"), "{}", good.console());
        let bad = run(&format!("{arch}-exit3"), &[]).expect_code(1);
        assert!(matches!(bad.profile().facts.end, End::Exit { status: 3, .. }));
        assert_says(&bad, &["exited with status 3 at 0x", "in semihost"]);
        assert!(bad.profile().total_insns() > 0);
    }
}

#[test]
fn the_test_finisher_ends_the_run_at_its_store() {
    let pass = run("riscv64-finisher-pass", &[]).expect_code(0).profile();
    let End::Exit { status: 0, pc } = pass.facts.end else { panic!("{:?}", pass.facts.end) };
    // The firmware spins after the store; no instruction of the spin is measured.
    let last = pass.vcpus[0].insns.iter().find(|insn| insn.pc == pc).unwrap();
    assert_eq!(last.count, 1);
    assert!(pass.vcpus[0].insns.iter().all(|insn| insn.count < 10_000), "the spin was measured");
    let fail = run("riscv64-finisher-fail", &[]).expect_code(1);
    assert!(matches!(fail.profile().facts.end, End::Exit { status: 3, .. }));
}

#[test]
fn a_reset_is_a_failure_and_ends_the_run_where_it_was_asked_for() {
    for name in ["riscv64-reset", "cortex-m3-reset"] {
        let asked = run(name, &[]).expect_code(1);
        assert!(matches!(asked.profile().facts.end, End::Reset { pc: Some(_), is_expected: false }));
        assert_says(&asked, &["the firmware reset itself at 0x", "in board_reset"]);
        run(name, &["--resets", "1"]).expect_code(0);
        let twice = run(name, &["--resets", "2"]).expect_code(1);
        assert_says(&twice, &["the firmware restarted 1 time, --resets expects 2, at its entry 0x"]);
    }
}

#[test]
fn a_lock_up_names_address_function_and_fault() {
    let busfault = run("cortex-m3-lockup-busfault", &[]).expect_code(1);
    assert_says(&busfault, &["locked up at 0x", "in load_word", "BusFault: data access at address 0xf0000004"]);
    assert!(busfault.profile().total_insns() > 500);
    let badstack = run("cortex-m3-lockup-badstack", &[]).expect_code(1);
    assert_says(&badstack, &["locked up at 0x", "in HardFault_Handler", "stacking for an exception failed"]);
    assert!(badstack.profile().total_insns() > 500);
    // QEMU's own message and its list of registers are not the firmware's output.
    assert_eq!(busfault.console(), "lockup-busfault: loading from 0xf0000000\n");
    assert_eq!(badstack.console(), "lockup-badstack: sp = 0xf0000100, then an undefined instruction\n");
}

#[test]
fn sleep_without_a_timer_is_noticed_and_named() {
    for name in ["riscv64-sleep", "cortex-m3-sleep"] {
        let run = run(name, &["--period", "7"]).expect_code(1);
        assert_says(&run, &["sleeps for ever at 0x", "in main", "and none of the timers wakes it"]);
        let profile = run.profile();
        let End::Asleep { pc } = profile.facts.end else { panic!("{:?}", profile.facts.end) };
        // The pc is that of the wait instruction, which was executed once.
        assert_eq!(profile.vcpus[0].insns.iter().find(|insn| insn.pc == pc).unwrap().count, 1);
    }
}

#[test]
fn firmware_that_only_faults_is_a_failure_and_says_why_in_its_first_line() {
    let fault = |arch: &str| match arch {
        "riscv64" => "[trap load access fault]".to_owned(),
        _ => "[irq HardFault]".to_owned(),
    };
    for arch in ["riscv64", "cortex-m3"] {
        for (name, times) in [("faulting", ": "), ("faulting-again", " times: ")] {
            let run = run(&format!("{arch}-{name}"), &[]).expect_code(1);
            let profile = run.profile();
            assert!(matches!(profile.facts.end, End::Faulting { .. }), "{:?}", profile.facts.end);
            let first = run.stdout.lines().next().unwrap();
            for word in [
                "since instruction ",
                &format!("nothing ran but {}", fault(arch)),
                times,
                if arch == "riscv64" { "0x1c023800" } else { "BusFault: data access at address 0xf0023800" },
                "in SystemClock_Config (",
                "this machine has no device there",
            ] {
                assert!(first.contains(word), "{word:?} is not in: {first}");
            }
            // The handler that returns never ends; the other one is an endless loop.
            match name {
                "faulting" => assert!(profile.total_insns() < 2_000, "{}", profile.total_insns()),
                _ => assert_eq!(profile.total_insns(), 400_000, "it ends where the window does"),
            }
        }
        let unhandled = run(&format!("{arch}-unhandled"), &[]).expect_code(1);
        assert!(matches!(unhandled.profile().facts.end, End::Faulting { .. }));
        let irq = if arch == "riscv64" { "[irq timer]" } else { "[irq SysTick]" };
        assert_says(&unhandled, &[&format!("nothing ran but {irq}, whose handler is an endless loop at 0x")]);
    }
    // The handler's first instruction faults itself.
    let nested = run("riscv64-traploop", &[]).expect_code(1);
    assert!(matches!(nested.profile().facts.end, End::Faulting { .. }));
}

/// A handler that jumps to C, as many do, and returns to the instruction that faults. The C function lies behind the
/// vector table, where a processor with more vectors would read one.
const JUMPING_HANDLER: &str = r#"
volatile unsigned seen;
__attribute__((used, noinline)) void in_c(unsigned *frame) { seen += frame[6]; }
__attribute__((naked)) void hard_fault(void) {
    __asm__("tst lr, #4\n ite eq\n mrseq r0, msp\n mrsne r0, psp\n ldr r2, =in_c\n bx r2\n .ltorg\n");
}
__attribute__((section(".vec"), used)) const void *const more[32] = {[16] = in_c};
static const void *table[48] __attribute__((aligned(256)));
void reset(void) {
    for (int i = 0; i < 48; i++)
        table[i] = i < 16 ? vectors[i] : more[i - 16];
    table[3] = hard_fault;
    *(volatile unsigned *)0xe000ed08 = (unsigned)table;
    *(volatile unsigned *)0xf0023800;
    for (;;) {}
}
"#;

#[test]
fn each_trap_is_counted_once_in_the_first_line_and_in_the_table_of_handlers() {
    let dir = scratch();
    let jumping =
        cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_4000).build_source(dir.path(), "jumping", JUMPING_HANDLER);
    for (elf, handler) in [(jumping, "hard_fault"), (image("riscv64-traploop"), "broken_trap_handler")] {
        let run = run_file(&elf, &["--for", "100k", "--exact"]).expect_code(1);
        let profile = run.profile();
        let times = profile.facts.only.handler.as_ref().unwrap().times;
        assert!(times > 5_000, "{handler}: {times}");
        assert_eq!(times, calls(&profile, handler), "{handler}");
        let spans = profile.spans.iter().filter(|span| matches!(span.kind, SpanKind::Exception { .. }));
        let returned: u64 = spans.map(|span| span.count).sum();
        // The last handler has not returned, and handlers that fault at their start never do.
        assert!(returned == times - 1 || handler == "broken_trap_handler", "{handler}: {returned} of {times}");
    }
}

/// Idles in the handler of an interrupt, which a timer far away could leave (YIELDS) or not.
const IDLE: &str = r#"
#ifdef __riscv
#define MTIME (*(volatile unsigned long *)0x0200bff8)
#define MTIMECMP (*(volatile unsigned long *)0x02004000)
void rest(void) {
    MTIMECMP = MTIME + 1000000000;
#ifdef YIELDS
    __asm__ volatile("csrsi mstatus, 8");
#endif
    for (;;) {}
}
__attribute__((naked, aligned(4))) void trap(void) { __asm__("j rest"); }
void reset(void) {
    __asm__ volatile("csrw mtvec, %0" ::"r"(trap));
    MTIMECMP = MTIME + 10;
    __asm__ volatile("csrw mie, %0\n csrsi mstatus, 8" ::"r"(0x80));
    for (;;) {}
}
#else
#define REGISTER(address) (*(volatile unsigned *)address)
void rest(void) { for (;;) {} }
void tick(void) { REGISTER(0xe000ed04) = 1 << 28; }
static const void *table[16] __attribute__((aligned(128)));
void reset(void) {
    table[14] = rest;
    table[15] = tick;
    REGISTER(0xe000ed08) = (unsigned)table;
#ifdef YIELDS
    REGISTER(0xe000ed20) = 0xff << 16;
#endif
    REGISTER(0xe000e014) = 0xffffff;
    REGISTER(0xe000e018) = 0;
    REGISTER(0xe000e010) = 7;
    REGISTER(0xe000ed04) = 1 << 28;
    for (;;) {}
}
#endif
"#;

#[test]
fn a_loop_that_an_interrupt_may_still_leave_is_a_warning_and_no_failure() {
    let dir = scratch();
    let m3 = |flags: &str| cortex_m(&format!("-mcpu=cortex-m3{flags}"), 0, 0x2000_0000, 0x2000_4000);
    let rv = |flags: &str| riscv(64, 0x8000_0000, 0x8000_0000, 0x8001_0000).with(&format!("-O2{flags}"));
    for (name, yields, stays) in [("m3", m3(" -DYIELDS"), m3("")), ("rv", rv(" -DYIELDS"), rv(""))] {
        let irq = if name == "rv" { "[irq timer]" } else { "[irq PendSV]" };
        let args = ["--for", "400k"];
        let idle = run_file(&yields.build_source(dir.path(), name, IDLE), &args).expect_code(0);
        let first = idle.stdout.lines().next().unwrap();
        assert!(first.starts_with("warning: since instruction "), "{name}: {first}");
        let words = format!("nothing ran but {irq}, whose handler is an endless loop at 0x");
        assert!(
            first.contains(&words) && first.ends_with("; an interrupt that is enabled may still come"),
            "{first}"
        );
        let stuck = run_file(&stays.build_source(dir.path(), name, IDLE), &args).expect_code(1);
        assert!(matches!(stuck.profile().facts.end, End::Faulting { .. }), "{name}: {}", stuck.stdout);
        assert!(stuck.stdout.lines().next().unwrap().contains(&words), "{name}: {}", stuck.stdout);
    }
}

#[test]
fn a_run_that_the_host_ends_says_that_it_only_faulted() {
    for name in ["cortex-m3-faulting-again", "riscv64-faulting-again"] {
        let run = timed_out_after(1_000_000, &image(name), &[]);
        assert_eq!(run.profile().facts.end, End::Timeout);
        let first = run.stdout.lines().next().unwrap();
        assert!(first.starts_with("warning: since instruction "), "{name}: {first}");
        assert!(first.contains("in SystemClock_Config ("), "{name}: {first}");
    }
    // Firmware that continues after its faults.
    for name in ["cortex-m3-probing", "riscv64-probing"] {
        let run = timed_out_after(1_000_000, &image(name), &[]);
        assert!(!run.stdout.lines().next().unwrap().contains("since instruction"), "{name}: {}", run.stdout);
    }
}

#[test]
fn what_faults_is_found_without_stacks_too() {
    for name in ["riscv64-faulting-again", "cortex-m3-faulting-again", "riscv64-faulting", "cortex-m3-faulting"] {
        let with = run(name, &["--exact"]).expect_code(1).profile().facts.only;
        assert!(with.handler.as_ref().is_some_and(|handler| handler.is_fault), "{name}");
        for options in [["--no-stacks"], ["--oracle"]] {
            assert_eq!(run(name, &options).expect_code(1).profile().facts.only, with, "{name} {options:?}");
        }
    }
}

#[test]
fn a_fault_just_before_the_end_is_only_said() {
    // The fault comes at instruction 998, and its handler returns to it.
    let late = run_file(&image("cortex-m3-faulting-again"), &["--for", "1100"]).expect_code(0);
    assert_eq!(late.profile().facts.end, End::For);
    assert_says(&late, &["the run ended in a fault's handler: since instruction 998 "]);
    assert!(late.stdout.starts_with("Function"), "{}", late.stdout);
    run_file(&image("cortex-m3-faulting-again"), &["--for", "1200"]).expect_code(1);
    // A handler that is an endless loop is never left: the run ends there.
    run_file(&image("cortex-m3-faulting"), &["--for", "1100"]).expect_code(1);
}

#[test]
fn firmware_that_goes_on_after_its_faults_is_no_failure() {
    for name in ["riscv64-probing", "cortex-m3-probing", "riscv64-hang", "cortex-m3-hang"] {
        let run = run(name, &[]).expect_code(0);
        assert!(!run.stdout.lines().next().unwrap().contains("since instruction"), "{}", run.stdout);
    }
}

#[test]
fn a_register_that_is_polled_for_ever_is_named() {
    for (name, words) in [
        ("riscv64-polling", ["only polled 0x30000000 (\"pcie-mmcfg-mmio\"): it was 0x81b36 each of ", "times at 0x"]),
        ("cortex-m3-polling", ["only polled 0x4000f000 (QEMU has only a stand-in there, ", "it was 0x0 each of "]),
    ] {
        let run = run(name, &[]).expect_code(0);
        let first = run.stdout.lines().next().unwrap();
        assert!(first.starts_with("warning: since instruction "), "{first}");
        for word in words.into_iter().chain(["in wait_for_clock ("]) {
            assert!(first.contains(word), "{word:?} is not in: {first}");
        }
    }
}

#[test]
fn a_cpu_that_completes_no_instruction_is_stuck_and_its_profile_the_same_each_time() {
    for (name, place) in [("riscv64-stuck", "0x1c000000"), ("riscv64-stuck-device", "0x10000000")] {
        let first = run_again(name, &["--for", "1G"]).expect_code(1);
        assert!(matches!(first.profile().facts.end, End::Stuck { .. }), "{:?}", first.profile().facts.end);
        assert_says(&first, &[&format!("no instruction completes any more at {place}"), &format!("mtvec {place}")]);
        let second = run_again(name, &["--for", "1G"]).expect_code(1);
        assert!(first.files() == second.files(), "{name}");
    }
}

#[test]
fn exceptions_that_nest_for_ever_make_no_tree_that_is_as_deep() {
    let run = run_file(&image("riscv64-deeptraps"), &["--exact", "--for", "300k"]).expect_code(1);
    let profile = run.profile();
    let mut depths: Vec<usize> = Vec::new();
    for node in &profile.tree {
        depths.push(node.parent.checked_sub(1).map_or(0, |index| depths[index as usize]) + 1);
    }
    let deepest = depths.iter().max().copied().unwrap();
    assert!((1000..1100).contains(&deepest), "{deepest}");
    assert_eq!(profile.tree.iter().map(|node| node.insns).sum::<u64>(), 300_000);
}

#[test]
fn for_measures_exactly_that_many_instructions() {
    for (name, insns) in [("riscv64-spin", 1_234_567), ("cortex-m3-spin", 1_234_568), ("riscv64-spin", 1)] {
        let run = run_file(&image(name), &["--for", &insns.to_string()]).expect_code(0);
        assert_eq!(run.profile().total_insns(), insns);
        assert_eq!(run.profile().facts.end, End::For);
        assert_says(&run, &["window of ", "is complete"]);
    }
}

#[test]
fn the_default_window_is_2_g_and_said() {
    let run = run_file(&image("cortex-m3-spin"), &[]).expect_code(0);
    assert_eq!(run.profile().total_insns(), 2_000_000_000);
    assert_says(&run, &["the window of 2,000,000,000 instructions is complete (the default; --for sets another)"]);
}

#[test]
fn the_default_window_of_an_avr_is_200_m() {
    let window = run("avr/uno", &[]).expect_code(0).profile().facts.window.for_insns;
    assert_eq!(window, Some(200_000_000));
    assert_eq!(run("avr/uno", &["--for", "2G"]).profile().facts.window.for_insns, Some(2_000_000_000));
}

#[test]
fn from_and_until_bound_the_window_by_function() {
    for arch in ["riscv64", "cortex-m3"] {
        let options = ["--from", "crc32_table", "--until", "heap_sort"];
        let run = run(&format!("{arch}-bare"), &options).expect_code(0);
        assert_says(&run, &["instructions ran before the window", "heap_sort was reached"]);
        let profile = run.profile();
        assert_eq!(profile.facts.end, End::Until);
        assert!(profile.facts.before_window_insns > 0 && profile.total_insns() > 0);
        // The window includes the entry that opens it and excludes the one that closes it.
        assert!(calls(&profile, "crc32_table") >= 1);
        assert_eq!(calls(&profile, "heap_sort"), 0);
    }
}

#[test]
fn a_window_that_never_opens_is_a_failure() {
    let run = run("cortex-m3-exit0", &["--from", "Default_Handler"]).expect_code(1);
    assert_says(&run, &["the window never opened: --from Default_Handler was not reached"]);
    assert_eq!(run.profile().total_insns(), 0);
    assert!(run.profile().facts.before_window_insns > 0);
}

#[test]
fn until_without_from_measures_from_reset() {
    let whole = run("riscv64-bare", &["--until", "main"]).expect_code(0).profile();
    assert_eq!(whole.facts.before_window_insns, 0);
    assert!(whole.total_insns() > 0 && calls(&whole, "main") == 0);
}

#[test]
fn max_insns_is_a_failure_counted_from_reset() {
    let plain = run("cortex-m3-spin", &["--max-insns", "100k"]).expect_code(4);
    assert_eq!(plain.profile().facts.end, End::MaxInsns);
    assert_eq!(plain.profile().total_insns(), 100_000);
    assert_says(&plain, &["--max-insns 100,000"]);
    let window = run("riscv64-bare", &["--from", "crc32_table", "--max-insns", "1M"]).expect_code(4).profile();
    assert_eq!(window.facts.before_window_insns + window.total_insns(), 1_000_000);
}

#[test]
fn a_timeout_keeps_a_profile_that_for_reproduces_exactly() {
    for name in ["riscv64-spin", "cortex-m3-spin"] {
        let ended = timed_out_after(1_000_000, &image(name), &[]);
        assert_reproduced(name, &ended, &End::Timeout);
    }
}

#[test]
fn ctrl_c_keeps_a_profile_that_for_reproduces_exactly() {
    let (ended, _) = run_and(&image("cortex-m3-spin"), &["--for", "1000G"], |child| signal(child.id(), "INT"));
    assert_reproduced("cortex-m3-spin", &ended.expect_code(4), &End::Interrupted);
}

#[track_caller]
fn assert_reproduced(name: &str, ended: &Run, end: &End) {
    let profile = ended.profile();
    assert_eq!(&profile.facts.end, end);
    let insns = profile.total_insns();
    assert!(insns > 100_000, "{insns} instructions");
    assert_says(ended, &[&format!("--for {insns} reproduces this profile")]);
    let again = run_file(&image(name), &["--for", &insns.to_string()]).expect_code(0).profile();
    assert_eq!(again.samples, profile.samples);
    let insns = |profile: &Profile| profile.vcpus[0].insns.clone();
    assert!(insns(&again) == insns(&profile), "the counts differ");
    // A jump in flight is only known where the plugin ended the run.
    let arcs = |profile: &Profile| profile.vcpus[0].arcs.iter().map(|arc| arc.count).sum::<u64>();
    assert!(arcs(&profile).abs_diff(arcs(&again)) <= 1);
}

#[test]
fn a_killed_emulator_leaves_the_profile_up_to_then() {
    let (ended, qemu) = run_and(&image("riscv64-spin"), &["--for", "1000G"], |child| {
        let qemu = child_of(child.id()).expect("QEMU runs");
        signal(qemu, "KILL");
    });
    let ended = ended.expect_code(5);
    let profile = ended.profile();
    assert!(matches!(profile.facts.end, End::EmulatorFailed { .. }));
    assert_says(&ended, &["QEMU failed after ", "killed by SIGKILL (signal 9, as by the kernel"]);
    assert!(profile.total_insns() > 1_000_000 && profile.samples.len() > 100);
    // At most the last block's samples are lost.
    assert!(profile.total_insns() / 10_007 - profile.samples.len() as u64 <= 1);
    assert!(!Path::new(&format!("/proc/{qemu}")).exists());
}

#[test]
fn a_crashed_emulator_is_named_by_its_signal_with_the_last_place_and_how_to_repeat_it_without_harness() {
    let (spin, exits) = (image("riscv64-spin"), image("riscv64-exit0"));
    let (ended, _) = run_and(&spin, &["--for", "1000G", "--shift", "3"], |child| {
        signal(child_of(child.id()).expect("QEMU runs"), "SEGV");
    });
    let ended = ended.expect_code(5);
    assert_says(&ended, &["killed by SIGSEGV (signal 11); the same without harness, in the image's folder: "]);
    let profile = ended.profile();
    let last = profile.samples.last().unwrap();
    let function = &profile.names.function_at(last.pc).unwrap().name;
    let since = profile.total_insns() - last.at_insns;
    assert!(since <= 2 * 10_007, "{since}");
    assert_says(&ended, &[&format!("before, at {:#010x} in {function} (", last.pc)]);
    // The command runs by itself; here with an image that ends.
    let (_, command) = ended.stdout.split_once("in the image's folder: ").unwrap();
    let command = command.lines().next().unwrap();
    assert!(command.contains(" -icount shift=3,") && !command.contains("plugin"), "{command}");
    // Profiles have no paths.
    let folder = exits.parent().unwrap();
    assert!(!command.contains(folder.to_str().unwrap()), "{command}");
    let command = command.replace("riscv64-spin.elf", "riscv64-exit0.elf");
    let output = Command::new("sh").args(["-c", &command]).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("exit0"), "{output:?}");
}

#[test]
fn no_emulator_survives_a_killed_harness() {
    let (_, qemu) = run_and(&image("riscv64-spin"), &["--for", "1000G"], |child| signal(child.id(), "KILL"));
    let deadline = Instant::now() + Duration::from_secs(10);
    while is_alive(qemu) {
        assert!(Instant::now() < deadline, "QEMU {qemu} still runs");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_asks_whether_a_register_is_there_has_not_faulted_for_ever() {
    // After the trap the same function continues, at an address that no longer is a handler's.
    let source = "volatile unsigned sum;\n\
        void reset(void) { __asm__ volatile(\"la t0,1f\\n csrrw t0,mtvec,t0\\n csrwi 0x747,2\\n .balign 4\\n\\\n\
        1: csrw mtvec,t0\" ::: \"t0\"); for (;;) sum += 3; }";
    let dir = scratch();
    let image = riscv(64, 0x8000_0000, 0x8000_0000, 0x8010_0000).build_source(dir.path(), "asking", source);
    for options in [&["--for", "300k"][..], &["--for", "300k", "--no-stacks"], &["--for", "300k", "--exact"]] {
        let run = run_file(&image, options).expect_code(0);
        assert!(matches!(run.profile().facts.end, End::For), "{options:?}: {}", run.stdout);
    }
    // Without stacks the verdict is the same, for handlers left by a jump and handlers never left.
    for (name, code) in [("riscv64-probing", 0), ("riscv64-faulting", 1), ("cortex-m3-faulting", 1)] {
        run(name, &["--no-stacks"]).expect_code(code);
    }
}
