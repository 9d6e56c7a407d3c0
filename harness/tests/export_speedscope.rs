//! The format speedscope: valid by speedscope's schema, and its own page shows every profile and frame with our
//! numbers.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::tools::{export, export_to_nobody};
use common::{made, names, run, viewer};
use harness::calltree::CallTree;
use harness::profile::Profile;
use harness::stacks::{Kind, View};
use serde_json::Value;

/// What speedscope's page shows of a saved profile.
fn seen(profile: &Path) -> Value {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("profile.json");
    fs::write(&file, export(profile, "speedscope", &[])).unwrap();
    viewer("speedscope.mjs", &[file.to_str().unwrap()])
}

fn totals(seen: &Value) -> BTreeMap<String, u64> {
    let profiles = seen["profiles"].as_array().unwrap().iter();
    profiles.map(|shown| (shown["name"].as_str().unwrap().to_owned(), shown["total"].as_u64().unwrap())).collect()
}

/// Own instructions of all frames of a name, as the page has them.
fn own_insns(profile: &Profile) -> BTreeMap<String, u64> {
    let tree = CallTree::new(profile, View::default());
    let mut sums = BTreeMap::new();
    for path in &tree.paths {
        let frame = &tree.members[path.member as usize].frame;
        let suffix = if frame.kind == Kind::Inlined { " (inlined)" } else { "" };
        *sums.entry(format!("{}{suffix}", frame.name)).or_default() += path.insns;
    }
    sums
}

#[test]
fn its_page_shows_exact_instructions_by_frame_and_task_and_the_samples_of_each_task() {
    for (name, args) in
        [("riscv64-freertos", &["--for", "8M"][..]), ("cortex-m3-freertos", &["--for", "8M", "--exact"])]
    {
        let run = run(name, args);
        let profile = run.profile();
        let seen = seen(&run.dir);
        let totals = totals(&seen);
        assert_eq!(totals[&format!("{name}.elf, all tasks: exact instructions")], profile.total_insns());
        let part = |kind: &str| {
            let of_part = totals.iter().filter(|(name, _)| name.ends_with(kind) && !name.contains("all tasks"));
            of_part.map(|(_, total)| total).sum::<u64>()
        };
        assert_eq!(part(": instructions by path"), profile.total_insns(), "{totals:?}");
        assert_eq!(part(": instructions in time order"), profile.samples.last().unwrap().at_insns, "{totals:?}");
        for task in ["crc", "matrix"] {
            for kind in ["instructions by path", "instructions in time order"] {
                assert!(totals.contains_key(&format!("{name}.elf, task {task}: {kind}")), "{totals:?}");
            }
        }
        let expected = own_insns(&profile);
        let frames = seen["frames"].as_array().unwrap();
        assert!(frames.len() > 40, "{}", frames.len());
        for frame in frames {
            let name = frame["name"].as_str().unwrap();
            assert_eq!(frame["self"].as_u64(), expected.get(name).copied(), "{name}");
        }
    }
}

#[test]
fn names_that_hurt_are_shown_as_they_are() {
    let temp = tempfile::tempdir().unwrap();
    let seen = seen(&names::save(temp.path()));
    let frames = seen["frames"].as_array().unwrap();
    for named in names::functions().iter().filter(|named| named.self_insns > 0) {
        let count = frames.iter().filter(|frame| frame["name"].as_str() == Some(&named.name)).count();
        // Namesakes are frames of their own.
        let expected = names::functions().iter().filter(|other| other.name == named.name).count();
        assert_eq!(count, expected, "{named:?}");
    }
}

#[test]
fn profiles_of_nothing_of_one_sample_of_several_vcpus_and_without_stacks_are_valid() {
    let temp = tempfile::tempdir().unwrap();
    let mut one = made::empty(10);
    made::execute(&mut one, 0x40, 30);
    let file = temp.path().join("profile.fwp");
    fs::write(&file, one.to_bytes().unwrap()).unwrap();
    let shown = seen(&file);
    assert_eq!(
        shown["frames"].as_array().unwrap().iter().map(|frame| frame["self"].as_u64().unwrap()).sum::<u64>(),
        30
    );

    let smp = run("riscv64-smp", &["--for", "12M"]);
    let shown = totals(&seen(&smp.dir));
    let by_vcpu = shown.keys().filter(|name| name.contains(", vCPU ")).count();
    assert_eq!((by_vcpu, shown["riscv64-smp.elf, all vCPUs: exact instructions"]), (2, smp.profile().total_insns()));

    // The page shows nothing of nothing; its schema does.
    fs::write(&file, made::empty(10).to_bytes().unwrap()).unwrap();
    let empty: Value = serde_json::from_slice(&export(&file, "speedscope", &[])).unwrap();
    assert_eq!(empty["profiles"][0]["weights"], Value::Array(Vec::new()));

    let plain = run("cortex-m3-freertos", &["--for", "1M", "--no-stacks"]);
    assert_eq!(export_to_nobody(&plain.dir, "speedscope"), (Some(0), String::new()));
}
