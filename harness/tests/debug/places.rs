//! What is at an instruction does not depend on how it was come to, and is what a profile found there.

use clap::Parser;
use harness::cli::Cli;
use harness::debug::session::Session;
use harness::debug::travel::{Register, Stop, Travel, Why};
use harness::measure::Listener;
use harness::run::options::{DEFAULT_CHECKPOINT_MIB, Options};
use harness::run::records::Progress;

use crate::common::{has_several_cpus, image, image_args, in_parallel, run, say, selected_that};

struct Silent;

impl Listener for Silent {
    fn say(&mut self, _: &str) {}
    fn progress(&mut self, _: Progress) {}
}

fn options(name: &str) -> Options {
    let elf = image(name);
    let own = image_args(name).iter().copied();
    let words = ["harness", elf.to_str().unwrap()].into_iter().chain(own);
    Options::resolve(Cli::parse_from(words).profile.unwrap()).unwrap()
}

fn open(name: &str, checkpoint_mib: u64) -> Session {
    Session::open(&options(name), checkpoint_mib, &mut Silent).unwrap()
}

/// All that a debugger sees of the processor and the top of its stack.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    stop: Stop,
    registers: Vec<Register>,
    stack: Vec<u8>,
}

fn look(session: &mut Session, insn: u64) -> Seen {
    let stop = session.go(insn).unwrap();
    let registers = session.registers().unwrap();
    let sp = registers.iter().find(|register| register.name == "sp").map_or(0, |sp| {
        let mut value = [0; 8];
        value[..sp.bytes.len()].copy_from_slice(&sp.bytes);
        u64::from_le_bytes(value)
    });
    let stack = session.read(sp, 64).unwrap();
    Seen { stop, registers, stack }
}

/// How many places of each image are looked at: 20 by default, and what `ci/check-debug` says.
fn places() -> usize {
    std::env::var("HARNESS_PLACES").map_or(20, |places| places.parse().unwrap())
}

/// Numbers that are the same in every run, without a pattern.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn an_instruction_is_the_same_whichever_way_it_is_come_to() {
    let images = selected_that(|name| !has_several_cpus(name));
    in_parallel(&images, |name| {
        let profile = run(name, &["--for", "5M", "--period", "97"]).profile();
        let mut seed = 7;
        let mut samples: Vec<_> = profile.samples.iter().collect();
        while samples.len() > places() {
            samples.swap_remove(random(&mut seed) as usize % samples.len());
        }
        samples.sort_by_key(|sample| sample.at_insns);
        let before = profile.facts.before_window_insns;
        // One process that goes through them once.
        let mut witness = open(name, 0);
        let told: Vec<Seen> = samples.iter().map(|sample| look(&mut witness, before + sample.at_insns)).collect();
        assert!(!witness.has_checkpoints());
        for (sample, told) in samples.iter().zip(&told) {
            assert_eq!((told.stop.at.insn, told.stop.at.pc), (before + sample.at_insns, sample.pc), "{name}");
            assert_eq!(told.stop.why, Why::Reached, "{name}");
        }
        // Copies, rising and in any order.
        let mut session = open(name, DEFAULT_CHECKPOINT_MIB);
        for told in &told {
            assert_eq!(look(&mut session, told.stop.at.insn), *told, "{name}, rising");
        }
        for _ in 0..told.len() {
            let told = &told[random(&mut seed) as usize % told.len()];
            assert_eq!(look(&mut session, told.stop.at.insn), *told, "{name}, in any order");
        }
        say(&format!("{name}: {} places, checkpoints: {}", told.len(), session.has_checkpoints()));
    });
}
