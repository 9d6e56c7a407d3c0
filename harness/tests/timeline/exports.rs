// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timeline exports in other programs: Perfetto's format by protoc, Chrome's and CSV by independent parsers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::analysis::event_tracks::{self, Happens};
use harness::profile::Profile;
use serde_json::Value;
use wire::timeline::{Encoder, Event, What};

use crate::common::{harness, run, tools, viewer};

const IMAGES: [(&str, &[&str]); 2] =
    [("riscv64-zones-tasks", &["--trace", "shuffle"]), ("cortex-m3-heap4", &["--timeline", "--heap"])];

/// Instructions of each task as the running one, by name.
fn running(profile: &Profile) -> BTreeMap<String, u64> {
    let names = harness::analysis::stacks::task_names(profile);
    names.into_iter().zip(&profile.tasks).map(|(name, task)| (name, task.insns)).collect()
}

/// Message in protoc's output: fields by name, in order.
#[derive(Debug, Default)]
struct Message(Vec<(String, Field)>);

#[derive(Debug)]
enum Field {
    Text(String),
    Message(Message),
}

impl Message {
    fn read<'t>(lines: &mut impl Iterator<Item = &'t str>) -> Message {
        let mut message = Message::default();
        while let Some(line) = lines.next().map(str::trim).filter(|line| *line != "}") {
            let (name, field) = if let Some(name) = line.strip_suffix(" {") {
                (name, Field::Message(Message::read(lines)))
            } else {
                let (name, text) = line.split_once(": ").unwrap_or_else(|| panic!("{line}"));
                (name, Field::Text(text.trim_matches('"').to_owned()))
            };
            // protoc would print an unknown field by its number.
            assert!(name.starts_with(|first: char| first.is_ascii_alphabetic()), "{line}");
            message.0.push((name.to_owned(), field));
        }
        message
    }

    fn message(&self, wanted: &str) -> Option<&Message> {
        self.0.iter().find_map(|(name, field)| match field {
            Field::Message(message) if name == wanted => Some(message),
            _ => None,
        })
    }

    fn text(&self, wanted: &str) -> Option<&str> {
        self.0.iter().find_map(|(name, field)| match field {
            Field::Text(text) if name == wanted => Some(text.as_str()),
            _ => None,
        })
    }

    fn number(&self, wanted: &str) -> Option<u64> {
        self.text(wanted).map(|text| text.parse().unwrap())
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn protoc_decodes_perfettos_trace_and_its_slices_are_the_tables_instructions() {
    for (image, args) in IMAGES {
        let run = run(image, args).expect_code(0);
        let profile = run.profile();
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), tools::export(&run.dir, "perfetto", &[])).unwrap();
        let mut protoc = tools::system("protoc");
        let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timeline");
        protoc.arg("--decode=Trace").arg("-I").arg(&schema).arg(schema.join("perfetto.proto"));
        protoc.stdin(Stdio::from(fs::File::open(file.path()).unwrap()));
        let text = tools::stdout(&mut protoc);
        let trace = Message::read(&mut text.lines());
        let (mut names, mut tracks) = (BTreeMap::new(), BTreeMap::new());
        let mut open: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
        let (mut slices, mut last) = (0, 0);
        let mut counters: BTreeMap<String, u64> = BTreeMap::new();
        for (_, packet) in &trace.0 {
            let Field::Message(packet) = packet else { panic!("{packet:?}") };
            for (kind, name) in packet.message("interned").into_iter().flat_map(|interned| &interned.0) {
                let Field::Message(name) = name else { panic!("{name:?}") };
                if kind == "names" {
                    names.insert(name.number("id").unwrap(), name.text("text").unwrap().to_owned());
                }
            }
            if let Some(track) = packet.message("track") {
                tracks.insert(track.number("uuid").unwrap(), track.text("name").unwrap_or_default().to_owned());
            }
            let Some(event) = packet.message("event") else { continue };
            let at = packet.number("timestamp").unwrap();
            assert!(at >= last, "{image}: time goes back");
            last = at;
            let track = event.number("track").unwrap();
            match event.number("kind").unwrap() {
                1 => open.entry(track).or_default().push((at, event.number("name").unwrap())),
                2 => {
                    let (since, name) = open.get_mut(&track).and_then(Vec::pop).expect("a slice that began");
                    slices += 1;
                    if names[&name] == "runs" {
                        *lengths.entry(tracks[&track].clone()).or_default() += at - since;
                    }
                }
                4 => *counters.entry(tracks[&track].clone()).or_default() += 1,
                kind => assert_eq!(kind, 3),
            }
        }
        assert!(open.values().all(Vec::is_empty), "{image}");
        let ns = |insns: u64| insns << profile.facts.icount_shift;
        let expected: BTreeMap<String, u64> =
            running(&profile).into_iter().map(|(name, insns)| (name, ns(insns))).filter(|(_, ns)| *ns > 0).collect();
        assert_eq!(lengths, expected, "{image}");
        let events = profile.timeline.as_ref().unwrap().events();
        let begun = |what: &What| matches!(what, What::Begun { .. } | What::Called { .. } | What::Entered { .. });
        assert!(slices >= events.filter(|event| begun(&event.what)).count(), "{image}");
        for mark in &profile.zones.marks {
            assert_eq!(counters.remove(profile.zones.name(mark.name)), Some(mark.count), "{image}");
        }
        let heap = profile.heap.as_ref().map_or(0, |heap| heap.events().count() as u64 - 1);
        assert_eq!(counters.remove("bytes of heap").unwrap_or(0), heap, "{image}");
        for name in ["blocks of heap", "largest free block"] {
            // Counters have values only where they change.
            let changes = counters.remove(name).unwrap_or(0);
            assert!(changes <= heap && (changes > 0) == (heap > 0), "{image}: {changes} of {name}");
        }
        let saved = profile.timeline.as_ref().unwrap().events();
        let saved = saved.filter(|event| matches!(event.what, What::Stack { .. })).count() as u64;
        assert_eq!(counters.remove("free stack").unwrap_or(0), saved, "{image}");
        // The idle counter exists if an idle task ever runs.
        let has_idle = profile.tasks.iter().any(|task| task.is_idle);
        let switches: u64 = profile.tasks.iter().map(|task| task.switches).sum();
        assert_eq!(counters.remove("idle").unwrap_or(0), if has_idle { switches } else { 0 }, "{image}");
        assert!(counters.is_empty(), "{image}: {counters:?}");
    }
}

#[test]
fn chromes_trace_has_the_same_slices() {
    for (image, args) in IMAGES {
        let run = run(image, args).expect_code(0);
        let profile = run.profile();
        let trace: Value = serde_json::from_slice(&tools::export(&run.dir, "chrome", &["--clock-hz", "1M"])).unwrap();
        // An instruction lasts a microsecond.
        let micros = |event: &Value| event["ts"].as_f64().unwrap();
        let (mut names, mut since, mut lengths) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for event in trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["pid"] == 0) {
            let track = event["tid"].as_u64().unwrap();
            match event["ph"].as_str().unwrap() {
                "M" => {
                    names.insert(track, event["args"]["name"].as_str().unwrap().to_owned());
                }
                "B" if event["name"] == "runs" => {
                    since.insert(track, micros(event));
                }
                "E" => {
                    if let Some(since) = since.remove(&track) {
                        *lengths.entry(names[&track].clone()).or_default() += micros(event) - since;
                    }
                }
                _ => {}
            }
        }
        let expected = running(&profile).into_iter().filter(|(_, insns)| *insns > 0);
        let expected: BTreeMap<String, f64> = expected.map(|(name, insns)| (name, insns as f64)).collect();
        assert_eq!(lengths, expected, "{image}");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn babeltrace_reads_every_event_of_every_cpu() {
    let an521: (&str, &[&str]) = ("cortex-m33-an521-amp", &["--timeline"]);
    for (image, args) in IMAGES.into_iter().chain([an521]) {
        let run = run(image, args);
        let profile = run.profile();
        let directory = run.dir.join("ctf");
        let export = || {
            let mut command = harness();
            command.args(["export", "-f", "ctf", "-o"]).arg(&directory).arg(&run.dir).output().unwrap()
        };
        let output = export();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut command = Command::new("babeltrace2");
        command.args(["--clock-seconds", "--no-delta", "--color=never"]).arg(&directory);
        let output = command.output().expect("babeltrace2 runs; ci/setup --viewers installs it");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{said}");
        let mut expected = Vec::new();
        let walked: Result<bool, ()> = event_tracks::walk(&profile, |tables, moment| {
            let ns = moment.at_insns << profile.facts.icount_shift;
            let at = format!("[{}.{:09}]", ns / 1_000_000_000, ns % 1_000_000_000);
            let track = tables.title(&tables.tracks[moment.track as usize]);
            let name = |name: u32| &tables.names[name as usize];
            let (event, fields) = match moment.what {
                Happens::Begins(of) => ("begins", format!(", name = \"{}\"", name(of))),
                Happens::Ends(None) => ("ends", String::new()),
                Happens::Ends(Some(why)) => ("ends_since", format!(", why = \"{}\"", name(why))),
                Happens::Is(of, None) => ("is", format!(", name = \"{}\"", name(of))),
                Happens::Is(of, Some(value)) => {
                    ("is_with_value", format!(", name = \"{}\", value = {value}", name(of)))
                }
                Happens::Counts(value) => ("counts", format!(", value = {value}")),
            };
            expected.push(format!("{at} {event}: {{ cpu_id = {} }}, {{ track = \"{track}\"{fields} }}", moment.vcpu));
            Ok(())
        });
        assert_eq!(walked, Ok(true));
        let read = String::from_utf8(output.stdout).unwrap();
        // The tool writes cpu ids in hexadecimal and ' as in C, and chooses the order of simultaneous events on
        // several CPUs.
        let plain = |line: &str| line.replace("cpu_id = 0x", "cpu_id = ").replace("\\'", "'");
        let read: Vec<String> = read.lines().map(plain).collect();
        let sorted = |mut lines: Vec<String>| {
            lines.sort();
            lines
        };
        assert!(expected.len() > 100, "{image}: {}", expected.len());
        assert_eq!(read.len(), expected.len(), "{image}");
        for (read, expected) in sorted(read).iter().zip(&sorted(expected)) {
            assert_eq!(read, expected, "{image}");
        }
        // A directory with files is refused.
        let output = export();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains("is not empty"), "{said}");
    }
    let output = harness().args(["export", "-f", "ctf"]).arg(&run("riscv64-bare", &[]).dir).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("--output DIRECTORY"), "{said}");
}

#[test]
fn csv_has_a_line_for_each_event() {
    for (image, args) in IMAGES {
        let run = run(image, args).expect_code(0);
        let profile = run.profile();
        // 1 ns per instruction, if asked for.
        let by_insns = tools::export(&run.dir, "timeline", &["--clock-hz", "1G"]);
        for record in csv::Reader::from_reader(&by_insns[..]).records() {
            let record = record.unwrap();
            assert_eq!(record[0], record[1], "{image}: {record:?}");
        }
        let bytes = tools::export(&run.dir, "timeline", &[]);
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        let mut last = 0;
        for record in csv::Reader::from_reader(&bytes[..]).records() {
            let record = record.unwrap();
            let [insns, ns] = [0, 1].map(|column: usize| record[column].parse::<u64>().unwrap());
            assert!(insns >= last && ns == insns << profile.facts.icount_shift, "{image}: {record:?}");
            last = insns;
            *lines.entry(record[4].to_owned()).or_default() += 1;
        }
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for event in profile.timeline.as_ref().unwrap().events() {
            let word = match event.what {
                What::Switched { .. } => "switched",
                What::Entered { .. } => "entered",
                What::Called { .. } => "called",
                What::Begun { .. } => "zone begins",
                What::Mark { .. } => "mark",
                _ => continue,
            };
            *expected.entry(word.to_owned()).or_default() += 1;
        }
        for (word, count) in expected {
            assert_eq!(lines.get(&word), Some(&count), "{image}: {word}");
        }
        let blocks = profile
            .heap
            .as_ref()
            .map_or(0, |_| harness::analysis::heap::replay(&profile).unwrap().total.allocated.blocks);
        assert_eq!(lines.get("allocated").copied().unwrap_or(0), blocks, "{image}");
    }
}

#[test]
fn a_run_without_a_timeline_says_so() {
    let run = run("cortex-m3-exit0", &[]).expect_code(0);
    for format in ["perfetto", "timeline"] {
        let output = harness().args(["export", "-f", format]).arg(&run.dir).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains("ask for it with --timeline"), "{error}");
    }
}

#[test]
fn several_cpus_have_a_track_each() {
    let run = run("cortex-m33-an521-amp", &["--timeline"]).expect_code(0);
    let profile = run.profile();
    let mut handlers = [0, 0];
    for event in profile.timeline.as_ref().unwrap().events() {
        handlers[event.vcpu as usize] += u64::from(matches!(event.what, What::Left));
    }
    assert!(handlers.iter().all(|&count| count > 100), "{handlers:?}");
    let rows = tools::export(&run.dir, "timeline", &[]);
    let text = String::from_utf8(rows).unwrap();
    assert!(["0", "1"].iter().all(|cpu| text.lines().any(|line| line.split(',').nth(2) == Some(cpu))), "{text}");
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn the_page_draws_it_zooms_and_stays_small() {
    let run = run("riscv64-zones-tasks", &["--trace", "crunch"]).expect_code(0);
    let profile = run.profile();
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let report = |profile: &Path| {
        let output = harness().arg("report").arg(profile).arg("-o").arg(&page).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        viewer("report.mjs", &["timeline", page.to_str().unwrap()])
    };
    let seen = report(&run.dir);
    assert_eq!(seen["note"], "every event");
    let end = harness::text::number::group(profile.vcpus[0].clock_insns);
    assert!(seen["range"].as_str().unwrap().starts_with(&format!("instructions 0 to {end}, ")), "{seen}");
    // A million stretches, from a run that is repeated.
    let mut encoder = Encoder::default();
    let mut long = profile.clone();
    let timeline = long.timeline.as_mut().unwrap();
    timeline.events.clear();
    for n in 0..1_000_000 {
        for (at_insns, what) in [(n * 100, What::Begun { name: 1 }), (n * 100 + 60, What::Ended { name: 1 })] {
            encoder.put(&Event { vcpu: 0, at_insns, what }, &mut timeline.events).unwrap();
        }
    }
    long.vcpus[0].clock_insns = 100_000_000;
    let saved = dir.path().join("long.fwp");
    fs::write(&saved, long.to_bytes().unwrap()).unwrap();
    let seen = report(&saved);
    assert!(seen["note"].as_str().unwrap().starts_with("every event; short stretches within "), "{seen}");
    assert!(fs::metadata(&page).unwrap().len() < 10_000_000);
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn without_a_timeline_the_page_draws_tasks_from_samples() {
    let run = run("cortex-m3-zones-tasks", &[]).expect_code(0);
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let output = harness().arg("report").arg(&run.dir).arg("-o").arg(&page).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen = viewer("report.mjs", &["timeline", page.to_str().unwrap()]);
    assert_eq!(seen["note"], "from samples; --timeline records every event");
}
