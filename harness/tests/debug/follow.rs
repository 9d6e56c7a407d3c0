// SPDX-License-Identifier: MIT OR Apache-2.0
//! GDB follows `monitor goto`: it shows the registers, the task and the CPU of the new place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};

use harness::debug::thread::{Processor, Threads};
use harness::debug::threads;
use harness::debug::travel::Travel;
use harness::image::kernel;

use super::command::{end, serve};
use super::places::open;
use crate::common::{image, image_args, is_all, run};

/// Number of places for each image.
const MOST_PLACES: u64 = 200;

/// Number of places for each case: all with all images, a quarter otherwise, since GDB takes a tenth of a second for each.
fn places() -> u64 {
    if is_all() { MOST_PLACES } else { MOST_PLACES / 4 }
}

/// An image, and the range of instructions that its places are drawn from.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    is_arm: bool,
    from: u64,
    until: u64,
}

/// Mechanism by which GDB learns of the new place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// GDB's hooks, which the printed line asks for.
    Hooks,
    /// Maintenance commands that flush GDB's caches.
    Flush,
    /// The monitor command `stay`.
    Stay,
}

const TASKS: Case = Case { name: "cortex-m3-crew", is_arm: true, from: 1, until: 400_000 };
const RISCV_TASKS: Case = Case { name: "riscv64-crew", is_arm: false, from: 1, until: 400_000 };
/// The second CPU executes from 6,250,000 to 7,000,000.
const CPUS: Case = Case { name: "riscv64-smp", is_arm: false, from: 5_500_000, until: 7_500_000 };

/// State that GDB should show at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    insn: u64,
    registers: Vec<u64>,
    /// Name and state of the thread, as in `blinky: running`.
    thread: String,
}

/// Names of the registers that GDB prints.
fn names(is_arm: bool) -> Vec<String> {
    if is_arm {
        return (0..13).map(|number| format!("r{number}")).chain(["sp", "lr", "pc"].map(str::to_owned)).collect();
    }
    let names = "ra sp gp tp t0 t1 t2 fp s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6 pc";
    names.split(' ').map(str::to_owned).collect()
}

impl Case {
    /// Scattered instructions of the range, unsorted; every fiftieth is one of the run's first, where there is no
    /// task yet.
    fn places(self) -> Vec<u64> {
        let scattered = |index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (self.until - self.from) + self.from;
        (0..places()).map(|index| if index % 50 == 0 { 1 + index / 50 } else { scattered(index) }).collect()
    }
}

/// Results of [`ask`], once for all tests of an image.
fn told(case: Case) -> &'static [Shown] {
    type Cell = &'static OnceLock<Vec<Shown>>;
    static TOLD: Mutex<BTreeMap<&str, Cell>> = Mutex::new(BTreeMap::new());
    let cell: Cell = TOLD.lock().unwrap().entry(case.name).or_insert_with(|| Box::leak(Box::default()));
    cell.get_or_init(|| ask(case))
}

/// Asks a debugger of our own what there is at each place.
fn ask(case: Case) -> Vec<Shown> {
    let Case { name, is_arm, .. } = case;
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
    // Going forwards takes less time.
    let mut sorted = case.places();
    sorted.sort_unstable();
    let seen: BTreeMap<u64, Shown> = sorted.into_iter().map(|insn| (insn, see(insn))).collect();
    case.places().iter().map(|place| seen[place].clone()).collect()
}

/// States that GDB shows at each place, the instructions after a step from it, and all of GDB's output.
fn shown(case: Case, way: Way) -> (Vec<Shown>, Vec<u64>, String) {
    let Case { name, is_arm, .. } = case;
    let elf = image(name);
    let elf = elf.to_str().unwrap();
    let window = case.until.to_string();
    let (child, line) = serve(&[&[elf, "--for", &window, "--at", "insn:1"], image_args(name)].concat());
    let mut script = "set pagination off\nset width 0\n".to_owned();
    let form = "%lx ".repeat(names(is_arm).len());
    let values: String = names(is_arm).iter().map(|name| format!(", (unsigned long)${name}")).collect();
    for insn in case.places() {
        let _ = writeln!(script, "monitor goto insn:{insn}");
        script += match way {
            Way::Hooks => "",
            Way::Flush => "maintenance flush register-cache\nmaintenance flush dcache\n",
            Way::Stay => "monitor stay\nstepi\n",
        };
        let _ = writeln!(script, "printf \"\\nplace {insn} {form}\\n\"{values}\ninfo threads\nstepi\nmonitor where");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    fs::write(&file, script).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let target = words[words.iter().position(|&word| word == "remote").unwrap() + 1].trim_matches('"');
    let mut gdb = Command::new(words[0]);
    gdb.args(["-nx", "-batch", "-ex", &format!("target remote {target}")]);
    if way == Way::Hooks {
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
    // GDB prints the monitor's output on its standard error.
    for line in said.lines().filter(|line| line.starts_with("instruction ")) {
        let number: String = line.chars().take_while(|&c| c != ':').filter(char::is_ascii_digit).collect();
        stepped.push(number.parse().unwrap());
    }
    (seen, stepped, said)
}

/// Asserts that GDB shows the expected state at each place.
fn compare(case: Case, way: Way) {
    let name = case.name;
    let (seen, stepped, said) = shown(case, way);
    let told = told(case);
    let executing: BTreeSet<&str> = told.iter().map(|told| &*told.thread).collect();
    assert!(executing.len() > 1, "{name}: {executing:?}");
    assert_eq!(seen.len(), told.len(), "{name}: {said}");
    for (seen, told) in seen.iter().zip(told) {
        assert_eq!(seen, told, "{name}");
    }
    // Each place is reported on arrival and after the step.
    assert_eq!(stepped.len(), 2 * told.len(), "{name}: {said}");
    for (pair, told) in stepped.chunks(2).zip(told) {
        assert_eq!(pair[0], told.insn, "{name}");
        // A step within a task skips the instructions of other tasks, and a task may end in it.
        assert!(pair[1] > told.insn, "{name}: {pair:?}");
    }
    let single = stepped.chunks(2).filter(|pair| pair[1] == pair[0] + 1).count();
    assert!(single * 100 >= told.len() * 95, "{name}: {stepped:?}");
    for wrong in ["E79", "Could not fetch", "is not available", "Cannot execute"] {
        assert!(!said.contains(wrong), "{name}: {wrong}: {said}");
    }
}

#[test]
fn gdb_with_its_hooks_is_at_places_of_tasks_and_cpus() {
    [TASKS, RISCV_TASKS, CPUS].into_iter().for_each(|case| compare(case, Way::Hooks));
}

#[test]
fn gdb_without_hooks_is_at_places_of_tasks_and_cpus_once_it_has_forgotten_the_last() {
    [TASKS, CPUS].into_iter().for_each(|case| compare(case, Way::Flush));
}

#[test]
fn gdb_without_hooks_asks_where_it_is_by_a_step_that_goes_nowhere() {
    compare(RISCV_TASKS, Way::Stay);
}

#[test]
fn gdb_steps_over_calls_in_the_task_that_it_was_led_to() {
    let name = TASKS.name;
    let elf = image(name);
    let profile = run(name, &["--for", "400k"]).profile();
    let is_tasks = |index: &usize| index.is_multiple_of(3) && profile.samples[*index].task > 0;
    let places: Vec<usize> = (0..profile.samples.len()).filter(is_tasks).map(|index| index + 1).collect();
    assert!(places.len() > 5, "{places:?}");
    for has_hooks in [true, false] {
        let (child, line) = serve(&[elf.to_str().unwrap(), "--for", "400k", "--at", "insn:1"]);
        let mut script = line.replacen("gdb-multiarch", "gdb-multiarch -nx -batch", 1);
        let mut flush = "";
        if !has_hooks {
            script = format!("{} {}", &script[..script.find(" -x ").unwrap()], elf.display());
            flush = "-ex 'maintenance flush register-cache' -ex 'maintenance flush dcache'";
        }
        for place in &places {
            script += &format!(
                " -ex 'monitor goto sample:{place}' {flush} -ex nexti -ex 'monitor where' -ex 'info threads'"
            );
        }
        let output = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let (code, log) = end(child);
        assert_eq!(code, Some(0), "{said:?}\n{log}");
        // GDB prints the monitor's output on its standard error.
        let [shown, monitor] = said;
        let monitor: Vec<&str> = monitor.lines().filter_map(|line| line.strip_prefix("task ")).collect();
        let executing = shown.lines().filter(|line| line.starts_with("* "));
        let executing: Vec<&str> = executing.map(|line| line.split(['(', ':']).nth(1).unwrap()).collect();
        let stepped: Vec<&str> = monitor.into_iter().skip(1).step_by(2).collect();
        assert_eq!(stepped.len(), places.len(), "{shown}");
        for (task, thread) in stepped.iter().zip(&executing) {
            // The profile tells two tasks of one name apart.
            assert!(task.starts_with(thread), "{task}: {thread}: {shown}");
        }
        assert_eq!(executing.len(), places.len(), "{shown}");
    }
}
