// SPDX-License-Identifier: MIT OR Apache-2.0
//! `delay()` of Arduino's core is waiting, exactly: inlined or not, with what it calls, without the interrupts in between.

use harness::analysis::{part, time};
use harness::profile::{Node, Profile};
use wire::definition::NodeKind;

use super::limit::suite;
use crate::common::{Run, harness, run};

/// The sketch, in which `delay()` is inlined; compiled so that it is a function; that without debug information.
const SKETCHES: [&str; 3] = ["avr/uno-sketch", "avr/uno-sketch-whole", "avr/uno-sketch-whole-nodwarf"];

/// The first of them with the debug information of Arduino's IDE, stabs, which have no inlined functions.
const BY_STABS: &str = "avr/uno-sketch-ide";

/// Turns of the sketch, each of which waits 20 ms, and the instructions of a millisecond.
const TURNS: u64 = 5;
const MS: u64 = 15_625;

/// Instructions of all nodes of the exact tree that a condition on the way from the root leads to, those of interrupts on
/// the rest of the way left out.
fn of_tree(profile: &Profile, begins: impl Fn(&Node) -> bool) -> u64 {
    let is_of = |number: u32| {
        let path = profile.path(number);
        let is_interrupt = |node: &&Node| matches!(node.kind, NodeKind::Exception { .. });
        let start = path.iter().rposition(is_interrupt).map_or(0, |interrupt| interrupt + 1);
        path[start..].iter().any(|node| begins(node))
    };
    (1..).zip(&profile.tree).filter(|&(number, _)| is_of(number)).map(|(_, node)| node.insns).sum()
}

fn idle_line(run: &Run) -> String {
    let mut lines = run.stdout.lines().chain(run.stderr.lines());
    lines.find(|line| line.starts_with("idle: ")).unwrap_or_default().to_owned()
}

#[test]
fn a_delay_of_20_ms_is_as_long_as_that_without_its_interrupts() {
    for name in SKETCHES.into_iter().chain([BY_STABS]) {
        let run = run(name, &[]).expect_code(0);
        let profile = run.profile();
        let waiting = time::waiting_insns(&profile);
        let interrupts: u64 = profile.zones.exceptions.iter().map(|exception| exception.insns).sum();
        assert!(interrupts > TURNS * 20 * 50, "{name}: {interrupts}");
        let range = TURNS * 20 * MS - interrupts..TURNS * 21 * MS;
        assert!(range.contains(&waiting), "{name}: {waiting} is not in {range:?}");
        assert_eq!(time::idle_insns(&profile), waiting, "{name}");
        let share = harness::text::number::share(waiting, profile.total_insns());
        let insns = harness::text::number::group(waiting);
        let line = format!("idle: {share} of the instructions, {insns} of them in delay(); 1 wait for an interrupt");
        assert_eq!(idle_line(&run), line, "{name}");
        assert_eq!(profile.facts.waiting.unsure, 0, "{name}");
    }
}

#[test]
fn waiting_is_what_the_exact_tree_has_below_delay() {
    for name in &SKETCHES[1..] {
        let profile = run(name, &["--exact"]).expect_code(0).profile();
        let delay = profile.names.functions.iter().find(|function| function.name == "delay").unwrap().start;
        let of_tree = of_tree(&profile, |node| node.kind == NodeKind::Function { entry: delay });
        assert_eq!(time::waiting_insns(&profile), of_tree, "{name}");
    }
    // Inlined: the code's own instructions, and the calls that the tree has by way of it.
    let profile = run(SKETCHES[0], &["--exact"]).expect_code(0).profile();
    let waiting = &profile.facts.waiting;
    let own: u64 = profile
        .insns()
        .iter()
        .filter(|&(&pc, _)| waiting.function_at(pc) == Some("delay"))
        .map(|(_, count)| count)
        .sum();
    let called = of_tree(&profile, |node| node.via.is_some_and(|via| waiting.function_at(via).is_some()));
    assert!(own > 100_000 && called > 1_000_000, "{own} {called}");
    assert_eq!(time::waiting_insns(&profile), own + called);
}

#[test]
fn waiting_is_the_same_however_it_is_counted() {
    for name in SKETCHES {
        let plain = run(name, &[]).profile();
        for option in ["--oracle", "--no-stacks", "--timeline", "--slice=64ms", "--period=1"] {
            let other = run(name, &[option]).profile();
            assert_eq!(other.facts.waiting, plain.facts.waiting, "{name} {option}");
            assert_eq!(time::idle_insns(&other), time::idle_insns(&plain), "{name} {option}");
        }
    }
}

#[test]
fn slices_and_phases_divide_waiting_exactly() {
    let sliced = run("avr/uno-sketch", &["--slice", "10ms"]).profile();
    let parts: Vec<u64> = sliced.parts.list.iter().map(|slice| part::idle_insns(&sliced, slice)).collect();
    assert_eq!(parts.iter().sum::<u64>(), time::waiting_insns(&sliced));
    // A slice within a delay waits for all of its time but for interrupts.
    let whole = parts.iter().filter(|&&insns| (10 * MS - 2_000..10 * MS).contains(&insns)).count();
    assert!(whole >= 4, "{parts:?}");

    let run = run("avr/uno-demo", &[]).expect_code(0);
    let profile = run.profile();
    for (name, phase) in part::by_phase(&profile).unwrap() {
        let (waiting, total) = (time::waiting_insns(&phase), phase.total_insns());
        match &*name {
            "pause" => assert!(waiting > total * 98 / 100 && waiting < total, "{waiting} of {total}"),
            // The compiler has moved constants of the delay out of the sketch's loop.
            part::NO_PHASE => assert!(waiting < 10, "{waiting}"),
            _ => assert_eq!(waiting, 0, "{name}"),
        }
    }
    assert!(idle_line(&run).contains(" of them in delay(), delayMicroseconds(); "), "{}", idle_line(&run));
}

/// Its loop is two instructions, which take four cycles: 4 * 500 - 5 rounds.
#[test]
fn delay_microseconds_is_waiting() {
    let profile = run("avr/uno-demo", &[]).expect_code(0).profile();
    let waiting = &profile.facts.waiting;
    let of = profile.insns().into_iter().filter(|&(pc, _)| waiting.function_at(pc) == Some("delayMicroseconds"));
    let insns: u64 = of.map(|(_, count)| count).sum();
    let loops = 40 * 2 * (4 * 500 - 5);
    assert!((loops..loops + 40 * 8).contains(&insns), "{insns} {loops}");
}

#[test]
fn json_has_waiting() {
    let run = run("avr/uno-sketch", &[]).expect_code(0);
    let waiting = time::waiting_insns(&run.profile());
    let export = |format: &str| {
        let output = harness().arg("export").arg(&run.dir).args(["-f", format]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&export("json")).unwrap();
    let expected = serde_json::json!({ "functions": ["delay()"], "insns": waiting, "is_exact": true });
    assert_eq!(json["facts"]["waiting"], expected, "{}", json["facts"]);
    // Firmware of another processor, or without the core, has none.
    let bare = crate::common::run("avr/uno", &[]).profile();
    assert_eq!((time::waiting_insns(&bare), bare.facts.waiting.functions.len()), (0, 0));
}

#[test]
fn a_suite_can_limit_the_idle_instructions() {
    let run = run(SKETCHES[0], &[]).expect_code(0);
    let idle = time::idle_insns(&run.profile());
    for (limit, code) in [(format!("== {idle}"), 0), (format!("> {idle}"), 1), ("> 69%".to_owned(), 0)] {
        let lines = format!("assert = [\"idle {limit}\"]");
        assert_eq!(suite(&run, SKETCHES[0], &lines), Some(code), "{limit}");
    }
}
