// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: no bound of a stack is below what a run has used of it, and no transfer of control that a run has made
//! is missing from the graph that the bounds are computed from. On every image.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::slice;

use harness::analysis::stack_bound::{self, Bound, Certainty, Program, Row, Rules};
use harness::image::{Image, LoadOptions};
use harness::profile::Profile;

use super::{COMPARED_INSNS, Promise, Runs, findings, for_at_most};
use crate::common::{has_several_cpus, image, run, run_again, say, selected};

/// Images whose kernel stores both ends of its tasks' stacks, so that their depth is known.
const WITH_ENDS: [&str; 8] = [
    "cortex-m3-nuttx",
    "cortex-m3-riot",
    "cortex-m3-tasks-ends",
    "cortex-m3-threadx",
    "cortex-m3-zephyr",
    "cortex-m3-zephyr-named",
    "riscv32-riot",
    "riscv64-tasks-ends",
];

/// Bound and use of one stack.
#[derive(Debug)]
pub(super) struct Compared {
    /// Image and stack.
    pub(super) name: String,
    is_task: bool,
    /// Bound by use; None: nothing bounds it.
    ratio: Option<f64>,
    /// The same without failures.
    returning_ratio: Option<f64>,
}

fn read(name: &str, profiles: &[Profile]) -> (Image, Program) {
    let path = image(name);
    let bytes = fs::read(&path).unwrap();
    let image = Image::from_bytes(&path, &bytes, &LoadOptions::default(), None).unwrap();
    let program = Program::read(&bytes, &image, profiles, &Rules::default()).unwrap();
    (image, program)
}

/// Bounds of an image's stacks, with what one run has shown.
fn rows_of(name: &str, profile: &Profile) -> Vec<Row> {
    let (image, program) = read(name, slice::from_ref(profile));
    stack_bound::rows(&program, &image, slice::from_ref(profile), &Rules::default())
}

/// Transfers of a run that the graph does not have. Functions in `unresolved` may make others.
fn missing(name: &str, profile: &Profile, program: &Program, unresolved: &BTreeSet<u64>) -> Vec<String> {
    let edges = program.edges();
    let start = |address: u64| {
        let function = profile.names.function_at(address)?;
        Some(function.start.wrapping_sub(profile.facts.load_bias))
    };
    // A system call of Zephyr's goes to another stack, through a handler.
    let is_on_stack = |target: u64| profile.names.function_at(target).is_none_or(|to| to.name != "z_arm_do_syscall");
    let arcs = profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs).filter(|arc| is_on_stack(arc.target));
    let arcs = arcs.filter_map(|arc| {
        let (from, to) = (start(arc.site)?, start(arc.target)?);
        let is_known =
            from == to || unresolved.contains(&from) || edges.get(&from).is_some_and(|targets| targets.contains(&to));
        (!is_known).then(|| format!("{name}: {from:#x} to {to:#x} at {:#x} is not in the graph", arc.site))
    });
    arcs.collect()
}

/// Ratio of a bound to the bytes that were seen, and an error if it is below them.
fn ratio(name: &str, bound: &Bound, seen: u64, errors: &mut Vec<String>) -> Option<f64> {
    if bound.certainty == Certainty::Unbounded {
        return None;
    }
    if bound.bytes < seen {
        errors.push(format!("{name}: {} {} is below {seen}: {:?}", bound.bytes, bound.certainty.word(), bound.path));
    }
    Some(bound.bytes as f64 / seen.max(1) as f64)
}

fn compare(name: &str, rows: &[Row], errors: &mut Vec<String>) -> Vec<Compared> {
    let compared = rows.iter().filter_map(|row| {
        let seen = row.seen_bytes?;
        let name = format!("{name} {}", row.name);
        let ratio_of = |bound, errors: &mut Vec<String>| ratio(&name, bound, seen, errors);
        let (one, two) = (ratio_of(&row.bound, errors), ratio_of(&row.returning, errors));
        Some(Compared { is_task: row.is_task, ratio: one, returning_ratio: two, name })
    });
    compared.collect()
}

/// Median; None of nothing.
fn median(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = ratios.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// Images whose bounds are compared: the selected ones, and those whose tasks' depth is known.
pub(super) fn images() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = WITH_ENDS.map(str::to_owned).into_iter().chain(selected()).collect();
    // The exact call tree follows one processor, and images without symbols have no graph. Zephyr's tasks with names are those
    // without, and would weigh twice in the median. What a task uses below its stack is not its use.
    let is_left_out = |name: &str| {
        matches!(name, "cortex-m3-bare-stripped" | "riscv64-zephyr-named") || name.ends_with("-overflow")
    };
    names.retain(|name| !has_several_cpus(name) && !is_left_out(name));
    names
}

/// Bounds of an image's stacks beside their use in an exact run, and the errors in them.
///
/// The unwinder of C++'s exceptions calls the routines that exception tables name by offsets: docs/budget.md says so. So
/// images that throw are only compared with their run told.
pub(super) fn judge(name: &str, runs: &Runs<'_>) -> (Vec<Compared>, Vec<String>) {
    let cut;
    let mut profile = runs.exact();
    // Of a long image that runs whole, too, no more is compared: each weighs alike in the median.
    if profile.total_insns() > COMPARED_INSNS.parse().unwrap() {
        cut = run_again(name, &[&["--exact"][..], &for_at_most(name, COMPARED_INSNS)].concat()).profile();
        profile = &cut;
    }
    let (image, program) = read(name, slice::from_ref(profile));
    let mut errors = missing(name, profile, &program, &BTreeSet::new());
    // What types show must hold for a run that they were not told of.
    if profile.names.functions.iter().all(|function| function.name != "_Unwind_RaiseException") {
        let (_, alone) = read(name, &[]);
        errors.extend(missing(&format!("{name} by types"), profile, &alone, &alone.unresolved()));
    }
    let rows = stack_bound::rows(&program, &image, slice::from_ref(profile), &Rules::default());
    let compared = compare(name, &rows, &mut errors);
    (compared, errors)
}

#[test]
fn no_bound_is_below_what_a_run_has_used_and_no_transfer_is_missing() {
    let found = findings();
    found.expect(Promise::Bounds);
    let compared = &found.compared;
    let mut medians: BTreeMap<&str, f64> = BTreeMap::new();
    for (what, is_task) in [("tasks", true), ("main stacks", false)] {
        let all: Vec<&Compared> = compared.iter().filter(|row| row.is_task == is_task).collect();
        let (one, two) = (
            median(all.iter().filter_map(|row| row.ratio)),
            median(all.iter().filter_map(|row| row.returning_ratio)),
        );
        let (Some(one), Some(two)) = (one, two) else { panic!("no bound of {what} was compared") };
        say(&format!("{what}: {} compared; bounds {one:.2} times the use, {two:.2} without failures", all.len()));
        medians.insert(what, two);
    }
    assert!(compared.len() >= 30, "{}", compared.len());
    assert!(medians["tasks"] <= 1.25, "{medians:?}");
}

/// Zephyr names the next thread before it leaves the stack of the one before.
#[test]
fn a_task_is_bound_by_what_it_called_itself() {
    let rows = rows_of("riscv64-zephyr", &run("riscv64-zephyr", &["--exact", "--for", "3M"]).profile());
    let called_by = |name: &str| {
        let row = rows.iter().find(|row| row.name == name).unwrap();
        let steps = [&row.returning, &row.bound].into_iter().flat_map(|bound| &bound.path);
        steps.map(|step| step.function.clone()).collect::<Vec<_>>()
    };
    assert!(called_by("z_main_thread").contains(&"bg_thread_main".to_owned()));
    for thread in ["philosophers", "philosophers+0xc8"] {
        let steps = called_by(thread);
        assert!(!steps.contains(&"bg_thread_main".to_owned()), "{thread}: {steps:?}");
    }
}

/// The task was under way as the window opened, so that nothing is told of its first calls.
#[test]
fn a_window_in_the_midst_of_a_task_has_no_bound_below_its_use() {
    let name = "cortex-m3-ztest";
    let rows = rows_of(name, &run(name, &["--exact", "--from", "fib"]).profile());
    let mut errors = Vec::new();
    let compared = compare(name, &rows, &mut errors);
    assert!(compared.iter().any(|row| row.is_task), "no task was compared");
    assert_eq!(errors, Vec::<String>::new());
}

#[test]
fn virtual_calls_are_known_without_a_run() {
    let name = "cortex-m3-cpp";
    let profile = run(name, &["--for", "3M"]).profile();
    let (_, alone) = read(name, &[]);
    assert!(
        alone.indirect().contains("known by types") && !alone.indirect().contains("nothing"),
        "{}",
        alone.indirect()
    );
    assert_eq!(missing(name, &profile, &alone, &BTreeSet::new()), Vec::<String>::new());
}

#[test]
fn exceptions_nest_by_the_priorities_that_a_run_saw_or_the_user_states() {
    let name = "cortex-m4-nested";
    let profile = run(name, &["--exact", "--for", "3M"]).profile();
    let levels: BTreeSet<u64> = profile.facts.exception_levels.iter().map(|&(_, level)| level).collect();
    assert!(levels.len() >= 2, "{:?}", profile.facts.exception_levels);
    let main = |profiles: &[Profile], rules: &Rules| {
        let (image, program) = read(name, profiles);
        stack_bound::rows(&program, &image, profiles, rules).remove(0)
    };
    let all = main(&[], &Rules::default());
    let seen = main(slice::from_ref(&profile), &Rules::default());
    assert!(seen.exceptions_bytes <= all.exceptions_bytes, "{seen:?} {all:?}");
    // One priority for all: only the largest handler counts.
    let names: BTreeSet<&str> = profile.names.functions.iter().map(|function| function.name.as_str()).collect();
    let priorities = names.into_iter().map(|name| (name.to_owned(), 1)).collect();
    let stated = main(&[], &Rules { priorities, ..Rules::default() });
    assert!(stated.exceptions_bytes < seen.exceptions_bytes.min(all.exceptions_bytes), "{stated:?} {seen:?}");
}
