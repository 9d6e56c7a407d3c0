// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chrome's trace events (the Chromium project's "Trace Event Format", as JSON): the samples on a time axis, for
//! Perfetto (<https://ui.perfetto.dev>) and `chrome://tracing`.
//!
//! Complete events ("X"): one for each frame and each time that it stays on the stack. All viewers show these, and nest
//! them by their times. Sampled stacks ("stackFrames" and "samples") would be shorter, but Perfetto does not show them
//! as a flame chart. Each task has a track, in a process for each vCPU, with interrupts on top of the code that they
//! interrupt.
//!
//! If the run has a timeline, its exact events follow in a process of their own, as begin and end events.
//!
//! Times are the firmware's own, as its timers show them: each instruction takes 2^shift ns. Sleep is known only with a
//! timeline; without one it takes no time. `--clock-hz` sets another speed: with 1M each instruction takes one
//! microsecond. The format's unit is the microsecond. Readers add and subtract times as binary fractions, and nest
//! events wrongly if their times differ by a rounding. So times are whole 2048ths of a microsecond, which are exact as
//! binary fractions and less than half a nanosecond late.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write;

use anyhow::Result;
use serde::Serialize;
use wire::timeline::What;

use crate::analysis::calltree::{CallTree, Member};
use crate::analysis::event_tracks::{self, Happens};
use crate::analysis::sample_tracks::{Groups, Run, SampleTracks, outwards};
use crate::analysis::stacks::FrameRole;
use crate::analysis::time;
use crate::export::labels::full;
use crate::export::settings::Settings;
use crate::profile::Timeline as Events;
use crate::profile::{Facts, Profile};

/// Name of the track of an image without tasks.
const ALL_CODE: &str = "all code";

/// Description of the trace: its source and the unit of its times.
#[derive(Serialize)]
struct OtherData<'a> {
    clock: String,
    total_insns: u64,
    samples: u64,
    #[serde(flatten)]
    facts: &'a Facts,
}

#[derive(Serialize)]
struct Metadata<'a> {
    ph: &'static str,
    pid: u32,
    tid: u32,
    name: &'static str,
    args: Named<'a>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}

/// Writes the samples on the clock of the window. Code after the last sample is left out.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let tree = CallTree::new(profile, settings.view);
    let groups = Groups::new(profile, &tree);
    let timeline = SampleTracks::new(profile, &tree, &groups);

    let clock = Clock::new(profile, settings);
    let other_data = OtherData {
        clock: clock.describe(),
        total_insns: profile.total_insns(),
        samples: profile.samples.len() as u64,
        facts: &profile.facts,
    };
    out.write_all(b"{\n\"displayTimeUnit\": \"ns\",\n\"otherData\": ")?;
    out.write_all(serde_json::to_string(&other_data)?.as_bytes())?;
    out.write_all(b",\n\"traceEvents\": [")?;

    let image = &profile.facts.image_name;
    let vcpus: BTreeSet<u32> = std::iter::once(0).chain(timeline.end_insns.keys().copied()).collect();
    for (index, &vcpu) in vcpus.iter().enumerate() {
        let numbered = format!("{image}, vCPU {vcpu}");
        let name = if profile.vcpus.len() > 1 { &numbered } else { image };
        out.write_all(if index > 0 { b",\n" } else { b"\n" })?;
        let process = Metadata { ph: "M", pid: vcpu + 1, tid: 0, name: "process_name", args: Named { name } };
        out.write_all(serde_json::to_string(&process)?.as_bytes())?;
    }
    for track in &timeline.tracks {
        let name = groups.names[track.group as usize].as_deref().unwrap_or(ALL_CODE);
        let (pid, tid) = (track.vcpu + 1, track.group + 1);
        out.write_all(b",\n")?;
        let thread = Metadata { ph: "M", pid, tid, name: "thread_name", args: Named { name } };
        out.write_all(serde_json::to_string(&thread)?.as_bytes())?;
    }
    let frames = frames(profile, &tree)?;
    for track in &timeline.tracks {
        let ids = format!("\"pid\":{},\"tid\":{}", track.vcpu + 1, track.group + 1);
        write_events(&tree, &frames, &track.runs, &clock, &ids, out)?;
    }
    write_timeline(profile, &clock, out)?;
    out.write_all(b"\n]\n}\n")?;
    Ok(())
}

/// Resolution of times; a power of two, so that they are exact binary fractions.
const TICKS_PER_US: f64 = 2048.0;

/// Duration of an instruction, and sleeps of the machine.
#[derive(Debug)]
struct Clock {
    ns_per_insn: f64,
    /// Whether sleep is unknown, so that it takes no time.
    is_awake: bool,
    /// Times of the machine's clock beyond that of the instructions, asleep or moved on for their cycles, in order: at which
    /// instruction, and the sum up to its end.
    slept_ns: Vec<(u64, u64)>,
}

impl Clock {
    fn new(profile: &Profile, settings: &Settings) -> Clock {
        // Without a timeline, only the mean is known of a clock that goes by cycles.
        let virtual_ns = match time::clock_hz(profile).filter(|_| profile.timeline.is_none()) {
            Some(_) => time::awake_ns(profile) as f64 / profile.total_insns().max(1) as f64,
            None => (1_u64 << profile.facts.icount_shift.min(63)) as f64,
        };
        let ns_per_insn = settings.clock_hz.map_or(virtual_ns, |hz| 1e9 / f64::from(hz.get()));
        let mut slept_ns: Vec<(u64, u64)> = Vec::new();
        // A clock set by `--clock-hz` counts instructions only, so it contains no sleep.
        let timeline = profile.timeline.as_ref().filter(|_| settings.clock_hz.is_none());
        for event in timeline.into_iter().flat_map(Events::events) {
            if let What::Slept { ns } | What::Ahead { ns } = event.what {
                let before = slept_ns.last().map_or(0, |&(_, ns)| ns);
                slept_ns.push((event.at_insns, before.saturating_add(ns)));
            }
        }
        Clock { ns_per_insn, is_awake: slept_ns.is_empty(), slept_ns }
    }

    fn describe(&self) -> String {
        let slept =
            if self.is_awake { "what the processor slept is left out" } else { "with what the processor slept" };
        let of = format!("since the measuring window opened; {slept}");
        format!("microseconds of the vCPU, {} ns for each instruction {of}", self.ns_per_insn)
    }

    /// Microseconds since the window opened, at an event that begins after `insns` instructions.
    fn micros(&self, insns: u64) -> f64 {
        let slept = self.slept_ns.partition_point(|&(at_insns, _)| at_insns <= insns);
        self.micros_after(insns, slept.checked_sub(1).map_or(0, |last| self.slept_ns[last].1))
    }

    /// Microseconds at an event that ends after `insns` instructions.
    fn end_micros(&self, insns: u64) -> f64 {
        let slept = self.slept_ns.partition_point(|&(at_insns, _)| at_insns < insns);
        self.micros_after(insns, slept.checked_sub(1).map_or(0, |last| self.slept_ns[last].1))
    }

    /// Microseconds after a number of instructions and an amount of sleep.
    fn micros_after(&self, insns: u64, slept_ns: u64) -> f64 {
        let slept_ns = if self.is_awake { 0 } else { slept_ns };
        let ns = insns as f64 * self.ns_per_insn + slept_ns as f64;
        (ns / 1000.0 * TICKS_PER_US).ceil() / TICKS_PER_US
    }
}

/// Process of the timeline's events.
const TIMELINE_PID: u32 = 0;

/// Event of the timeline: a begin, an end, an instant or a counter.
#[derive(Serialize)]
struct Exact<'a> {
    ph: &'static str,
    pid: u32,
    tid: u32,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// Scope of an instant, by which viewers draw it: its thread, its process or all.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<ExactArgs<'a>>,
}

#[derive(Serialize)]
struct ExactArgs<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<i64>,
}

/// Writes the events of the timeline, if there is one: a process, and a thread for each track.
fn write_timeline(profile: &Profile, clock: &Clock, out: &mut dyn Write) -> Result<()> {
    if profile.timeline.is_none() {
        return Ok(());
    }
    let name = Named { name: "timeline" };
    let process = Metadata { ph: "M", pid: TIMELINE_PID, tid: 0, name: "process_name", args: name };
    out.write_all(b",\n")?;
    out.write_all(serde_json::to_string(&process)?.as_bytes())?;
    let mut described = 0;
    event_tracks::walk(profile, |tables, moment| {
        for (number, track) in tables.tracks.iter().enumerate().skip(described) {
            let name = &tables.title(track);
            let tid = number as u32 + 1;
            let thread = Metadata { ph: "M", pid: TIMELINE_PID, tid, name: "thread_name", args: Named { name } };
            out.write_all(b",\n")?;
            out.write_all(serde_json::to_string(&thread)?.as_bytes())?;
        }
        described = tables.tracks.len();
        let named = |name: u32| Some(tables.names[name as usize].as_str());
        let track = &tables.tracks[moment.track as usize];
        // Counters are told apart by name.
        let title = track.kind.is_counter().then(|| tables.title(track));
        let (ph, name, why, value) = match moment.what {
            Happens::Begins(name) => ("B", named(name), None, None),
            Happens::Ends(why) => ("E", None, why.and_then(named), None),
            Happens::Is(name, value) => ("i", named(name), None, value),
            Happens::Counts(value) => ("C", title.as_deref(), None, Some(value)),
        };
        let event = Exact {
            ph,
            pid: TIMELINE_PID,
            tid: moment.track + 1,
            ts: clock.micros_after(moment.at_insns, moment.beyond_ns),
            name,
            s: (ph == "i").then_some("t"),
            args: (why.is_some() || value.is_some()).then_some(ExactArgs { why, value }),
        };
        out.write_all(b",\n")?;
        out.write_all(serde_json::to_string(&event)?.as_bytes())?;
        Ok::<(), anyhow::Error>(())
    })?;
    Ok(())
}

/// Beginning of the events of each member. A function with namesakes has its place there. Other functions have not, to
/// keep the file short; for the same reason there are no categories, which names and tracks imply.
fn frames(profile: &Profile, tree: &CallTree) -> Result<Vec<String>> {
    let mut members: BTreeMap<&str, u64> = BTreeMap::new();
    for member in tree.members.iter().filter(|member| member.frame.role == FrameRole::Function) {
        *members.entry(&member.frame.name).or_default() += 1;
    }
    let frame = |member: &Member| {
        let Member { frame, start } = member;
        let name = serde_json::to_string(&full(frame))?;
        let mut text = format!("{{\"ph\":\"X\",\"name\":{name}");
        let has_namesakes = frame.role == FrameRole::Function && members[frame.name.as_str()] > 1;
        if let Some(start) = start.filter(|_| has_namesakes) {
            let function = profile.names.function_at(start);
            let place = match function.map(|function| (&function.file, function.line)) {
                Some((Some(file), Some(line))) => format!("{file}:{line}, {start:#x}"),
                Some((Some(file), None)) => format!("{file}, {start:#x}"),
                _ => format!("{start:#x}"),
            };
            text += &format!(",\"args\":{{\"defined\":{}}}", serde_json::to_string(&place)?);
        }
        Ok(text)
    };
    tree.members.iter().map(frame).collect()
}

/// Writes one event for each frame and the adjacent runs that have it, outer frames first.
fn write_events(
    tree: &CallTree,
    frames: &[String],
    runs: &[Run],
    clock: &Clock,
    ids: &str,
    out: &mut dyn Write,
) -> Result<()> {
    let common = common(tree, runs);
    let next = next_shallower(&common);
    // Ends of the frames that a run opens, innermost first.
    let mut ends: Vec<u64> = Vec::new();
    let mut path = Vec::new();
    // Events of a run begin together, and most of them end together, so numbers are formatted once.
    let (mut start, mut end, mut events) = (String::new(), String::new(), Vec::new());
    for (index, run) in runs.iter().enumerate() {
        outwards(tree, run.path, &mut path);
        ends.clear();
        let mut after = index + 1;
        for depth in (common[index] as usize..path.len()).rev() {
            // A frame lasts until a run that has fewer frames in common with the run before it.
            while common.get(after).is_some_and(|&common| common as usize > depth) {
                after = next[after] as usize;
            }
            ends.push(runs[after - 1].end_insns);
        }
        start.clear();
        let _ = write!(start, ",{ids},\"ts\":{},\"dur\":", clock.micros(run.start_insns));
        events.clear();
        let mut last = None;
        for (&number, &end_insns) in path[common[index] as usize..].iter().zip(ends.iter().rev()) {
            if last.replace(end_insns) != Some(end_insns) {
                end.clear();
                let _ = write!(end, "{}}}", clock.end_micros(end_insns) - clock.micros(run.start_insns));
            }
            let frame = &frames[tree.paths[number as usize - 1].member as usize];
            for part in [",\n", frame, &start, &end] {
                events.extend_from_slice(part.as_bytes());
            }
        }
        out.write_all(&events)?;
    }
    Ok(())
}

/// Number of outer frames that each run continues from the run before; 0 if time lies between them.
fn common(tree: &CallTree, runs: &[Run]) -> Vec<u32> {
    let (mut before, mut path) = (Vec::new(), Vec::new());
    let mut end_insns = None;
    let common = runs.iter().map(|run| {
        outwards(tree, run.path, &mut path);
        let same = before.iter().zip(&path).take_while(|(before, now)| before == now).count();
        let goes_on = end_insns.replace(run.end_insns) == Some(run.start_insns);
        std::mem::swap(&mut before, &mut path);
        if goes_on { same as u32 } else { 0 }
    });
    common.collect()
}

/// Index, for each run, of the next run with fewer common frames; the number of runs if there is no such run.
fn next_shallower(common: &[u32]) -> Vec<u32> {
    let mut next = vec![common.len() as u32; common.len()];
    let mut open: Vec<usize> = Vec::new();
    for (index, &now) in common.iter().enumerate() {
        while let Some(&last) = open.last()
            && now < common[last]
        {
            next[last] = index as u32;
            open.pop();
        }
        open.push(index);
    }
    next
}
