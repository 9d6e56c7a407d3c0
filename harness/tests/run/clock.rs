// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--cycles` at a known frequency: the machine's clock shows the time of the cycles, in whichever way the run is measured and
//! where it is debugged, so that timers tick, firmware sleeps and stop-watches read as on a board.

use clap::Parser;
use harness::analysis::{cycles, event_rows, time};
use harness::cli::Cli;
use harness::debug::session::Session;
use harness::debug::travel::Travel;
use harness::measure::Silent;
use harness::profile::Profile;
use harness::run::request::options::{DEFAULT_CHECKPOINT_MIB, Options};

use super::limit::suite;
use crate::common::{built, harness, image, in_parallel, refused, run, run_file};

/// Work between the ticks of a timer of 1 kHz, and ticks of which the processor sleeps most.
const TICKS: &str = "riscv32-ticks";
const BUSY_TICKS: u64 = 20;
const ALL_TICKS: u64 = 25;

/// Cores with their frequencies, and the cycles between two ticks.
const CORES: [(&str, u64); 4] =
    [("hazard3@150MHz", 150_000), ("ibex-2@50M", 50_000), ("ibex-3@12_500_000", 12_500), ("hazard3@999MHz", 999_000)];

/// Cycles by which a tick may come later than another: that of the instruction which it interrupts, and up to the next branch.
const SLACK: u64 = 130;

fn slept_ns(profile: &Profile) -> u64 {
    profile.facts.slept_ns.expect("it is known")
}

#[test]
fn a_timer_ticks_by_the_cycles_of_the_core() {
    in_parallel(&CORES, |&(core, between)| {
        let option = format!("--cycles={core}");
        let args = [&option, "--span", "MTimer_Handler..MTimer_Handler", "--until", "asleep"];
        let profile = run(TICKS, &args).expect_code(0).profile();
        let [span] = &profile.spans[..] else { panic!("{core}: {:?}", profile.spans) };
        assert_eq!(span.count, BUSY_TICKS - 1, "{core}");
        assert!((between - SLACK..=between + SLACK).contains(&span.cycles.min), "{core}: {span:?}");
        assert!((between - SLACK..=between + SLACK).contains(&span.cycles.max), "{core}: {span:?}");
        // Later ticks do not come later.
        assert!(span.cycles.sum.abs_diff(between * span.count) <= SLACK, "{core}: {span:?}");
        let said = time::sentence(&profile).unwrap();
        assert!(said.starts_with("time: 20.") && said.contains(" MHz; CPU load 100.00%"), "{core}: {said}");
    });
    // Without a frequency, the timer goes by instructions.
    let args = ["--cycles=hazard3", "--span", "MTimer_Handler..MTimer_Handler", "--until", "asleep"];
    let profile = run(TICKS, &args).expect_code(0).profile();
    let span = &profile.spans[0];
    assert!(span.cycles.min > 4 * 125_000, "most instructions are divisions' neighbours: {span:?}");
    assert_eq!(time::clock_hz(&profile), None);
}

#[test]
fn cycles_and_sleep_are_the_time_that_has_passed() {
    in_parallel(&CORES, |&(core, between)| {
        let option = format!("--cycles={core}");
        let profile = run(TICKS, &[&option, "--until", "done"]).expect_code(0).profile();
        let hz = between * 1000;
        assert_eq!(time::clock_hz(&profile), Some(hz), "{core}");
        let awake_ns = cycles::total(&profile).unwrap() as u128 * 1_000_000_000 / u128::from(hz);
        assert!(time::awake_ns(&profile) - awake_ns <= 1, "{core}");
        let all_ns = awake_ns as u64 + slept_ns(&profile);
        // The start of the firmware, and what comes behind the last tick.
        assert!((0..20_000).contains(&(all_ns - ALL_TICKS * 1_000_000)), "{core}: {all_ns}");
        // Of five ticks the processor sleeps most.
        assert!((4_700_000..5_000_000).contains(&slept_ns(&profile)), "{core}: {}", slept_ns(&profile));
    });
}

/// Time of each call of the tick's handler on the timeline.
fn ticks_ns(profile: &Profile) -> Vec<u64> {
    let rows = event_rows::rows(profile).expect("there is a timeline");
    let ticks = rows.filter(|row| row.event == "called");
    ticks.map(|row| (row.at_insns << profile.facts.icount_shift) + row.beyond_ns).collect()
}

#[test]
fn a_timeline_has_the_ticks_at_their_times() {
    let args = ["--cycles=hazard3@150MHz", "--timeline", "--trace", "MTimer_Handler"];
    let ticks = ticks_ns(&run(TICKS, &args).expect_code(0).profile());
    assert_eq!(ticks.len() as u64, ALL_TICKS);
    for (ns, tick) in ticks.iter().zip(1..) {
        let late_ns = ns - tick * 1_000_000;
        assert!(late_ns < 2_000, "tick {tick}: {ns}");
    }
}

#[test]
fn the_clock_does_not_depend_on_how_the_run_is_measured() {
    let ways: [&[&str]; 8] = [
        &["--exact"],
        &["--branches"],
        &["--oracle", "--no-stacks"],
        &["--period", "1"],
        &["--period", "97", "--seeded-jitter", "5"],
        &["--slice", "100"],
        &["--timeline"],
        &["--from", "busy"],
    ];
    let images = [TICKS, "riscv32-threadx", "riscv32-zephyr", "riscv32-pended", "riscv32-storm-pg"];
    in_parallel(&images, |name| {
        let args = ["--cycles=hazard3@150MHz", "--for", "300k"];
        let plain = run(name, &args).profile();
        for way in ways.iter().filter(|way| *name == TICKS || way[0] != "--from") {
            let other = run(name, &[&args[..], way].concat()).profile();
            if way[0] == "--from" {
                // The window is another, and interrupts come at the same instructions of the run.
                let args = ["--cycles=hazard3@150MHz", "--timeline", "--trace", "MTimer_Handler"];
                let calls = |more: &[&str]| -> Vec<u64> {
                    let profile = run(name, &[&args[..], more].concat()).profile();
                    let rows = event_rows::rows(&profile).unwrap().filter(|row| row.event == "called");
                    rows.map(|row| row.at_insns + profile.facts.before_window_insns).collect()
                };
                assert_eq!(calls(way), calls(&[]), "{name} {way:?}");
                continue;
            }
            assert!(plain.insns() == other.insns(), "{name} {way:?}: other instructions");
            assert!(plain.cycles == other.cycles, "{name} {way:?}: other cycles");
        }
    });
}

/// Interrupts that come behind a jump, into a handler whose first instruction is longer than what the core has fetched by then.
const WIDE_HANDLER: &str = r#"
volatile unsigned ticks, kept[2];
__asm__(".text\n.balign 4\n.option push\n.option norvc\n.globl trap\n.type trap,%function\ntrap:\n"
    "csrrw sp, mscratch, sp\nsw t0, 0(sp)\nsw t1, 4(sp)\n"
    "li t0, 0x02004000\nlw t1, 0(t0)\naddi t1, t1, 1000\nsw t1, 0(t0)\n"
    "la t0, ticks\nlw t1, 0(t0)\naddi t1, t1, 1\nsw t1, 0(t0)\n"
    "lw t0, 0(sp)\nlw t1, 4(sp)\ncsrrw sp, mscratch, sp\nmret\n.size trap, .-trap\n.option pop");
void trap(void);
void reset(void) {
    *(volatile unsigned *)0x02004004 = 0;
    *(volatile unsigned *)0x02004000 = 1000;
    __asm__ volatile("csrw mscratch, %0\ncsrw mtvec, %1\ncsrs mie, %2\ncsrsi mstatus, 8"
                     :: "r"(kept), "r"(trap), "r"(1 << 7));
    while (ticks < 40)
        __asm__ volatile("li t2, 40\n1: nop\naddi t2, t2, -1\nj 2f\n.balign 4\nnop\n2: bnez t2, 1b" ::: "t2");
    __asm__ volatile("csrci mstatus, 8");
    host(0x18, STOPPED);
    for (;;) {}
}
"#;

#[test]
fn an_interrupt_behind_a_jump_begins_its_handler_anew() {
    let dir = built::scratch();
    let elf = built::riscv(32, 0x8000_0000, 0x8002_0000, 0x8003_0000).build_source(dir.path(), "wide", WIDE_HANDLER);
    let args = ["--cycles=hazard3@150MHz", "--span", "trap..trap", "--no-stacks"];
    let fast = run_file(&elf, &args).expect_code(0).profile();
    let oracle = run_file(&elf, &[&args[..], &["--oracle"]].concat()).profile();
    assert!(fast.cycles == oracle.cycles && fast.spans == oracle.spans);
    let [span] = &fast.spans[..] else { panic!("{:?}", fast.spans) };
    assert_eq!(span.count, 39);
    assert!(span.cycles.min > 15_000 - SLACK && span.cycles.max < 15_000 + SLACK, "{span:?}");
}

#[test]
fn a_window_that_ends_anywhere_has_the_cycles_that_one_callback_for_each_instruction_counts() {
    let ends: Vec<u64> = (299_990..300_006).collect();
    in_parallel(&ends, |end| {
        for core in ["hazard3@150MHz", "hazard3", "ibex-3"] {
            let (option, end) = (format!("--cycles={core}"), end.to_string());
            let args = [&option, "--for", &end, "--no-stacks"];
            let total = |more: &[&str]| cycles::total(&run("riscv32-pended", &[&args[..], more].concat()).profile());
            assert_eq!(total(&[]), total(&["--oracle"]), "{core}: the first {end} instructions");
        }
    });
}

#[test]
fn a_debugger_meets_the_same_instructions_forwards_and_backwards() {
    for (name, option) in [(TICKS, "--cycles=hazard3@150MHz"), ("avr/uno-bins", "--cycles")] {
        let every = run(name, &[option, "--period", "1", "--for", "100k"]).profile();
        let words = ["harness", "--sandbox", "off", option, image(name).to_str().unwrap()].map(str::to_owned);
        let options = Options::resolve(Cli::parse_from(words).profile.unwrap()).unwrap();
        let mut session = Session::open(&options, DEFAULT_CHECKPOINT_MIB, &mut Silent).unwrap();
        let handler = if name == TICKS { "MTimer_Handler" } else { "__vector_11" };
        let handler = every.names.functions.iter().find(|function| function.name == handler).unwrap().start;
        let ticks: Vec<u64> =
            every.samples.iter().zip(1..).filter(|(sample, _)| sample.pc == handler).map(|(_, insn)| insn).collect();
        assert!(ticks.len() >= 3, "{name}: {ticks:?}");
        // Forwards to each tick and to what it interrupts, and back.
        let places = ticks.iter().flat_map(|&tick| [tick - 40, tick, tick + 1, tick + 200]);
        let places: Vec<u64> = places.filter(|&insn| insn <= 100_000).collect();
        for &insn in places.iter().chain(places.iter().rev()) {
            session.go(insn).unwrap();
            assert_eq!(session.at().pc, every.samples[insn as usize - 1].pc, "{name}: instruction {insn}");
        }
    }
}

#[test]
fn a_profile_is_debugged_with_its_own_clock() {
    let made = run(TICKS, &["--cycles=hazard3@150MHz"]).expect_code(0);
    let calls = ["--cycles=hazard3@150MHz", "--timeline", "--trace", "MTimer_Handler"];
    let profile = run(TICKS, &calls).profile();
    let seventh = event_rows::rows(&profile).unwrap().filter(|row| row.event == "called").nth(6).unwrap().at_insns;
    let output = harness()
        .args(["debug", "--at", "call:MTimer_Handler:7", "--elf"])
        .arg(image(TICKS))
        .arg(&made.dir)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let said = said_until(output, "connect with:");
    let group = harness::text::number::group;
    assert!(said.contains(&format!("instruction {}: ", group(seventh + 1))), "{said}");
    assert!(said.contains("virtual time by cycles, at 150 MHz"), "{said}");
}

/// Text that a debugger prints up to a line; then it is ended.
fn said_until(mut child: std::process::Child, last: &str) -> String {
    use std::io::{BufRead as _, BufReader};
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        said += &line;
        said.push('\n');
        if line.contains(last) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    said
}

#[test]
fn a_sketchs_bins_are_those_of_the_board() {
    let bins = |args: &[&str]| -> Vec<u64> {
        let console = run("avr/uno-bins", args).expect_code(0).console();
        let numbers = console.split_whitespace().filter_map(|word| word.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        assert_eq!(numbers.len(), 4, "{console}");
        numbers
    };
    let profile = run("avr/uno-bins", &["--cycles"]).profile();
    let [first, second, wait, millis] = bins(&["--cycles"])[..] else { unreachable!() };
    // simavr 1.6 counts 538, 1873 and 640 in 3050 ms.
    for (bin, simavr) in [(first, 538), (second, 1873), (wait, 640), (millis, 3050)] {
        assert!(u64::abs_diff(bin, simavr) * 200 <= simavr, "{bin} {simavr}");
    }
    // delay(20) takes 20 ms and what is left of the one in which it begins; a turn of a loop takes 31 cycles.
    let ratio = wait as f64 / first as f64;
    assert!((ratio / 1.187 - 1.0).abs() < 0.01, "{ratio}");
    // What the firmware's own clock says is what harness says.
    let ms = time::awake_ns(&profile) / 1_000_000;
    assert!((millis..millis + 5).contains(&(ms as u64)), "{ms} {millis}");
    // By instructions, delay() has a third more.
    let [first, _, wait, _] = bins(&[])[..] else { unreachable!() };
    assert!(wait as f64 / first as f64 > 1.5, "{wait} {first}");
}

#[test]
fn a_suite_names_the_frequency_with_the_core() {
    let output = run(TICKS, &["--cycles=hazard3@150MHz"]);
    let status = |limits: &str| {
        let lines = format!("cycles = \"hazard3@150MHz\"\nuntil = \"asleep\"\nassert = [{limits}]");
        suite(&output, TICKS, &lines)
    };
    assert_eq!(status("'cycles <= 3.01M', 'cycles >= 2.99M'"), Some(0));
    assert_eq!(status("'cycles <= 2.99M'"), Some(1));
    // Between two ticks is a millisecond, and `work` takes 108 us or so.
    let time = |operator: &str, time: &str| format!("'time(\"MTimer_Handler..MTimer_Handler\") {operator} {time}'");
    assert_eq!(status(&time("<=", "1.001ms")), Some(0));
    assert_eq!(status(&time(">", "999us")), Some(0));
    assert_eq!(status(&time("<=", "0.999ms")), Some(1));
    // Without a frequency, cycles are no time.
    let lines = format!("cycles = \"hazard3\"\nuntil = \"asleep\"\nassert = [{}]", time("<=", "1s"));
    assert_eq!(suite(&output, TICKS, &lines), Some(1));
}

#[test]
fn what_is_no_frequency_is_refused_with_what_would_be_one() {
    refused(TICKS, &["--cycles=hazard3@0"], &["0 is not a frequency from 1 Hz to 1 GHz, such as 150MHz"]);
    refused(TICKS, &["--cycles=hazard3@2GHz"], &["2GHz is not a frequency"]);
    refused(TICKS, &["--cycles=hazard3@1x"], &["--cycles: the frequency 1x: not a number"]);
    refused(TICKS, &["--cycles=hazard3@48MHz", "--shift", "3"], &["--shift: ", "at 48 MHz; leave it out"]);
}
