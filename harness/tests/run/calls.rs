// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls and arcs are exact, whatever interrupts come between a call and its target.

use std::collections::BTreeMap;

use harness::analysis::functions;

use crate::common::{image, measured, run_file};

/// Counts that the firmware made itself and printed: `name count` lines, and `irq_direct 20117,` words.
fn printed_counts(console: &str) -> BTreeMap<String, u64> {
    let words: Vec<&str> = console.split([' ', '\n', ',']).filter(|word| !word.is_empty()).collect();
    words
        .windows(2)
        .filter_map(|pair| Some((pair[0].to_owned(), pair[1].parse().ok()?)))
        .filter(|(name, _)| name.chars().next().is_some_and(char::is_alphabetic))
        .collect()
}

#[test]
fn calls_under_a_storm_of_interrupts_are_what_arithmetic_says() {
    for (name, handler) in [("riscv64-irqcall", "MTimer_Handler"), ("cortex-m3-irqcall", "SysTick_Handler")] {
        let run = measured(name, &[]).expect_code(0);
        let profile = run.profile();
        let table = functions::table(profile);
        let counts: BTreeMap<&str, u64> = table.rows.iter().map(|row| (row.name.as_str(), row.calls)).collect();
        let printed = printed_counts(run.console());
        let interrupts = printed["interrupts"];
        assert!(interrupts > 10_000, "{name}: only {interrupts} interrupts");
        assert_eq!(counts[handler], interrupts, "{name}: {handler}");
        let mut compared = 0;
        for (function, count) in &printed {
            if function != "interrupts"
                && let Some(calls) = counts.get(function.as_str())
            {
                assert_eq!(calls, count, "{name}: {function}");
                compared += 1;
            }
        }
        assert!(compared >= 18, "{name}: only {compared} of {printed:?} compared with {counts:?}");

        // Thousands of interrupts came between a transfer and its target.
        let interrupted = profile.facts.interrupted_transfers;
        assert!(interrupted > 1_000, "{name}: {interrupted} interrupted transfers");
        assert_eq!(profile.facts.unresolved_transfers, 0);

        // The arcs into a function that is only entered by calls add up to its calls; none is invented.
        let mut into: BTreeMap<&str, u64> = BTreeMap::new();
        let arcs = functions::arcs(profile);
        for arc in &arcs {
            *into.entry(arc.callee.as_str()).or_default() += arc.count;
        }
        for function in printed.keys().filter(|name| *name != "interrupts" && counts.contains_key(name.as_str())) {
            assert_eq!(into.get(function.as_str()), counts.get(function.as_str()), "{name}: arcs into {function}");
        }
        let to_handler: Vec<_> = arcs.iter().filter(|arc| arc.callee == handler).collect();
        assert!(
            to_handler.iter().all(|arc| arc.caller.contains("trap") || arc.caller.starts_with('[')),
            "{name}: an interrupt became an arc: {to_handler:?}"
        );
    }
}

#[test]
fn jumps_that_land_elsewhere_and_faults_where_they_land_are_no_calls() {
    for name in ["riscv64-landing", "cortex-m3-landing"] {
        let profile = measured(name, &[]).expect_code(0).profile();
        let arcs = functions::arcs(profile);
        let into = |callee: &str| -> Vec<(&str, u64)> {
            arcs.iter().filter(|arc| arc.callee == callee).map(|arc| (arc.caller.as_str(), arc.count)).collect()
        };
        assert_eq!(into("land"), [("main", 20_000)], "{name}");
        assert_eq!(into("below"), [("main", 20_000)], "{name}");
        assert_eq!(into("again"), [("main", 20_000)], "{name}");
        assert_eq!(into("never"), [], "{name}");
        // On Cortex-M `change_places` calls the handlers twice in 64 rounds; there are no other calls of them.
        let by_pointer: u64 = ["tick", "tock"].into_iter().flat_map(into).map(|(_, count)| count).sum();
        let expected = if name.starts_with("cortex") { 2 * 20_000u64.div_ceil(64) } else { 0 };
        assert_eq!(by_pointer, expected, "{name}: {arcs:?}");
    }
}

#[test]
fn calls_through_pointers_are_told_by_the_place_that_they_come_from() {
    for name in ["riscv64-pointers", "cortex-m3-pointers"] {
        let run = measured(name, &[]).expect_code(0);
        let arcs = functions::arcs(run.profile());
        let printed: Vec<Vec<&str>> = run.console().lines().skip(1).map(|line| line.split(' ').collect()).collect();
        assert_eq!(printed.len(), 9, "{name}: {}", run.console());
        for place in printed {
            let [caller, callee, count] = place[..] else { panic!("{name}: {place:?}") };
            let counts = arcs.iter().filter(|arc| arc.callee == callee && arc.count > 0);
            let callers: BTreeMap<&str, u64> = counts.map(|arc| (arc.caller.as_str(), arc.count)).collect();
            assert_eq!(
                callers.get(caller).map(u64::to_string).as_deref(),
                Some(count),
                "{name}: {place:?}: {callers:?}"
            );
        }
        assert!(run.profile().facts.interrupted_transfers > 1_000, "{name}");
        assert_eq!(run.profile().facts.unresolved_transfers, 0, "{name}");
    }
}

#[test]
fn a_loop_at_a_functions_entry_is_no_call() {
    for name in ["riscv64-irqcall", "cortex-m3-irqcall"] {
        let profile = measured(name, &[]).expect_code(0).profile();
        let table = functions::table(profile);
        let row = table.rows.iter().find(|row| row.name == "loop_at_entry").unwrap();
        let first = profile.insns()[&row.start.unwrap()];
        assert_eq!((row.calls, first), (100_000, 300_000), "{name}");
    }
}

#[test]
fn a_function_that_never_leaves_its_first_instruction_was_called_once() {
    for name in ["riscv64-hang", "cortex-m3-hang"] {
        for insns in ["100000", "100001"] {
            let profile = run_file(&image(name), &["--for", insns]).expect_code(0).profile();
            let table = functions::table(&profile);
            let hang = table.rows.iter().find(|row| row.name == "hang").unwrap();
            assert!(hang.self_insns > 90_000, "{name}: {hang:?}");
            assert_eq!(hang.calls, 1, "{name}: {hang:?}");
        }
    }
}

#[test]
fn a_tail_call_keeps_the_callers_return_address_and_its_own_site() {
    for name in ["riscv64-irqcall", "cortex-m3-irqcall"] {
        let profile = measured(name, &[]).expect_code(0).profile();
        let arcs = functions::arcs(profile);
        // tail_direct ends in a jump to leaf_tail: _mcount in leaf_tail would see irqcall_rounds.
        let arc = arcs.iter().find(|arc| arc.callee == "leaf_tail").unwrap();
        assert_eq!((arc.caller.as_str(), arc.count), ("irqcall_rounds", 100_000), "{name}");
        assert_eq!(arc.tail_call.as_ref().unwrap().function, "tail_direct", "{name}");
    }
}
