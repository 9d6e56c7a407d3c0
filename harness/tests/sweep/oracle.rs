// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise behind every number: the fast way of counting and sampling gives the same results as one callback per
//! instruction, on every image, at every period.

use std::collections::BTreeMap;

use harness::analysis::flow::{BranchKind, Branches, Count};
use harness::analysis::metrics::{Metric, Metrics};
use harness::analysis::stack_proof::has_exact_tree;
use harness::profile::{Profile, Tricks};
use wire::sample::Sample;

use crate::common::{
    command, finish, has_several_cpus, image, image_args, in_parallel, is_avr, is_dozen, run, selected_that,
    selected_with_avr,
};

fn assert_equal(name: &str, options: &[impl std::fmt::Debug], fast: &Profile, oracle: &Profile) {
    let context = format!("{name} {options:?}");
    assert_eq!(fast.facts.end, oracle.facts.end, "{context}: end");
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
    assert_branches(&context, fast, oracle);
    let is_arm = fast.facts.is_arm();
    for (index, (fast, oracle)) in fast.samples.iter().zip(&oracle.samples).enumerate() {
        // Stacks are taken at the starts of blocks, the oracle's in their middle, where unwind information has gaps;
        // `stacks.rs` compares them with every call and return. On Arm the oracle knows less about zones, because it
        // does not see a handler's return until it looks for it. There `run/records/zones.rs` compares zones with spans and
        // the exact tree.
        let zone = |sample: &Sample| if is_arm { 0 } else { sample.zone };
        let all_but_stack = |sample: &Sample| Sample { stack: 0, zone: zone(sample), ..*sample };
        assert_eq!(
            all_but_stack(fast),
            all_but_stack(oracle),
            "{context}: sample {index} is the first different one"
        );
    }
    assert_eq!(fast.samples.len(), oracle.samples.len(), "{context}: number of samples");
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
        let named: u64 = branch.ways.iter().filter_map(|way| way.target).map(from).sum();
        for way in &branch.ways {
            let count = way.target.map_or(total - named, from);
            let is_within = way.count.least() <= count && way.count.most().is_none_or(|most| count <= most);
            assert!(is_within, "{context}: {site:#x} {way:x?} is {count} in {branch:x?}");
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

/// Options of the oracle. Its stacks are not compared, and would take most of the time.
const ORACLE: [&str; 2] = ["--oracle", "--no-stacks"];

/// Compares runs, each with a period and options of its own, with the oracle. The oracle runs once, at the first period: the
/// others are multiples of it, so its samples include theirs.
fn compare(runs: &[(u64, &[&str])], options: &[&str]) {
    let oracle_period = runs[0].0;
    in_parallel(&selected_with_avr(), |name| {
        // Images that never end have a --for of their own.
        let own_end = image_args(name).contains(&"--for");
        let options: &[&str] = if own_end { &[] } else { options };
        let mut oracle = {
            let period = oracle_period.to_string();
            asked(name, &[&["--period", &period], options, &ORACLE].concat())
        };
        let mut last = oracle_period;
        for &(period, own) in runs {
            // The oracle has no more samples than the run before had.
            assert!(period.is_multiple_of(last) && period >= oracle.facts.period_insns, "{runs:?}");
            last = period;
            oracle.samples.retain(|sample| sample.at_insns.is_multiple_of(period));
            let period = period.to_string();
            let options = [&["--period", &period], options, own].concat();
            assert_equal(name, &options, &run(name, &options).profile(), &oracle);
        }
    });
}

/// The oracle's profile. For the named dozen, QEMU is used by its plugin API alone. That API does not tell which CPU
/// executes if each has a cluster of its own, and harness runs no AVR by it, so such images are run as usual.
fn asked(name: &str, args: &[&str]) -> Profile {
    if !is_dozen() || name.contains("-an521-amp") || is_avr(name) {
        return run(name, args).profile();
    }
    let temp = tempfile::tempdir().unwrap();
    let args: Vec<&str> = image_args(name).iter().chain(args).copied().collect();
    let output = command(&image(name), &args, temp.path()).env("HARNESS_NO_TRICKS", "1").output().unwrap();
    let profile = finish(temp, output).profile();
    assert_eq!(profile.facts.tricks, Tricks::Off, "{name}");
    profile
}

// At the default period, whole runs are compared. At shorter periods only the first part is, to save time: the shorter the
// period, the more a comparison costs. Of all images there is less of a sample per instruction than of the named dozen.

/// The same oracle judges the ways of branches that a run counts by itself.
#[test]
fn period_1_and_counted_ways_of_branches_equal_the_oracle() {
    compare(&[(1, &["--no-stacks"]), (10_007, &["--branches"])], &["--for", if is_dozen() { "4M" } else { "1M" }]);
}

#[test]
fn periods_97_and_970_equal_the_oracle() {
    compare(&[(97, &[]), (970, &[])], &["--for", "8M"]);
}

#[test]
fn the_default_period_equals_the_oracle() {
    compare(&[(10_007, &[])], &[]);
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
        let [without, with] = [&[][..], &["--branches"]].map(|options| run(name, options).profile());
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
        assert!(before >= 5 && after <= 1, "{name}: {before} open, {after} with counters");
        let [before, after] = [&without, &with].map(|profile| {
            let branches = Branches::of(profile);
            let jumps = branches.iter().filter(|branch| branch.kind == BranchKind::Table);
            jumps.filter(|jump| jump.ways.iter().any(|way| way.count.exact().is_none())).count()
        });
        assert!(before >= tables && after == 0, "{name}: {before} jumps through tables open, {after} with counters");
    }
}

#[test]
fn the_exact_tree_is_the_oracles() {
    in_parallel(&selected_that(|name| !has_several_cpus(name)), |name| {
        let own_end = image_args(name).contains(&"--for");
        let length: &[&str] = if own_end { &[] } else { &["--for", "1M"] };
        let options = [&["--exact", "--no-stacks"], length].concat();
        let fast = run(name, &options).profile();
        let oracle = run(name, &[&options[..], &["--oracle"]].concat()).profile();
        assert_eq!(has_exact_tree(&fast), has_exact_tree(&oracle), "{name}");
        for (node, (fast, oracle)) in (1..).zip(fast.tree.iter().zip(&oracle.tree)) {
            assert_eq!(fast, oracle, "{name}: node {node}");
        }
        assert_eq!(fast.tree.len(), oracle.tree.len(), "{name}: nodes");
    });
}

#[test]
fn jitter_equals_the_oracle() {
    for name in ["riscv64-bare", "cortex-m3-freertos-Os"] {
        let options = ["--period", "997", "--seeded-jitter", "42"];
        let fast = run(name, &options).profile();
        assert_equal(name, &options, &fast, &run(name, &[&options[..], &ORACLE].concat()).profile());
        let other = run(name, &["--period", "997", "--seeded-jitter", "43"]).profile();
        assert_ne!(fast.samples, other.samples, "{name}: another seed, the same samples");
    }
}

#[test]
fn a_window_by_function_equals_the_oracle() {
    for (name, from, until) in
        [("riscv64-bare", "crc32_table", "heap_sort"), ("cortex-m3-bare", "crc32_table", "heap_sort")]
    {
        let options = ["--from", from, "--until", until, "--period", "13"];
        let fast = run(name, &options).expect_code(0).profile();
        assert_equal(name, &options, &fast, &run(name, &[&options[..], &ORACLE].concat()).profile());
    }
}
