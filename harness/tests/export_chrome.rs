//! The format chrome: events nest, follow each other, and are as long as the samples; and a viewer that is not ours
//! reads them. speedscope's page imports this format: Perfetto's needs the network.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::tools::{export, export_to_nobody};
use common::{made, names, run, viewer};
use serde_json::Value;

struct Event {
    track: (u64, u64),
    name: String,
    start: u64,
    end: u64,
}

/// The complete events, and the names of the tracks.
fn events(profile: &Path, args: &[&str]) -> (Vec<Event>, BTreeMap<(u64, u64), String>) {
    let trace: Value = serde_json::from_slice(&export(profile, "chrome", args)).unwrap();
    let (mut events, mut tracks) = (Vec::new(), BTreeMap::new());
    for event in trace["traceEvents"].as_array().unwrap() {
        let number = |key: &str| event[key].as_u64().unwrap_or_else(|| panic!("{key} of {event}"));
        let track = (number("pid"), number("tid"));
        match event["ph"].as_str().unwrap() {
            "X" => {
                let (start, insns) = (number("ts"), number("dur"));
                assert!(insns > 0, "{event}");
                let name = event["name"].as_str().unwrap().to_owned();
                events.push(Event { track, name, start, end: start + insns });
            }
            "M" if event["name"] == "thread_name" => {
                tracks.insert(track, event["args"]["name"].as_str().unwrap().to_owned());
            }
            "M" => assert_eq!(event["name"], "process_name"),
            other => panic!("a phase that viewers need not know: {other}"),
        }
    }
    (events, tracks)
}

/// Events of a track are in the order of their starts, each inside the one around it. Instructions of the
/// outermost ones.
fn nested(events: &[Event]) -> BTreeMap<(u64, u64), u64> {
    let mut open: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
    let mut last: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut sums = BTreeMap::new();
    for event in events {
        let started = last.insert(event.track, event.start).unwrap_or(0);
        assert!(started <= event.start, "{} starts before the event before it", event.name);
        let ends = open.entry(event.track).or_default();
        while ends.last().is_some_and(|&end| end <= event.start) {
            ends.pop();
        }
        assert!(ends.last().is_none_or(|&end| event.end <= end), "{} outlasts the frame around it", event.name);
        if ends.is_empty() {
            *sums.entry(event.track).or_default() += event.end - event.start;
        }
        ends.push(event.end);
    }
    sums
}

#[test]
fn frames_nest_and_tasks_take_turns_until_the_last_sample() {
    for (name, args) in [
        ("riscv64-freertos", &["--for", "8M"][..]),
        ("cortex-m3-freertos", &["--for", "8M", "--exact"]),
        ("cortex-m3-freertos", &["--for", "2M", "--no-stacks"]),
        ("riscv64-smp", &["--for", "12M"]),
    ] {
        let run = run(name, args);
        let profile = run.profile();
        for options in [&[][..], &["--fold-irqs"]] {
            let (events, tracks) = events(&run.dir, options);
            let sums = nested(&events);
            let mut last: BTreeMap<u64, u64> = BTreeMap::new();
            for sample in &profile.samples {
                last.insert(u64::from(sample.vcpu) + 1, sample.at_insns);
            }
            for (vcpu, end) in last {
                let on_vcpu = sums.iter().filter(|((pid, _), _)| *pid == vcpu).map(|(_, insns)| insns);
                assert_eq!(on_vcpu.sum::<u64>(), end, "{name} {options:?}");
            }
            assert!(sums.keys().all(|track| tracks.contains_key(track)), "{name}: a track without a name");
        }
    }
}

#[test]
fn a_function_that_is_sampled_is_on_the_track_of_its_task() {
    let run = run("cortex-m3-freertos", &["--for", "8M"]);
    let profile = run.profile();
    let (events, tracks) = events(&run.dir, &[]);
    let matrix = profile.tasks.iter().position(|task| task.name == "matrix").unwrap() as u32 + 1;
    let insns: u64 = profile.samples.iter().filter(|sample| sample.task == matrix).count() as u64 * 10_007;
    let outermost: u64 = events
        .iter()
        .filter(|event| tracks[&event.track] == "task matrix" && event.name == "task matrix")
        .map(|event| event.end - event.start)
        .sum();
    assert_eq!(outermost, insns);
    assert!(events.iter().any(|event| tracks[&event.track] == "task matrix" && event.name == "matrix_unit"));
}

#[test]
fn a_viewer_that_is_not_ours_shows_every_track_and_names_that_hurt() {
    let temp = tempfile::tempdir().unwrap();
    let seen = |profile: &Path| {
        let file = temp.path().join("trace.json");
        fs::write(&file, export(profile, "chrome", &[])).unwrap();
        viewer("speedscope.mjs", &[file.to_str().unwrap(), "--no-schema"])
    };
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|shown| shown["name"].as_str().unwrap().to_owned()).collect()
    };
    let run = run("riscv64-freertos", &["--for", "8M"]);
    let (_, tracks) = events(&run.dir, &[]);
    let shown = texts(&seen(&run.dir)["profiles"]);
    assert_eq!(shown.len(), tracks.len(), "{shown:?}");
    for track in tracks.values() {
        assert!(shown.iter().any(|name| name.contains(&format!(", {track} "))), "{track}: {shown:?}");
    }
    let hurt = names::save(temp.path());
    let (events, _) = events(&hurt, &[]);
    nested(&events);
    for named in names::functions().iter().filter(|named| named.self_insns > 0 && named.name != "main") {
        assert!(events.iter().any(|event| event.name == named.name), "{named:?}");
    }
    assert!(!texts(&seen(&hurt)["frames"]).is_empty());
}

#[test]
fn a_trace_of_nothing_is_a_trace_and_a_reader_that_has_gone_no_error() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("profile.fwp");
    fs::write(&file, made::empty(10).to_bytes().unwrap()).unwrap();
    assert!(events(&file, &[]).0.is_empty());
    assert_eq!(export_to_nobody(&file, "chrome"), (Some(0), String::new()));
}
