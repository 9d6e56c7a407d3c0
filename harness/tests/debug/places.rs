//! What is at an instruction does not depend on how it was come to, and is what a profile found there.

use clap::Parser;
use harness::cli::Cli;
use harness::debug::session::{DEFAULT_CHECKPOINT_MIB, Session};
use harness::debug::travel::{Travel, Why};
use harness::measure::Listener;
use harness::run::options::Options;
use harness::run::records::Progress;

use crate::common::{image, run};

struct Silent;

impl Listener for Silent {
    fn say(&mut self, _: &str) {}
    fn progress(&mut self, _: Progress) {}
}

fn open(words: &[&str]) -> Session {
    let cli = Cli::parse_from(["harness"].iter().chain(words));
    let options = Options::resolve(cli.profile.unwrap()).unwrap();
    Session::open(&options, DEFAULT_CHECKPOINT_MIB, &mut Silent).unwrap()
}

/// Numbers that are the same in every run, without a pattern.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn samples_are_found_where_the_profile_has_them() {
    for name in ["riscv64-idle", "riscv64-freertos", "cortex-m0-storm-pg", "cortex-m3-freertos-pg-Os"] {
        let elf = image(name);
        let elf = elf.to_str().unwrap();
        let profile = run(name, &["--for", "3M", "--period", "997"]).profile();
        let mut session = open(&[elf]);
        let mut seed = 1;
        for _ in 0..12 {
            let sample = &profile.samples[random(&mut seed) as usize % profile.samples.len()];
            let stop = session.go(sample.at_insns).unwrap();
            assert_eq!((stop.at.insn, stop.at.pc, stop.why), (sample.at_insns, sample.pc, Why::Reached), "{name}");
        }
        assert!(session.has_checkpoints(), "{name}");
    }
}
