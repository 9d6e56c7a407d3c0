//! GDB itself goes where `monitor goto` goes: registers, task and CPU are those of the place.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use harness::debug::thread::{Processor, Threads};
use harness::debug::threads;
use harness::debug::travel::Travel;
use harness::image::kernel;

use crate::command::{end, serve};
use crate::common::{image, image_args, run};
use crate::places::open;

/// Places of each image.
const PLACES: u64 = 200;

/// Instructions of each image that they are among.
const WINDOW_INSNS: u64 = 400_000;

/// What GDB is to show at a place.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    insn: u64,
    registers: Vec<u64>,
    /// `1.536890032 (blinky: running)`: who executes.
    thread: String,
}

/// Registers that GDB prints.
fn names(is_arm: bool) -> Vec<String> {
    if is_arm {
        return (0..13).map(|number| format!("r{number}")).chain(["sp", "lr", "pc"].map(str::to_owned)).collect();
    }
    let names = "ra sp gp tp t0 t1 t2 fp s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6 pc";
    names.split(' ').map(str::to_owned).collect()
}

/// Places all over the run, in no order; the first instruction is one, before there is any task.
fn places() -> Vec<u64> {
    let scattered = |index: u64| index * 0x9e37_79b9_7f4a_7c15 % WINDOW_INSNS + 1;
    (0..PLACES).map(|index| if index % 50 == 0 { 1 + index / 50 } else { scattered(index) }).collect()
}

/// What there is, by a debugger of our own.
fn told(name: &str, is_arm: bool) -> Vec<Shown> {
    let mut session = open(name, 512);
    let elf = fs::read(image(name)).unwrap();
    let (kernel, _) = kernel::find(Some(&elf), 0, is_arm);
    let mut threads: Box<dyn Threads> = match threads::Threads::new(kernel.as_ref(), Some(&elf), 0, is_arm) {
        Some(threads) => Box::new(threads),
        None => Box::new(Processor),
    };
    let mut see = |insn: u64| {
        session.go(insn).unwrap();
        let registers = session.registers().unwrap();
        let value = |name: &String| {
            let register = registers.iter().find(|register| register.name == *name).unwrap();
            register.bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
        };
        let listed = threads.list(&mut session).unwrap();
        let thread = format!("{}: {}", listed[0].name, listed[0].state);
        Shown { insn, registers: names(is_arm).iter().map(value).collect(), thread }
    };
    // Forwards it takes less time.
    let mut sorted = places();
    sorted.sort_unstable();
    let seen: Vec<Shown> = sorted.into_iter().map(&mut see).collect();
    let mut told = Vec::new();
    for place in places() {
        let Shown { insn, registers, thread } = seen.iter().find(|shown| shown.insn == place).unwrap();
        told.push(Shown { insn: *insn, registers: registers.clone(), thread: thread.clone() });
    }
    told
}

/// What GDB shows at each place, and after a step from it. Without the hooks it is told to forget what it knows.
fn shown(name: &str, is_arm: bool, has_hooks: bool) -> (Vec<Shown>, Vec<u64>, String) {
    let elf = image(name);
    let elf = elf.to_str().unwrap();
    let window = format!("{WINDOW_INSNS}");
    let (child, line) = serve(&[&[elf, "--for", &window, "--at", "insn:1"], image_args(name)].concat());
    let mut script = "set pagination off\nset width 0\n".to_owned();
    let form = "%lx ".repeat(names(is_arm).len());
    let values: String = names(is_arm).iter().map(|name| format!(", (unsigned long)${name}")).collect();
    for insn in places() {
        let _ = writeln!(script, "monitor goto insn:{insn}");
        if !has_hooks {
            script += "maintenance flush register-cache\nmaintenance flush dcache\n";
        }
        let _ = writeln!(script, "printf \"place {insn} {form}\\n\"{values}\ninfo threads\nstepi\nmonitor where");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    fs::write(&file, script).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let target = words[words.iter().position(|&word| word == "remote").unwrap() + 1].trim_matches('"');
    let mut gdb = Command::new(words[0]);
    gdb.args(["-nx", "-batch", "-ex", &format!("target remote {target}")]);
    if has_hooks {
        gdb.arg("-x").arg(words[words.iter().position(|&word| word == "-x").unwrap() + 1]);
    }
    let output = gdb.arg("-x").arg(&file).arg(elf).stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).join("\n");
    let (code, log) = end(child);
    assert_eq!(code, Some(0), "{name}: {said}\n{log}");
    let mut seen: Vec<Shown> = Vec::new();
    let mut stepped = Vec::new();
    for line in said.lines() {
        if let Some(rest) = line.strip_prefix("place ") {
            let mut numbers = rest.split_whitespace();
            let insn = numbers.next().unwrap().parse().unwrap();
            let registers = numbers.map(|number| u64::from_str_radix(number, 16).unwrap()).collect();
            seen.push(Shown { insn, registers, thread: String::new() });
        } else if let (Some(rest), Some(shown)) = (line.strip_prefix("* "), seen.last_mut()) {
            let name = rest.split_once('(').map_or("", |(_, rest)| rest.split_once(')').unwrap().0);
            shown.thread = name.to_owned();
        }
    }
    // What the monitor says are errors to GDB.
    for line in said.lines().filter(|line| line.starts_with("instruction ")) {
        let number: String = line.chars().take_while(|&c| c != ':').filter(char::is_ascii_digit).collect();
        stepped.push(number.parse().unwrap());
    }
    (seen, stepped, said)
}

/// Whether GDB shows what there is.
fn compare(name: &str, is_arm: bool, has_hooks: bool) {
    let (seen, stepped, said) = shown(name, is_arm, has_hooks);
    let told = told(name, is_arm);
    assert_eq!(seen.len(), told.len(), "{name}: {said}");
    for (seen, told) in seen.iter().zip(&told) {
        assert_eq!(seen, told, "{name}");
    }
    // Each place is said as it is come to, and after the step.
    assert_eq!(stepped.len(), 2 * told.len(), "{name}: {said}");
    for (pair, told) in stepped.chunks(2).zip(&told) {
        assert_eq!(pair[0], told.insn, "{name}");
        // A step within a task passes over the time of others, and a task may end in it.
        assert!(pair[1] > told.insn, "{name}: {pair:?}");
    }
    let single = stepped.chunks(2).filter(|pair| pair[1] == pair[0] + 1).count();
    assert!(single * 100 >= told.len() * 95, "{name}: {stepped:?}");
    for wrong in ["E79", "Could not fetch", "is not available", "Cannot execute", "SIGTRAP"] {
        assert!(!said.contains(wrong), "{name}: {wrong}: {said}");
    }
}

#[test]
fn gdb_with_its_hooks_is_at_200_places_of_tasks_and_cpus() {
    for (name, is_arm) in [("cortex-m3-crew", true), ("riscv64-crew", false), ("riscv64-smp", false)] {
        compare(name, is_arm, true);
    }
}

#[test]
fn gdb_without_hooks_is_at_200_places_of_tasks_and_cpus_once_it_has_forgotten_the_last() {
    for (name, is_arm) in [("cortex-m3-crew", true), ("riscv64-smp", false)] {
        compare(name, is_arm, false);
    }
}

#[test]
fn gdb_finishes_a_function_of_the_task_that_it_was_led_to() {
    // Of each task, the function that its last sample is in, and who has called it.
    let name = "cortex-m3-crew";
    let elf = image(name);
    let profiled = run(name, &["--for", "400k"]);
    let profile = profiled.profile();
    let places: Vec<usize> =
        (0..profile.samples.len()).filter(|&index| index % 7 == 0 && profile.samples[index].task > 0).collect();
    for line_has_hooks in [true, false] {
        let (child, line) = serve(&[elf.to_str().unwrap(), "--for", "400k", "--at", "insn:1"]);
        let line = if line_has_hooks {
            line
        } else {
            let at = line.find(" -x ").unwrap();
            format!("{} {}", &line[..at], elf.display())
        };
        let mut script = line.replacen("gdb-multiarch", "gdb-multiarch -nx -batch", 1);
        for index in &places {
            let flush = "-ex 'maintenance flush register-cache' -ex 'maintenance flush dcache'";
            let flush = if line_has_hooks { "" } else { flush };
            script += &format!(
                " -ex 'monitor goto sample:{}' {flush} -ex 'monitor where' -ex nexti -ex 'monitor where'",
                index + 1
            );
        }
        let output = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
        let said =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).join("\n");
        let (code, log) = end(child);
        assert_eq!(code, Some(0), "{said}\n{log}");
        let tasks: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("task ")).collect();
        assert_eq!(tasks.len(), 3 * places.len(), "{said}");
        for of_place in tasks.chunks(3) {
            // It stays in its task.
            assert_eq!(of_place[0], of_place[1], "{said}");
            assert_eq!(of_place[1], of_place[2], "{said}");
        }
    }
}
