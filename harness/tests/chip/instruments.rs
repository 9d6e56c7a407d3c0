// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debugger, checkpoints, heap, timeline and stacks on a chip: each works as on QEMU's own machines.

use clap::Parser;
use harness::analysis::stacks;
use harness::cli::Cli;
use harness::debug::find::Finder;
use harness::debug::place::Place;
use harness::debug::session::Session;
use harness::debug::travel::{Stop, Travel};
use harness::image::kernel;
use harness::measure::Silent;
use harness::profile::Profile;
use harness::run::request::options::{DEFAULT_CHECKPOINT_MIB, Options};

use super::freertos;
use crate::common::image;

const IMAGE: &str = "chips/stm32f407-freertos";

fn session(name: &str, checkpoint_mib: u64) -> Session {
    let elf = image(name);
    // QEMU forks copies only without the sandbox.
    let words = ["harness", elf.to_str().unwrap(), "--chip", "stm32f407", "--for", "12M", "--sandbox", "off"];
    let options = Options::resolve(Cli::parse_from(words).profile.unwrap()).unwrap();
    Session::open(&options, checkpoint_mib, &mut Silent).unwrap()
}

fn name_at(profile: &Profile, pc: u64) -> Option<String> {
    profile.names.function_at(pc).map(|function| function.name.clone())
}

/// A call, a task's switch, an interrupt's longest handler, the deepest stack, and a store, on the chip.
#[test]
fn each_place_of_a_debugger_is_found_on_a_chip() {
    let run = freertos("stm32f407", &["--exact", "--timeline"]);
    let (profile, elf) = (run.profile(), std::fs::read(image(IMAGE)).unwrap());
    let mut session = session(IMAGE, DEFAULT_CHECKPOINT_MIB);
    let mut finder = Finder::new(&profile, Box::new(|_| panic!("no run is to be measured")));
    finder.elf = Some(&elf);
    finder.kernel = kernel::find(Some(&elf), 0, true).0;
    let mut at = |place: &str| -> Stop {
        let found = finder.find(&mut session, &Place::parse(place).unwrap(), &mut |_| ());
        let insn = found.unwrap_or_else(|error| panic!("{place}: {error:#}")).insn;
        session.go(insn).unwrap()
    };
    // The compiler may have split it: xTaskIncrementTick.part.0.
    let is_tick =
        |stop: &Stop| name_at(&profile, stop.at.pc).is_some_and(|name| name.starts_with("xTaskIncrementTick"));
    let call = at("call:xTaskIncrementTick:20");
    assert!(is_tick(&call), "{call:?}");
    let tick = at("max-irq:SysTick");
    assert!(tick.at.insn > 0 && tick.at.insn < 12_000_000);
    assert!(at("switch:crc:2").at.insn > at("switch:crc").at.insn);
    let deepest = at("peak-stack:recursion");
    assert!(deepest.at.insn > 0 && deepest.at.insn < 12_000_000);
    let store = at("write:xTickCount");
    assert!(is_tick(&store), "{store:?}");
    assert_eq!(at("call:xTaskIncrementTick:20"), call, "and back");
}

/// A checkpoint copies the process, with the state of the chip's devices: the run goes on from it as it went on before.
#[test]
fn a_checkpoint_has_a_chips_devices_as_they_were() {
    for name in ["chips/stm32f407-kinds", IMAGE] {
        let (mut with, mut without) = (session(name, DEFAULT_CHECKPOINT_MIB), session(name, 0));
        let look = |session: &mut Session, insn: u64| {
            let stop = session.go(insn).unwrap();
            (stop, session.registers().unwrap(), session.read(0x2000_0000, 4096).unwrap())
        };
        let insns = [1_900_000, 300_000, 1_500_000, 700_000, 1_900_000, 300_001];
        let copied: Vec<_> = insns.iter().map(|&insn| look(&mut with, insn)).collect();
        assert!(with.has_checkpoints() && with.checkpoints().0 > 0, "{name}: {:?}", with.checkpoints());
        assert!(!without.has_checkpoints());
        let again: Vec<_> = insns.iter().map(|&insn| look(&mut without, insn)).collect();
        assert_eq!(copied, again, "{name}: a run from the start is the witness");
        assert_eq!(copied[0], copied[4]);
    }
}

#[test]
fn blocks_of_the_heap_are_counted_on_a_chip() {
    let heap = freertos("stm32f407", &["--heap"]).profile().heap.unwrap();
    assert!(heap.functions.len() >= 2, "pvPortMalloc and vPortFree");
    assert!(heap.events().count() > 20, "tasks, queues and their stacks");
}

#[test]
fn the_timeline_of_a_chip_has_its_tasks_and_interrupts() {
    let profile = freertos("stm32f407", &["--timeline"]).profile();
    let tally = harness::analysis::event_rows::Tally::of(&profile).unwrap();
    let count = |event: &str| tally.events.get(event).copied().unwrap_or(0);
    assert!(count("switched") > 50 && count("printed") > 0, "{tally:?}");
    // 12 M instructions of 8 ns: 96 ticks.
    assert!(count("entered") >= 92, "{tally:?}");
}

#[test]
fn stacks_of_a_chip_are_whole() {
    let run = freertos("stm32f407", &["--period", "1009"]);
    let profile = run.profile();
    assert!(run.stdout.contains("100.00% complete"), "{}", run.stdout);
    assert!(stacks::unknown(&profile).is_empty(), "{:?}", stacks::unknown(&profile));
    assert!(profile.samples.len() > 10_000);
}
