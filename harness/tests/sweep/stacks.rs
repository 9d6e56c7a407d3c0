//! The promise of call stacks: what is unwound at a sample is what every call and return, followed one by
//! one, left there at that instruction. On every image.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::common::levels::{followed, shown, unwound};
use crate::common::{in_parallel, run, selected_that};
use harness::analysis::functions::{Row, RowKind};
use harness::profile::Profile;
use wire::definition::NodeKind;

/// Samples whose two stacks differ, and how often each pair of stacks came.
fn differences(profile: &Profile) -> BTreeMap<(String, String, String), u64> {
    let mut differences = BTreeMap::new();
    for sample in &profile.samples {
        let (unwound, followed) = (unwound(profile, sample), followed(profile, sample));
        if unwound != followed {
            let key = (shown(profile, &unwound), shown(profile, &followed), format!("{:#x}", sample.pc));
            *differences.entry(key).or_default() += 1;
        }
    }
    differences
}

/// Images whose stacks are not all known, the largest share of samples that may differ, and why:
/// testdata/stacks.md.
const EXCEPTIONS: [(&str, f64); 8] = [
    ("cortex-m0-abi-pg", 0.01),
    ("cortex-m0-abi-pg-O0", 0.01),
    ("cortex-m3-stacks-exidx", 0.003),
    ("riscv64-stacks-fp", 0.003),
    ("cortex-m3-badsp", 1.0),
    ("riscv64-badsp", 1.0),
    ("riscv64-badframe-fp", 1.0),
    ("cortex-m3-bare-stripped", 1.0),
];

/// The largest share elsewhere.
const TOLERATED: f64 = 0.001;

/// What in the tree does not add up to the exact counts: instructions and calls of each function.
fn tree_errors(name: &str, profile: &Profile) -> Vec<String> {
    let mut errors = Vec::new();
    let insns: u64 = profile.tree.iter().map(|node| node.insns).sum();
    if insns != profile.total_insns() {
        errors.push(format!("{name}: {insns} instructions in the tree, {} in all", profile.total_insns()));
    }
    let mut sums: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for node in &profile.tree {
        if let NodeKind::Function { entry } = node.kind {
            let (insns, calls) = sums.entry(entry).or_default();
            (*insns, *calls) = (*insns + node.insns, *calls + node.calls);
        }
    }
    for row in harness::analysis::functions::table(profile).rows.iter().filter(|row| row.kind == RowKind::Function) {
        let (insns, calls) = row.start.and_then(|start| sums.get(&start)).copied().unwrap_or_default();
        // Its handler's first instruction traps: each trap is an execution of it, and none a call.
        let calls = if name == "riscv64-traploop" { row.calls } else { calls };
        if (insns, calls) != (row.self_insns, row.calls) {
            let Row { name: function, self_insns, calls: exact, .. } = row;
            errors.push(format!("{name}: {function}: tree {insns} in {calls} calls, exact {self_insns} in {exact}"));
        }
    }
    errors
}

/// All that is wrong with an image's stacks.
fn errors(name: &str) -> Vec<String> {
    let profile = run(name, &["--exact", "--period", "997"]).profile();
    let differences = differences(&profile);
    let differing: u64 = differences.values().sum();
    let unknown: u64 = harness::analysis::stacks::unknown(&profile).values().sum();
    let samples = profile.samples.len().max(1) as f64;
    let exception = EXCEPTIONS.iter().find(|(image, _)| *image == name);
    let tolerated = exception.map_or(TOLERATED, |&(_, share)| share);
    let mut errors = Vec::new();
    let differ = format!("{name}: {differing} of {samples} stacks differ, {unknown} are not known");
    if differing > 0 {
        println!("{differ}");
    }
    if differing.max(unknown) as f64 / samples > tolerated {
        errors.push(format!(
            "{differ}; unwound, followed, pc of the most frequent: {:#?}",
            differences.iter().max_by_key(|(_, count)| **count)
        ));
    }
    if name != "cortex-m3-bare-stripped" {
        errors.extend(tree_errors(name, &profile));
    }
    if profile.tasks.iter().map(|task| task.insns).sum::<u64>() > profile.total_insns() {
        errors.push(format!("{name}: the tasks have more instructions than there are"));
    }
    if profile.facts.unseen_switches > 0 {
        errors.push(format!("{name}: {} switches between tasks that nobody saw", profile.facts.unseen_switches));
    }
    errors
}

#[test]
fn stacks_are_what_every_call_and_return_left_on_every_image() {
    // The exact tree follows one vCPU.
    let images = selected_that(|name| name != "riscv64-smp");
    let found = Mutex::new(Vec::new());
    in_parallel(&images, |name| {
        let errors = errors(name);
        found.lock().expect("no thread panicked").extend(errors);
    });
    let mut found = found.into_inner().expect("no thread panicked");
    found.sort();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
