// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: no event is lost, and each is at its instruction. The events add up to the tables' counts.

use std::collections::BTreeMap;

use harness::analysis::event_tracks::Cursor;
use harness::analysis::functions;
use harness::profile::zone::Context;
use harness::profile::{Profile, SpanKind};
use wire::timeline::{Event, Life, What};

use crate::common::{measured, run, run_again};

/// Images with tasks that preempt each other, nested interrupts, zones left in every way, and C++ exceptions, on both
/// architectures.
const IMAGES: [(&str, &[&str]); 14] = [
    ("riscv64-crew", &[]),
    ("cortex-m3-crew", &[]),
    ("cortex-m4-crew", &[]),
    ("riscv64-freertos", &["--for", "20M"]),
    ("cortex-m3-freertos", &["--for", "20M"]),
    ("riscv64-zones-tasks", &[]),
    ("cortex-m3-zones-tasks", &[]),
    ("riscv64-nested", &[]),
    ("cortex-m3-nested", &[]),
    ("riscv64-zones", &[]),
    ("cortex-m3-zones", &[]),
    ("cortex-m3-masked", &[]),
    ("riscv64-masked", &[]),
    ("cortex-m3-zones-throw", &[]),
];

fn events(profile: &Profile) -> Vec<Event> {
    profile.timeline.as_ref().expect("a timeline").events().collect()
}

/// Sums of the events.
#[derive(Debug, Default)]
struct Sums {
    /// Instructions and switches of each task while it was the running one.
    tasks: BTreeMap<u32, (u64, u64)>,
    /// Instructions of each task and interrupt itself.
    contexts: BTreeMap<Context, u64>,
    /// Handlers that began and ended, their own instructions, the shortest and the longest.
    exceptions: BTreeMap<u64, [u64; 4]>,
    /// Masked stretches with the same four numbers, by the CPU's clock.
    masked: [u64; 4],
    /// Calls and, in each context's clock, instructions of zones that ended.
    zones: BTreeMap<(u32, Context), (u64, u64)>,
    /// Zones that were left without their end event.
    left: BTreeMap<(u32, Context), u64>,
    calls: BTreeMap<u32, u64>,
    /// Calls outside of exceptions, those that returned, and those that were left otherwise.
    outside: [u64; 3],
    marks: BTreeMap<u32, Vec<i64>>,
    printed: u64,
}

fn count([count, sum, min, max]: [u64; 4], insns: u64) -> [u64; 4] {
    [count + 1, sum + insns, if count == 0 { insns } else { min.min(insns) }, max.max(insns)]
}

fn sums(profile: &Profile) -> Sums {
    let mut sums = Sums::default();
    let mut cursor = Cursor::default();
    let (mut last, mut switched) = (0, 0);
    // Clocks of tasks and of active exceptions, which stand still while other code executes.
    let mut clocks: BTreeMap<u32, u64> = BTreeMap::new();
    let mut active: Vec<u64> = Vec::new();
    let mut masked = None;
    let mut zones: BTreeMap<(Context, usize), Vec<(u32, u64)>> = BTreeMap::new();
    let end = profile.vcpus[0].clock_insns;
    let mut advance = |to: u64, cursor: &mut Cursor, sums: &mut Sums, active: &mut Vec<u64>| {
        let context = cursor.context(0);
        let insns = to - std::mem::replace(&mut last, to);
        if insns > 0 {
            *sums.contexts.entry(context).or_default() += insns;
        }
        match active.last_mut() {
            Some(clock) => *clock += insns,
            None => *clocks.entry(cursor.task(0)).or_default() += insns,
        }
        active.last().copied().unwrap_or_else(|| clocks[&cursor.task(0)])
    };
    for event in events(profile) {
        let now = advance(event.at_insns, &mut cursor, &mut sums, &mut active);
        let context = cursor.context(0);
        let place = (context, active.len());
        match event.what {
            What::Switched { task, .. } => {
                let old = cursor.task(0);
                sums.tasks.entry(old).or_default().0 +=
                    event.at_insns - std::mem::replace(&mut switched, event.at_insns);
                sums.tasks.entry(task).or_default().1 += 1;
            }
            What::Entered { .. } => active.push(0),
            What::Left => {
                let Context::Exception(number) = context else { panic!("nothing to leave") };
                zones.remove(&place);
                let alone = active.pop().unwrap();
                let sum = sums.exceptions.entry(number).or_default();
                *sum = count(*sum, alone);
            }
            What::Begun { name } => zones.entry(place).or_default().push((name, now)),
            What::Ended { name } => {
                let Some((begun, since)) = zones.entry(place).or_default().pop() else {
                    assert!(profile.facts.window.from.is_some(), "a zone that began");
                    continue;
                };
                assert_eq!(begun, name);
                let (calls, insns) = sums.zones.entry((name, context)).or_default();
                (*calls, *insns) = (*calls + 1, *insns + now - since);
            }
            What::Abandoned { name } => {
                let Some((begun, _)) = zones.entry(place).or_default().pop() else {
                    assert!(profile.facts.window.from.is_some(), "a zone that began");
                    continue;
                };
                assert_eq!(begun, name);
                *sums.left.entry((name, context)).or_default() += 1;
            }
            What::Mark { name, value } => sums.marks.entry(name).or_default().push(value),
            What::Called { function } => {
                *sums.calls.entry(function).or_default() += 1;
                sums.outside[0] += u64::from(active.is_empty());
            }
            What::Returned { .. } => sums.outside[1] += u64::from(active.is_empty()),
            What::Unwound { .. } => sums.outside[2] += u64::from(active.is_empty()),
            What::Printed { bytes } => sums.printed += bytes,
            What::Masked => assert_eq!(masked.replace(event.at_insns), None),
            What::Unmasked => sums.masked = count(sums.masked, event.at_insns - masked.take().expect("masked")),
            _ => {}
        }
        cursor.pass(&event);
    }
    advance(end, &mut cursor, &mut sums, &mut active);
    sums.tasks.entry(cursor.task(0)).or_default().0 += end - switched;
    sums
}

fn with(args: &[&'static str], more: &[&'static str]) -> Vec<&'static str> {
    args.iter().chain(more).copied().collect()
}

#[test]
fn tasks_and_interrupts_have_the_instructions_and_switches_of_the_tables() {
    for (image, args) in IMAGES {
        let profile = measured(image, &with(args, &["--timeline", "--exact"])).profile();
        let sums = sums(profile);
        for (number, task) in (1..).zip(&profile.tasks) {
            let of_task = sums.tasks.get(&number).copied().unwrap_or_default();
            assert_eq!(of_task, (task.insns, task.switches), "{image}: {}", task.name);
        }
        assert_eq!(sums.contexts.values().sum::<u64>(), profile.total_insns(), "{image}");
        for exception in &profile.zones.exceptions {
            let insns = sums.contexts.get(&Context::Exception(exception.number)).copied().unwrap_or(0);
            assert_eq!(insns, exception.insns, "{image}: exception {:#x}", exception.number);
        }
    }
}

#[test]
fn handlers_and_masked_stretches_are_those_that_exact_counts() {
    let mut masked = 0;
    for (image, args) in IMAGES {
        for more in [&["--timeline", "--exact"][..], &["--timeline"]] {
            let sums = sums(measured(image, &with(args, more)).profile());
            let exact = measured(image, &with(args, &["--timeline", "--exact"])).profile();
            let span = |kind: SpanKind| {
                let span = exact.spans.iter().find(|span| span.kind == kind);
                span.map_or([0; 4], |span| [span.count, span.sum_insns, span.min_insns, span.max_insns])
            };
            for (&number, &of_exception) in &sums.exceptions {
                assert_eq!(of_exception, span(SpanKind::Exception { number }), "{image} {more:?}: {number:#x}");
            }
            assert_eq!(sums.masked, span(SpanKind::Masked), "{image} {more:?}");
            masked += sums.masked[0];
        }
    }
    assert!(masked > 10_000, "{masked}");
}

#[test]
fn zones_and_marks_are_those_of_the_tables() {
    let mut zones = 0;
    for (image, args) in IMAGES {
        let profile = measured(image, &with(args, &["--timeline"])).profile();
        let sums = sums(profile);
        for zone in &profile.zones.zones {
            let of_zone = sums.zones.get(&(zone.name, zone.context)).copied().unwrap_or_default();
            let name = profile.zones.name(zone.name);
            assert_eq!(of_zone, (zone.counts.calls, zone.counts.sum_insns), "{image}: {name}");
            let left = sums.left.get(&(zone.name, zone.context)).copied().unwrap_or(0);
            assert_eq!(left, zone.counts.left, "{image}: {name}");
            zones += of_zone.0;
        }
        for mark in &profile.zones.marks {
            let values = &sums.marks[&mark.name];
            assert_eq!(values.len() as u64, mark.count, "{image}");
            assert_eq!(values.iter().sum::<i64>(), mark.sum, "{image}");
            assert_eq!(values.last(), Some(&mark.last), "{image}");
        }
    }
    assert!(zones > 10_000, "{zones}");
}

#[test]
fn every_call_of_every_function_is_traced() {
    for (image, args) in IMAGES.into_iter().chain([
        ("riscv64-bare", &[][..]),
        ("cortex-m3-bare", &[]),
        ("cortex-m0-bare", &[]),
        ("cortex-m3-exceptions", &[]),
        ("riscv64-irqcall", &[]),
        ("cortex-m3-irqcall", &[]),
        ("riscv64-jumps", &[]),
        ("cortex-m3-jumps", &[]),
    ]) {
        let profile = measured(image, &with(args, &["--trace", "*"])).profile();
        let timeline = profile.timeline.as_ref().unwrap();
        let Sums { calls, outside: [called, returned, left], .. } = sums(profile);
        let mut traced: BTreeMap<u64, u64> = BTreeMap::new();
        for (function, calls) in calls {
            *traced.entry(timeline.functions[function as usize]).or_default() += calls;
        }
        let counted: BTreeMap<u64, u64> = functions::table(profile)
            .rows
            .iter()
            .filter_map(|row| Some((row.start?, row.calls)))
            .filter(|&(start, calls)| calls > 0 && timeline.functions.contains(&start))
            .collect();
        // Some calls never end, in tasks that do not come back. In exceptions tail calls end with the handler. The
        // end of calls that coroutines leave is not known.
        let has_coroutines = image.ends_with("-jumps");
        assert!(
            returned + left <= called && returned + left >= called / 10 * if has_coroutines { 7 } else { 9 },
            "{image}: {returned} returned, {left} left of {called}"
        );
        // A handler is entered, not called.
        let is_handler = |start: &u64| !counted.contains_key(start);
        let differences: Vec<String> = counted
            .iter()
            .filter(|(start, calls)| traced.get(start) != Some(calls))
            .map(|(start, calls)| {
                let name = profile.names.function_at(*start).map_or("", |function| &function.name);
                format!("{name}: {calls} calls, {:?} traced", traced.get(start))
            })
            .collect();
        assert!(differences.is_empty(), "{image}:\n{}", differences.join("\n"));
        let handlers = traced.keys().filter(|start| is_handler(start)).count();
        assert!(handlers < 12, "{image}: {handlers}");
    }
}

#[test]
fn what_is_allocated_and_printed_is_on_it() {
    for image in ["riscv64-heap4", "cortex-m3-heap4"] {
        let measured = measured(image, &["--timeline", "--heap"]);
        let profile = measured.profile();
        let recorded: Vec<_> = harness::analysis::event_tracks::recorded(profile).unwrap().collect();
        let heap = profile.heap.as_ref().unwrap().events().count() - 1;
        assert_eq!(recorded.len(), events(profile).len() + heap, "{image}");
        assert!(recorded.is_sorted_by_key(|recorded| recorded.at().1), "{image}");
        assert_eq!(sums(profile).printed, measured.console().len() as u64, "{image}");
    }
}

#[test]
fn what_is_printed_is_on_it_although_the_firmware_has_all_descriptors() {
    for image in ["riscv64-descriptors", "cortex-m3-descriptors"] {
        let measured = measured(image, &["--timeline"]);
        assert_eq!(sums(measured.profile()).printed, measured.console().len() as u64, "{image}");
    }
}

#[test]
fn the_same_bytes_every_time_and_the_same_counts_as_without() {
    for image in ["riscv64-crew", "cortex-m3-crew", "cortex-m3-zones-tasks", "riscv64-idle", "cortex-m3-idle"] {
        let options = ["--timeline", "--trace", "*"];
        let once = || run_again(image, &options).profile();
        let (one, other) = (once(), once());
        assert_eq!(one.to_bytes().unwrap(), other.to_bytes().unwrap(), "{image}");
        let without = run(image, &[]).profile();
        assert_eq!((one.total_insns(), &one.vcpus), (without.total_insns(), &without.vcpus), "{image}");
        assert_eq!((&one.tasks, &one.spans), (&without.tasks, &without.spans), "{image}");
        assert_eq!((&one.zones.zones, &one.zones.marks), (&without.zones.zones, &without.zones.marks), "{image}");
        let samples = |profile: &Profile| {
            profile.samples.iter().map(|sample| (sample.at_insns, sample.pc, sample.task)).collect::<Vec<_>>()
        };
        assert_eq!(samples(&one), samples(&without), "{image}");
    }
}

#[test]
fn one_callback_per_instruction_sees_the_same_events() {
    let images = ["riscv64-zones-tasks", "cortex-m3-zones-tasks", "cortex-m3-nested", "riscv64-nested"];
    for image in images.into_iter().chain(["riscv64-idle", "cortex-m3-idle"]) {
        // Some events may come at other places: output of a semihosting call, masked interrupts and a handler's
        // return are noticed later, since blocks do not check for them there; so are tasks that the handler made ready.
        let all = |args: &[&str]| {
            let events = events(measured(image, args).profile()).into_iter();
            let is_late = |what: &What| {
                matches!(what, What::Printed { .. } | What::Masked | What::Unmasked | What::Left | What::Lives { .. })
            };
            events.filter(|event| !is_late(&event.what)).collect::<Vec<_>>()
        };
        let (plain, oracle) = (all(&["--trace", "*"]), all(&["--trace", "*", "--oracle"]));
        let at = plain.iter().zip(&oracle).position(|(one, other)| one != other);
        assert_eq!(at.map(|at| (&plain[at], &oracle[at])), None, "{image}");
        assert_eq!(plain.len(), oracle.len(), "{image}");
        let lives = |args: &[&str]| {
            let mut lives: BTreeMap<u32, Vec<Life>> = BTreeMap::new();
            for event in events(measured(image, args).profile()) {
                if let What::Lives { task, change } = event.what {
                    lives.entry(task).or_default().push(change);
                }
            }
            lives
        };
        assert_eq!(lives(&["--trace", "*"]), lives(&["--trace", "*", "--oracle"]), "{image}");
    }
}

#[test]
fn a_window_begins_with_what_is_under_way() {
    for image in ["riscv64-zones-tasks", "cortex-m3-zones-tasks"] {
        let profile = measured(image, &["--timeline", "--from", "shuffle", "--for", "500k"]).profile();
        let first = &events(profile)[0];
        assert!(matches!(first.what, What::Switched { task, .. } if task > 0), "{image}: {first:?}");
        assert_eq!(first.at_insns, 0);
        let sums = sums(profile);
        for (number, task) in (1..).zip(&profile.tasks) {
            assert_eq!(sums.tasks.get(&number).map_or(0, |task| task.0), task.insns, "{image}: {}", task.name);
        }
        // A window that opens in the timer's handler.
        let profile = measured(image, &["--timeline", "--from", "tick", "--for", "500k"]).profile();
        let first = &events(profile)[..2];
        assert!(matches!(first[0].what, What::Switched { task, .. } if task > 0), "{image}: {first:?}");
        let What::Entered { number } = first[1].what else { panic!("{image}: {first:?}") };
        assert_eq!(first[1].at_insns, 0);
        let insns = |number| {
            let mut exceptions = profile.zones.exceptions.iter();
            exceptions.find(|exception| exception.number == number).map(|exception| exception.insns)
        };
        let sums = self::sums(profile);
        let contexts = sums.contexts.iter().filter_map(|(context, &sum)| match *context {
            Context::Exception(number) => Some((number, sum)),
            Context::Task(_) => None,
        });
        let contexts: BTreeMap<u64, u64> = contexts.collect();
        assert!(contexts.contains_key(&number), "{image}: {contexts:?}");
        for (number, sum) in contexts {
            assert_eq!(Some(sum), insns(number), "{image}: exception {number:#x}");
        }
    }
}
