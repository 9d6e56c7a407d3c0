// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--cycles` on AVR: the cycles of simavr, which emulates the processor cycle by cycle and is none of ours; those of the
//! oracle; arithmetic, where an interrupt comes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use harness::analysis::cycles;
use harness::profile::End;

use super::limit::suite;
use crate::common::{harness, image, in_parallel, refused, run};

/// Programs without interrupts, with their processors.
pub(crate) const PROGRAMS: [(&str, &str); 10] = [
    ("avr/uno", "atmega328p"),
    ("avr/uno-O2", "atmega328p"),
    ("avr/uno-prologues", "atmega328p"),
    ("avr/uno-cpp", "atmega328p"),
    ("avr/uno-cycles", "atmega328p"),
    ("avr/mega2560", "atmega2560"),
    ("avr/mega2560-O2", "atmega2560"),
    ("avr/mega2560-prologues", "atmega2560"),
    ("avr/mega2560-cpp", "atmega2560"),
    ("avr/mega2560-cycles", "atmega2560"),
];

/// Options of a run of one of these as the judge sees it: USART0 always has room and prints, so that no program waits for it.
pub(crate) fn ready(mcu: &str) -> [String; 2] {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ready-{mcu}.toml"));
    let text = format!(
        "[chip]\nlike = \"{mcu}\"\n[kind.ready]\nbytes = 0x40\n[kind.ready.registers]\n\
         UCSRA = {{ at = 0x00, reset = 0x20, read-only = true }}\nUCSRB = {{ at = 0x04 }}\nUDR = {{ at = 0x08 }}\n\
         [[kind.ready.port]]\nsend = \"UDR[7:0]\"\n\
         [peripherals.USART0]\nat = 0x1000300\nkind = \"ready\"\nbytes = {{ UCSRA = 0xc0, UCSRB = 0xc1, UDR = 0xc6 }}\n"
    );
    // Several tests write the same at once.
    let own = file.with_extension(format!("{:?}", std::thread::current().id()));
    std::fs::write(&own, text).unwrap();
    std::fs::rename(&own, &file).unwrap();
    ["--chip".to_owned(), file.to_str().unwrap().to_owned()]
}

/// The judge, built once: it needs libsimavr-dev (ci/setup --tests).
fn judge() -> &'static Path {
    static JUDGE: OnceLock<PathBuf> = OnceLock::new();
    JUDGE.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("simavr");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/simavr.c");
        let built = Command::new("cc").args(["-O1", "-o"]).arg(&program).args([source, "-lsimavr"]).status();
        assert!(built.is_ok_and(|status| status.success()), "simavr.c does not compile");
        program
    })
}

/// Lines of numbers that simavr prints for a program up to an address, see `simavr.c`.
pub(crate) fn simulated(name: &str, mcu: &str, stop: u64, more: &[String]) -> Vec<Vec<u64>> {
    let stop = format!("{stop:x}");
    let output = Command::new(judge()).arg(image(name)).args([mcu, &stop]).args(more).output().unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("= "));
    lines.map(|line| line.split(' ').map(|number| number.parse().unwrap()).collect()).collect()
}

#[test]
fn cycles_and_instructions_are_those_of_simavr() {
    in_parallel(&PROGRAMS, |&(name, mcu)| {
        let [option, chip] = ready(mcu);
        let profile = run(name, &["--cycles", &option, &chip]).expect_code(0).profile();
        let End::Exit { pc, .. } = profile.facts.end else { panic!("{name}: {:?}", profile.facts.end) };
        let [cycles, insns, skipped] = simulated(name, mcu, pc, &[])[0][..] else { panic!("{name}") };
        assert!(insns > 10_000 && skipped > 1_000, "{name}: {insns} {skipped}");
        // simavr stops before the jump of two cycles at which the run ends, and does not count what is skipped.
        assert_eq!(profile.total_insns(), insns + skipped + 1, "{name}");
        assert_eq!(cycles::total(&profile), Some(cycles + 2), "{name}");
    });
}

/// Images whose way depends on a timer, on what the EEPROM takes, or on how long they print.
pub(crate) const SEES_TIME: [&str; 5] =
    ["avr/uno-timer", "avr/uno-sketch", "avr/uno-eeprom", "avr/uno-zones", "avr/mega2560-far"];

#[test]
fn the_oracle_counts_the_same_cycles() {
    in_parallel(
        &["avr/uno-timer", "avr/uno-sketch", "avr/uno-eeprom", "avr/mega2560-far", "avr/mega2560-cycles"],
        |name| {
            let fast = run(name, &["--cycles"]).profile();
            let oracle = run(name, &["--cycles", "--oracle", "--no-stacks"]).profile();
            assert!(cycles::total(&fast).is_some_and(|cycles| cycles > fast.total_insns()), "{name}");
            assert_eq!(fast.cycles, oracle.cycles, "{name}");
            // What the cycles need changes no other number, but where the firmware looks at the time, which goes by them.
            let without = run(name, &[]).profile();
            assert_eq!(without.cycles, None);
            let is_same = without.vcpus == fast.vcpus && without.samples == fast.samples;
            assert_eq!(is_same, !SEES_TIME.contains(name), "{name}");
        },
    );
}

/// A window that ends after a skip, between a branch and its target, or anywhere else.
#[test]
fn the_cycles_of_every_window_are_those_of_the_oracle() {
    let lengths: Vec<u64> = (2_000..2_040).collect();
    in_parallel(&lengths, |length| {
        let length = length.to_string();
        let args = ["--cycles", "--for", &length, "--no-stacks"];
        let fast = run("avr/uno-cycles", &args).profile();
        let oracle = run("avr/uno-cycles", &[&args[..], &["--oracle"]].concat()).profile();
        assert_eq!(fast.total_insns().to_string(), length);
        assert_eq!(fast.cycles, oracle.cycles, "{length}");
    });
}

/// avr-libc reads a byte by `sbi`, the program once by a store through a pointer.
#[test]
fn a_read_of_the_eeprom_halts_the_processor_for_four_cycles() {
    let profile = run("avr/uno-eeprom", &["--cycles"]).expect_code(0).profile();
    let cycles = cycles::by_pc(&profile).unwrap();
    let insns = profile.insns();
    let halting = |is_one: &dyn Fn(u64, &[u8]) -> bool| {
        let found = insns.iter().filter(|&(&pc, _)| is_one(pc, profile.code_at(pc).unwrap_or_default()));
        found.map(|(pc, count)| (*count, cycles[pc])).collect::<Vec<_>>()
    };
    let by_sbi = halting(&|_, code| code.starts_with(&[0xf8, 0x9a]));
    assert!(by_sbi.iter().map(|(count, _)| count).sum::<u64>() > 50, "{by_sbi:?}");
    assert!(by_sbi.iter().all(|&(count, cycles)| cycles == count * (2 + 4)), "{by_sbi:?}");
    let function = |pc| profile.names.function_at(pc).map(|function| function.name.as_str());
    let by_store = halting(&|pc, code| {
        function(pc) == Some("read_through") && decode::AvrStore::of(code).is_some_and(|store| store.pair.is_some())
    });
    assert_eq!(by_store, [(1, 2 + 4)]);
}

#[test]
fn an_interrupts_entry_takes_four_cycles() {
    let profile = run("avr/uno-timer", &["--cycles"]).expect_code(0).profile();
    // The vector of TIMER1_COMPA: a jump of three cycles. The last interrupt may come before the program masks them.
    let (cycles, times) = (cycles::by_pc(&profile).unwrap(), profile.insns()[&0x2c]);
    assert!((200..=201).contains(&times), "{times}");
    assert_eq!(cycles[&0x2c], times * (4 + 3));
}

#[test]
fn tables_and_thresholds_have_the_cycles() {
    let run = run("avr/uno", &["--cycles"]).expect_code(0);
    let total = cycles::total(&run.profile()).unwrap();
    let told = |args: &[&str]| {
        let output = harness().args(args).arg(&run.dir).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let top = told(&["top"]);
    assert!(top.lines().next().unwrap().contains("Cycles"), "{top}");
    assert!(top.contains("\ncycles: ") && top.contains(" for each instruction"), "{top}");
    let json: serde_json::Value = serde_json::from_str(&told(&["top", "--json"])).unwrap();
    assert_eq!(json["total_cycles"], total);
    let functions = json["functions"].as_array().unwrap();
    let sum: u64 = functions.iter().filter_map(|function| function["cycles"].as_u64()).sum();
    assert_eq!(sum, total);
    for (limit, code) in [(total, 0), (total - 1, 1)] {
        let lines = format!("cycles = true\nassert = [\"cycles <= {limit}\", \"self_cycles(\\\"main\\\") > 10\"]");
        assert_eq!(suite(&run, "avr/uno", &lines), Some(code), "{limit}");
    }
}

#[test]
fn cycles_of_other_processors_are_refused() {
    refused("cortex-m3-bare", &["--cycles"], &["name it, as in --cycles=cortex-m4"]);
    refused("cortex-m3-bare", &["--cycles=hazard3"], &["--cycles=hazard3", "RV32", "thumb-v7m"]);
    refused(
        "riscv32-paced",
        &["--cycles"],
        &["name it, as in --cycles=hazard3", "hazard3, ibex-2, ibex-3, picorv32"],
    );
    refused("riscv64-exit0", &["--cycles=ibex-2"], &["RV32", "riscv64"]);
    refused(
        "riscv32-paced",
        &["--cycles=cortex-a53"],
        &["there is no such core", "hazard3, ibex-2, ibex-3, picorv32"],
    );
    refused("riscv32-paced", &["--cycles=no/such.toml"], &["no/such.toml"]);
}
