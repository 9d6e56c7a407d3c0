// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arduino's AVR: its ends, the instructions that QEMU starts twice, interrupts. `sweep` compares counts, samples and stacks.

use std::collections::BTreeSet;

use harness::analysis::functions;
use harness::analysis::stacks::Exceptions;
use harness::profile::{End, Profile};
use wire::definition::FrameKind;

use crate::common::{harness, refused, run};

fn count(profile: &Profile, pc: u64) -> u64 {
    profile.vcpus[0].insns.iter().find(|insn| insn.pc == pc).map_or(0, |insn| insn.count)
}

#[test]
fn a_return_from_main_ends_the_run() {
    let mega = ["avr/mega2560", "avr/mega2560-O2", "avr/mega2560-prologues"].map(|name| (name, "mega2560"));
    let uno = ["avr/uno", "avr/uno-O2", "avr/uno-prologues"].map(|name| (name, "uno"));
    for (name, machine) in uno.into_iter().chain(mega).chain([("avr/mega", "mega")]) {
        let run = run(name, &[]).expect_code(0);
        assert!(run.console().contains("fibonacci 610\n") && run.console().ends_with("root 14142\n"), "{name}");
        let profile = run.profile();
        let End::Exit { status: 0, pc } = profile.facts.end else { panic!("{name}: {:?}", profile.facts.end) };
        assert_eq!(count(&profile, pc), 1, "{name}");
        assert_eq!(profile.facts.machine, machine);
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
    for name in ["avr/uno-timer", "avr/uno-timer-O2", "avr/uno-timer-prologues"] {
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

/// A function that is entered by a jump returns to where its caller was called from.
#[test]
fn a_tail_call_has_the_return_address_of_a_call() {
    let (mut compared, mut handlers) = (0, 0);
    let images = [
        "avr/uno-timer",
        "avr/uno",
        "avr/uno-O2",
        "avr/uno-prologues",
        "avr/mega2560",
        "avr/uno-cpp",
        "avr/mega2560-far",
    ];
    for name in images {
        let profile = run(name, &[]).expect_code(0).profile();
        let arcs = &profile.vcpus[0].arcs;
        let called: BTreeSet<u64> = arcs.iter().filter(|arc| arc.links).filter_map(|arc| arc.return_addr).collect();
        let first = |name: &str| profile.names.functions.iter().find(|function| function.name == name).unwrap();
        // Nobody calls a handler.
        let is_vector = |pc: u64| profile.names.function_at(pc).is_some_and(|function| function.name == "__vectors");
        for arc in arcs.iter().filter(|arc| is_vector(arc.site) && arc.site > 0) {
            assert_eq!(arc.return_addr, None, "{name}: {arc:x?}");
            handlers += 1;
        }
        // Nobody calls start-up code, either.
        let start = ["__vectors", "__init"].map(|name| first(name).start);
        let is_start =
            |pc: u64| profile.names.function_at(pc).is_some_and(|function| start.contains(&function.start));
        for arc in arcs.iter().filter(|arc| !arc.links && !is_start(arc.site)) {
            // Nothing is on the stack that start-up code leaves, and in the common epilogue the address lies below the frame.
            let Some(return_addr @ 1..) = arc.return_addr else { continue };
            assert!(called.contains(&return_addr), "{name}: {arc:x?}");
            compared += 1;
        }
    }
    assert!(compared > 20 && handlers > 1, "{compared} {handlers}");
    let output = harness().arg("callers").arg(&run("avr/uno", &["--exact"]).dir).arg("fibonacci").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("main  (1 by tail call from switched)"), "{text}");
}

#[test]
fn an_interrupt_has_its_name_and_its_place_on_the_stack() {
    for name in ["avr/uno-timer", "avr/mega-timer", "avr/mega2560-timer", "avr/mega2560-far"] {
        has_only_timer1(&run(name, &["--period", "101"]).expect_code(0).profile());
    }
}

/// The processor executes one instruction after it has allowed interrupts (data sheet DS40002061, 7.7). Where that is a skip,
/// QEMU goes on to the instruction behind the one that may be skipped: the chip would find 0 and 0 in the counter. Each line has what the
/// handler found in the counter times ten, and how often it ran; 2550 is none.
#[test]
fn an_interrupt_comes_one_instruction_after_it_is_allowed() {
    let console = run("avr/uno-unmask", &[]).expect_code(0).console();
    let expected = "sei 11\nsei, cli 2550\nsei, one, cli 11\nsei, two, cli 11\nout 11\nout, one, cli 11\nout, out of none 2550\n\
                    out of none 2550\nsei, load 1\nsei, jump 1\njumped over 2550\nskipped sei 2550\n\
                    sei, skip not taken 21\nsei, skip taken 11\nout, two skips 11\nsei not skipped 11\n";
    assert_eq!(console, expected);
}

fn has_only_timer1(profile: &Profile) {
    let names = Exceptions::new(profile);
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

/// Calls lead there and back through pointers of two bytes, a table of labels, EIND and interrupts; a table is read there.
#[test]
fn code_and_data_above_128_kib_of_flash_are_reached() {
    let run = run("avr/mega2560-far", &[]).expect_code(0);
    assert_eq!(run.console(), "sum 46886\neind 175\ntable 197\ninterrupted 1\n");
    let profile = run.profile();
    let calls = functions::table(&profile);
    let calls = |name: &str| calls.rows.iter().find(|row| row.name == name).map_or(0, |row| row.calls);
    // 40 turns, of 20 calls each through a pointer.
    assert_eq!((calls("far_add"), calls("far_multiply"), calls("near_divide")), (800, 800, 800));
}

/// The destructors of static objects execute behind `exit`, and change the register with its argument.
#[test]
fn cpp_ends_with_the_status_of_main_behind_its_destructors() {
    for name in ["avr/uno-cpp", "avr/mega2560-cpp"] {
        let run = run(name, &[]).expect_code(0);
        assert_eq!(run.console(), "measured 1470795600\ntower 395860\nbytes 101\nbits 342\ngoodbye\n", "{name}");
        assert!(matches!(run.profile().facts.end, End::Exit { status: 0, .. }), "{name}");
    }
}

/// EEPROM is not in QEMU's machine. The lines are promises of the data sheet.
#[test]
fn eeprom_keeps_what_is_written_and_takes_its_time() {
    let images = [
        ("avr/uno-eeprom", "__vector_22"),
        ("avr/mega-eeprom", "__vector_30"),
        ("avr/mega2560-eeprom", "__vector_30"),
    ];
    for (name, vector) in images {
        let run = run(name, &[]).expect_code(0);
        let lines = [
            "from the file 42",
            "erased 510",
            "write takes about 3.3 ms 8",
            "written 90",
            "update of the same takes 0",
            "programming takes about 1.8 ms 4",
            "programmed 10",
            "erased again 255",
            "not started 0",
            "block differs 0",
            "updated block differs 0",
            "dword 305419896",
            "twice the float 3",
            "sum of 16 bytes by interrupt 360",
            "in between the program went on 1",
            "read by a pointer 3",
            "general 329",
        ];
        assert_eq!(run.console().lines().collect::<Vec<_>>(), lines, "{name}");
        assert!(!run.stderr.contains("not loaded"), "{}", run.stderr);
        let rows = functions::table(&run.profile()).rows;
        let ready = rows.iter().find(|row| row.name == vector).map_or(0, |row| row.calls);
        assert_eq!(ready, 17, "{name}: 16 bytes, and the end");
    }
}

/// Timer0, the clock of Arduino's core, and the converter are not in QEMU's machine. The core reads Timer0 with interrupts
/// masked, and allows them by `out SREG`, after which QEMU by itself takes none: the clocks would not agree on the Mega.
#[test]
fn a_sketch_waits_by_the_clock_of_arduinos_core() {
    let images = [
        ("avr/uno-sketch", "__vector_16", "__vector_7"),
        ("avr/mega-sketch", "__vector_23", "__vector_13"),
        ("avr/mega2560-sketch", "__vector_23", "__vector_13"),
    ];
    for (name, overflow, compare) in images {
        let run = run(name, &[]).expect_code(0);
        let turns: String = (0..5).map(|turn| format!("turn {turn} primes 46 light 0\r\n")).collect();
        assert_eq!(run.console(), turns + "clocks agree\r\n", "{name}");
        let profile = run.profile();
        // A round of Timer0 is 256 ticks of 64 cycles, on a clock of 62.5 ns, where an instruction takes 64 ns.
        let rounds = profile.total_insns() * 64 / (256 * 64 * 125 / 2);
        let calls = functions::table(&profile);
        let calls = |vector: &str| calls.rows.iter().find(|row| row.name == vector).map_or(0, |row| row.calls);
        let ticks = calls(overflow);
        assert!(ticks > 90 && ticks.abs_diff(rounds) <= 1, "{name}: {ticks} {rounds}");
        // 10 ms of 2 kHz, with two edges in each period, and the interrupt that ends it.
        assert_eq!(calls(compare), 2 * 2_000 / 100 + 1, "{name}");
    }
}

#[test]
fn a_chip_file_says_what_an_input_measures() {
    let file = std::env::temp_dir().join(format!("light-{}.toml", std::process::id()));
    let text = "[chip]\nlike = \"atmega328p\"\n[[stimulus]]\nat = 0\nset = [\"ADC.IN0=777\"]\n";
    std::fs::write(&file, text).unwrap();
    let run = run("avr/uno-sketch", &["--chip", file.to_str().unwrap()]).expect_code(0);
    assert!(run.console().starts_with("turn 0 primes 46 light 777\r\n"), "{}", run.console());
    std::fs::remove_file(&file).unwrap();
    let shown = harness().args(["chip", "show"]).arg(&run.dir).output().unwrap();
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
    let refused_lengths = ["0ms", "s", "1.5ns", "-1s", "1h", "99999999999999s"];
    for length in refused_lengths {
        refused("avr/uno-sketch", &[&format!("--slice={length}")], &["--slice", "or a time in s, ms, us or ns"]);
    }
}

#[test]
fn what_is_not_for_avr_says_so() {
    refused("avr/uno", &["--heap"], &["--heap is not for AVR"]);
    let next = "leave --machine out: uno (atmega328p) can run it";
    refused("avr/uno", &["--machine", "mega"], &["atmega1280", "avr5", next]);
    refused("avr/uno", &["--machine", "mps2-an385"], &["an image for AVR", "a machine of Cortex-M", "uno"]);
}
