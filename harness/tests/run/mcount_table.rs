// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: whatever ends a run, and wherever its window lies, the firmware's own table is read as it was at that
//! moment; a table that cannot be read is reported and changes nothing else.
//!
//! The firmware here has the header and the state of `targets/mcount/`, and counts by hand.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use harness::analysis::functions;
use harness::profile::in_target::{Before, Mode, Protection, Table, TableArc};
use harness::profile::{End, InTarget, Profile};

use crate::common::built::{self, Target, cortex_m, riscv, scratch};
use crate::common::{Run, child_of, run_and, run_file, signal, timed_out_after};

/// `tick` counts itself. It is called three times before `opening`, five times before `closing`, and then as `THEN`
/// has it. `table` is the address of the state in the header.
const SOURCE: &str = r#"
typedef __UINTPTR_TYPE__ word;
volatile struct {
    unsigned dropped, ignored, resets, calls;
    word ignore[2][2];
    struct { unsigned count; word caller, callee; } entries[3];
} state __attribute__((used));
__asm__(".section .rodata\n.balign 4\nheader:\n.byte 0x7f\n.ascii \"mcount\\n\"\n.byte 1, " P ", 1, 1\n"
        ".short " ENTRY_BYTES ", 2\n.long 3\n1: .long table - 1b\n2: .long reset - 2b\n"
        ".long 16 + 4*" P " + 3*" ENTRY_BYTES "\n.text\n");
__attribute__((noinline)) void tick(void) { state.entries[0].count++; __asm__ volatile(""); }
__attribute__((noinline)) void opening(void) { state.dropped = 2; }
__attribute__((noinline)) void closing(void) { state.ignored = 3; }
void reset(void) {
    state.ignore[0][0] = 0x40, state.ignore[0][1] = 0x80;
    state.entries[0].caller = 0x101, state.entries[0].callee = (word)&tick;
    state.entries[1].caller = 0x201, state.entries[1].callee = 0x301, state.entries[1].count = 7;
    state.dropped = 1;
    for (int i = 0; i < 3; i++) tick();
    opening();
    for (int i = 0; i < 5; i++) tick();
    closing();
    THEN
    host(0x18, STOPPED);
    for (;;) {}
}
"#;

/// A processor, and the addresses that should not be read on it.
struct Chip {
    name: &'static str,
    target: fn() -> Target,
    pointer_bytes: u32,
    device: &'static str,
    /// The last word of memory before an unmapped range.
    edge: &'static str,
}

const CHIPS: [Chip; 4] = [
    Chip {
        name: "cortex-m3",
        target: || cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_4000),
        pointer_bytes: 4,
        device: "0x40004000",
        // QEMU mirrors the memory behind 0x203fffff.
        edge: "0x207ffff0",
    },
    // The memory's address for the processor differs from its address on the board.
    Chip {
        name: "cortex-m33",
        target: || cortex_m("-mcpu=cortex-m33 -mfloat-abi=soft", 0x1000_0000, 0x3800_0000, 0x3840_0000),
        pointer_bytes: 4,
        device: "0x40004000",
        edge: "0x383ffff0",
    },
    Chip {
        name: "riscv32",
        target: || riscv(32, 0x8000_0000, 0x8000_0000, 0x8001_0000),
        pointer_bytes: 4,
        device: "0x0200bff8",
        edge: "0x87fffff0",
    },
    // A register of the clock: reading it would end QEMU.
    Chip {
        name: "riscv64",
        target: || riscv(64, 0x8000_0000, 0x8000_0000, 0x8001_0000),
        pointer_bytes: 8,
        device: "0x0200bff8",
        edge: "0x87fffff0",
    },
];

impl Chip {
    fn build(&self, dir: &Path, then: &str, table: &str) -> PathBuf {
        let p = self.pointer_bytes;
        let entry_bytes = 3 * p;
        let defines = [("P", p.to_string()), ("ENTRY_BYTES", entry_bytes.to_string())];
        let defines: String = defines.iter().map(|(name, value)| format!("#define {name} \"{value}\"\n")).collect();
        let source = format!("{defines}#define THEN {then}\n{SOURCE}");
        (self.target)()
            .with(&format!("-Wno-unused-function -Wl,--defsym,table={table}"))
            .build_source(dir, self.name, &source)
    }

    /// Runs the image to its end, with `then` after `closing`.
    fn run(&self, then: &str, args: &[&str]) -> Run {
        let dir = scratch();
        run_file(&self.build(dir.path(), then, "state"), args)
    }
}

#[track_caller]
fn table(run: &Run) -> Table {
    match run.profile().in_target {
        Some(InTarget::Table(table)) => table,
        other => panic!("{other:?}\n{}{}", run.stdout, run.stderr),
    }
}

#[track_caller]
fn unread(run: &Run) -> String {
    match run.profile().in_target {
        Some(InTarget::Unread(why)) => why,
        other => panic!("{other:?}\n{}{}", run.stdout, run.stderr),
    }
}

fn calls(profile: &Profile, name: &str) -> u64 {
    functions::table(profile).rows.iter().find(|row| row.name == name).map_or(0, |row| row.calls)
}

fn ticks(table: &Table) -> u64 {
    table.arcs.iter().find(|arc| arc.caller == 0x101).map_or(0, |arc| arc.count)
}

/// Asserts that the table and the exact counts both have this number of ticks; returns the table.
#[track_caller]
fn assert_ticks(run: &Run, expected: u64) -> Table {
    let table = table(run);
    assert_eq!(ticks(&table), expected, "{table:?}");
    assert_eq!(calls(&run.profile(), "tick"), expected);
    table
}

/// Asserts more than `least` ticks at an end amid ticking. Table and exact counts may differ by one, which is under
/// way.
#[track_caller]
fn assert_ticks_are_current(run: &Run, least: u64) {
    let (counted, exact) = (ticks(&table(run)), calls(&run.profile(), "tick"));
    assert!(counted > least && counted.abs_diff(exact) <= 1, "{counted} counted, {exact} exact");
}

const FOR_EVER: &str = "for (;;) tick();";

#[test]
fn it_is_read_as_the_firmware_exits() {
    for chip in &CHIPS {
        let run = chip.run("", &[]).expect_code(0);
        let table = assert_ticks(&run, 8);
        let profile = run.profile();
        let address =
            |name: &str| profile.names.functions.iter().find(|function| function.name == name).unwrap().start;
        let thumb = u64::from(chip.name.starts_with("cortex"));
        let (tick, reset) = (address("tick"), address("reset"));
        let expected = Table {
            mode: Mode::Arcs,
            protection: Protection::Masked,
            capacity_entries: 3,
            used_entries: 2,
            entry_point: reset,
            returns: vec![],
            inside_at_open: 0,
            ignored: 3,
            dropped: 2,
            calls: 0,
            resets: 0,
            ignored_ranges: std::iter::once(0x40..0x80).collect(),
            arcs: vec![
                TableArc { caller: 0x101, callee: tick | thumb, count: 8 },
                TableArc { caller: 0x201, callee: 0x301, count: 7 },
            ],
            hottest: vec![],
            before: Before::None,
        };
        assert_eq!(table, expected, "{}", chip.name);
    }
}

#[test]
fn it_is_read_where_a_limit_ends_the_run() {
    for chip in &CHIPS {
        for insns in 5000..5012 {
            let run = chip.run(FOR_EVER, &["--for", &insns.to_string()]).expect_code(0);
            assert_eq!(run.profile().total_insns(), insns);
            assert_ticks_are_current(&run, 100);
        }
        let run = chip.run(FOR_EVER, &["--max-insns", "5000"]).expect_code(4);
        assert_ticks_are_current(&run, 100);
    }
}

#[test]
fn it_is_read_as_the_window_closes() {
    for chip in &CHIPS {
        let run = chip.run(FOR_EVER, &["--until", "closing"]).expect_code(0);
        let table = assert_ticks(&run, 8);
        // The run ends before `closing`, after `opening`.
        assert_eq!((table.ignored, table.dropped, table.before), (0, 2, Before::None));
        let run = chip.run(FOR_EVER, &["--until", "opening"]).expect_code(0);
        assert_eq!(assert_ticks(&run, 3).dropped, 1);
    }
}

#[test]
fn what_was_counted_before_the_window_is_taken_away() {
    for chip in &CHIPS {
        let run = chip.run("", &["--from", "opening"]).expect_code(0);
        let table = assert_ticks(&run, 5);
        assert_eq!((table.dropped, table.ignored, table.before), (1, 3, Before::Subtracted));
        // Arcs without a call inside the window are absent.
        assert_eq!((table.arcs.len(), table.used_entries), (1, 2));
        let run = chip.run("", &["--from", "opening", "--until", "closing"]).expect_code(0);
        assert_eq!(assert_ticks(&run, 5).ignored, 0);
        let run = chip.run("state.resets++, state.entries[0].count = 1;", &["--from", "opening"]).expect_code(0);
        let table = self::table(&run);
        assert_eq!((ticks(&table), table.resets, table.before), (1, 1, Before::Cleared));
    }
}

#[test]
fn a_window_that_never_opens_has_no_table() {
    let run = CHIPS[0].run("", &["--from", "closing", "--max-insns", "20"]).expect_code(4);
    assert!(unread(&run).contains("never opened"), "{}", unread(&run));
}

#[test]
fn it_is_read_where_the_host_ends_the_run() {
    for chip in &CHIPS {
        let dir = scratch();
        let elf = chip.build(dir.path(), FOR_EVER, "state");
        let run = timed_out_after(1_000_000, &elf, &[]);
        assert_eq!(run.profile().facts.end, End::Timeout);
        assert_ticks_are_current(&run, 1000);
        let (run, _) = run_and(&elf, &["--for", "1000G"], |child| signal(child.id(), "INT"));
        assert_eq!(run.profile().facts.end, End::Interrupted);
        assert_ticks_are_current(&run.expect_code(4), 1000);
        // Counts from before the window are subtracted.
        let run = timed_out_after(1_000_000, &elf, &["--from", "opening"]);
        assert_ticks_are_current(&run, 1000);
        assert_eq!(table(&run).before, Before::Subtracted);
    }
}

#[test]
fn it_is_read_where_the_processor_sleeps_for_ever() {
    for chip in &CHIPS {
        let run = chip.run("for (;;) __asm__ volatile(\"wfi\");", &[]).expect_code(1);
        assert!(matches!(run.profile().facts.end, End::Asleep { .. }));
        assert_eq!(assert_ticks(&run, 8).ignored, 3);
    }
}

#[test]
fn it_is_read_where_the_processor_locks_up() {
    for chip in &CHIPS[..2] {
        let run = chip.run("__asm__ volatile(\"udf #0\");", &[]).expect_code(1);
        let end = run.profile().facts.end;
        assert!(matches!(&end, End::LockUp { fault, .. } if fault.contains("UsageFault")), "{end:?}");
        assert_eq!(assert_ticks(&run, 8).ignored, 3);
    }
}

/// Blocks are settled when they are over; the last one never is over.
#[test]
fn it_is_read_where_a_limit_is_the_last_instruction_before_the_processor_stops_for_good() {
    let ends = ["for (;;) __asm__ volatile(\"wfi\");", "__asm__ volatile(\"udf #0\");"];
    for (chip, then) in CHIPS.iter().map(|chip| (chip, ends[0])).chain(CHIPS[..2].iter().map(|chip| (chip, ends[1])))
    {
        let insns = chip.run(then, &[]).profile().total_insns();
        let run = chip.run(then, &["--for", &insns.to_string()]).expect_code(0);
        assert_eq!((run.profile().facts.end, run.profile().total_insns()), (End::For, insns));
        assert_eq!(assert_ticks(&run, 8).ignored, 3);
    }
}

#[test]
fn it_is_found_without_symbols() {
    let dir = scratch();
    for chip in &CHIPS {
        let elf = chip.build(dir.path(), "", "state");
        let original = table(&run_file(&elf, &[]).expect_code(0));
        assert_eq!(ticks(&original), 8);
        let (prefix, forced) = match chip.name {
            "riscv32" => ("riscv64-unknown-elf-", "riscv32:virt"),
            "riscv64" => ("riscv64-unknown-elf-", "riscv64:virt"),
            "cortex-m33" => ("arm-none-eabi-", "arm:mps2-an505"),
            _ => ("arm-none-eabi-", "arm:mps2-an385"),
        };
        let objcopy = |options: &[&str], extension: &str| {
            let file = elf.with_extension(extension);
            built::run(Command::new(format!("{prefix}objcopy")).args(options).arg(&elf).arg(&file));
            file
        };
        let stripped = objcopy(&["--strip-all"], "stripped.elf");
        assert_eq!(table(&run_file(&stripped, &[]).expect_code(0)), original, "{}", chip.name);
        let load_addr = if chip.name.starts_with("riscv") {
            "0x80000000"
        } else if chip.name == "cortex-m33" {
            "0x10000000"
        } else {
            "0"
        };
        let raw = objcopy(&["-O", "binary"], "bin");
        let raw = run_file(&raw, &["--load-addr", load_addr, "--machine", forced]).expect_code(0);
        assert_eq!(table(&raw), original, "{}", chip.name);
        let hex = objcopy(&["-O", "ihex"], "hex");
        let hex = run_file(&hex, &["--machine", forced]).expect_code(0);
        assert_eq!(table(&hex), original, "{}", chip.name);
    }
}

#[test]
fn it_moves_with_the_load_bias() {
    let dir = scratch();
    // With relaxation the linker would use absolute addresses near 0.
    let chip = Chip { target: || riscv(64, 0, 0, 0x1_0000).with("-Wl,--no-relax"), ..CHIPS[3] };
    let elf = chip.build(dir.path(), "", "state");
    let mut bytes = std::fs::read(&elf).unwrap();
    bytes[16] = 3; // ET_DYN; Debian's riscv64 linker has no -pie
    std::fs::write(&elf, bytes).unwrap();
    assert_ticks(&run_file(&elf, &[]).expect_code(0), 8);
    assert_ticks(&run_file(&elf, &["--load-bias", "0x81000000", "--from", "opening"]).expect_code(0), 5);
}

#[test]
fn outside_the_memory_nothing_is_touched_and_the_run_is_as_ever() {
    for chip in &CHIPS {
        let dir = scratch();
        for table in [chip.device, chip.edge] {
            let build = |then| chip.build(dir.path(), then, table);
            let outside = |then, args: &[&str]| run_file(&build(then), args);
            for run in [
                outside("", &[]).expect_code(0),
                outside("", &["--from", "opening"]).expect_code(0),
                timed_out_after(10_000, &build(FOR_EVER), &[]),
                outside("for (;;) __asm__ volatile(\"wfi\");", &[]).expect_code(1),
            ] {
                assert!(unread(&run).contains("where there is no memory"), "{}", unread(&run));
                assert!(calls(&run.profile(), "tick") >= 5);
            }
        }
    }
}

#[test]
fn a_killed_emulator_takes_it_along() {
    let dir = scratch();
    let elf = CHIPS[0].build(dir.path(), FOR_EVER, "state");
    let (run, _) = run_and(&elf, &["--for", "1000G"], |child| {
        signal(child_of(child.id()).expect("QEMU runs"), "KILL");
    });
    let run = run.expect_code(5);
    assert!(unread(&run).contains("was lost as QEMU ended"), "{}", unread(&run));
}

#[test]
fn an_emulator_that_dies_as_the_run_is_interrupted_does_not_hang_it() {
    let dir = scratch();
    let elf = CHIPS[0].build(dir.path(), FOR_EVER, "state");
    let started = std::cell::Cell::new(std::time::Instant::now());
    // A stopped QEMU does not answer; it is killed while harness waits for the answer.
    let (run, _) = run_and(&elf, &["--for", "1000G"], |child| {
        let qemu = child_of(child.id()).expect("QEMU runs");
        signal(qemu, "STOP");
        started.set(std::time::Instant::now());
        signal(child.id(), "INT");
        std::thread::sleep(Duration::from_millis(500));
        signal(qemu, "KILL");
    });
    // One that hangs waits for 10 s for the last words of its QEMU.
    assert!(started.get().elapsed() < Duration::from_secs(9), "{:?}", started.get().elapsed());
    assert_eq!(run.profile().facts.end, End::Interrupted);
    assert!(unread(&run.expect_code(4)).contains("could not be copied as the run ended"));
}

#[test]
fn a_table_that_is_no_table_is_told() {
    for chip in &CHIPS {
        let run = chip.run("state.entries[2].caller = 0x400, state.entries[2].callee = 1;", &[]).expect_code(0);
        assert!(unread(&run).contains("its entry 2 names a caller 0x400"), "{}", unread(&run));
    }
}

#[test]
fn firmware_without_one_has_none() {
    let dir = scratch();
    let run = run_file(&(CHIPS[0].target)().build(dir.path(), "plain"), &[]).expect_code(0);
    assert_eq!(run.profile().in_target, None);
}
