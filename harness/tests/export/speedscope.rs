// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: speedscope's own page shows the exact instructions of each frame and the samples in order of time,
//! for each task, whatever the functions' names.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use harness::analysis::calltree::CallTree;
use harness::analysis::functions;
use harness::analysis::part::{by_phase, phase_frame};
use harness::analysis::stacks::{FrameRole, View};
use harness::profile::{FILE_NAME, Function, Profile};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{made, names, run, synthetic, tools, viewer};

const IMAGES: [&str; 2] = ["riscv64-freertos", "cortex-m3-freertos"];

/// Names of the groups that are not tasks.
const NO_GROUP: [&str; 3] = [", [no task]", ", [not sampled]", ", interrupts"];

/// Contents of a speedscope file.
#[derive(Debug)]
struct File {
    /// Name, file and line.
    frames: Vec<(String, Option<String>, Option<u64>)>,
    profiles: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    name: String,
    /// Frames, outermost first, and their weight.
    samples: Vec<(Vec<usize>, u64)>,
}

impl Part {
    /// Instructions without the gaps.
    fn insns(&self) -> u64 {
        self.samples.iter().filter(|(stack, _)| !stack.is_empty()).map(|(_, insns)| insns).sum()
    }

    /// Whether it has all samples of one vCPU in order of time.
    fn is_whole(&self) -> bool {
        self.is_in_time_order()
            && !self.name.contains(", task ")
            && !self.name.contains(NO_GROUP[0])
            && !self.name.contains(NO_GROUP[1])
            && !self.name.contains(NO_GROUP[2])
    }

    fn is_in_time_order(&self) -> bool {
        self.name.ends_with(": instructions in time order")
    }

    fn is_exact(&self) -> bool {
        self.name.ends_with(": exact instructions") || self.name.ends_with(": instructions by path")
    }
}

fn export(profile: &Path, args: &[&str]) -> (TempDir, String) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("speedscope.json");
    fs::write(&path, tools::export(profile, "speedscope", args)).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (temp, path)
}

fn read(path: &str) -> File {
    let json: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let frame = |frame: &Value| {
        (
            frame["name"].as_str().unwrap().to_owned(),
            frame["file"].as_str().map(str::to_owned),
            frame["line"].as_u64(),
        )
    };
    let part = |part: &Value| {
        let weights: Vec<u64> = list(&part["weights"]).iter().map(|weight| weight.as_u64().unwrap()).collect();
        let stacks = list(&part["samples"]);
        assert_eq!((stacks.len(), weights.iter().sum::<u64>()), (weights.len(), part["endValue"].as_u64().unwrap()));
        let stack = |stack: &Value| list(stack).iter().map(|frame| frame.as_u64().unwrap() as usize).collect();
        Part {
            name: part["name"].as_str().unwrap().to_owned(),
            samples: stacks.iter().map(stack).zip(weights).collect(),
        }
    };
    let frames = list(&json["shared"]["frames"]).iter().map(frame).collect();
    File { frames, profiles: list(&json["profiles"]).iter().map(part).collect() }
}

/// Self and total of each frame, computed from the file in the page's format, sorted.
fn rows(file: &File, part: &Part) -> Vec<(String, u64, u64)> {
    let mut sums: HashMap<usize, (u64, u64)> = HashMap::new();
    for (stack, insns) in &part.samples {
        for (depth, frame) in stack.iter().enumerate() {
            let (self_insns, total_insns) = sums.entry(*frame).or_default();
            *self_insns += if depth + 1 == stack.len() { *insns } else { 0 };
            *total_insns += if stack[..depth].contains(frame) { 0 } else { *insns };
        }
    }
    let mut rows: Vec<_> =
        sums.into_iter().map(|(frame, (own, total))| (file.frames[frame].0.clone(), own, total)).collect();
    rows.sort();
    rows
}

fn number(text: &Value) -> u64 {
    text.as_str().unwrap().replace(',', "").parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}

/// Opens a file in speedscope's page, which must show the file's contents.
#[track_caller]
fn assert_shown(path: &str) -> File {
    let file = read(path);
    let shown = viewer("speedscope.mjs", &[path]);
    let shown = shown.as_array().unwrap();
    assert_eq!(shown.len(), file.profiles.len());
    for (shown, part) in shown.iter().zip(&file.profiles) {
        assert_eq!(shown["name"], part.name.as_str());
        if !shown["weight"].is_null() {
            assert_eq!(number(&shown["weight"]), part.insns(), "{}", part.name);
        }
        let mut frames: Vec<_> = shown["frames"].as_array().unwrap().iter().collect();
        frames.sort_by_key(|frame| frame["name"].as_str());
        let mut seen: Vec<_> = frames
            .iter()
            .map(|frame| {
                (frame["name"].as_str().unwrap().to_owned(), number(&frame["self"]), number(&frame["total"]))
            })
            .collect();
        seen.sort();
        assert_eq!(seen, rows(&file, part), "{}", part.name);
    }
    file
}

/// Exact instructions of each function with its inlined functions, by name, file and line.
fn of_functions(file: &File) -> BTreeMap<(String, Option<String>, Option<u64>), u64> {
    of_part(file, file.profiles.iter().find(|part| part.name.ends_with(": exact instructions")).unwrap())
}

/// Instructions by function of one part.
fn of_part(file: &File, part: &Part) -> BTreeMap<(String, Option<String>, Option<u64>), u64> {
    let mut sums = BTreeMap::new();
    for (stack, insns) in &part.samples {
        let function = stack.iter().rfind(|&&frame| !file.frames[frame].0.ends_with(" (inlined)")).unwrap();
        *sums.entry(file.frames[*function].clone()).or_default() += insns;
    }
    sums
}

fn of_table(profile: &Profile) -> BTreeMap<(String, Option<String>, Option<u64>), u64> {
    let rows = functions::table(profile).rows.into_iter().filter(|row| row.self_insns > 0);
    rows.map(|row| ((row.name, row.file, row.line.map(u64::from)), row.self_insns)).collect()
}

/// Checks the parts in order of time. They have the stack of each sample at its time, as wide as the instructions
/// since the sample before. This holds for the whole, which comes first, and for the tasks together.
#[track_caller]
fn assert_in_time_order(file: &File, profile: &Profile, args: &[&str]) {
    let vcpus = profile.vcpus.len() as u32;
    for vcpu in 0..vcpus {
        let of_vcpu = |part: &&Part| vcpus == 1 || part.name.contains(&format!(", vCPU {vcpu}:"));
        let (whole, tasks): (Vec<&Part>, Vec<&Part>) = file
            .profiles
            .iter()
            .filter(of_vcpu)
            .filter(|part| part.is_in_time_order())
            .partition(|part| part.is_whole());
        assert_eq!(whole.len(), 1, "{:?}", whole.iter().map(|part| &part.name).collect::<Vec<_>>());
        assert!(std::ptr::eq(whole[0], &file.profiles[vcpu as usize]), "the whole of vCPU {vcpu} is not in front");
        assert_has_all_samples(file, &whole, profile, vcpu, args);
        if !tasks.is_empty() {
            assert_has_all_samples(file, &tasks, profile, vcpu, args);
        }
    }
}

#[track_caller]
fn assert_has_all_samples(file: &File, parts: &[&Part], profile: &Profile, vcpu: u32, args: &[&str]) {
    let tree = CallTree::new(profile, View { fold_irqs: args.contains(&"--fold-irqs") });
    let mut starts: BTreeMap<u64, (&[usize], u64)> = BTreeMap::new();
    for part in parts {
        let mut at = 0;
        for (stack, insns) in &part.samples {
            if !stack.is_empty() {
                assert!(starts.insert(at, (stack, *insns)).is_none(), "two parts at {at}");
            }
            at += insns;
        }
        assert_eq!(Some(at), profile.samples.iter().rfind(|sample| sample.vcpu == vcpu).map(|last| last.at_insns));
    }
    let mut before = 0;
    let samples = profile.samples.iter().zip(&tree.samples).filter(|(sample, _)| sample.vcpu == vcpu);
    for (sample, &path) in samples {
        let (start, (stack, insns)) = starts.range(..=before).next_back().unwrap();
        let names: Vec<&str> = stack.iter().map(|&frame| file.frames[frame].0.as_str()).collect();
        let expected: Vec<String> =
            tree.frames(path).into_iter().map(|member| shown(member.frame.role, &member.frame.name)).collect();
        assert_eq!(names, expected, "after {before} instructions");
        assert!(sample.at_insns <= start + insns, "ends at {}, not {}", start + insns, sample.at_insns);
        before = sample.at_insns;
    }
    assert_eq!(parts.iter().map(|part| part.insns()).sum::<u64>(), before);
}

fn shown(role: FrameRole, name: &str) -> String {
    if role == FrameRole::Inlined { format!("{name} (inlined)") } else { name.to_owned() }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn the_page_shows_every_task_with_exact_instructions_and_in_the_order_of_time() {
    for image in IMAGES {
        for (run_args, args) in [(&["--for", "5M"][..], &[][..]), (&["--for", "5M", "--exact"], &["--fold-irqs"])] {
            let run = run(image, run_args).expect_code(0);
            let profile = run.profile();
            let (_temp, path) = export(&run.dir, args);
            let file = assert_shown(&path);
            // The page opens with the first profile, in its tab "Time Order".
            assert_eq!(file.profiles[0].name, format!("{image}.elf, all tasks: instructions in time order"));
            assert_eq!(file.profiles[1].name, format!("{image}.elf, all tasks: exact instructions"));
            assert_eq!(file.profiles[1].insns(), profile.total_insns());
            assert_eq!(of_functions(&file), of_table(&profile), "{image}");
            assert_in_time_order(&file, &profile, args);
            // The tasks' parts add up to the whole.
            let parts = || file.profiles[2..].iter().filter(|part| part.is_exact());
            assert_eq!(parts().map(Part::insns).sum::<u64>(), profile.total_insns());
            let has = |part: &str| file.profiles.iter().any(|profile| profile.name == format!("{image}.elf, {part}"));
            for what in ["instructions by path", "instructions in time order"] {
                assert!(has(&format!("task crc: {what}")) && has(&format!("[no task]: {what}")), "{file:#?}");
                assert_eq!(has(&format!("interrupts: {what}")), !args.is_empty());
            }
        }
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn vcpus_are_apart_in_time_and_an_image_without_tasks_is_not_divided() {
    let smp = run("riscv64-smp", &[]).expect_code(0);
    let (_temp, path) = export(&smp.dir, &[]);
    let file = assert_shown(&path);
    let names: Vec<&str> = file.profiles.iter().map(|part| part.name.as_str()).collect();
    let expected = [
        "riscv64-smp.elf, vCPU 0: instructions in time order",
        "riscv64-smp.elf, vCPU 1: instructions in time order",
        "riscv64-smp.elf, all vCPUs: exact instructions",
    ];
    assert_eq!(names, expected);
    assert_in_time_order(&file, &smp.profile(), &[]);
    assert_eq!(of_functions(&file), of_table(&smp.profile()));

    let bare = run("cortex-m3-freertos", &["--for", "2M", "--no-stacks"]).expect_code(0);
    let (_temp, path) = export(&bare.dir, &[]);
    let file = assert_shown(&path);
    assert_eq!(file.profiles.len(), 2);
    assert_in_time_order(&file, &bare.profile(), &[]);
    assert_eq!(of_functions(&file), of_table(&bare.profile()));
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn names_that_hurt_are_shown_as_they_are() {
    let temp = tempfile::tempdir().unwrap();
    let saved = names::save(temp.path());
    let (_temp, path) = export(&saved, &[]);
    let file = assert_shown(&path);
    let profile = Profile::load(&saved).unwrap();
    assert_eq!(of_functions(&file), of_table(&profile));
    assert_in_time_order(&file, &profile, &[]);
    for function in names::functions() {
        let is_it =
            |frame: &&(String, Option<String>, Option<u64>)| frame.0 == function.name && frame.1 == function.file;
        assert_eq!(file.frames.iter().filter(is_it).count(), 1, "{function:?}");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn a_profile_of_nothing_and_one_of_a_single_sample_are_shown() {
    let temp = tempfile::tempdir().unwrap();
    let saved = temp.path().join(FILE_NAME);
    let mut profile = made::empty(100);
    fs::write(&saved, profile.to_bytes().unwrap()).unwrap();
    let (_temp, path) = export(&saved, &[]);
    let file = assert_shown(&path);
    assert_eq!((file.profiles.len(), file.profiles[0].samples.len()), (1, 0));

    let (name, file) = ("main".to_owned(), Some("main.c".to_owned()));
    let main = Function { linkage_name: name.clone(), name, start: 0x40, size_bytes: 8, file, line: None };
    profile.names.functions.push(main);
    made::execute(&mut profile, 0x40, 120);
    made::sample(&mut profile, 0x40, 0, 0);
    fs::write(&saved, profile.to_bytes().unwrap()).unwrap();
    let (_temp, path) = export(&saved, &[]);
    let file = assert_shown(&path);
    assert_eq!(file.frames, [("main".to_owned(), Some("main.c".to_owned()), None)]);
    let samples: Vec<_> = file.profiles.into_iter().map(|part| part.samples).collect();
    assert_eq!(samples, [[(vec![0], 100)], [(vec![0], 120)]]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(FILE_NAME);
    fs::write(&path, synthetic::profile(20_000).to_bytes().unwrap()).unwrap();
    assert_eq!(tools::export_to_nobody(&path, "speedscope"), (Some(0), String::new()));
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn phases_are_profiles_of_their_own_with_exact_instructions_and_in_the_order_of_time() {
    for (image, args) in [("riscv64-zones", &[][..]), ("cortex-m3-zones", &[]), ("cortex-m3-zones", &["--exact"])] {
        let run = run(image, &[&["--period", "1009"], args].concat()).expect_code(0);
        let profile = run.profile();
        let phases = by_phase(&profile).unwrap();
        assert!(phases.len() > 3, "{image} has {} phases", phases.len());
        let (_temp, path) = export(&run.dir, &["--by", "phase"]);
        let file = assert_shown(&path);
        assert_eq!(file.profiles[0].name, format!("{image}.elf, all phases: instructions in time order"));
        assert_eq!(file.profiles[1].name, format!("{image}.elf, all phases: exact instructions"));
        assert_eq!(of_functions(&file), of_table(&profile), "{image}");
        assert_has_all_samples(&file, &[&file.profiles[0]], &profile, 0, &[]);
        let (by_path, in_time_order) = file.profiles[2..].split_at(phases.len());
        for (part, (name, phase)) in by_path.iter().zip(&phases) {
            assert_eq!(part.name, format!("{image}.elf, {}: instructions by path", phase_frame(name)));
            assert_eq!(part.insns(), phase.total_insns(), "{image} {name}");
            assert_eq!(of_part(&file, part), of_table(phase), "{image} {name}");
        }
        // Each sample is in its phase, as long as the instructions since the sample before.
        let parts: Vec<&Part> = in_time_order.iter().collect();
        assert_has_all_samples(&file, &parts, &profile, 0, &[]);
        let sampled = phases.iter().filter(|(_, phase)| !phase.samples.is_empty());
        let mut before = 0;
        let mut lengths: BTreeMap<u64, u64> = BTreeMap::new();
        for sample in &profile.samples {
            lengths.insert(sample.at_insns, sample.at_insns - before);
            before = sample.at_insns;
        }
        for (part, (name, phase)) in in_time_order.iter().zip(sampled) {
            assert_eq!(part.name, format!("{image}.elf, {}: instructions in time order", phase_frame(name)));
            let expected: u64 = phase.samples.iter().map(|sample| lengths[&sample.at_insns]).sum();
            assert_eq!(part.insns(), expected, "{image} {name}");
        }
    }
}
