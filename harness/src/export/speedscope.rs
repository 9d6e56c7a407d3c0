// SPDX-License-Identifier: MIT OR Apache-2.0
//! speedscope's file format (<https://www.speedscope.app/file-format-schema.json>): flame graphs in the browser, to
//! search, sort and zoom.
//!
//! The file has two kinds of profiles, since no single one is both exact and in order of time. One kind has the
//! samples, each with the instructions since the sample before. The other kind has the instructions of each path (exact
//! by function; divided among callers and tasks as the samples are, or exact with `--exact`); one more of everything has
//! the cycles, where they are known. First come the profiles of everything, in order of time for each vCPU, because
//! speedscope opens the first profile in its tab "Time Order". Both kinds follow for each task, or for each phase if
//! phases are separated. In order of time, other tasks or phases are gaps, so that all profiles share the clock of the
//! window. The format has no unit for instructions: the unit is "none", and each profile's name has the unit. A JavaScript
//! reader has 53 bits for a number, enough for a month of instructions.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::{self, Write};

use anyhow::Result;

use crate::analysis::calltree::{CallTree, Member};
use crate::analysis::cycles;
use crate::analysis::part::{by_phase, phase_frame, phases};
use crate::analysis::sample_tracks::{Groups, Run, SampleTracks, outwards};
use crate::analysis::stacks::FrameRole;
use crate::error::InputError;
use crate::export::labels::full;
use crate::export::settings::Settings;
use crate::profile::Profile;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Writes the profiles. The first one has all samples in order of time, if there are any.
///
/// # Errors
/// Errors of `out`; also when phases are asked for and there are none.
pub fn write(profile: &Profile, settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let of_phases = if settings.by_phase { by_phase(profile).map_err(InputError::new)? } else { Vec::new() };
    let tree = CallTree::new(profile, settings.view);
    let trees: Vec<CallTree> = of_phases.iter().map(|(_, phase)| CallTree::new(phase, settings.view)).collect();
    let in_cycles = cycles::are_known(profile).then(|| tree.clone().in_cycles());
    let groups = Groups::new(profile, &tree);
    let (names, timeline) = if settings.by_phase {
        let names = of_phases.iter().map(|(name, _)| Some(phase_frame(name))).collect();
        (names, in_phases(profile, &tree))
    } else {
        let timeline = SampleTracks::new(profile, &tree, &groups);
        (groups.names, timeline)
    };
    let image = &profile.facts.image_name;
    let several_vcpus = profile.vcpus.len() > 1;

    writeln!(out, "{{\n\"$schema\": {},\n\"name\": {},", quoted(SCHEMA)?, quoted(image)?)?;
    writeln!(
        out,
        "\"exporter\": {},\n\"activeProfileIndex\": 0,",
        quoted(concat!("harness ", env!("CARGO_PKG_VERSION")))?
    )?;
    out.write_all(b"\"shared\": {\"frames\": [")?;
    let mut frames = Frames::default();
    let tree = frames.number(&tree);
    let in_cycles = in_cycles.as_ref().map(|tree| frames.number(tree));
    let trees: Vec<Numbered<'_>> = trees.iter().map(|tree| frames.number(tree)).collect();
    for (index, member) in frames.members.iter().enumerate() {
        out.write_all(if index > 0 { b",\n" } else { b"\n" })?;
        write_frame(profile, member, out)?;
    }
    out.write_all(b"\n]},\n\"profiles\": [\n")?;

    let all = match (names.len() > 1 || settings.by_phase, settings.by_phase) {
        (false, _) => "",
        (true, false) => ", all tasks",
        (true, true) => ", all phases",
    };
    let all_vcpus = if several_vcpus { ", all vCPUs" } else { "" };
    let of_vcpu = |vcpu: u32| if several_vcpus { format!(", vCPU {vcpu}") } else { String::new() };
    for (vcpu, runs) in whole(&timeline) {
        let name = format!("{image}{all}{}: instructions in time order", of_vcpu(vcpu));
        write_in_time_order(&tree, &name, &runs, timeline.end_insns.get(&vcpu).copied().unwrap_or(0), out)?;
        out.write_all(b",\n")?;
    }
    write_exact(&tree, &format!("{image}{all}{all_vcpus}: exact instructions"), |_| true, out)?;
    if let Some(tree) = in_cycles {
        out.write_all(b",\n")?;
        write_exact(&tree, &format!("{image}{all}{all_vcpus}: exact cycles"), |_| true, out)?;
    }
    if !all.is_empty() {
        for (index, name) in names.iter().enumerate() {
            let name = format!("{image}{}: instructions by path", part(name.as_deref()));
            out.write_all(b",\n")?;
            match trees.get(index) {
                Some(phase) => write_exact(phase, &name, |_| true, out)?,
                None => write_exact(&tree, &name, |path| groups.of_path[path] as usize == index, out)?,
            }
        }
        for track in &timeline.tracks {
            let group = part(names[track.group as usize].as_deref());
            let name = format!("{image}{group}{}: instructions in time order", of_vcpu(track.vcpu));
            let end_insns = timeline.end_insns.get(&track.vcpu).copied().unwrap_or(0);
            out.write_all(b",\n")?;
            write_in_time_order(&tree, &name, &track.runs, end_insns, out)?;
        }
    }
    out.write_all(b"\n]\n}\n")?;
    Ok(())
}

/// Samples by the phase in which each one was taken; phases are numbered in the order of [`phases`].
fn in_phases(profile: &Profile, tree: &CallTree) -> SampleTracks {
    let phases = phases(profile);
    let of_part = profile.parts.list.iter().map(|part| phases.iter().position(|&(phase, _)| phase == part.phase));
    let of_part: Vec<Option<u32>> = of_part.map(|index| Some(index? as u32)).collect();
    let of_samples: Vec<u32> = profile.parts.of_samples().collect();
    SampleTracks::grouped(profile, tree, |sample, _| *of_part.get(*of_samples.get(sample)? as usize)?)
}

/// Frames that all profiles in the file share.
#[derive(Default)]
struct Frames<'t> {
    members: Vec<&'t Member>,
    numbers: HashMap<&'t Member, usize>,
}

/// Tree with the number of each member's frame.
struct Numbered<'t> {
    tree: &'t CallTree,
    frames: Vec<usize>,
}

impl<'t> Frames<'t> {
    fn number(&mut self, tree: &'t CallTree) -> Numbered<'t> {
        let mut number = |member| {
            *self.numbers.entry(member).or_insert_with(|| {
                self.members.push(member);
                self.members.len() - 1
            })
        };
        Numbered { tree, frames: tree.members.iter().map(&mut number).collect() }
    }
}

impl Numbered<'_> {
    /// Frame of the last member of a path; `path` is the path's number minus 1.
    fn frame(&self, path: usize) -> usize {
        self.frames[self.tree.paths[path].member as usize]
    }
}

/// Runs of all tracks of each vCPU, in order of time.
fn whole(timeline: &SampleTracks) -> BTreeMap<u32, Vec<Run>> {
    let mut whole: BTreeMap<u32, Vec<Run>> = BTreeMap::new();
    for track in &timeline.tracks {
        whole.entry(track.vcpu).or_default().extend(&track.runs);
    }
    // Runs of one vCPU never begin together.
    whole.values_mut().for_each(|runs| runs.sort_unstable_by_key(|run| run.start_insns));
    whole
}

fn part(group: Option<&str>) -> String {
    group.map_or_else(String::new, |group| format!(", {group}"))
}

fn quoted(text: &str) -> Result<String> {
    Ok(serde_json::to_string(text)?)
}

fn write_frame(profile: &Profile, member: &Member, out: &mut dyn Write) -> Result<()> {
    write!(out, "{{\"name\":{}", quoted(&full(&member.frame))?)?;
    let function = member
        .start
        .filter(|_| member.frame.role == FrameRole::Function)
        .and_then(|start| profile.names.function_at(start));
    if let Some(file) = function.and_then(|function| function.file.as_deref()) {
        write!(out, ",\"file\":{}", quoted(file)?)?;
        if let Some(line) = function.and_then(|function| function.line) {
            write!(out, ",\"line\":{line}")?;
        }
    }
    out.write_all(b"}")?;
    Ok(())
}

fn write_head(name: &str, end_insns: u64, out: &mut dyn Write) -> Result<()> {
    let name = quoted(name)?;
    writeln!(
        out,
        "{{\"type\":\"sampled\",\"name\":{name},\"unit\":\"none\",\"startValue\":0,\"endValue\":{end_insns},"
    )?;
    out.write_all(b"\"samples\":[")?;
    Ok(())
}

/// Writes a profile of exact instructions, with the paths for which `is_in` holds; a path is given by its number minus
/// 1.
fn write_exact(
    numbered: &Numbered<'_>,
    name: &str,
    is_in: impl Fn(usize) -> bool,
    out: &mut dyn Write,
) -> Result<()> {
    let tree = numbered.tree;
    let paths = || tree.paths.iter().enumerate().filter(|&(index, path)| path.insns > 0 && is_in(index));
    write_head(name, paths().map(|(_, path)| path.insns).sum(), out)?;
    let mut list = List::default();
    // Frames of the last path as text, and the end in the text of each of its frames.
    let mut frames = String::new();
    let mut ends: Vec<usize> = Vec::new();
    let mut depths: Vec<u32> = Vec::with_capacity(tree.paths.len());
    for (index, path) in tree.paths.iter().enumerate() {
        let depth = path.parent.checked_sub(1).map_or(0, |parent| depths[parent as usize] + 1);
        depths.push(depth);
        if !is_in(index) {
            continue;
        }
        ends.truncate(depth as usize);
        frames.truncate(ends.last().copied().unwrap_or(0));
        let comma = if depth > 0 { "," } else { "" };
        let _ = write!(frames, "{comma}{}", numbered.frame(index));
        ends.push(frames.len());
        if path.insns > 0 {
            list.next(out)?;
            out.write_all(b"[")?;
            out.write_all(frames.as_bytes())?;
            out.write_all(b"]")?;
        }
    }
    out.write_all(b"],\n\"weights\":[")?;
    let mut list = List::default();
    for (_, path) in paths() {
        list.next(out)?;
        write!(out, "{}", path.insns)?;
    }
    out.write_all(b"]}")?;
    Ok(())
}

/// Writes a profile in order of time: the runs of a track, and empty stacks for the gaps between them and up to the
/// end.
fn write_in_time_order(
    numbered: &Numbered<'_>,
    name: &str,
    runs: &[Run],
    end_insns: u64,
    out: &mut dyn Write,
) -> Result<()> {
    write_head(name, end_insns, out)?;
    let mut list = List::default();
    let mut at_insns = 0;
    let (mut path, mut frames) = (Vec::new(), String::new());
    for run in runs {
        if run.start_insns > at_insns {
            list.next(out)?;
            out.write_all(b"[]")?;
        }
        at_insns = run.end_insns;
        outwards(numbered.tree, run.path, &mut path);
        frames.clear();
        for number in &path {
            let comma = if frames.is_empty() { "" } else { "," };
            let _ = write!(frames, "{comma}{}", numbered.frame(*number as usize - 1));
        }
        list.next(out)?;
        write!(out, "[{frames}]")?;
    }
    if end_insns > at_insns {
        list.next(out)?;
        out.write_all(b"[]")?;
    }
    out.write_all(b"],\n\"weights\":[")?;
    let mut list = List::default();
    let mut at_insns = 0;
    for run in runs {
        if run.start_insns > at_insns {
            list.next(out)?;
            write!(out, "{}", run.start_insns - at_insns)?;
        }
        at_insns = run.end_insns;
        list.next(out)?;
        write!(out, "{}", run.end_insns - run.start_insns)?;
    }
    if end_insns > at_insns {
        list.next(out)?;
        write!(out, "{}", end_insns - at_insns)?;
    }
    out.write_all(b"]}")?;
    Ok(())
}

/// Separators of a list's items: commas, and line breaks for the sake of editors.
#[derive(Debug, Default)]
struct List {
    len: u64,
}

impl List {
    fn next(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let is_first = self.len == 0;
        self.len += 1;
        match (is_first, self.len % 64) {
            (true, _) => Ok(()),
            (false, 1) => out.write_all(b",\n"),
            (false, _) => out.write_all(b","),
        }
    }
}
