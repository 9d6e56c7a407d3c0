// SPDX-License-Identifier: MIT OR Apache-2.0
//! AVR: avr-gdb takes no description of registers from a server, so the server's list has to be its own, with flash at 0 and
//! the data space at 0x800000. Places are found as on the other processors.

use std::path::Path;
use std::process::Command;

use harness::analysis::functions;
use harness::debug::find::{Finder, More};
use harness::debug::place::Place;
use harness::debug::session::Session;
use harness::debug::travel::Travel;
use harness::profile::Profile;
use harness::run::request::options::DEFAULT_CHECKPOINT_MIB;
use object::{Object, ObjectSymbol};
use wire::chip::AVR_DATA;
use wire::definition::FrameKind;
use wire::sample::Sample;

use super::command::{end, serve};
use super::places::open;
use crate::common::{image, run};

/// Output of avr-gdb, connected by the server's line, for these commands.
fn gdb(line: &str, commands: &[String]) -> String {
    let commands: String = commands.iter().map(|command| format!(" -ex '{command}'")).collect();
    // Debian's gdb-multiarch does not know AVR.
    let rest = line.strip_prefix("avr-gdb ").unwrap_or_else(|| panic!("{line}"));
    let output = Command::new("sh").args(["-c", &format!("avr-gdb -nx -batch {rest}{commands}")]).output().unwrap();
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).join("\n")
}

/// Lines that begin with a word, without it.
fn said<'t>(text: &'t str, word: &str) -> Vec<&'t str> {
    text.lines().filter_map(|line| line.strip_prefix(word)).collect()
}

/// Values of all registers in GDB's order, as numbers: r0 to r31, SREG, SP, pc.
fn registers(session: &mut Session) -> Vec<u64> {
    let registers = session.registers().unwrap();
    let value = |name: &str| {
        let found = registers.iter().find(|register| register.name == name).unwrap();
        found.bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    };
    (0..32).map(|number| value(&format!("r{number}"))).chain(["sreg", "sp", "pc"].map(value)).collect()
}

fn address(name: &str, symbol: &str) -> u64 {
    let bytes = std::fs::read(image(name)).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    elf.symbols().find(|found| found.name() == Ok(symbol)).unwrap().address()
}

/// Functions of a sample's stack, the innermost first, as far as each is a call.
fn stack(profile: &Profile, sample: usize) -> Vec<String> {
    let sample = &profile.samples[sample];
    let frames = profile.stack(sample.stack).into_iter().rev().map_while(|frame| match frame.kind {
        FrameKind::Caller { return_addr } => Some(return_addr - 1),
        FrameKind::Exception { .. } | FrameKind::Unknown(_) => None,
    });
    let name = |pc: u64| profile.names.function_at(pc).map_or(String::new(), |function| function.name.clone());
    [sample.pc].into_iter().chain(frames).map(name).collect()
}

#[test]
fn registers_memory_and_callers_at_samples_are_those_of_other_runs() {
    for name in ["avr/uno", "avr/uno-timer"] {
        let run = run(name, &["--period", "5003"]);
        let profile = run.profile();
        let numbers: Vec<usize> = (1..=profile.samples.len()).take(14).collect();
        assert!(numbers.len() == 14, "{name}");
        let commands = numbers.iter().flat_map(|number| {
            let values: Vec<String> = (0..32).map(|number| format!("(int)(unsigned char)$r{number}")).collect();
            let form = vec!["%d"; 32].join(" ");
            [
                format!("monitor goto sample:{number}"),
                format!("printf \"general {form}\\n\", {}", values.join(", ")),
                "printf \"special %d %ld %ld\\n\", (int)(unsigned char)$SREG, (long)$SP, 2 * (long)$pc".to_owned(),
                "printf \"data %d %d\\n\", *(unsigned char *)$SP, ((unsigned char *)$SP)[1]".to_owned(),
                "echo stack:\\n".to_owned(),
                "bt 1".to_owned(),
            ]
        });
        let elf = image(name);
        let (child, line) = serve(&[run.dir.to_str().unwrap(), "--elf", elf.to_str().unwrap()]);
        let text = gdb(&line, &commands.collect::<Vec<_>>());
        let (code, log) = end(child);
        assert_eq!(code, Some(0), "{name}: {text}\n{log}");
        // Without checkpoints, in one way: a run of its own.
        let mut witness = open(name, 0);
        let [general, special, data] = ["general ", "special ", "data "].map(|word| said(&text, word));
        assert_eq!((general.len(), special.len(), data.len()), (14, 14, 14), "{name}: {text}");
        for (index, number) in numbers.iter().enumerate() {
            let sample = &profile.samples[number - 1];
            witness.go(profile.facts.before_window_insns + sample.at_insns).unwrap();
            let values = registers(&mut witness);
            let words = |values: &[u64]| values.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
            assert_eq!(general[index], words(&values[..32]), "{name}, sample:{number}: {text}");
            assert_eq!(
                special[index],
                words(&[values[32], values[33], sample.pc]),
                "{name}, sample:{number}: {text}"
            );
            assert_eq!(values[34], sample.pc, "{name}, sample:{number}");
            let top = witness.read(AVR_DATA.start + values[33], 2).unwrap();
            assert_eq!(data[index], format!("{} {}", top[0], top[1]), "{name}, sample:{number}: {text}");
        }
        let stacks: Vec<&str> = text.split("stack:\n").skip(1).collect();
        assert_eq!(stacks.len(), 14, "{name}");
        for (number, shown) in numbers.iter().zip(stacks) {
            let own = stack(&profile, number - 1).remove(0);
            let own = own.split('.').next().unwrap();
            assert!(shown.lines().next().unwrap().contains(own), "{name}, sample:{number}: {own}: {shown}");
        }
    }
}

#[test]
fn avr_gdb_steps_breaks_and_watches_both_ways() {
    let (elf, timer) = (image("avr/uno"), image("avr/uno-timer"));
    let fibonacci = address("avr/uno", "fibonacci");
    // A pointer to code is a number of words.
    let at = "printf \"at %ld\\n\", 2 * (long)$pc";
    let go = |elf: &Path, place: &str, commands: &[&str]| {
        let (child, line) = serve(&[elf.to_str().unwrap(), "--at", place]);
        let text = gdb(&line, &commands.iter().map(|&command| command.to_owned()).collect::<Vec<_>>());
        let (code, log) = end(child);
        assert_eq!(code, Some(0), "{text}\n{log}");
        assert!(!text.contains("warning: Target"), "{text}");
        text
    };
    let text = go(
        &elf,
        "call:fibonacci:1",
        &[
            at,
            "x/2xb 0",
            "break fibonacci",
            "continue",
            at,
            "bt",
            "reverse-continue",
            at,
            "stepi",
            "reverse-stepi",
            at,
            "delete",
            "finish",
            "monitor goto end",
            "info registers SREG",
            "monitor where",
        ],
    );
    assert_eq!(said(&text, "at "), vec![fibonacci.to_string(); 4], "{text}");
    for wanted in [
        // The first vector, a jump.
        "<__vectors>:\t0x0c\t0x94",
        "fibonacci (n=14)",
        "in fibonacci (n=15)",
        "in main ()",
        "Value returned is $1 = 610",
        "in __stop_program ()",
        "SREG           0x40",
        "interrupts are held off",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    // An interrupt's handler, and its caller.
    let text = go(
        &timer,
        // Another one interrupts a function at its first instruction, where GDB looks for the function before.
        "call:__vector_11:4",
        &[
            "bt",
            "finish",
            "monitor where",
            "watch interrupts",
            "continue",
            "continue",
            "reverse-continue",
            "delete",
            // TIMER1's control, a device's register.
            "watch *(char *)0x800081",
            "continue",
            "monitor why",
        ],
    );
    assert!(text.contains("__vector_11 ()"), "{text}");
    assert_eq!(text.matches("Hardware watchpoint 1: interrupts").count(), 4, "{text}");
    // As 4 '\004'; the handler counts once by the end of `finish`.
    let values = |word| said(&text, word).into_iter().map(|value| value[..1].parse::<u32>().unwrap());
    let changes: Vec<_> = values("Old value = ").zip(values("New value = ")).collect();
    assert_eq!(changes, [(4, 5), (5, 6), (6, 5)], "{text}");
    assert!(text.contains("only 0x00800100 to 0x0080ffff is watched on AVR"), "{text}");
}

#[test]
fn places_are_where_a_sample_at_each_instruction_saw_them() {
    let name = "avr/uno";
    let (profile, every) = (run(name, &[]).profile(), run(name, &["--period", "1"]).profile());
    let exact = |more: More| match more {
        More::Exact => Ok(run(name, &["--exact"]).profile()),
        More::Marks { .. } => panic!("no text is looked for"),
    };
    let mut session = open(name, DEFAULT_CHECKPOINT_MIB);
    assert!(session.has_checkpoints());
    let elf = std::fs::read(image(name)).unwrap();
    let mut finder = Finder::new(&profile, Box::new(exact));
    finder.elf = Some(&elf);
    let mut find = |session: &mut Session, place: &str| {
        finder.find(session, &Place::parse(place).unwrap(), &mut |_| ()).map(|found| found.insn)
    };
    let pc = |insn: u64| every.samples[insn as usize - 1].pc;
    // A function may begin with a loop of its own.
    let loops = |from: u64, start: u64| {
        let (isa, code) = (profile.facts.isa().unwrap(), profile.code_at(from).unwrap_or_default());
        let is_inside = profile.names.function_at(from).is_some_and(|function| function.start == start);
        is_inside && !decode::decode(isa, from, code).flow.is_call()
    };
    let hits_before = |start: u64, insn: u64| {
        let arrives = |pair: &&[Sample]| pair[1].pc == start && !loops(pair[0].pc, start);
        every.samples[..insn as usize].windows(2).filter(arrives).count() as u64
    };
    // Calls, by their number.
    let mut compared = 0;
    let table = functions::table(&profile);
    for row in table.rows.iter().filter(|row| row.calls > 2) {
        let Some(start) = row.start else { continue };
        for nth in [1, row.calls / 2, row.calls] {
            let insn = find(&mut session, &format!("call:{start:#x}:{nth}")).unwrap();
            assert_eq!((pc(insn), hits_before(start, insn)), (start, nth), "{}", row.name);
            compared += 1;
        }
    }
    assert!(compared >= 12, "{compared}");
    let last = profile.total_insns();
    assert_eq!(find(&mut session, "end").unwrap(), last);
    let error = find(&mut session, "crash").unwrap_err().to_string();
    assert!(error.contains("did not crash: the firmware exited with status 0"), "{error}");
    for place in ["write:0x100", "write:0x8000c6", "write:0x810000"] {
        let refused = find(&mut session, place).unwrap_err().to_string();
        assert!(refused.contains("only 0x00800100 to 0x0080ffff is watched on AVR"), "{refused}");
    }
}

/// Each byte of a variable, and the stack, as a walk through all instructions sees them.
#[test]
fn the_last_write_and_the_deepest_stack_are_those_of_a_walk() {
    let name = "avr/uno";
    let profile = run(name, &[]).profile();
    let elf = std::fs::read(image(name)).unwrap();
    let mut session = open(name, DEFAULT_CHECKPOINT_MIB);
    let exact = |_: More| Ok(run(name, &["--exact"]).profile());
    let mut finder = Finder::new(&profile, Box::new(exact));
    finder.elf = Some(&elf);
    let mut find = |session: &mut Session, place: &str| {
        finder.find(session, &Place::parse(place).unwrap(), &mut |_| ()).map(|found| found.insn)
    };
    // A window of the run in which a frame is filled and left.
    let fill = find(&mut session, "call:fill:1").unwrap();
    let peak = find(&mut session, "peak-stack").unwrap();
    let mut witness = open(name, DEFAULT_CHECKPOINT_MIB);
    let sp = |session: &mut Session| {
        let registers = session.registers().unwrap();
        let sp = registers.iter().find(|register| register.name == "sp").unwrap();
        u64::from(sp.bytes[0]) | u64::from(sp.bytes[1]) << 8
    };
    witness.go(fill).unwrap();
    let frame = AVR_DATA.start + sp(&mut witness) - 40;
    let mut last_writes = [None; 8];
    let mut before = witness.read(frame, 8).unwrap();
    let until = fill + 1_500;
    for insn in fill + 1..=until {
        witness.go(insn).unwrap();
        let now = witness.read(frame, 8).unwrap();
        for (index, last) in last_writes.iter_mut().enumerate() {
            if before[index] != now[index] {
                *last = Some(insn);
            }
        }
        before = now;
    }
    let mut compared = 0;
    for (index, last) in last_writes.into_iter().enumerate() {
        let Some(last) = last else { continue };
        let found = find(&mut session, &format!("write:{:#x}@insn:{until}", frame + index as u64)).unwrap();
        assert_eq!(found + 1, last, "byte {index}");
        compared += 1;
    }
    assert!(compared > 5, "{compared}");
    // The deepest stack of all: no other instruction's pointer is lower where the search stops.
    session.go(peak).unwrap();
    let deepest = sp(&mut session);
    let mut lowest = u64::MAX;
    for insn in (1..profile.total_insns()).step_by(211).chain(peak..peak + 200) {
        witness.go(insn).unwrap();
        // Start-up code sets the pointer.
        lowest = lowest.min(Some(sp(&mut witness)).filter(|&sp| sp > 0x100).unwrap_or(u64::MAX));
    }
    assert_eq!(deepest, lowest, "{deepest:#x} {lowest:#x}");
}
