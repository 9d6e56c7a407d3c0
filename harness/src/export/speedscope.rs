//! speedscope's file format (<https://www.speedscope.app/file-format-schema.json>): flame graphs in the browser, to
//! search, sort and zoom.
//!
//! Two kinds of profiles, since nothing is both exact and in the order of time: the samples, each with the instructions
//! since the one before, and the instructions of each path (exact by function; over callers and tasks they are divided
//! as the samples are, or exact with `--exact`). First come those of everything, in the order of time for each vCPU,
//! since the page opens the first one in its tab of that name; then there is one of both for each task. In
//! the order of time the others are gaps, so that all have the clock of the window. The format knows no unit that
//! counts instructions: it is "none", and the names say what is counted. A reader in JavaScript has 53 bits for a
//! number, which are enough for a month of instructions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use anyhow::Result;

use super::settings::Settings;
use super::shown::full;
use crate::analysis::calltree::{CallTree, Member};
use crate::analysis::stacks::FrameRole;
use crate::analysis::timeline::{Groups, Run, Timeline, outwards};
use crate::profile::Profile;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Writes the profile; the first of the profiles in it has all samples in the order of time, if there are some.
///
/// # Errors
/// What `out` reports.
pub fn write(profile: &Profile, settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let tree = CallTree::new(profile, settings.view);
    let groups = Groups::new(profile, &tree);
    let timeline = Timeline::new(profile, &tree, &groups);
    let image = &profile.facts.image_name;
    let several_vcpus = profile.vcpus.len() > 1;

    writeln!(out, "{{\n\"$schema\": {},\n\"name\": {},", quoted(SCHEMA)?, quoted(image)?)?;
    writeln!(
        out,
        "\"exporter\": {},\n\"activeProfileIndex\": 0,",
        quoted(concat!("harness ", env!("CARGO_PKG_VERSION")))?
    )?;
    out.write_all(b"\"shared\": {\"frames\": [")?;
    for (index, member) in tree.members.iter().enumerate() {
        out.write_all(if index > 0 { b",\n" } else { b"\n" })?;
        write_frame(profile, member, out)?;
    }
    out.write_all(b"\n]},\n\"profiles\": [\n")?;

    let of_all = match (several_vcpus, groups.names.len() > 1) {
        (false, false) => "",
        (true, false) => ", all vCPUs",
        (false, true) => ", all tasks",
        (true, true) => ", all tasks, all vCPUs",
    };
    let is_divided = groups.names.len() > 1;
    let of_vcpu = |vcpu: u32| if several_vcpus { format!(", vCPU {vcpu}") } else { String::new() };
    for (vcpu, runs) in whole(&timeline) {
        let tasks = if is_divided { ", all tasks" } else { "" };
        let name = format!("{image}{tasks}{}: instructions in time order", of_vcpu(vcpu));
        write_in_time_order(&tree, &name, &runs, timeline.end_insns.get(&vcpu).copied().unwrap_or(0), out)?;
        out.write_all(b",\n")?;
    }
    write_exact(&tree, &format!("{image}{of_all}: exact instructions"), |_| true, out)?;
    if is_divided {
        for (group, name) in (0..).zip(&groups.names) {
            let name = format!("{image}{}: instructions by path", part(name.as_deref()));
            out.write_all(b",\n")?;
            write_exact(&tree, &name, |index| groups.of_path[index] == group, out)?;
        }
        for track in &timeline.tracks {
            let group = part(groups.names[track.group as usize].as_deref());
            let name = format!("{image}{group}{}: instructions in time order", of_vcpu(track.vcpu));
            let end_insns = timeline.end_insns.get(&track.vcpu).copied().unwrap_or(0);
            out.write_all(b",\n")?;
            write_in_time_order(&tree, &name, &track.runs, end_insns, out)?;
        }
    }
    out.write_all(b"\n]\n}\n")?;
    Ok(())
}

/// The runs of all tracks of each vCPU, in the order of time.
fn whole(timeline: &Timeline) -> BTreeMap<u32, Vec<Run>> {
    let mut whole: BTreeMap<u32, Vec<Run>> = BTreeMap::new();
    for track in &timeline.tracks {
        whole.entry(track.vcpu).or_default().extend(&track.runs);
    }
    // No two of one vCPU begin together.
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

/// Writes a profile of exact instructions, of the paths for which `is_in` holds, by number less one.
fn write_exact(tree: &CallTree, name: &str, is_in: impl Fn(usize) -> bool, out: &mut dyn Write) -> Result<()> {
    let paths = || tree.paths.iter().enumerate().filter(|&(index, path)| path.insns > 0 && is_in(index));
    write_head(name, paths().map(|(_, path)| path.insns).sum(), out)?;
    let mut list = List::default();
    // The frames of the last path, and where the text of each of its beginnings ends.
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
        let _ = write!(frames, "{comma}{}", path.member);
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

/// Writes a profile in the order of time: the runs of a track, with empty stacks for the gaps up to the end.
fn write_in_time_order(tree: &CallTree, name: &str, runs: &[Run], end_insns: u64, out: &mut dyn Write) -> Result<()> {
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
        outwards(tree, run.path, &mut path);
        frames.clear();
        for number in &path {
            let comma = if frames.is_empty() { "" } else { "," };
            let _ = write!(frames, "{comma}{}", tree.paths[*number as usize - 1].member);
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

/// Commas between what is listed, and lines that an editor can show.
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
