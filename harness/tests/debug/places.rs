// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state at an instruction does not depend on the way there, and equals what a profile recorded there.

use clap::Parser;
use harness::cli::Cli;
use harness::debug::find::Finder;
use harness::debug::place::Place;
use harness::debug::session::Session;
use harness::debug::travel::{Access, Ended, Refused, Register, Stop, Travel, Vcpus, Watch, Why};
use harness::measure::Silent;
use harness::run::request::options::{DEFAULT_CHECKPOINT_MIB, Options};
use object::{Object, ObjectSymbol, SymbolKind};
use wire::control::End;

use crate::common::{
    dozen_with_avr, has_several_cpus, image, image_args, in_parallel, is_all, run, say, selected_that,
};

fn options(name: &str) -> Options {
    let elf = image(name);
    let own = image_args(name).iter().copied();
    // QEMU forks copies only without the sandbox.
    let words = ["harness", elf.to_str().unwrap(), "--sandbox", "off"].into_iter().chain(own);
    Options::resolve(Cli::parse_from(words).profile.unwrap()).unwrap()
}

pub(crate) fn open(name: &str, checkpoint_mib: u64) -> Session {
    Session::open(&options(name), checkpoint_mib, &mut Silent).unwrap()
}

/// All that a debugger can read: registers and the top of the stack.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    stop: Stop,
    registers: Vec<Register>,
    stack: Vec<u8>,
}

fn look(session: &mut Session, insn: u64) -> Seen {
    let stop = session.go(insn).unwrap();
    see(session, stop)
}

/// Goes to an instruction by one callback per instruction, as breakpoints do.
fn step_to(session: &mut Session, insn: u64) -> Seen {
    let stop = session.forward(Some(insn)).unwrap();
    see(session, stop)
}

fn see(session: &mut Session, stop: Stop) -> Seen {
    let registers = session.registers().unwrap();
    let sp = registers.iter().find(|register| register.name == "sp").map_or(0, |sp| {
        let mut value = [0; 8];
        value[..sp.bytes.len()].copy_from_slice(&sp.bytes);
        u64::from_le_bytes(value)
    });
    // AVR's registers hold addresses of the data space.
    let data = if registers.iter().any(|register| register.name == "sreg") { wire::chip::AVR_DATA.start } else { 0 };
    let stack = session.read(data + sp, 64).unwrap();
    Seen { stop, registers, stack }
}

/// Asserts that two states are equal; a failure names only the differences.
fn assert_same(seen: &Seen, told: &Seen, what: &str) {
    assert_eq!(seen.stop, told.stop, "{what}");
    for (seen, told) in seen.registers.iter().zip(&told.registers) {
        assert_eq!(seen, told, "{what}");
    }
    assert_eq!((seen.registers.len(), &seen.stack), (told.registers.len(), &told.stack), "{what}");
}

/// Address of a symbol of an image.
fn address(name: &str, symbol: &str) -> u64 {
    let bytes = std::fs::read(image(name)).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let found = elf.symbols().find(|found| found.name() == Ok(symbol)).unwrap();
    // Bit 0 marks Thumb code.
    found.address() & !u64::from(found.kind() == SymbolKind::Text)
}

/// Number of places for each image: 20, or `HARNESS_PLACES` (set by `ci/check-debug`).
fn places() -> usize {
    std::env::var("HARNESS_PLACES").map_or(20, |places| places.parse().unwrap())
}

/// Next pseudo-random number; the sequence is the same in every run.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn an_instruction_is_the_same_whichever_way_it_is_come_to() {
    // All images only if ci/check-debug asks: each place is a run of its own.
    let is_short = is_all() && std::env::var_os("HARNESS_PLACES").is_none();
    let images: Vec<String> =
        if is_short { dozen_with_avr().into_iter().map(str::to_owned).collect() } else { selected_that(|_| true) };
    in_parallel(&images, |name| {
        let is_single = !has_several_cpus(name);
        let window: &[&str] = if is_single { &["--for", "5M"] } else { &[] };
        let mut profile = run(name, &[window, &["--period", "97"]].concat()).profile();
        let mut seed = 7;
        while profile.samples.len() > places() {
            let index = random(&mut seed) as usize % profile.samples.len();
            profile.samples.swap_remove(index);
        }
        let before = profile.facts.before_window_insns;
        let mut insns: Vec<u64> = if is_single {
            profile.samples.iter().map(|sample| before + sample.at_insns).collect()
        } else {
            (0..places()).map(|_| before + 1 + random(&mut seed) % profile.total_insns()).collect()
        };
        insns.sort_unstable();
        insns.dedup();
        // One process passes through all places once, with a callback at each instruction.
        let mut witness = open(name, 0);
        let told: Vec<Seen> = insns.iter().map(|&insn| step_to(&mut witness, insn)).collect();
        assert!(!witness.has_checkpoints());
        for (insn, told) in insns.iter().zip(&told) {
            assert_eq!((told.stop.at.insn, &told.stop.why), (*insn, &Why::Reached), "{name}");
        }
        // With checkpoints: places in rising and in arbitrary order.
        let mut session = open(name, DEFAULT_CHECKPOINT_MIB);
        // The profile's sample at each place. It counts each CPU's instructions by itself.
        let mut finder = Finder::new(&profile, Box::new(|_| unreachable!("no run is to be measured")));
        for (number, sample) in (1..).zip(&profile.samples).take(if is_single { usize::MAX } else { 10 }) {
            let found = finder.find(&mut session, &Place::Sample(number), &mut |_| {}).unwrap();
            let stop = session.go(found.insn).unwrap();
            let Vcpus { executing, insns } = session.vcpus().unwrap();
            assert_eq!((stop.at.pc, executing), (sample.pc, sample.vcpu as usize), "{name}, sample:{number}");
            assert!(!is_single || insns == [before + sample.at_insns], "{name}, sample:{number}");
        }
        for told in &told {
            assert_same(&look(&mut session, told.stop.at.insn), told, &format!("{name}, rising"));
        }
        for _ in 0..told.len() {
            let told = &told[random(&mut seed) as usize % told.len()];
            assert_same(&look(&mut session, told.stop.at.insn), told, &format!("{name}, in any order"));
        }
        say(&format!("{name}: {} places, checkpoints: {}", told.len(), session.has_checkpoints()));
    });
}

/// Memory for checkpoints, in MiB: the default, and none.
const WAYS: [u64; 2] = [DEFAULT_CHECKPOINT_MIB, 0];

#[test]
fn steps_back_and_forth_end_in_the_same_state() {
    for (name, insn) in [("riscv64-idle", 100_000), ("cortex-m0-storm-pg", 1_500_000)] {
        for way in WAYS {
            let steps = if way > 0 { 50 } else { 3 };
            let mut session = open(name, way);
            let before = look(&mut session, insn);
            let behind: Vec<Seen> = (1..=steps).map(|step| look(&mut session, insn - step)).collect();
            for (step, behind) in (1..steps).rev().zip(behind.iter().rev().skip(1)) {
                let what = format!("{name}, {way} MiB, {step} before");
                assert_same(&look(&mut session, insn - step), behind, &what);
            }
            assert_same(&look(&mut session, insn), &before, &format!("{name}, {way} MiB"));
        }
    }
}

#[test]
fn breakpoints_are_hit_backwards_as_forwards_in_reverse() {
    for (name, symbol) in
        [("riscv64-freertos", "vTaskSwitchContext"), ("cortex-m3-freertos-pg-Os", "vTaskSwitchContext")]
    {
        for way in WAYS {
            let pc = address(name, symbol);
            let mut session = open(name, way);
            session.set_breakpoints(&[pc]);
            let most = if way > 0 { 30 } else { 4 };
            let mut forwards = Vec::new();
            while forwards.len() < most {
                let stop = session.forward(None).unwrap();
                assert_eq!((stop.at.pc, &stop.why), (pc, &Why::Breakpoint), "{name}, {way} MiB");
                forwards.push(stop.at.insn);
            }
            assert!(forwards.is_sorted_by(|hit, next| hit < next));
            let (logged, total) = session.hits(&[pc], forwards.last().map(|last| last + 1), 1_000).unwrap();
            assert_eq!(logged.iter().map(|hit| hit.insn).collect::<Vec<_>>(), forwards, "{name}, {way} MiB");
            assert_eq!(total, forwards.len() as u64);
            assert_eq!(session.at().insn, forwards[most - 1], "looking for hits goes nowhere");
            for &hit in forwards.iter().rev().skip(1) {
                let stop = session.backward(1).unwrap();
                assert_eq!((stop.at.insn, stop.why), (hit, Why::Breakpoint), "{name}, {way} MiB");
            }
            assert_eq!(session.backward(1).unwrap().why, Why::Start, "{name}, {way} MiB");
            assert_eq!(session.at().insn, 1);
            // The target instruction lies past all watched accesses.
            assert_eq!(session.go(forwards[1] + 5).unwrap().why, Why::Reached);
        }
    }
}

#[test]
fn watched_memory_stops_both_ways_with_the_value_before_and_after() {
    for (name, symbol, bytes) in
        [("riscv64-freertos", "xTickCount", 8), ("cortex-m3-freertos-pg-Os", "xTickCount", 4)]
    {
        let address = address(name, symbol);
        let mut session = open(name, DEFAULT_CHECKPOINT_MIB);
        session.set_watches(&[Watch { range: address..address + bytes, access: Access::Write }]);
        let value = |session: &mut Session| session.read(address, 4).unwrap();
        let mut seen = Vec::new();
        for _ in 0..6 {
            let stop = session.forward(None).unwrap();
            let Why::Watch { address: at, access: Access::Write, by } = stop.why else { panic!("{name}: {stop:?}") };
            assert_eq!((at, by), (address, stop.at.insn - 1), "{name}");
            seen.push((by, value(&mut session)));
        }
        for pair in seen.windows(2).rev() {
            let stop = session.backward(1).unwrap();
            let Why::Watch { by, .. } = stop.why else { panic!("{name}: {stop:?}") };
            assert_eq!((by, stop.at.insn), (pair[1].0, by), "{name}");
            assert_eq!(value(&mut session), pair[0].1, "{name}: before the store");
        }
    }
}

#[test]
fn a_run_is_held_at_its_last_instruction_however_it_ends() {
    let images = [
        ("riscv64-bare", "exit"),
        ("cortex-m3-lockup-busfault", "gone"),
        ("cortex-m3-sleep", "asleep"),
        ("riscv64-sleep", "asleep"),
    ];
    for (name, how) in images {
        for way in WAYS {
            let mut session = open(name, way);
            let stop = session.go(u64::MAX >> 8).unwrap();
            let is_meant = match &stop.why {
                Why::End(Ended::At(End::Exit, _)) => how == "exit",
                Why::End(Ended::Gone(said)) => how == "gone" && said.contains("ockup"),
                Why::End(Ended::Asleep) => how == "asleep",
                _ => false,
            };
            assert!(is_meant, "{name}, {way} MiB: {stop:?}");
            assert_eq!(session.end().map(|(at, _)| at), Some(stop.at), "{name}, {way} MiB");
            assert!(!session.registers().unwrap().is_empty());
            let last = look(&mut session, stop.at.insn);
            let before = look(&mut session, stop.at.insn - 3);
            assert_eq!(before.stop.why, Why::Reached, "{name}, {way} MiB");
            // Going on from there reaches the same end.
            let again = session.forward(None).unwrap();
            assert_eq!((again.at, &again.why), (stop.at, &stop.why), "{name}, {way} MiB");
            assert_eq!(look(&mut session, stop.at.insn).registers, last.registers, "{name}, {way} MiB");
        }
    }
}

#[test]
fn what_is_written_makes_a_run_of_its_own() {
    let name = "cortex-m3-freertos-pg-Os";
    let address = address(name, "xTickCount");
    let mut session = open(name, DEFAULT_CHECKPOINT_MIB);
    let there = look(&mut session, 1_000_000);
    session.write(address, &0x1234_5678_u32.to_le_bytes()).unwrap().unwrap();
    assert_eq!(session.read(address, 4).unwrap(), 0x1234_5678_u32.to_le_bytes());
    assert_eq!(session.at(), there.stop.at, "writing executes nothing");
    // Instructions before the write belong to another run.
    let refused = session.go(999_999).unwrap_err().to_string();
    assert!(refused.contains("wrote to the run"), "{refused}");
    assert_eq!(session.backward(1).unwrap().why, Why::Start, "its history begins where it was written to");
    let later = session.go(1_400_000).unwrap();
    assert_eq!((later.at.insn, later.why), (1_400_000, Why::Reached));
    let ticks = session.read(address, 4).unwrap();
    let ticks = u32::from_le_bytes(ticks.try_into().unwrap());
    assert!(ticks > 0x1234_5678 && ticks < 0x1234_5678 + 1_000, "it goes on from what was written: {ticks:#x}");
    let back = session.go(1_000_000).unwrap();
    assert_eq!(back.at, there.stop.at);
    assert_eq!(session.read(address, 4).unwrap(), 0x1234_5678_u32.to_le_bytes());
}

/// Message of a refused request, which leaves the session as it was.
fn refusal<T: std::fmt::Debug>(result: anyhow::Result<T>) -> String {
    let error = result.unwrap_err();
    assert!(error.is::<Refused>(), "{error:#}");
    format!("{error:#}")
}

#[test]
fn what_a_run_that_was_written_to_cannot_do_is_refused_and_it_goes_on() {
    let name = "cortex-m3-freertos-pg-Os";
    let address = address(name, "xTickCount");
    for way in WAYS {
        let mut session = open(name, way);
        session.go(1_000_000).unwrap();
        assert_eq!(session.written_at(), None);
        // An empty write changes nothing.
        session.write(address, &[]).unwrap().unwrap();
        assert_eq!(session.written_at(), None, "{way} MiB");
        session.write(address, &0x1234_5678_u32.to_le_bytes()).unwrap().unwrap();
        assert_eq!(session.written_at(), Some(1_000_000), "{way} MiB");
        assert!(refusal(session.go(999_999)).contains("wrote to the run"));
        session.set_watches(&[Watch { range: address..address + 4, access: Access::Write }]);
        assert!(session.can_watch().is_err());
        assert!(refusal(session.forward(None)).contains("watched"));
        assert!(refusal(session.backward(1)).contains("watched"));
        session.set_watches(&[]);
        assert_eq!(session.forward(Some(1_000_100)).unwrap().at.insn, 1_000_100, "{way} MiB");
        if way == 0 {
            for refused in [refusal(session.backward(1)), refusal(session.hits(&[address], None, 1))] {
                assert!(refused.contains("wrote to the run"), "{refused}");
            }
        }
        assert_eq!(session.at().insn, 1_000_100);
        assert_eq!(session.read(address, 4).unwrap(), 0x1234_5678_u32.to_le_bytes(), "{way} MiB");
        // A watch that was set before the write stays in force.
        let mut session = open(name, way);
        session.set_watches(&[Watch { range: address..address + 4, access: Access::Write }]);
        // The variable is cleared first, and set as the scheduler starts.
        (0..4).for_each(|_| assert!(matches!(session.forward(None).unwrap().why, Why::Watch { .. })));
        session.write(address, &0x1234_5678_u32.to_le_bytes()).unwrap().unwrap();
        let by = |stop: Stop| if let Why::Watch { by, .. } = stop.why { by } else { panic!("{stop:?}") };
        let next = by(session.forward(None).unwrap());
        assert_eq!(session.read(address, 4).unwrap(), 0x1234_5679_u32.to_le_bytes(), "{way} MiB");
        if way > 0 {
            assert_eq!(by(session.backward(1).unwrap()), next);
        }
    }
}

#[test]
fn a_copy_that_sleeps_for_ever_is_replaced_by_another() {
    let name = "cortex-m3-sleep";
    let mut session = open(name, DEFAULT_CHECKPOINT_MIB);
    let end = session.go(u64::MAX >> 8).unwrap().at.insn;
    let before = look(&mut session, end - 20);
    let sp = before.registers.iter().find(|register| register.name == "sp").unwrap().bytes.clone();
    let below = u64::from(u32::from_le_bytes(sp.try_into().unwrap())) - 64;
    session.write(below, &[1]).unwrap().unwrap();
    for _ in 0..2 {
        let refused = refusal(session.forward(None));
        assert!(refused.contains("sleeps"), "{refused}");
        assert_eq!(session.at(), before.stop.at);
        assert_eq!(session.registers().unwrap(), before.registers);
        assert_eq!(session.read(below, 1).unwrap(), [1]);
    }
    assert_eq!(session.go(end - 10).unwrap().why, Why::Reached);
}

/// Version of the QEMU that executes an image.
fn qemu_version(name: &str) -> (u32, u32) {
    let program = if name.starts_with("riscv64") { "qemu-system-riscv64" } else { "qemu-system-arm" };
    let said = std::process::Command::new(program).arg("--version").output().unwrap().stdout;
    let said = String::from_utf8(said).unwrap();
    let number = said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit())).unwrap();
    let mut parts = number.split('.').map(|part| part.parse().unwrap());
    (parts.next().unwrap(), parts.next().unwrap())
}

#[test]
fn registers_are_written_where_qemu_can_and_the_run_differs_by_that_alone() {
    let arm: Vec<String> = (0..13).map(|number| format!("r{number}")).collect();
    let riscv = "t0 t1 t2 fp s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6";
    let riscv: Vec<String> = riscv.split(' ').map(str::to_owned).collect();
    for (name, names, ram, bytes) in
        [("cortex-m3-freertos-pg-Os", arm, 0x2000_0000, 4), ("riscv64-freertos", riscv, 0x8000_8000_u64, 8)]
    {
        let insn = 1_000_000;
        let mut session = open(name, DEFAULT_CHECKPOINT_MIB);
        let unwritten = look(&mut session, insn + 1);
        let before = look(&mut session, insn);
        // Values that are RAM addresses, so that the next instruction may use any of them.
        let values: Vec<Vec<u8>> =
            (1..).map(|index| (ram + 0x40 * index).to_le_bytes()[..bytes].to_vec()).take(names.len()).collect();
        let first = session.write_register(&names[0], &values[0]).unwrap();
        if qemu_version(name) < (10, 1) {
            let Err(Refused(why)) = first else { panic!("{name}: QEMU 10.0 has written") };
            assert!(why.contains("10.1 and later"), "{why}");
            assert_eq!((session.written_at(), look(&mut session, insn)), (None, before), "{name}");
            assert_eq!(look(&mut session, insn + 1), unwritten, "{name}");
            continue;
        }
        assert_eq!(first, Ok(()), "{name}");
        for (register, value) in names.iter().zip(&values) {
            assert_eq!(session.write_register(register, value).unwrap(), Ok(()), "{name}: {register}");
        }
        let value = |seen: &Seen, name: &str| {
            seen.registers.iter().find(|register| register.name == name).map(|register| register.bytes.clone())
        };
        // Read it by a different copy than it was written by, too.
        for times in 0..2 {
            let written = look(&mut session, insn);
            assert_eq!(written.stop.at, before.stop.at, "{name}: writing executes nothing");
            for register in &written.registers {
                let expected = match names.iter().position(|name| *name == register.name) {
                    Some(index) => Some(values[index].clone()),
                    None => value(&before, &register.name),
                };
                // A register that shows another one's value is an alias of it.
                let is_alias = ["r13", "x8", "s0"].contains(&register.name.as_str());
                assert!(is_alias || Some(&register.bytes) == expected.as_ref(), "{name}, {times}: {register:?}");
            }
            let after = look(&mut session, insn + 1);
            let kept = names.iter().zip(&values).filter(|(name, kept)| value(&after, name).as_ref() == Some(*kept));
            // One instruction changes a few registers at most.
            assert!(kept.count() + 3 >= names.len(), "{name}, {times}: {:?}", after.registers);
            assert_ne!(after.registers, unwritten.registers, "{name}");
        }
        assert_eq!(session.written_at(), Some(insn));
        assert!(refusal(session.go(insn - 1)).contains("written"), "{name}");
        // The session refuses only pc; other control registers are refused by the server.
        let refused = session.write_register("pc", &vec![0; bytes]).unwrap();
        assert!(refused.is_err_and(|Refused(why)| why.contains("about to execute")), "{name}");
    }
}

#[test]
fn devices_are_read_and_do_not_notice() {
    // UART data and status, SysTick, CFSR; on RISC-V the UART, mtime and its comparator; an unmapped address on both.
    let arm = [0x4000_4000, 0x4000_4004, 0xe000_e018, 0xe000_ed28, 0x5000_0000];
    let riscv = [0x1000_0000, 0x1000_0005, 0x0200_bff8, 0x0200_4000, 0x5000_0000];
    for (name, devices) in [("cortex-m3-freertos-pg-Os", arm), ("riscv64-freertos", riscv)] {
        let places = [500_000, 500_001, 900_000, 2_500_000];
        let mut witness = open(name, 0);
        let told: Vec<Seen> = places.iter().map(|&insn| look(&mut witness, insn)).collect();
        let mut session = open(name, DEFAULT_CHECKPOINT_MIB);
        for (insn, told) in places.into_iter().zip(&told) {
            let at = look(&mut session, insn);
            assert_eq!(at, *told, "{name}");
            let read: Vec<usize> = devices.iter().map(|&device| session.read(device, 4).unwrap().len()).collect();
            assert!(read.iter().filter(|&&bytes| bytes == 4).count() >= 2, "{name}: {read:?}");
        }
    }
}
