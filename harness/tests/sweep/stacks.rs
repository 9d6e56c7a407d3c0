// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise of call stacks: the stack unwound at a sample equals the one that results from following every call
//! and return up to that instruction. On every image.

use std::collections::BTreeMap;

use harness::analysis::functions::{Row, RowKind};
use harness::analysis::stack_vs_tree::{Differences, How};
use harness::profile::Profile;
use wire::definition::{NodeKind, Unknown};

use super::{Promise, findings, is_whole};
use crate::common::{all_images, avr_images};

/// Images with differing stacks, and the number of their samples; all others have none. testdata/stacks.md gives the
/// reasons. Runs are reproducible, so a change of one sample is a change for the worse or the better.
const EXPECTED: [(&str, &[(How, u64)]); 18] = [
    ("avr/mega2560-cpp", &[(How::Cut(Unknown::Corrupt), 2)]),
    ("avr/mega2560-prologues", &[(How::Cut(Unknown::NoUnwindInfo), 17)]),
    ("avr/uno-O2", &[(How::Cut(Unknown::NoUnwindInfo), 1)]),
    ("avr/uno-cpp", &[(How::Cut(Unknown::Corrupt), 2)]),
    ("avr/uno-prologues", &[(How::Cut(Unknown::NoUnwindInfo), 15), (How::Cut(Unknown::Corrupt), 1)]),
    ("riscv64-picolibc", &[(How::Cut(Unknown::NotKept), 1)]),
    ("cortex-m0-abi-pg-O0", &[(How::Cut(Unknown::Corrupt), 103)]),
    ("cortex-m3-badsp", &[(How::Cut(Unknown::NoUnwindInfo), 280), (How::Cut(Unknown::Corrupt), 604)]),
    (
        "cortex-m3-bare-stripped",
        &[(How::Cut(Unknown::NoUnwindInfo), 11_256), (How::Stray(Unknown::NoUnwindInfo), 3863)],
    ),
    ("riscv64-badframe-fp", &[(How::Cut(Unknown::NotKept), 595)]),
    ("riscv64-badsp", &[(How::Cut(Unknown::NoUnwindInfo), 280), (How::Cut(Unknown::Corrupt), 502)]),
    ("riscv64-pointers", &[(How::Cut(Unknown::Corrupt), 826), (How::Cut(Unknown::Disproved), 60)]),
    ("riscv64-deeptraps", &[(How::Cut(Unknown::TooDeep), 1050)]),
    // Assembly that nothing describes, as in ThreadX's and Zephyr's ports.
    ("riscv64-threadx", &[(How::Cut(Unknown::NoUnwindInfo), 2)]),
    ("riscv64-zephyr", &[(How::Cut(Unknown::NoUnwindInfo), 1)]),
    ("riscv64-probing", &[(How::Cut(Unknown::NoUnwindInfo), 2005)]),
    ("riscv64-escape-virtual", &[(How::Cut(Unknown::NoUnwindInfo), 1)]),
    ("riscv64-virtual-exit", &[(How::Cut(Unknown::NoUnwindInfo), 1)]),
];

/// Images that execute code in no known function.
const NAMELESS: [&str; 3] = ["cortex-m3-bare-stripped", "riscv64-escape-virtual", "riscv64-virtual-exit"];

/// Calls with an interrupt before the callee's first instruction, when the run ended during that interrupt. The tree
/// has them, since the interrupt is below them, but none of their instructions was executed.
const NOT_BEGUN: [(&str, &str); 1] = [("cortex-m3-heap4", "prvCheckTasksWaitingTermination")];

/// The same of runs that are cut: in the one a task is switched out there, in the other the timer comes.
const NOT_BEGUN_AT_CUT: [(&str, &str); 2] = [("cortex-m3-freertos-pg", "fib"), ("riscv32-storm-pg", "_mcount")];

/// Whether an image is listed here for what it has at the end of its own run.
pub(super) fn depends_on_end(name: &str) -> bool {
    EXPECTED.iter().any(|(image, _)| *image == name) || NOT_BEGUN.iter().any(|(image, _)| *image == name)
}

/// Differences between the tree's sums and the exact counts: instructions and calls of each function.
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
        // The handler's first instruction traps, so each trap executes it without a call. Two images move their trap
        // vector to code that has been executed before.
        let starts_unseen = ["riscv64-traploop", "riscv64-landing", "riscv64-pointers"];
        let calls = if starts_unseen.contains(&name) { row.calls } else { calls };
        let listed = if is_whole(name) { &NOT_BEGUN[..] } else { &NOT_BEGUN_AT_CUT[..] };
        let not_begun = listed.iter().filter(|(image, function)| *image == name && *function == row.name).count();
        if (insns, calls) != (row.self_insns, row.calls + not_begun as u64) {
            let Row { name: function, self_insns, calls: exact, .. } = row;
            errors.push(format!("{name}: {function}: tree {insns} in {calls} calls, exact {self_insns} in {exact}"));
        }
    }
    errors
}

/// All errors in an image's stacks.
pub(super) fn errors(name: &str, profile: &Profile) -> Vec<String> {
    let mut errors = Vec::new();
    let Differences { counts, pairs } = Differences::of(profile);
    let listed = EXPECTED.iter().find(|(image, _)| *image == name);
    let expected: BTreeMap<How, u64> = listed.map_or(&[][..], |(_, counts)| counts).iter().copied().collect();
    if counts != expected {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        pairs.truncate(6);
        errors.push(format!(
            "{name}: of {} stacks differ {counts:?}, testdata/stacks.md says {expected:?}; how, unwound, followed, pc \
             of the most frequent: {pairs:#?}",
            profile.samples.len(),
        ));
    }
    // Stacks reported as unknown are the ones that are cut.
    let mut unknown: BTreeMap<Unknown, u64> = BTreeMap::new();
    for (how, count) in counts {
        if let How::Cut(why) | How::Stray(why) = how {
            *unknown.entry(why).or_default() += count;
        }
    }
    let said = harness::analysis::stacks::unknown(profile);
    if said != unknown {
        errors.push(format!("{name}: {said:?} are said to be unknown, and {unknown:?} are"));
    }
    if !NAMELESS.contains(&name) {
        errors.extend(tree_errors(name, profile));
    }
    if profile.tasks.iter().map(|task| task.insns).sum::<u64>() > profile.total_insns() {
        errors.push(format!("{name}: the tasks have more instructions than there are"));
    }
    // The check of the tree against the exact calls agrees, without a false alarm. In riscv64-probing a jump leaves a
    // trap's handler, which the check reports.
    let is_said = name == "riscv64-probing";
    if harness::analysis::stack_proof::has_exact_tree(profile) == is_said {
        errors.push(format!(
            "{name}: the tree is called not exact: {:?}",
            harness::analysis::stack_proof::faults(profile)
        ));
    }
    if profile.facts.unseen_switches > 0 {
        errors.push(format!("{name}: {} switches between tasks that nobody saw", profile.facts.unseen_switches));
    }
    errors
}

#[test]
fn stacks_are_what_every_call_and_return_left_on_every_image() {
    let all = [all_images(), avr_images()].concat();
    let gone: Vec<_> = EXPECTED.iter().filter(|(name, _)| !all.iter().any(|image| image == name)).collect();
    assert!(gone.is_empty(), "{gone:?}: there is no such image");
    findings().expect(Promise::Stacks);
}
