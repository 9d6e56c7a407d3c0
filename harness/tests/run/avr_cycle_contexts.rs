// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles of zones, phases, slices, interrupts and call paths on AVR: those of simavr, those of arithmetic, those of the
//! oracle, and sums that are the whole run's.

use std::collections::BTreeMap;
use std::ops::Range;

use harness::analysis::callgraph::{CallGraph, Party};
use harness::analysis::calltree::CallTree;
use harness::analysis::stacks::View;
use harness::analysis::zone::{self, Row};
use harness::analysis::{cycles, part};
use harness::profile::zone::ZoneCounts;
use harness::profile::{End, Profile, SpanKind};
use wire::definition::NodeKind;

use super::avr_cycles::{PROGRAMS, SEES_TIME, ready, simulated};
use super::limit::suite;
use crate::common::{harness, in_parallel, run};

/// Images of `uno-zones.c`, which interrupts.
const ZONES: [&str; 3] = ["avr/uno-zones", "avr/uno-zones-O2", "avr/uno-zones-lto"];

/// Cycles of its `spin`: 200 turns of a `dec` and a branch that is taken each time but the last.
const SPIN: u64 = 1 + 200 * 3 - 1;

fn row(rows: &[Row], name: &str) -> ZoneCounts {
    rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no zone {name}")).all
}

/// The address of a function.
fn function(profile: &Profile, name: &str) -> u64 {
    profile.names.functions.iter().find(|function| function.name == name).unwrap().start
}

/// Asserts that the parts' cycles are the run's, each by the plugin's clock and by its instructions.
fn assert_parts(profile: &Profile, what: &str) {
    let total = cycles::total(profile).unwrap();
    assert_eq!(profile.cycles.as_ref().unwrap().clock, total, "{what}");
    let list = &profile.parts.list;
    assert_eq!(list.iter().map(|part| part.cycles.clock).sum::<u64>(), total, "{what}");
    for (index, part) in list.iter().enumerate() {
        let alone = part::of(profile, |other| (other.slice, other.phase) == (part.slice, part.phase));
        assert_eq!(cycles::total(&alone), Some(part.cycles.clock), "{what}: part {index} of {}", list.len());
        let exceptions: u64 = part.cycles.exceptions.iter().map(|&(_, cycles)| cycles).sum();
        assert!(exceptions <= part.cycles.clock, "{what}: part {index}");
    }
    for exception in &profile.zones.exceptions {
        let of_parts = list.iter().flat_map(|part| &part.cycles.exceptions);
        let of_parts = of_parts.filter(|(number, _)| *number == exception.number);
        assert_eq!(of_parts.map(|&(_, cycles)| cycles).sum::<u64>(), exception.cycles, "{what}");
    }
}

#[test]
fn the_calls_of_a_function_have_the_cycles_of_simavr() {
    let calls = [
        ("avr/uno", "atmega328p", "fibonacci"),
        ("avr/uno-O2", "atmega328p", "switched"),
        ("avr/uno-prologues", "atmega328p", "print_number"),
        ("avr/mega2560", "atmega2560", "fibonacci"),
        ("avr/mega2560-O2", "atmega2560", "count_bits"),
    ];
    in_parallel(&calls, |&(name, mcu, called)| {
        let [option, chip] = ready(mcu);
        let options = ["--cycles", "--exact", "--zone-call", called, &option, &chip];
        let profile = run(name, &options).expect_code(0).profile();
        let End::Exit { pc, .. } = profile.facts.end else { panic!("{name}: {:?}", profile.facts.end) };
        let entry = function(&profile, called);
        let lines = simulated(name, mcu, pc, &[format!("{entry:x}"), u64::MAX.to_string()]);
        let [calls, in_calls] = lines[0][..] else { panic!("{name}: {lines:?}") };
        let counts = row(&zone::table(&profile), called);
        assert!(calls > 1, "{name}");
        assert_eq!((counts.calls - counts.recursive, counts.cycles.total), (calls, in_calls), "{name}");
        let span = profile.spans.iter().find(|span| span.kind == SpanKind::Call { entry }).unwrap();
        assert_eq!((span.cycles, span.count), (counts.cycles.times, counts.calls), "{name}");
    });
}

#[test]
fn every_slice_has_the_cycles_of_simavr() {
    in_parallel(&PROGRAMS, |&(name, mcu)| {
        let [option, chip] = ready(mcu);
        let profile = run(name, &["--cycles", "--slice", "997", &option, &chip]).expect_code(0).profile();
        let End::Exit { pc, .. } = profile.facts.end else { panic!("{name}: {:?}", profile.facts.end) };
        let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut insns, mut clock) = (0, 0);
        for part in &profile.parts.list {
            (insns, clock) = (insns + part.total_insns(), clock + part.cycles.clock);
            sums.insert(insns, clock);
        }
        let lines = simulated(name, mcu, pc, &["ffffffff".to_owned(), "997".to_owned()]);
        let told: Vec<(u64, u64)> = lines[..lines.len() - 2].iter().map(|line| (line[0], line[1])).collect();
        assert!(told.len() > 5, "{name}: {told:?}");
        for (insns, clock) in told {
            assert_eq!(sums.get(&insns), Some(&clock), "{name} up to instruction {insns}");
        }
    });
}

#[test]
fn the_cycles_of_zones_are_those_of_arithmetic_under_interrupts() {
    in_parallel(&ZONES, |name| {
        let profile = run(name, &["--cycles"]).expect_code(0).profile();
        let rows = zone::table(&profile);
        let numbers = |counts: ZoneCounts| {
            let cycles = counts.cycles;
            [cycles.times.min, counts.mean_cycles(), cycles.times.max, cycles.own / counts.calls]
        };
        let (exactly, inner, tick) = (row(&rows, "exactly"), row(&rows, "inner"), row(&rows, "tick"));
        // Each event is an instruction of one cycle, as a nop is.
        assert_eq!(numbers(exactly), [SPIN + 23, SPIN + 23, SPIN + 23, SPIN + 2], "{name}");
        assert_eq!(numbers(inner), [21; 4], "{name}");
        assert_eq!(tick.cycles.times.min, tick.cycles.times.max, "{name}");
        assert!(exactly.cycles.elapsed > exactly.cycles.times.sum, "{name}: no interrupt came within");
        let [handler] = profile.zones.exceptions[..] else { panic!("{name}") };
        // All of them end within a handler's cycles, since none lasts longer than the time between two.
        let (ticks, each) = (tick.calls, handler.cycles / tick.calls);
        assert_eq!(
            (handler.cycles % ticks, (exactly.cycles.elapsed - exactly.cycles.total) % each),
            (0, 0),
            "{name}"
        );
        // 4 up to the vector, whose jump takes 3.
        assert!(each > 4 + 3 + tick.cycles.times.min, "{name}: {each}");
        let walk = row(&rows, "walk");
        assert!(walk.recursive > 0 && walk.cycles.total < walk.cycles.times.sum, "{name}: {walk:?}");
        let phases = part::by_phase(&profile).unwrap();
        let alone = phases.iter().find(|(name, _)| name == "alone").unwrap();
        assert_eq!(cycles::total(&alone.1), Some(1 + SPIN), "{name}");
        assert_parts(&profile, name);
    });
}

/// A slice ends within a block, between a skip and what it skips, before a vector, anywhere.
#[test]
fn the_cycles_of_slices_of_any_length_are_the_runs_and_the_oracles() {
    let lengths: Vec<u64> = (200..212).collect();
    in_parallel(&lengths, |length| {
        for name in ["avr/uno-cycles", "avr/mega2560-cycles", "avr/uno-zones", "avr/uno-eeprom", "avr/uno-unmask"] {
            let length = length.to_string();
            let args = ["--cycles", "--for", "20000", "--no-stacks", "--slice", &length];
            let fast = run(name, &args).profile();
            assert_parts(&fast, &format!("{name}, slices of {length}"));
            let oracle = run(name, &[&args[..], &["--oracle"]].concat()).profile();
            assert_eq!(fast.cycles, oracle.cycles, "{name} {length}");
            assert_eq!(fast.parts.list, oracle.parts.list, "{name} {length}");
            assert_eq!(fast.zones, oracle.zones, "{name} {length}");
        }
    });
}

#[test]
fn the_cycles_of_call_paths_are_the_runs() {
    let images =
        ["avr/uno-timer", "avr/uno-zones", "avr/uno-sketch", "avr/uno-cpp", "avr/mega2560", "avr/uno-eeprom"];
    in_parallel(&images, |name| {
        let profile = run(name, &["--cycles", "--exact", "--slice", "10000"]).profile();
        assert_parts(&profile, name);
        let total = cycles::total(&profile).unwrap();
        assert_eq!(profile.tree.iter().map(|node| node.cycles).sum::<u64>(), total, "{name}");
        // A function's nodes have what its instructions have.
        let mut by_function: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let (mut inclusive, mut exceptions, mut entries) = (vec![0; profile.tree.len()], BTreeMap::new(), 0);
        for (index, node) in profile.tree.iter().enumerate().rev() {
            inclusive[index] += node.cycles;
            if let Some(parent) = (node.parent as usize).checked_sub(1) {
                inclusive[parent] += inclusive[index];
            }
            match node.kind {
                NodeKind::Function { entry } => {
                    let (insns, cycles) = by_function.entry(entry).or_default();
                    (*insns, *cycles) = (*insns + node.insns, *cycles + node.cycles);
                }
                NodeKind::Exception { number } => {
                    *exceptions.entry(number).or_default() += inclusive[index];
                    entries += node.cycles;
                }
                NodeKind::Root { .. } => {}
            }
        }
        let roots = profile.tree.iter().zip(&inclusive).filter(|(node, _)| node.parent == 0);
        assert_eq!(roots.map(|(_, cycles)| cycles).sum::<u64>(), total, "{name}");
        let expected: BTreeMap<u64, u64> =
            profile.zones.exceptions.iter().map(|exception| (exception.number, exception.cycles)).collect();
        assert_eq!(exceptions, expected, "{name}");
        let (insns, cycles) = (profile.insns(), cycles::by_pc(&profile).unwrap());
        let sum = |of: &BTreeMap<u64, u64>, code: Range<u64>| of.range(code).map(|(_, count)| count).sum::<u64>();
        let mut compared = 0;
        for (entry, (node_insns, node_cycles)) in by_function {
            let Some(function) = profile.names.function_at(entry) else { continue };
            let code = entry..entry + function.size_bytes;
            // Another function may jump into its middle, whose nodes have the instructions then.
            if sum(&insns, code.clone()) == node_insns {
                // In the tree the way to the vector is the interrupt's own.
                let to_vector = if function.name == "__vectors" { entries } else { 0 };
                assert_eq!(node_cycles + to_vector, sum(&cycles, code), "{name}: {}", function.name);
                compared += 1;
            }
        }
        assert!(compared > 2, "{name}");
    });
}

/// Paths, callers, Callgrind's, pprof's and speedscope's numbers, the folded stacks and the picture.
#[test]
fn what_is_shown_by_call_path_has_the_cycles() {
    let images = ["avr/uno-timer", "avr/uno-sketch", "avr/mega"];
    let kinds: [&[&str]; 2] = [&["--cycles"], &["--cycles", "--exact"]];
    let cases: Vec<_> = images.iter().flat_map(|name| kinds.map(|args| (*name, args))).collect();
    in_parallel(&cases, |&(name, args)| {
        let run = run(name, args).expect_code(0);
        let profile = run.profile();
        let total = cycles::total(&profile).unwrap();
        for fold_irqs in [false, true] {
            let tree = CallTree::new(&profile, View { fold_irqs });
            assert_eq!(tree.paths.iter().map(|path| path.insns).sum::<u64>(), profile.total_insns(), "{name}");
            assert_eq!(tree.paths.iter().map(|path| path.cycles).sum::<u64>(), total, "{name}");
        }
        let tree = CallTree::of_calls(&profile);
        let graph = CallGraph::new(&profile, &tree);
        let main = Party::Code(function(&profile, "main"));
        let inclusive = graph.nodes[&main].inclusive;
        assert!(inclusive.cycles > inclusive.insns && inclusive.cycles <= total, "{name}: {inclusive:?}");
        if args.contains(&"--exact") {
            // By hand: what lies below main, without interrupts.
            let mut below: Vec<bool> = Vec::new();
            let mut sum = 0;
            for node in &profile.tree {
                let parent = node.parent.checked_sub(1).is_some_and(|parent| below[parent as usize]);
                let is_main = node.kind == NodeKind::Function { entry: function(&profile, "main") };
                let is_below = match node.kind {
                    NodeKind::Function { .. } => parent || is_main,
                    NodeKind::Exception { .. } | NodeKind::Root { .. } => false,
                };
                sum += if is_below { node.cycles } else { 0 };
                below.push(is_below);
            }
            assert_eq!(inclusive.cycles, sum, "{name}");
        }
        let told = |args: &[&str]| {
            let output = harness().args(args).output().unwrap();
            assert!(output.status.success(), "{args:?}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let dir = run.dir.to_str().unwrap();
        let folded = told(&["export", dir, "-f", "folded", "--cycles"]);
        let sum = |text: &str| {
            text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum::<u64>()
        };
        assert_eq!(sum(&folded), total, "{name}");
        assert_eq!(sum(&told(&["export", dir, "-f", "folded"])), profile.total_insns(), "{name}");
        let grouped = |number: u64| harness::text::number::group(number);
        let callers = told(&["callers", dir, "main"]);
        let heading: Vec<&str> = callers.lines().next().unwrap().split_whitespace().take(4).collect();
        assert_eq!(heading, ["Calls", "Instructions", "Share", "Cycles"], "{callers}");
        assert!(callers.contains(&format!("  {}  main", grouped(inclusive.cycles))), "{callers}");
        let json: serde_json::Value = serde_json::from_str(&told(&["callers", dir, "main", "--json"])).unwrap();
        assert_eq!(json["inclusive_cycles"], inclusive.cycles, "{name}");
        let callees = json["callees"].as_array().unwrap();
        assert!(callees.iter().any(|callee| callee["cycles"].as_u64() > callee["insns"].as_u64()), "{json}");
        let speedscope: serde_json::Value =
            serde_json::from_str(&told(&["export", dir, "-f", "speedscope"])).unwrap();
        let in_cycles = speedscope["profiles"].as_array().unwrap().iter();
        let in_cycles = in_cycles.filter(|profile| profile["name"].as_str().unwrap().ends_with(": exact cycles"));
        assert_eq!(in_cycles.map(|profile| profile["endValue"].as_u64().unwrap()).collect::<Vec<_>>(), [total]);
        let svg = std::fs::read_to_string(run.dir.join("flamegraph.svg")).unwrap();
        let whole = format!("{} cycles, {} instructions on", grouped(total), grouped(profile.total_insns()));
        assert!(svg.contains(&whole) && svg.contains("more self cycles"), "{name}");
    });
    let without = run("avr/uno", &[]);
    let refused = harness().args(["export", "-f", "folded", "--cycles"]).arg(&without.dir).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("ask for them with --cycles"), "{said}");
    // What was not counted is not 0.
    let counted = run("avr/uno", &["--cycles"]);
    let differences = [(&without, &counted), (&counted, &counted)].map(|(before, after)| {
        let output = harness().arg("diff").args([&before.dir, &after.dir]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    });
    assert!(!differences[0].contains("(cycles)") && differences[1].contains("Function (cycles)"), "{differences:?}");
    let other = harness().args(["export", "-f", "csv", "--cycles"]).arg(&without.dir).output().unwrap();
    assert!(other.status.code() == Some(2), "{other:?}");
}

#[test]
fn a_handler_lasts_from_the_interrupt_to_its_return() {
    let profile = run("avr/uno-zones", &["--cycles", "--exact"]).expect_code(0).profile();
    let (number, span) = profile
        .spans
        .iter()
        .find_map(|span| match span.kind {
            SpanKind::Exception { number } => Some((number, span)),
            _ => None,
        })
        .unwrap();
    let by_pc = cycles::by_pc(&profile).unwrap();
    let handler = function(&profile, "__vector_11");
    let size = profile.names.function_at(handler).unwrap().size_bytes;
    let of_code: u64 = by_pc.range(handler..handler + size).map(|(_, cycles)| cycles).sum();
    // The vector has the 4 cycles up to it, and its jump.
    assert_eq!(span.cycles.sum, of_code + by_pc[&0x2c], "{number:x}");
    assert!(span.count > 10 && by_pc[&0x2c] == span.count * (4 + 3), "{}", span.count);
    assert_eq!([span.cycles.min, span.cycles.max], [span.cycles.sum / span.count; 2]);
}

#[test]
fn the_oracle_has_the_same_cycles_everywhere() {
    in_parallel(&["avr/uno-zones", "avr/uno-timer", "avr/uno-sketch", "avr/mega2560-far"], |name| {
        let args = ["--cycles", "--exact", "--no-stacks", "--slice", "5000"];
        let fast = run(name, &args).profile();
        let oracle = run(name, &[&args[..], &["--oracle"]].concat()).profile();
        assert!(fast.tree == oracle.tree && fast.spans == oracle.spans, "{name}");
        assert_eq!((&fast.zones, &fast.parts.list), (&oracle.zones, &oracle.parts.list), "{name}");
        // Nothing has cycles that nobody asked for.
        let without = run(name, &args[1..]).profile();
        assert!(without.tree.iter().all(|node| node.cycles == 0), "{name}");
        assert!(without.parts.list.iter().all(|part| part.cycles == Default::default()), "{name}");
        assert!(without.zones.zones.iter().all(|zone| zone.counts.cycles == Default::default()), "{name}");
        let insns = |profile: &Profile| profile.tree.iter().map(|node| (node.insns, node.calls)).collect::<Vec<_>>();
        let is_same = insns(&without) == insns(&fast);
        assert_eq!(is_same, !SEES_TIME.contains(name), "{name}: cycles change time alone");
    });
}

#[test]
fn tables_json_and_thresholds_have_the_cycles_of_contexts() {
    let args = ["--cycles", "--exact", "--slice", "50000", "--span", "main..exit"];
    let run = run("avr/uno-zones", &args).expect_code(0);
    let total = cycles::total(&run.profile()).unwrap();
    let told = |args: &[&str]| {
        let output = harness().args(args).arg(&run.dir).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = told(&["top"]);
    let line = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{text}"));
    let words = |begin: &str| line(begin).split_whitespace().collect::<Vec<_>>();
    assert_eq!(words("Zone (cycles)")[2..5], ["In", "Calls", "Cycles"]);
    assert_eq!(words("Handler (cycles)")[2..], ["Times", "Shortest", "Mean", "Longest"]);
    assert_eq!(words("Phase "), ["Phase", "Instructions", "Share", "Cycles", "Idle", "In", "interrupts"]);
    assert_eq!(words("alone ")[3], (1 + SPIN).to_string(), "{text}");
    assert_eq!(words("Interrupt ")[3], "Cycles");
    let by_phase = told(&["top", "--by", "phase"]);
    assert!(by_phase.lines().any(|line| line.contains("Share  Cycles")), "{by_phase}");

    let json: serde_json::Value = serde_json::from_str(&told(&["export", "-f", "json"])).unwrap();
    let list = |value: &serde_json::Value| value.as_array().unwrap().clone();
    let sum = |values: &serde_json::Value, key: &str| -> u64 {
        list(values).iter().map(|value| value[key].as_u64().unwrap_or_else(|| panic!("{value}"))).sum()
    };
    assert_eq!(json["total_cycles"], total);
    assert_eq!([sum(&json["phases"], "cycles"), sum(&json["slices"], "cycles")], [total; 2]);
    for part in list(&json["phases"]).iter().chain(&list(&json["slices"])) {
        assert_eq!(sum(&part["functions"], "cycles"), part["cycles"].as_u64().unwrap());
    }
    assert_eq!(sum(&json["tree"], "cycles"), total);
    let exactly = list(&json["zones"]).into_iter().find(|zone| zone["name"] == "exactly").unwrap();
    assert_eq!([&exactly["all"]["min_cycles"], &exactly["all"]["max_cycles"]], [SPIN + 23; 2]);
    let handler = list(&json["spans"]).into_iter().find(|span| span["kind"] == "exception").unwrap();
    assert_eq!(json["interrupts"][0]["cycles"], handler["sum_cycles"]);

    // Each run of the handler takes the same.
    let longest = handler["max_cycles"].as_u64().unwrap();
    for (limit, code) in [(longest, 0), (longest - 1, 1)] {
        let name = handler["name"].as_str().unwrap();
        let lines = format!("cycles = true\nassert = [\"handler_max_cycles(\\\"{name}\\\") <= {limit}\"]");
        assert_eq!(suite(&run, "avr/uno-zones", &lines), Some(code), "{limit}");
    }
    let uncounted = "assert = [\"max_cycles(\\\"main\\\") < 1\"]";
    assert_eq!(suite(&run, "avr/uno-zones", uncounted), Some(1), "not counted");
    for (limit, code) in [(SPIN + 23, 0), (SPIN + 22, 1)] {
        let limits = format!("\"zone_max_cycles(\\\"exactly\\\") <= {limit}\", \"zone_cycles(\\\"inner\\\") > 10\"");
        let lines = format!("cycles = true\nassert = [{limits}]");
        assert_eq!(suite(&run, "avr/uno-zones", &lines), Some(code), "{limit}");
    }
}

#[test]
fn without_cycles_documents_have_the_fields_and_no_numbers() {
    let run = run("avr/uno-zones", &["--exact"]).expect_code(0);
    let output = harness().args(["export", "-f", "json"]).arg(&run.dir).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_null = |value: &serde_json::Value, key: &str| value.get(key).is_some_and(serde_json::Value::is_null);
    assert!(is_null(&json["zones"][0]["all"], "total_cycles") && is_null(&json["spans"][0], "max_cycles"));
    assert!(is_null(&json["phases"][0], "cycles") && is_null(&json["phases"][0]["functions"][0], "cycles"));
    assert!(is_null(&json["tree"][0], "cycles") && is_null(&json["interrupts"][0], "cycles"));
    let shown = harness().arg("top").arg(&run.dir).output().unwrap();
    assert!(!String::from_utf8(shown.stdout).unwrap().to_lowercase().contains("cycles"));
}
