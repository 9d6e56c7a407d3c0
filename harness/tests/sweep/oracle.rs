// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise behind every number: the fast way of counting and sampling gives the same results as one callback per
//! instruction, on every image, at every period.

use std::collections::{BTreeMap, BTreeSet};

use harness::analysis::flow::{BranchKind, Branches, Count};
use harness::analysis::metrics::{Metric, Metrics};
use harness::analysis::stack_proof::has_exact_tree;
use harness::profile::{End, LeftStack, Profile, Tricks};
use wire::sample::Sample;

use super::{Promise, Runs, findings, for_at_most};
use crate::common::{DOZEN, command, finish, has_several_cpus, image, image_args, is_all, is_dozen, run_again};

fn assert_equal(name: &str, options: &[&str], fast: &Profile, oracle: &Profile) {
    let context = format!("{name} {options:?}");
    assert_equal_counts(&context, fast, oracle);
    assert_equal_samples(&context, fast, oracle);
}

/// End of a run as far as it is the same without the exact tree, which alone sees each move of a stack pointer.
fn as_by_default(profile: &Profile) -> End {
    match profile.facts.end {
        End::StackOverflow { stack: LeftStack::Task { .. }, .. } => {
            End::StackOverflow { pc: None, stack: LeftStack::Task { index: 0 } }
        }
        End::StackOverflow { stack: LeftStack::Main, .. } => End::StackOverflow { pc: None, stack: LeftStack::Main },
        ref end => end.clone(),
    }
}

/// Compares all that is counted.
fn assert_equal_counts(context: &str, fast: &Profile, oracle: &Profile) {
    assert_eq!(as_by_default(fast), as_by_default(oracle), "{context}: end");
    assert_eq!(fast.total_insns(), oracle.total_insns(), "{context}: total");
    assert!(fast.total_insns() > 0, "{context}: nothing was measured");
    assert_eq!(fast.vcpus.len(), oracle.vcpus.len(), "{context}: vCPUs");
    for (vcpu, (fast, oracle)) in fast.vcpus.iter().zip(&oracle.vcpus).enumerate() {
        // The oracle checks at every block where control came from. It predicts nothing, and does not use knowledge
        // about where exceptions can start.
        for (fast, oracle) in fast.arcs.iter().zip(&oracle.arcs) {
            assert_eq!(fast, oracle, "{context}: vCPU {vcpu}, first different arc");
        }
        assert_eq!(fast.arcs.len(), oracle.arcs.len(), "{context}: vCPU {vcpu}, arcs");
        for (fast, oracle) in fast.insns.iter().zip(&oracle.insns) {
            assert_eq!(fast, oracle, "{context}: vCPU {vcpu}, first different count");
        }
        assert_eq!(fast.insns.len(), oracle.insns.len(), "{context}: vCPU {vcpu}, executed addresses");
    }
    assert_branches(context, fast, oracle);
}

/// Compares samples; those of the oracle, whose period divides the other's, are more.
fn assert_equal_samples(context: &str, fast: &Profile, oracle: &Profile) {
    let period_insns = fast.facts.period_insns;
    let oracle_period_insns = oracle.facts.period_insns;
    assert!(period_insns.is_multiple_of(oracle_period_insns), "{context}: the oracle lacks samples");
    let (is_arm, has_tree) = (fast.facts.is_arm(), !fast.tree.is_empty());
    // With a period of its own, and jitter, the oracle has just these samples.
    let is_common =
        |sample: &&Sample| period_insns == oracle_period_insns || sample.at_insns.is_multiple_of(period_insns);
    let expected: Vec<&Sample> = oracle.samples.iter().filter(is_common).collect();
    for (index, (fast, oracle)) in fast.samples.iter().zip(&expected).enumerate() {
        // Stacks are taken at the starts of blocks, the oracle's in their middle, where unwind information has gaps;
        // `stacks.rs` compares them with every call and return. On Arm the oracle knows less about zones, because it
        // does not see a handler's return until it looks for it. There `run/records/zones.rs` compares zones with spans and
        // the exact tree.
        let zone = |sample: &Sample| if is_arm { 0 } else { sample.zone };
        // Without a tree a sample has no node.
        let node = |sample: &Sample| if has_tree { sample.node } else { 0 };
        let all_but_stack = |sample: &Sample| Sample { stack: 0, node: node(sample), zone: zone(sample), ..*sample };
        assert_eq!(
            all_but_stack(fast),
            all_but_stack(oracle),
            "{context}: sample {index} is the first different one"
        );
    }
    assert_eq!(fast.samples.len(), expected.len(), "{context}: number of samples");
}

/// Compares the branches that the counts tell with those that the oracle saw, one by one. Every way of every branch
/// must be within its bounds, and an exact one equal.
fn assert_branches(context: &str, fast: &Profile, oracle: &Profile) {
    let seen: BTreeMap<(u64, u64), u64> =
        oracle.edges.iter().map(|edge| ((edge.site, edge.target), edge.count)).collect();
    let branches = Branches::of(fast);
    let (mut solved, mut all) = (0, 0);
    let (mut solved_tables, mut tables) = (0, 0);
    for branch in branches.iter() {
        let site = branch.site;
        let from = |target: u64| seen.get(&(site, target)).copied().unwrap_or(0);
        let total: u64 = seen.range((site, 0)..=(site, u64::MAX)).map(|(_, &count)| count).sum();
        // A branch whose target never started, as the run's last instruction, has gone nowhere.
        assert!(
            total <= branch.executions && total + 1 >= branch.executions,
            "{context}: {branch:x?} went {total} times"
        );
        let targets: BTreeSet<u64> = branch.ways.iter().filter_map(|way| way.target).collect();
        let reached = seen.range((site, 0)..=(site, u64::MAX)).filter(|(_, count)| **count > 0);
        let unlisted: Vec<u64> =
            reached.map(|(&(_, target), _)| target).filter(|target| !targets.contains(target)).collect();
        if branch.kind == BranchKind::Table {
            assert!(
                unlisted.is_empty() || fast.table_at(site).is_none(),
                "{context}: the table of {site:#x} lacks {unlisted:x?}"
            );
            if !unlisted.is_empty() {
                eprintln!("{context}: without its table, {site:#x} lacks {} targets", unlisted.len());
            }
        }
        let named: u64 = targets.iter().copied().map(from).sum();
        for target in targets.into_iter().map(Some).chain([None]) {
            // The oracle sees where a branch leads: both ways of a branch to the next instruction are one to it.
            let ways = branch.ways.iter().filter(|way| way.target == target);
            let (least, most): (u64, Option<u64>) =
                (ways.clone().map(|way| way.count.least()).sum(), ways.clone().map(|way| way.count.most()).sum());
            let count = target.map_or(total - named, from);
            let is_within = least <= count && most.is_none_or(|most| count <= most);
            assert!(is_within || ways.count() == 0, "{context}: {site:#x} to {target:x?} is {count} in {branch:x?}");
        }
        let is_solved = u64::from(branch.ways.iter().all(|way| matches!(way.count, Count::Exact(_))));
        if branch.kind == BranchKind::Table {
            tables += 1;
            solved_tables += is_solved;
        } else {
            all += 1;
            solved += is_solved;
        }
    }
    let is_conditional = |pc: u64| {
        let (isa, code) = (fast.facts.isa().unwrap(), fast.code_at(pc).unwrap_or_default());
        matches!(decode::decode(isa, pc, code).flow, decode::Flow::Branch { .. })
    };
    let went: u64 = oracle.edges.iter().filter(|edge| is_conditional(edge.site)).map(|edge| edge.count).sum();
    let counted = Metrics::of(fast).run[Metric::BranchInsns].unwrap();
    // As above, a last branch has gone nowhere.
    assert!((went..=went + all).contains(&counted), "{context}: {counted} branches executed, {went} went somewhere");
    eprintln!(
        "{context}: {solved} of {all} conditional branches are exact, {solved_tables} of {tables} jumps through tables"
    );
    // Most images have nine in ten or more; those made of odd jumps have fewer. Of a handful, the window's end cuts off too many
    // to judge.
    assert!(2 * solved >= all || all < 10, "{context}: only {solved} of {all} conditional branches are exact");
}

/// Option beside the oracle's. Its stacks are not compared, and would take most of the time.
pub(super) const WITHOUT_STACKS: &[&str] = &["--no-stacks"];

/// Options of the oracle.
const ORACLE: [&str; 2] = ["--oracle", "--no-stacks"];

/// Option for the exact tree, which follows a single vCPU.
pub(super) fn tree(name: &str) -> &'static [&'static str] {
    if has_several_cpus(name) { &[] } else { &["--exact"] }
}

/// A sample per instruction of an image is compared up to here, to save time: the shorter the period, the more a comparison
/// costs.
const PERIOD_1_INSNS: &str = "4M";

/// Images of which a sample per instruction is compared.
pub(super) fn has_period_1(name: &str) -> bool {
    is_dozen() || DOZEN.contains(&name)
}

/// Compares a run that samples each instruction with the oracle.
pub(super) fn check_period_1(name: &str) -> Vec<String> {
    let options = [&["--period", "1", "--no-stacks"][..], &for_at_most(name, PERIOD_1_INSNS)].concat();
    let oracle = asked(name, &[&options[..], &["--oracle"]].concat());
    assert_equal(name, &options, &run_again(name, &options).profile(), &oracle);
    Vec::new()
}

/// Compares runs at several periods with the one oracle, whose samples include theirs. One of them counts ways of branches by
/// itself, one follows all calls. The default period is not a multiple of the oracle's, so all of that run but its samples
/// is compared.
pub(super) fn check_periods(name: &str, runs: &Runs<'_>) -> Vec<String> {
    let oracle = runs.oracle();
    for options in [&["--period", "97"][..], &["--period", "970", "--branches"]] {
        assert_equal(name, options, &runs.asked(options).profile(), oracle);
    }
    assert_equal(name, &["--period", "9700", "--exact"], runs.tree(), oracle);
    let default = runs.default().profile();
    assert!(!default.facts.period_insns.is_multiple_of(oracle.facts.period_insns), "{name}: samples can be compared");
    assert_equal_counts(&format!("{name} without options"), &default, oracle);
    Vec::new()
}

/// The oracle's profile. For the named dozen, QEMU is used by its plugin API alone. That API does not tell which CPU
/// executes if each has a cluster of its own, and harness runs no AVR by it, so such images are run as usual.
pub(super) fn asked(name: &str, args: &[&str]) -> Profile {
    if !DOZEN.contains(&name) || name.contains("-an521-amp") {
        return run_again(name, args).profile();
    }
    let temp = tempfile::tempdir().unwrap();
    let args: Vec<&str> = image_args(name).iter().chain(args).copied().collect();
    let output = command(&image(name), &args, temp.path()).env("HARNESS_NO_TRICKS", "1").output().unwrap();
    let profile = finish(temp, output).profile();
    assert_eq!(profile.facts.tricks, Tricks::Off, "{name}");
    profile
}

/// Compares the exact call tree with that of the oracle, which looks at each block where control came from.
pub(super) fn check_tree(name: &str, runs: &Runs<'_>) -> Vec<String> {
    let (fast, oracle) = (runs.tree(), runs.oracle());
    assert_eq!(has_exact_tree(fast), has_exact_tree(oracle), "{name}");
    for (node, (fast, oracle)) in (1..).zip(fast.tree.iter().zip(&oracle.tree)) {
        assert_eq!(fast, oracle, "{name}: node {node}");
    }
    assert_eq!(fast.tree.len(), oracle.tree.len(), "{name}: nodes");
    Vec::new()
}

#[test]
fn a_sample_per_instruction_equals_the_oracles() {
    findings().expect(Promise::Period1);
}

#[test]
fn counts_branches_and_samples_at_every_period_equal_the_oracles() {
    let judged = findings().expect(Promise::Periods);
    assert!(!is_all() || judged.len() >= 500, "{} images", judged.len());
}

#[test]
fn the_exact_tree_is_the_oracles() {
    findings().expect(Promise::Tree);
}

#[test]
fn counted_ways_leave_few_branches_open() {
    for (name, tables) in [
        ("riscv64-freertos", 0),
        ("cortex-m3-freertos", 0),
        ("riscv64-branchy", 0),
        ("cortex-m3-branchy", 0),
        ("riscv64-interpreter", 10),
        ("cortex-m3-interpreter", 10),
    ] {
        let [without, with] = [&[][..], &["--branches"]].map(|options| run_again(name, options).profile());
        assert!(without.edges.is_empty(), "{name}: nobody asked for these counters");
        assert_eq!(without.vcpus, with.vcpus, "{name}: the counters change the run");
        let open = |profile: &Profile| {
            let branches = Branches::of(profile);
            let open = |count: Count| count.exact().is_none();
            branches
                .iter()
                .filter_map(|branch| branch.both())
                .filter(|&(one, other)| open(one) || open(other))
                .count()
        };
        let (before, after) = (open(&without), open(&with));
        assert!(before >= 4 && after <= 1, "{name}: {before} open, {after} with counters");
        let [before, after] = [&without, &with].map(|profile| {
            let branches = Branches::of(profile);
            let jumps = branches.iter().filter(|branch| branch.kind == BranchKind::Table);
            jumps.filter(|jump| jump.ways.iter().any(|way| way.count.exact().is_none())).count()
        });
        assert!(before >= tables && after == 0, "{name}: {before} jumps through tables open, {after} with counters");
    }
}

#[test]
fn jitter_equals_the_oracle() {
    for name in ["riscv64-bare", "cortex-m3-freertos-Os"] {
        let options = ["--period", "997", "--seeded-jitter", "42"];
        let fast = run_again(name, &options).profile();
        assert_equal(name, &options, &fast, &run_again(name, &[&options[..], &ORACLE].concat()).profile());
        let other = run_again(name, &["--period", "997", "--seeded-jitter", "43"]).profile();
        assert_ne!(fast.samples, other.samples, "{name}: another seed, the same samples");
    }
}

#[test]
fn a_window_by_function_equals_the_oracle() {
    for (name, from, until) in
        [("riscv64-bare", "crc32_table", "heap_sort"), ("cortex-m3-bare", "crc32_table", "heap_sort")]
    {
        let options = ["--from", from, "--until", until, "--period", "13"];
        let fast = run_again(name, &options).expect_code(0).profile();
        assert_equal(name, &options, &fast, &run_again(name, &[&options[..], &ORACLE].concat()).profile());
    }
}
