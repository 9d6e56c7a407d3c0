// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a trace has the stack of each sample at its time, in events that nest and are in order, and another
//! project's program reads the same tracks and times from it.
//!
//! Perfetto's page and its trace processor come from the network only, and the `chrome://tracing` of a headless
//! Chromium does not start. speedscope's page reads the format, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use harness::analysis::calltree::CallTree;
use harness::analysis::stacks::{FrameRole, View};
use harness::profile::{FILE_NAME, Function, Profile};
use serde_json::{Value, json};

use crate::common::{made, names, run, synthetic, tools, viewer};

const IMAGES: [&str; 2] = ["riscv64-freertos", "cortex-m3-freertos"];

/// Ids of process and thread.
type Ids = (u64, u64);

#[derive(Clone, Debug)]
struct Event {
    name: String,
    args: Value,
    start: u64,
    end: u64,
}

#[derive(Debug)]
struct Trace {
    other_data: Value,
    ns_per_insn: f64,
    processes: BTreeMap<u64, String>,
    threads: BTreeMap<Ids, String>,
    /// Events of each thread, in the file's order.
    events: BTreeMap<Ids, Vec<Event>>,
}

/// Reads a trace with this number of nanoseconds per instruction; fails on malformed events.
fn parse(bytes: &[u8], ns_per_insn: f64) -> Trace {
    let insns_at = |micros: f64| {
        let insns = (micros * 1000.0 / ns_per_insn).round();
        let late_ns = micros * 1000.0 - insns * ns_per_insn;
        assert!((-1e-6..0.5).contains(&late_ns), "{micros} us is {late_ns} ns after an instruction");
        insns as u64
    };
    let json: Value = serde_json::from_slice(bytes).unwrap();
    let other_data = json["otherData"].clone();
    let (processes, threads, events) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut trace = Trace { other_data, ns_per_insn, processes, threads, events };
    let mut ends_micros: BTreeMap<u64, f64> = BTreeMap::new();
    for event in json["traceEvents"].as_array().unwrap() {
        let number =
            |key: &str| event[key].as_u64().unwrap_or_else(|| panic!("{key} of {event} is not a whole number"));
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no text in {event}")).to_owned();
        let ids = (number("pid"), number("tid"));
        match (event["ph"].as_str().unwrap(), event["name"].as_str().unwrap()) {
            ("M", "process_name") => {
                assert!(trace.processes.insert(ids.0, text(&event["args"]["name"])).is_none());
            }
            ("M", "thread_name") => {
                assert!(trace.threads.insert(ids, text(&event["args"]["name"])).is_none());
            }
            ("X", name) => {
                let micros = |key: &str| event[key].as_f64().unwrap_or_else(|| panic!("no {key} in {event}"));
                let start = insns_at(micros("ts"));
                let end_micros = micros("ts") + micros("dur");
                let end = insns_at(end_micros);
                assert!(end > start, "{event} takes no time");
                // A reader adds times up: ends and beginnings at one instant must give the same number.
                let same = ends_micros.insert(start, micros("ts"));
                assert!(same.is_none_or(|same| same == micros("ts")), "{event} starts beside {same:?}");
                let same = ends_micros.insert(end, end_micros);
                assert!(same.is_none_or(|same| same == end_micros), "{event} ends beside {same:?}");
                trace.events.entry(ids).or_default().push(Event {
                    name: name.to_owned(),
                    args: event["args"].clone(),
                    start,
                    end,
                });
            }
            _ => panic!("{event} is none that was expected"),
        }
    }
    assert_eq!(trace.threads.keys().collect::<Vec<_>>(), trace.events.keys().collect::<Vec<_>>());
    for (ids, events) in &trace.events {
        assert!(trace.processes.contains_key(&ids.0));
        let mut open: Vec<&Event> = Vec::new();
        let mut before = 0;
        for event in events {
            assert!(event.start >= before, "{ids:?}: {event:?} comes after one that starts later");
            before = event.start;
            while open.pop_if(|outer| outer.end <= event.start).is_some() {}
            assert!(open.last().is_none_or(|outer| event.end <= outer.end), "{event:?} is not inside of {open:?}");
            open.push(event);
        }
    }
    trace
}

impl Trace {
    /// Events open on a vCPU's tracks at a time, outermost first.
    fn at(&self, vcpu: u32, time: u64) -> Vec<&Event> {
        let tracks = self.events.iter().filter(|((pid, _), _)| *pid == u64::from(vcpu) + 1);
        tracks.flat_map(|(_, events)| events).filter(|event| event.start <= time && time < event.end).collect()
    }
}

fn shown(role: FrameRole, name: &str) -> String {
    if role == FrameRole::Inlined { format!("{name} (inlined)") } else { name.to_owned() }
}

/// Checks that every sample's stack is open from the sample before up to itself, and that nothing else is ever open.
#[track_caller]
fn assert_is_all_samples(trace: &Trace, profile: &Profile, args: &[&str]) {
    let tree = CallTree::new(profile, View { fold_irqs: args.contains(&"--fold-irqs") });
    let mut before: BTreeMap<u32, u64> = BTreeMap::new();
    let mut insns: BTreeMap<u64, u64> = BTreeMap::new();
    for (sample, &path) in profile.samples.iter().zip(&tree.samples) {
        let before = before.entry(sample.vcpu).or_default();
        let expected: Vec<String> =
            tree.frames(path).into_iter().map(|member| shown(member.frame.role, &member.frame.name)).collect();
        let names =
            |time| trace.at(sample.vcpu, time).into_iter().map(|event| event.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(*before), expected, "at {before}");
        assert_eq!(names(sample.at_insns - 1), expected, "before {}", sample.at_insns);
        *insns.entry(u64::from(sample.vcpu) + 1).or_default() += expected.len() as u64 * (sample.at_insns - *before);
        *before = sample.at_insns;
    }
    // The sum of durations equals the sum over samples of depth times length.
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    for (ids, events) in &trace.events {
        *sums.entry(ids.0).or_default() += events.iter().map(|event| event.end - event.start).sum::<u64>();
    }
    assert_eq!(sums, insns);
}

/// Whether a text is speedscope's form of a time, with two decimals.
fn shows(text: &str, microseconds: f64) -> bool {
    let digits = text.trim_end_matches(|character: char| character.is_alphabetic() || character == 'µ');
    let unit = match &text[digits.len()..] {
        "s" => 1_000_000.0,
        "ms" => 1_000.0,
        "\u{b5}s" => 1.0,
        _ => return false,
    };
    (digits.parse::<f64>().unwrap() * unit - microseconds).abs() <= 0.0051 * unit
}

/// Opens a trace in speedscope's page, which must show all tracks and their times; returns the number of tracks
/// compared.
///
/// If a frame ends when another of its name begins, speedscope guesses their order. The times of such tracks are not
/// compared.
#[track_caller]
fn assert_shown(trace: &Trace, path: &Path) -> usize {
    let seen = viewer("speedscope.mjs", &[path.to_str().unwrap(), "--import"]);
    let seen: BTreeMap<&str, &Value> =
        seen.as_array().unwrap().iter().map(|profile| (profile["name"].as_str().unwrap(), profile)).collect();
    assert_eq!(seen.len(), trace.threads.len());
    let mut held = 0;
    for (&(pid, tid), thread) in &trace.threads {
        let title = format!("{} (pid {pid}), {thread} (tid {tid})", trace.processes[&pid]);
        let profile = seen.get(title.as_str()).unwrap_or_else(|| panic!("no {title:?} in {:?}", seen.keys()));
        let events = &trace.events[&(pid, tid)];
        let ends: BTreeSet<(u64, &str)> = events.iter().map(|event| (event.end, event.name.as_str())).collect();
        if events.iter().any(|event| ends.contains(&(event.start, event.name.as_str()))) {
            continue;
        }
        held += 1;
        let (mut insns, mut end) = (0, 0);
        for event in events.iter().filter(|event| {
            let is_root = event.start >= end;
            end = end.max(event.end);
            is_root
        }) {
            insns += event.end - event.start;
        }
        let weight = profile["weight"].as_str().unwrap();
        assert!(shows(weight, insns as f64 * trace.ns_per_insn / 1000.0), "{title}: {weight}, not {insns}");
        // Names include the arguments of those that have some.
        let frames: BTreeSet<&str> =
            profile["frames"].as_array().unwrap().iter().map(|frame| frame["name"].as_str().unwrap()).collect();
        let named = |event: &Event| match (event.name.as_str(), &event.args) {
            ("", Value::Null) => "(unnamed)".to_owned(),
            (name, Value::Null) => name.to_owned(),
            (name, args) => format!("{name} {args}"),
        };
        let expected: BTreeSet<String> = events.iter().map(named).collect();
        assert_eq!(frames, expected.iter().map(String::as_str).collect::<BTreeSet<_>>(), "{title}");
    }
    held
}

fn export(profile: &Path, args: &[&str]) -> (Trace, tempfile::NamedTempFile) {
    let bytes = tools::export(profile, "chrome", args);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &bytes).unwrap();
    let virtual_ns = f64::from(1 << Profile::load(profile).unwrap().facts.icount_shift);
    let ns_per_insn = if args.contains(&"--clock-hz") { 1000.0 } else { virtual_ns };
    (parse(&bytes, ns_per_insn), file)
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn each_task_has_a_track_with_the_stack_of_every_sample() {
    for image in IMAGES {
        for (run_args, args) in [(&["--for", "5M"][..], &[][..]), (&["--for", "5M", "--exact"], &["--fold-irqs"])] {
            let run = run(image, run_args).expect_code(0);
            let profile = run.profile();
            let (trace, file) = export(&run.dir, args);
            assert_is_all_samples(&trace, &profile, args);
            assert_eq!(trace.processes, BTreeMap::from([(1, format!("{image}.elf"))]));
            let names: BTreeSet<&str> = trace.threads.values().map(String::as_str).collect();
            assert!(names.contains("[no task]") && names.contains("task crc"), "{names:?}");
            assert_eq!(names.contains("interrupts"), !args.is_empty(), "{names:?}");
            let is_irq = |event: &Event| event.name.starts_with("[irq ");
            assert!(trace.events.values().flatten().any(is_irq), "no interrupt was sampled");
            assert_eq!(trace.other_data["total_insns"], 5_000_000);
            assert_eq!(trace.other_data["image_name"], format!("{image}.elf"));
            let held = assert_shown(&trace, file.path());
            // On riscv64 the timer's task runs too briefly for a sample of its own.
            assert!(held >= 3, "speedscope was held to the times of {held} tracks only");
        }
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn vcpus_are_processes_and_an_image_without_tasks_has_one_track() {
    let smp = run("riscv64-smp", &[]).expect_code(0);
    let (trace, file) = export(&smp.dir, &[]);
    assert_is_all_samples(&trace, &smp.profile(), &[]);
    let processes = [(1, "riscv64-smp.elf, vCPU 0".to_owned()), (2, "riscv64-smp.elf, vCPU 1".to_owned())];
    assert_eq!(trace.processes, BTreeMap::from(processes));
    assert_eq!(trace.threads.values().collect::<Vec<_>>(), ["all code", "all code"]);
    assert_eq!(assert_shown(&trace, file.path()), 2);

    let run = run("cortex-m3-freertos", &["--for", "2M", "--no-stacks"]).expect_code(0);
    let (trace, _) = export(&run.dir, &[]);
    assert_is_all_samples(&trace, &run.profile(), &[]);
    assert_eq!(trace.threads.len(), 1);
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn names_that_hurt_stay_as_they_are_and_namesakes_say_which_they_are() {
    let temp = tempfile::tempdir().unwrap();
    let saved = names::save(temp.path());
    let (trace, file) = export(&saved, &[]);
    assert_is_all_samples(&trace, &Profile::load(&saved).unwrap(), &[]);
    let events: Vec<&Event> = trace.events.values().flatten().collect();
    let functions = names::functions();
    for function in &functions {
        let is_it = |event: &&&Event| event.name == function.name;
        assert!(events.iter().any(|event| is_it(&event)), "{function:?}");
        let has_namesakes = functions.iter().filter(|other| other.name == function.name).count() > 1;
        let mut defined = events.iter().filter(is_it).map(|event| &event.args["defined"]);
        if has_namesakes {
            let prefix = format!("{}:", function.file.as_ref().unwrap());
            assert!(defined.any(|place| place.as_str().unwrap().starts_with(&prefix)), "{function:?}");
        } else {
            assert!(defined.all(Value::is_null), "{function:?}");
        }
    }
    let names: Vec<&str> = trace.threads.values().map(String::as_str).collect();
    for task in ["task net;rx 1", "task net;rx 1 (2)", "task größe \"x\" <y>", "task a\tb\n\u{1b}[1mc"] {
        assert!(names.contains(&task), "{task:?} is not among {names:?}");
    }
    // On one track, `main` calls the other `main`.
    assert_eq!(assert_shown(&trace, file.path()), trace.threads.len() - 1);
}

#[test]
fn events_last_as_long_as_frames_stay_where_they_are() {
    let temp = tempfile::tempdir().unwrap();
    let saved = temp.path().join(FILE_NAME);
    let mut profile = made::empty(100);
    fs::write(&saved, profile.to_bytes().unwrap()).unwrap();
    let (trace, _) = export(&saved, &[]);
    assert_eq!((trace.processes.len(), trace.threads.len()), (1, 0));

    for (name, start) in [("main", 0x40), ("crc", 0x50)] {
        let (name, file) = (name.to_owned(), None);
        let function = Function { linkage_name: name.clone(), name, start, size_bytes: 16, file, line: None };
        profile.names.functions.push(function);
        made::execute(&mut profile, start, 250);
    }
    profile.facts.max_depth = Some(64);
    made::task(&mut profile, "a", 300);
    made::task(&mut profile, "b", 100);
    let caller = wire::definition::FrameKind::Caller { return_addr: 0x44 };
    profile.stacks.push(harness::profile::StackFrame { parent: 0, kind: caller });
    made::sample(&mut profile, 0x50, 1, 1);
    made::sample(&mut profile, 0x40, 0, 1);
    made::sample(&mut profile, 0x40, 0, 2);
    made::sample(&mut profile, 0x40, 0, 1);
    fs::write(&saved, profile.to_bytes().unwrap()).unwrap();
    let read = |args: &[&str]| -> Value {
        let (_, file) = export(&saved, args);
        serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap()
    };
    // The firmware's own clock, 32 ns per instruction, unless another is asked for.
    let json = read(&[]);
    let first = json["traceEvents"].as_array().unwrap().iter().find(|event| event["name"] == "crc").unwrap();
    let late_ns = (first["dur"].as_f64().unwrap() - 3.2) * 1000.0;
    assert!(first["ts"] == 0 && (0.0..0.5).contains(&late_ns), "{first}");
    assert!(json["otherData"]["clock"].as_str().unwrap().contains("32 ns for each instruction"));
    let json = read(&["--clock-hz", "1M"]);
    let event = |tid: u64, name: &str, ts: u64, dur: u64| json!({ "ph": "X", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur });
    let expected = [
        event(1, "task a", 0, 200),
        event(1, "main", 0, 200),
        event(1, "crc", 0, 100),
        event(1, "task a", 300, 100),
        event(1, "main", 300, 100),
        event(2, "task b", 200, 100),
        event(2, "main", 200, 100),
    ];
    let events = json["traceEvents"].as_array().unwrap();
    assert_eq!(
        events.iter().filter(|event| event["ph"] == "X").collect::<Vec<_>>(),
        expected.iter().collect::<Vec<_>>()
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(FILE_NAME);
    fs::write(&path, synthetic::profile(20_000).to_bytes().unwrap()).unwrap();
    assert_eq!(tools::export_to_nobody(&path, "chrome"), (Some(0), String::new()));
}
