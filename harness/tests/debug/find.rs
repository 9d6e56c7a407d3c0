// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places found in real runs are those that a sample at each instruction saw, and tasks resume where they were found
//! to.

use std::collections::BTreeSet;

use clap::Parser;
use harness::analysis::functions;
use harness::cli::Cli;
use harness::debug::find::{Finder, Found, More};
use harness::debug::place::Place;
use harness::debug::session::Session;
use harness::debug::threads::{State, Threads};
use harness::debug::travel::Travel;
use harness::image::kernel;
use harness::measure::Silent;
use harness::profile::{Profile, SpanKind};
use harness::run::request::options::{DEFAULT_CHECKPOINT_MIB, Options};

use crate::common::{image, image_args, is_listed, run};

/// Window of the compared runs.
const WINDOW: [&str; 2] = ["--for", "400k"];

/// A run to travel in, with a sample at each of its instructions.
struct Trip {
    name: &'static str,
    profile: Profile,
    every: Profile,
    elf: Vec<u8>,
    session: Session,
}

impl Trip {
    fn new(name: &'static str, more: &[&str]) -> Trip {
        let args = |last: &[&'static str]| {
            [&WINDOW[..], more, last].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let profile_of =
            |args: Vec<String>| run(name, &args.iter().map(String::as_str).collect::<Vec<_>>()).profile();
        let file = image(name);
        let words: Vec<&str> = ["harness", "--sandbox", "off"]
            .iter()
            .chain(image_args(name))
            .chain([&file.to_str().unwrap()])
            .copied()
            .collect();
        let options = Options::resolve(Cli::parse_from(words).profile.unwrap()).unwrap();
        Trip {
            name,
            profile: profile_of(args(&[])),
            every: profile_of(args(&["--period", "1"])),
            elf: std::fs::read(&file).unwrap(),
            session: Session::open(&options, DEFAULT_CHECKPOINT_MIB, &mut Silent).unwrap(),
        }
    }

    /// Finds a place; the error is its message.
    fn find(&mut self, place: &str) -> Result<Found, String> {
        let name = self.name;
        let again = |more: More| {
            Ok(match more {
                More::Exact => run(name, &[&WINDOW[..], &["--exact"]].concat()).profile(),
                More::Marks { .. } => panic!("{name}: no text is looked for"),
            })
        };
        let mut finder = Finder::new(&self.profile, Box::new(again));
        finder.elf = Some(&self.elf);
        finder.kernel = kernel::find(Some(&self.elf), 0, self.profile.facts.is_arm()).0;
        let found = finder.find(&mut self.session, &Place::parse(place).unwrap(), &mut |_| ());
        found.map_err(|error| error.to_string())
    }

    fn pc(&self, insn: u64) -> u64 {
        self.every.samples[(insn - 1 - self.profile.facts.before_window_insns) as usize].pc
    }
}

#[test]
fn a_stack_that_was_left_is_visited_at_the_instruction_that_left_it_or_where_it_was_deepest() {
    for name in ["cortex-m3-overflow", "riscv64-overflow"] {
        let mut trip = Trip::new(name, &["--exact"]);
        let left =
            trip.profile.tasks.iter().filter_map(|task| task.overflow).min_by_key(|left| left.at_insns).unwrap();
        let found = trip.find("crash").unwrap();
        assert_eq!((found.insn, Some(trip.pc(found.insn))), (left.at_insns, left.pc), "{name}");
        // Without the tree, only the stack pointer that the kernel has saved is known.
        let mut plain = Trip::new(name, &[]);
        let note = plain.find("crash").unwrap().note.unwrap();
        assert!(
            note.starts_with("the stack of long at its deepest: ") && note.ends_with(" more than it has"),
            "{note}"
        );
    }
}

#[test]
fn the_main_stack_is_deepest_where_no_instruction_has_seen_it_deeper() {
    for name in ["cortex-m3-bare", "riscv64-bare", "cortex-m3-irq-pg"] {
        let mut trip = Trip::new(name, &[]);
        let found = trip.find("peak-stack").unwrap();
        let isa = trip.profile.facts.isa().unwrap();
        // The samples before and after each instruction that moves the stack pointer.
        let moves = trip.profile.vcpus[0]
            .insns
            .iter()
            .filter(|insn| trip.profile.code_at(insn.pc).is_some_and(|bytes| decode::moves_sp(isa, bytes)));
        let all: BTreeSet<u64> = moves.flat_map(|insn| [insn.pc, insn.pc + u64::from(insn.size_bytes)]).collect();
        let all: Vec<u64> = all.into_iter().collect();
        let last = trip.profile.facts.before_window_insns + trip.profile.total_insns();
        let (hits, total) = trip.session.hits(&all, Some(last + 1), 1 << 22).unwrap();
        assert_eq!(hits.len() as u64, total, "{name}");
        // Before the stack pointer is first set, its value is not a stack address.
        let top = hits.iter().map(|hit| hit.sp).max().unwrap();
        let lowest = hits.iter().map(|hit| hit.sp).filter(|&sp| sp > top - 0x10000).min().unwrap();
        let there = hits.iter().rfind(|hit| hit.insn <= found.insn).unwrap();
        // A frame that is never written to does not count as used stack.
        assert!(there.sp - lowest <= 32, "{name}: {:#x} at {}, {lowest:#x}", there.sp, found.insn);
        assert!(top - there.sp >= 16, "{name}: {found:?}");
        // The exact run sees the stack pointer where functions are entered and left: all but a last frame.
        let exact = run(name, &[&WINDOW[..], &["--exact"]].concat()).profile();
        let seen = exact.facts.main_stack_lowest.unwrap();
        assert!((lowest..lowest + 64).contains(&seen), "{name}: {seen:#x}, {lowest:#x}");
    }
}

#[test]
fn the_kth_call_is_found_where_the_profile_counts_it() {
    for (name, more) in [
        ("cortex-m3-bare", &[][..]),
        ("cortex-m3-jumps-Os", &[]),
        ("riscv64-jumps-O3", &[]),
        ("riscv64-freertos", &["--from", "main"]),
        ("cortex-m3-rust-hello-Oz", &[]),
    ]
    .into_iter()
    .filter(|(name, _)| is_listed(name))
    {
        let mut trip = Trip::new(name, more);
        let arcs = trip.profile.vcpus[0].arcs.clone();
        let mut rows = functions::table(&trip.profile).rows;
        rows.retain(|row| row.calls > 0 && row.start.is_some());
        // Functions whose loops begin at their first instruction come first.
        let turns = |start: Option<u64>| {
            let turns =
                arcs.iter().filter(|arc| Some(arc.target) == start && !arc.links && arc.return_addr.is_none());
            turns.map(|arc| arc.count).sum::<u64>()
        };
        rows.sort_by_key(|row| std::cmp::Reverse((turns(row.start), row.calls)));
        for row in rows.iter().take(4) {
            let start = row.start.unwrap();
            let mut before = 0;
            for nth in [1, row.calls / 2, row.calls].into_iter().filter(|&nth| nth > 0) {
                let found = trip.find(&format!("call:{start:#x}:{nth}")).unwrap();
                assert_eq!(found.note, None, "{name}: {} {nth}", row.name);
                assert_eq!(trip.pc(found.insn), start, "{name}: {} {nth}", row.name);
                // The samples at the function's start in between are calls, less the turns of its loop.
                let until = found.insn - trip.profile.facts.before_window_insns;
                let seen =
                    trip.every.samples[..until as usize].iter().filter(|sample| sample.pc == start).count() as u64;
                assert!(seen >= nth && seen <= nth + turns(Some(start)), "{name}: {} {nth}: {seen}", row.name);
                assert!(turns(Some(start)) > 0 || seen == nth, "{name}: {} {nth}: {seen}", row.name);
                assert!(found.insn > before || nth == 1, "{name}: {} {nth}", row.name);
                before = found.insn;
            }
            let error = trip.find(&format!("call:{start:#x}:{}", row.calls + 1)).unwrap_err();
            assert!(error.contains("the last is call:"), "{error}");
        }
    }
}

#[test]
fn the_longest_are_found_with_one_more_run() {
    for name in ["cortex-m3-masked", "riscv64-nested"] {
        let mut trip = Trip::new(name, &[]);
        let exact = run(name, &[&WINDOW[..], &["--exact"]].concat()).profile();
        for span in exact.spans.iter().filter(|span| span.count > 2) {
            let place = match span.kind {
                SpanKind::Call { entry } => format!("max:{entry:#x}"),
                SpanKind::Masked => "masked-max".to_owned(),
                _ => continue,
            };
            let found = trip.find(&place).unwrap();
            trip.session.go(found.insn).unwrap();
            assert_eq!(trip.session.at().pc, trip.pc(found.insn), "{name}: {place}");
            assert!(span.kind == SpanKind::Masked || trip.session.at().pc == span.longest_at, "{name}: {place}");
        }
    }
}

#[test]
fn a_task_is_found_where_it_is_switched_in_and_goes_on_where_its_registers_say() {
    // ThreadX runs no task while it switches.
    for (name, cell, running) in [
        ("cortex-m3-crew", "pxCurrentTCB", 1),
        ("cortex-m4-crew", "pxCurrentTCB", 1),
        ("riscv64-crew", "pxCurrentTCB", 1),
        ("riscv64-tasks-ends", "pxCurrentTCB", 1),
        ("cortex-m3-threadx", "_tx_thread_current_ptr", 0),
        ("cortex-m3-zephyr", "", 1),
    ] {
        let mut trip = Trip::new(name, &[]);
        let names = harness::analysis::stacks::task_names(&trip.profile);
        let is_arm = trip.profile.facts.is_arm();
        let kernel = kernel::find(Some(&trip.elf), 0, is_arm).0;
        let threads = Threads::new(kernel.as_ref(), Some(&trip.elf), 0, is_arm).unwrap();
        let mut compared = 0;
        for (index, task) in names.iter().enumerate() {
            let switches = trip.profile.tasks[index].switches;
            for nth in [2, switches / 2, switches].into_iter().filter(|&nth| nth > 1 && nth <= switches) {
                let found = trip.find(&format!("switch:{task}:{nth}")).unwrap();
                let task_at = |insn: u64| trip.every.samples[insn as usize - 1].task as usize;
                assert_eq!(task_at(found.insn), index + 1, "{name}: {task} {nth}");
                assert_ne!(task_at(found.insn - 1), index + 1, "{name}: {task} {nth}");
                if !cell.is_empty() {
                    let write = trip.find(&format!("write:{cell}@insn:{}", found.insn)).unwrap();
                    assert_eq!(write.insn, found.insn - 1, "{name}");
                }
                let tcb = trip.profile.tasks[index].tcb;
                if tcb == 0 {
                    // The kernel idles outside of all tasks.
                    continue;
                }

                // One instruction before the switch the task waits, with the same pc to resume at.
                trip.session.go(found.insn - 1).unwrap();
                let list = threads.list(&mut trip.session).unwrap();
                let thread = list.iter().find(|thread| thread.id == tcb).unwrap();
                assert_eq!(thread.state, State::Ready, "{name}: {task} {nth}: {list:x?}");
                assert_eq!(list.iter().filter(|thread| thread.state == State::Running).count(), running, "{name}");
                let value = |name: &str| {
                    thread.registers.iter().find(|register| register.0 == name).map(|register| register.1)
                };
                let (pc, sp) = (value("pc").unwrap(), value("sp").unwrap());
                let after = trip.every.samples[found.insn as usize..].iter().take(200);
                let Some(goes_on) = after.into_iter().position(|sample| sample.pc == pc) else {
                    // The window ends here, or another interrupt comes first.
                    continue;
                };
                let insn = found.insn + 1 + goes_on as u64;
                trip.session.go(insn).unwrap();
                let registers = trip.session.registers().unwrap();
                for (saved, expected) in &thread.registers {
                    let register = registers.iter().find(|register| register.name == *saved);
                    let bytes = register.map(|register| &register.bytes[..]).unwrap_or_default();
                    let now = bytes.iter().rev().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
                    let is_status = ["xpsr", "fpscr"].contains(&&**saved);
                    assert!(
                        now == *expected || is_status || bytes.is_empty(),
                        "{name}: {task} {nth}: {saved} {now:x} {expected:x}"
                    );
                }
                assert!(sp > 0);
                compared += 1;
            }
        }
        assert!(compared > 3, "{name}: {compared}");
    }
}

#[test]
fn the_deepest_stack_of_each_task_is_found() {
    for name in ["cortex-m3-crew", "riscv64-crew"] {
        let mut trip = Trip::new(name, &[]);
        let names = harness::analysis::stacks::task_names(&trip.profile);
        for (index, task) in names.iter().enumerate() {
            let found = trip.find(&format!("peak-stack:{task}")).unwrap();
            let deepest = trip.profile.tasks[index].deepest_sp.unwrap();
            trip.session.go(found.insn).unwrap();
            let registers = trip.session.registers().unwrap();
            let stacks = registers.iter().filter(|register| ["sp", "psp"].contains(&&*register.name));
            let stacks: Vec<u64> = stacks
                .map(|register| register.bytes.iter().rev().fold(0, |sp, &byte| sp << 8 | u64::from(byte)))
                .collect();
            let near = stacks.iter().any(|sp| (deepest..=deepest + 0x100).contains(sp));
            assert!(near, "{name}: {task}: {stacks:x?} {deepest:x} {found:?}");
        }
    }
}

/// Finds the crash of a whole run; the error is its message.
fn crash(name: &str) -> Result<Found, String> {
    let profile = run(name, &[]).profile();
    let elf = std::fs::read(image(name)).unwrap();
    let mut session = super::places::open(name, DEFAULT_CHECKPOINT_MIB);
    let mut finder = Finder::new(&profile, Box::new(|_| panic!("{name}: it is not measured again")));
    finder.elf = Some(&elf);
    finder.find(&mut session, &Place::Crash, &mut |_| ()).map_err(|error| error.to_string())
}

#[test]
fn a_crash_is_the_instruction_that_faulted_whose_handler_exits_or_resets() {
    for (name, fault, end) in [
        ("cortex-m3-faulting-exit", "[irq HardFault]: BusFault: data access at address 0xf0023800", "exited with"),
        ("cortex-m3-faulting-reset", "[irq HardFault]: BusFault: data access at address 0xf0023800", "reset itself"),
        ("riscv64-faulting-exit", "[trap load access fault]: at address 0x1c023800", "exited with"),
        ("riscv64-faulting-reset", "[trap load access fault]: at address 0x1c023800", "reset itself"),
    ] {
        let every = run(name, &["--period", "1"]).profile();
        let is_in = |pc: u64, name: &str| every.names.function_at(pc).is_some_and(|function| function.name == name);
        // An earlier fault is in another function.
        let last = every.samples.iter().rposition(|sample| is_in(sample.pc, "SystemClock_Config")).unwrap();
        assert!(every.samples[..last].iter().any(|sample| is_in(sample.pc, "probe")), "{name}");
        let found = crash(name).unwrap();
        assert_eq!(found.insn, last as u64 + 1, "{name}: {found:?}");
        let note = found.note.unwrap();
        assert!(note.starts_with(fault) && note.contains("in SystemClock_Config"), "{name}: {note}");
        assert!(note.contains("\nin its handler the firmware ") && note.contains(end), "{name}: {note}");
    }
    // Faults that the firmware recovered from are no crash.
    for name in ["cortex-m3-fault", "riscv64-fault"] {
        let error = crash(name).unwrap_err();
        assert!(error.contains("did not crash: the firmware exited with status 0"), "{name}: {error}");
    }
    let found = crash("cortex-m3-exit3").unwrap();
    assert!(found.note.unwrap().starts_with("the firmware exited with status 3"));
}
