// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several CPUs: each has its events at its own instructions. They add up to the tables, and their order is the order
//! of the CPUs' turns.

use std::collections::BTreeMap;

use harness::analysis::event_tracks::{self, Cursor};
use harness::analysis::functions;
use harness::profile::Profile;
use harness::profile::zone::Context;
use wire::timeline::{Event, What};

use crate::common::{measured, run};

/// Two harts that share translations, and two CPUs that do not.
const IMAGES: [&str; 4] =
    ["riscv64-smp-zones", "cortex-m33-an521-amp-zones", "riscv64-smp-heap", "cortex-m33-an521-amp-heap"];

fn events(profile: &Profile) -> Vec<Event> {
    profile.timeline.as_ref().expect("a timeline").events().collect()
}

/// Zone of a task or interrupt, and the time at which it began.
type Open = (u32, u64);

/// Sums of the events.
#[derive(Debug, Default)]
struct Sums {
    /// Instructions of each CPU.
    cpus: Vec<u64>,
    /// Instructions of each interrupt itself, over all CPUs.
    exceptions: BTreeMap<u64, u64>,
    entered: BTreeMap<(u32, u64), u64>,
    /// Calls and instructions of zones that ended, in each context's clock.
    zones: BTreeMap<(u32, Context), (u64, u64)>,
    calls: BTreeMap<u32, u64>,
    /// Number of marks, their sum and the last value.
    marks: BTreeMap<u32, (u64, i64, i64)>,
    printed: u64,
    masked: Vec<u64>,
}

fn sums(profile: &Profile) -> Sums {
    let cpus = profile.vcpus.len();
    let mut sums = Sums { cpus: vec![0; cpus], masked: vec![0; cpus], ..Sums::default() };
    let mut cursor = Cursor::default();
    // Clocks by CPU and number of active exceptions, which stand still while other code executes, and their zones.
    let mut clocks: BTreeMap<(u32, usize), u64> = BTreeMap::new();
    let mut open: BTreeMap<(u32, usize), Vec<Open>> = BTreeMap::new();
    let mut depths = vec![0; cpus];
    let mut advance = |vcpu: u32, to: u64, depth: usize, context: Context, sums: &mut Sums| {
        let insns = to - std::mem::replace(&mut sums.cpus[vcpu as usize], to);
        if let Context::Exception(number) = context {
            *sums.exceptions.entry(number).or_default() += insns;
        }
        let clock = clocks.entry((vcpu, depth)).or_default();
        *clock += insns;
        *clock
    };
    for event in events(profile) {
        let vcpu = event.vcpu;
        let depth = depths[vcpu as usize];
        let context = cursor.context(vcpu);
        let now = advance(vcpu, event.at_insns, depth, context, &mut sums);
        match event.what {
            What::Entered { number } => {
                depths[vcpu as usize] += 1;
                *sums.entered.entry((vcpu, number)).or_default() += 1;
            }
            What::Left => {
                open.remove(&(vcpu, depth));
                depths[vcpu as usize] -= 1;
            }
            What::Begun { name } => open.entry((vcpu, depth)).or_default().push((name, now)),
            What::Ended { name } => {
                let (begun, since) = open.get_mut(&(vcpu, depth)).and_then(Vec::pop).expect("a zone that began");
                assert_eq!(begun, name);
                let (calls, insns) = sums.zones.entry((name, context)).or_default();
                (*calls, *insns) = (*calls + 1, *insns + now - since);
            }
            What::Mark { name, value } => {
                let (count, sum, last) = sums.marks.entry(name).or_default();
                (*count, *sum, *last) = (*count + 1, *sum + value, value);
            }
            What::Called { function } => *sums.calls.entry(function).or_default() += 1,
            What::Printed { bytes } => sums.printed += bytes,
            What::Masked => sums.masked[vcpu as usize] += 1,
            _ => {}
        }
        cursor.pass(&event);
    }
    for vcpu in 0..cpus as u32 {
        let end = profile.vcpus[vcpu as usize].clock_insns;
        advance(vcpu, end, depths[vcpu as usize], cursor.context(vcpu), &mut sums);
    }
    sums
}

#[test]
fn the_events_of_each_add_up_to_the_tables() {
    for image in IMAGES {
        let measured = measured(image, &["--trace", "*"]);
        let profile = measured.profile();
        let sums = sums(profile);
        let cpus: Vec<u64> = profile.vcpus.iter().map(|vcpu| vcpu.clock_insns).collect();
        assert_eq!(sums.cpus, cpus, "{image}");
        let exceptions: BTreeMap<u64, u64> =
            profile.zones.exceptions.iter().map(|exception| (exception.number, exception.insns)).collect();
        assert_eq!(sums.exceptions, exceptions, "{image}");
        assert!(sums.entered.values().sum::<u64>() > 30, "{image}: {:?}", sums.entered);
        for zone in &profile.zones.zones {
            let of_zone = sums.zones.get(&(zone.name, zone.context)).copied().unwrap_or_default();
            let name = profile.zones.name(zone.name);
            assert_eq!(of_zone, (zone.counts.calls, zone.counts.sum_insns), "{image}: {name}");
        }
        for mark in &profile.zones.marks {
            // The table has the last mark in the events' order.
            assert_eq!(sums.marks[&mark.name], (mark.count, mark.sum, mark.last), "{image}");
        }
        assert_eq!(sums.printed, measured.console().len() as u64, "{image}");
        let timeline = profile.timeline.as_ref().unwrap();
        for row in functions::table(profile).rows {
            let number = row.start.and_then(|start| timeline.functions.binary_search(&start).ok());
            if let Some(number) = number.filter(|_| row.calls > 0) {
                assert_eq!(sums.calls.get(&(number as u32)), Some(&row.calls), "{image}: {}", row.name);
            }
        }
        assert!(timeline.functions.len() > 10, "{image}");
        if image.contains("-heap") {
            // The table masks interrupts at every call. The second hart never enables them.
            let masked = if image.starts_with("riscv") { &sums.masked[..1] } else { &sums.masked };
            assert!(masked.iter().all(|&masked| masked > 1000), "{image}: {:?}", sums.masked);
        }
        // All other counts are the same without a timeline.
        let without = crate::common::measured(image, &[]).profile();
        assert_eq!(profile.vcpus, without.vcpus, "{image}");
        assert_eq!((&profile.zones.zones, &profile.spans), (&without.zones.zones, &without.spans), "{image}");
    }
}

#[test]
fn their_order_is_that_of_the_turns() {
    for image in &IMAGES[..2] {
        let profile = measured(image, &["--trace", "*"]).profile();
        let events = events(profile);
        let place = |vcpu: u32, is: &dyn Fn(&What) -> bool| {
            let at = |event: &Event| event.vcpu == vcpu && is(&event.what);
            (events.iter().position(at).unwrap(), events.iter().rposition(at).unwrap())
        };
        let name = |what: &What| match *what {
            What::Begun { name } | What::Ended { name } | What::Phase { name } => profile.zones.name(name),
            _ => "",
        };
        // The first CPU releases the second one after it has begun a zone, and ends its phase when the other is done.
        let handed = place(0, &|what| name(what) == "handed").0;
        assert!(handed < place(1, &|what| name(what) == "whole").0, "{image}");
        assert!(place(1, &|what| name(what) == "exactly").1 < place(0, &|what| name(what) == "one").0, "{image}");
        // Both have worked in between, in turns.
        let turns = events.windows(2).filter(|pair| pair[0].vcpu != pair[1].vcpu).count();
        assert!(turns > 20, "{image}: {turns}");
    }
}

#[test]
fn no_track_goes_back_in_time() {
    for image in IMAGES {
        let mut args = vec!["--trace", "*"];
        if image.contains("-heap") {
            args.push("--heap");
        }
        let profile = measured(image, &args).profile();
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        let mut kinds = BTreeMap::new();
        event_tracks::walk(profile, |tables, moment| {
            let track = &tables.tracks[moment.track as usize];
            let before = last.insert(moment.track, moment.at_insns).unwrap_or(0);
            assert!(before <= moment.at_insns, "{image}: {track:?} at {} after {before}", moment.at_insns);
            assert!(moment.at_insns <= profile.vcpus[moment.vcpu as usize].clock_insns, "{image}: {track:?}");
            kinds.entry(track.kind).or_insert_with(std::collections::BTreeSet::new).insert(track.name.clone());
            Ok::<(), ()>(())
        })
        .unwrap();
        let cpus: Vec<&String> = kinds[&event_tracks::Kind::Cpu].iter().collect();
        assert_eq!(cpus, ["CPU 0", "CPU 1"], "{image}");
        if image.contains("-heap") {
            assert_eq!(kinds[&event_tracks::Kind::Heap].len(), 2, "{image}: {:?}", kinds[&event_tracks::Kind::Heap]);
        } else {
            assert_eq!(kinds[&event_tracks::Kind::Mark].len(), 2, "{image}: {:?}", kinds[&event_tracks::Kind::Mark]);
        }
    }
}

#[test]
fn one_callback_per_instruction_and_another_run_see_the_same_events() {
    for image in IMAGES {
        let late = |what: &What| {
            matches!(what, What::Printed { .. } | What::Masked | What::Unmasked | What::Left | What::Stopped)
        };
        let all = |args: &[&str]| {
            let events = events(measured(image, args).profile()).into_iter();
            events.filter(|event| !late(&event.what)).collect::<Vec<_>>()
        };
        let (plain, oracle) = (all(&["--trace", "*"]), all(&["--trace", "*", "--oracle"]));
        let at = plain.iter().zip(&oracle).position(|(one, other)| one != other);
        assert_eq!(at.map(|at| (&plain[at], &oracle[at])), None, "{image}");
        assert_eq!(plain.len(), oracle.len(), "{image}");
        let bytes = || run(image, &["--trace", "*"]).profile().to_bytes().unwrap();
        assert_eq!(bytes(), bytes(), "{image}");
    }
}
