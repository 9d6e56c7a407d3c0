// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timeline of the page: rows of stretches over instructions, for each task, interrupt, zone nest and traced call.
//!
//! A row has its stretches in order, without overlap, as differences in LEB128, in base64. If there are more stretches
//! than the page has room for, adjacent short ones are merged into one with a count. Without `--timeline` the rows show
//! tasks and interrupts by samples.

use serde::Serialize;
use wire::varint::{put, put_delta};

use crate::analysis::calltree::CallTree;
use crate::analysis::event_tracks::{Happens, Kind, Track, walk};
use crate::analysis::sample_tracks::{self, Groups};
use crate::analysis::time;
use crate::profile::Profile;

/// Maximum number of stretches in a page; each takes about eight bytes.
const MAX_STRETCHES: usize = 500_000;

/// Maximum number of rows, since traced calls may nest deeply.
const MAX_ROWS: usize = 200;

/// Data of the timeline.
#[derive(Debug, Serialize)]
pub(super) struct Tracks {
    /// Whether every event is included; otherwise the rows follow from samples.
    exact: bool,
    /// Clock of the vCPU that executed most, in instructions.
    end_insns: u64,
    /// Shift of virtual time: an instruction takes 2^shift ns. None: time goes by cycles.
    shift: Option<u8>,
    /// Length in instructions below which adjacent stretches are merged; 0: none are merged.
    merged_insns: u64,
    /// Number of rows that are left out.
    more: usize,
    names: Vec<String>,
    rows: Vec<Row>,
}

/// Row of the timeline.
#[derive(Debug, Serialize)]
struct Row {
    /// Label; empty: the row is a deeper level of the one before.
    label: String,
    /// Subject: `task`, `interrupt`, `within`, `other`.
    kind: &'static str,
    /// Whether each stretch has a value.
    valued: bool,
    count: usize,
    /// Stretches, each as numbers: distance from the end of the stretch before, length, number of merged stretches, and
    /// name. The name is its index plus 1, or 0 if merged stretches have several names. A single stretch of a valued
    /// row has its value, too, with the sign in the lowest bit.
    stretches: String,
}

/// Stretch of a row, or several merged ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    start: u64,
    end: u64,
    name: u32,
    value: i64,
    count: u64,
}

/// Row under construction.
struct Made {
    label: String,
    /// Position of the row: tracks of one task or interrupt are adjacent.
    order: (u8, u32, u8, u32),
    kind: &'static str,
    valued: bool,
    stretches: Vec<Stretch>,
}

impl Tracks {
    /// Tracks of a profile; None: an exact timeline without rows, or fewer than two rows of samples.
    pub(super) fn of(profile: &Profile, tree: &CallTree) -> Option<Tracks> {
        let (exact, names, rows) = match exact(profile) {
            Some((names, rows)) => (true, names, rows),
            None => {
                let (names, rows) = sampled(profile, tree);
                (false, names, rows)
            }
        };
        if rows.is_empty() || (!exact && rows.len() < 2) {
            return None;
        }
        let end_insns = profile.vcpus.iter().map(|vcpu| vcpu.clock_insns).max().unwrap_or(0);
        let more = rows.len().saturating_sub(MAX_ROWS);
        let mut rows = rows;
        rows.truncate(MAX_ROWS);
        let mut merged_insns = 0;
        while rows.iter().map(|row| row.stretches.len()).sum::<usize>() > MAX_STRETCHES {
            merged_insns = if merged_insns == 0 { (end_insns >> 20).max(1) } else { merged_insns * 2 };
            rows.iter_mut().for_each(|row| row.stretches = merged(&row.stretches, merged_insns));
        }
        let shift = time::clock_hz(profile).is_none().then_some(profile.facts.icount_shift);
        let rows = rows.into_iter().map(Row::of).collect();
        Some(Tracks { exact, end_insns, shift, merged_insns, more, names, rows })
    }
}

impl Row {
    fn of(made: Made) -> Row {
        let Made { label, kind, valued, stretches, .. } = made;
        let mut bytes = Vec::new();
        let mut last = 0;
        for &Stretch { start, end, name, value, count } in &stretches {
            // Several single events may be at the same instruction.
            put(&mut bytes, start.saturating_sub(last));
            put(&mut bytes, end.saturating_sub(start));
            put(&mut bytes, count);
            put(&mut bytes, name.wrapping_add(1).into());
            if count == 1 && valued {
                put_delta(&mut bytes, 0, value.cast_unsigned());
            }
            last = end;
        }
        Row { label, kind, valued, count: stretches.len(), stretches: base64(&bytes) }
    }
}

/// Stretches of a track by depth, and the open ones.
#[derive(Default)]
struct Lane {
    rows: Vec<Vec<Stretch>>,
    open: Vec<(u64, u32)>,
}

impl Lane {
    fn push(&mut self, depth: usize, stretch: Stretch) {
        if self.rows.len() <= depth {
            self.rows.resize_with(depth + 1, Vec::new);
        }
        self.rows[depth].push(stretch);
    }

    /// Adds a moment; `kind` is the kind of its track.
    fn happens(&mut self, kind: Kind, at: u64, what: Happens) {
        match what {
            Happens::Begins(name) => self.open.push((at, name)),
            Happens::Ends(_) => {
                if let Some((start, name)) = self.open.pop() {
                    let stretch = Stretch { start, end: at, name, value: 0, count: 1 };
                    // An empty stretch of the code that executes on a CPU has no meaning. An empty stretch of a wait is
                    // a sleep, which takes no instruction.
                    if at > start || !matches!(kind, Kind::Cpu | Kind::Waits) {
                        self.push(self.open.len(), stretch);
                    }
                }
            }
            Happens::Is(name, value) => {
                self.push(0, Stretch { start: at, end: at, name, value: value.unwrap_or(0), count: 1 });
            }
            Happens::Counts(value) if kind == Kind::Mark => {
                self.push(0, Stretch { start: at, end: at, name: 0, value, count: 1 });
            }
            Happens::Counts(_) => {}
        }
    }
}

/// Rows of an exact timeline; None: the run has no timeline.
fn exact(profile: &Profile) -> Option<(Vec<String>, Vec<Made>)> {
    profile.timeline.as_ref()?;
    let mut lanes: Vec<Lane> = Vec::new();
    let mut names = Vec::new();
    let mut tracks: Vec<Track> = Vec::new();
    let walked = walk(profile, |tables, moment| {
        if tables.names.len() > names.len() {
            names.extend_from_slice(&tables.names[names.len()..]);
        }
        if tables.tracks.len() > tracks.len() {
            tracks.extend_from_slice(&tables.tracks[tracks.len()..]);
            lanes.resize_with(tracks.len(), Lane::default);
        }
        let track = moment.track as usize;
        lanes[track].happens(tracks[track].kind, moment.at_insns, moment.what);
        Ok::<(), std::convert::Infallible>(())
    });
    let Ok(_) = walked;
    let rows = rows_of(&tracks, lanes, &mut names);
    Some((names, rows))
}

/// Rows of all tracks in the order of reading. The names of marks are added to `names`.
fn rows_of(tracks: &[Track], lanes: Vec<Lane>, names: &mut Vec<String>) -> Vec<Made> {
    let mut rows = Vec::new();
    let has_rows: Vec<bool> = lanes.iter().map(|lane| !lane.rows.is_empty()).collect();
    let cpus = tracks.iter().filter(|track| track.kind == Kind::Cpu).count();
    for (number, lane) in (0..).zip(lanes) {
        let track = &tracks[number as usize];
        // Code outside of all tasks has no row, so the rows within it need its name; with several CPUs each CPU has
        // such code.
        let of = track.parent.map(|parent| parent as usize).filter(|&parent| cpus > 1 && !has_rows[parent]);
        let name = of.map_or_else(|| track.name.clone(), |of| format!("{}: {}", tracks[of].name, track.name));
        // A mark's stretches have the name of its track.
        let mark = (track.kind == Kind::Mark).then(|| {
            names.push(track.name.clone());
            names.len() as u32 - 1
        });
        let (rank, kind) = match track.kind {
            Kind::Cpu => (0, "other"),
            Kind::Task => (1, "task"),
            Kind::Interrupt => (2, "interrupt"),
            Kind::Zones | Kind::Calls | Kind::Life => (1, "within"),
            _ => (3, "other"),
        };
        // Rows within a task or interrupt come below it.
        let (rank, of) = match track.parent {
            Some(parent) if tracks[parent as usize].kind == Kind::Interrupt => (2, parent),
            Some(parent) => (rank, parent),
            None => (rank, number),
        };
        for (depth, mut stretches) in (0..).zip(lane.rows) {
            stretches.sort_by_key(|stretch| stretch.start);
            if let Some(name) = mark {
                stretches.iter_mut().for_each(|stretch| stretch.name = name);
            }
            let label = if depth == 0 { name.clone() } else { String::new() };
            let within = if track.parent.is_some() { 1 + u8::from(track.kind == Kind::Calls) } else { 0 };
            let valued = matches!(track.kind, Kind::Mark | Kind::Console | Kind::Allocations);
            rows.push(Made { label, order: (rank, of, within, depth), kind, valued, stretches });
        }
    }
    rows.sort_by_key(|row| row.order);
    rows
}

/// Rows made from samples.
fn sampled(profile: &Profile, tree: &CallTree) -> (Vec<String>, Vec<Made>) {
    let groups = Groups::new(profile, tree);
    let samples = sample_tracks::SampleTracks::new(profile, tree, &groups);
    let names: Vec<String> = groups.names.iter().map(|name| name.clone().unwrap_or_default()).collect();
    let mut rows = Vec::new();
    for track in &samples.tracks {
        let mut stretches: Vec<Stretch> = Vec::new();
        for run in &track.runs {
            match stretches.last_mut().filter(|last| last.end == run.start_insns) {
                Some(last) => last.end = run.end_insns,
                None => stretches.push(Stretch {
                    start: run.start_insns,
                    end: run.end_insns,
                    name: track.group,
                    value: 0,
                    count: 1,
                }),
            }
        }
        let label = names[track.group as usize].clone();
        let order = (1, track.vcpu, 0, track.group);
        rows.push(Made { label, order, kind: "task", valued: false, stretches });
    }
    rows.sort_by_key(|row| row.order);
    (names, rows)
}

/// Merges short stretches that begin within the same interval of instructions.
fn merged(stretches: &[Stretch], insns: u64) -> Vec<Stretch> {
    let is_short = |stretch: &Stretch| stretch.count > 1 || stretch.end - stretch.start < insns;
    let mut merged: Vec<Stretch> = Vec::new();
    for stretch in stretches {
        let is_near =
            |last: &&mut Stretch| is_short(last) && is_short(stretch) && last.start / insns == stretch.start / insns;
        match merged.last_mut().filter(is_near) {
            Some(last) => {
                last.end = last.end.max(stretch.end);
                last.count += stretch.count;
                if last.name != stretch.name {
                    last.name = MIXED;
                }
            }
            None => merged.push(*stretch),
        }
    }
    merged
}

/// Name of merged stretches with different names.
const MIXED: u32 = u32::MAX;

/// Encodes bytes in base64: RFC 4648, 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut word = [0; 3];
        word[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, word[0], word[1], word[2]]);
        for digit in 0..4 {
            let is_there = digit <= chunk.len();
            let value = bits >> (18 - 6 * digit) & 63;
            text.push(if is_there { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_what_the_rfc_has() {
        for (text, expected) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }

    #[test]
    fn short_stretches_beside_each_other_become_one_and_none_is_lost() {
        let stretch = |start, end| Stretch { start, end, name: 1, value: 0, count: 1 };
        let other = Stretch { name: 2, ..stretch(105, 106) };
        let all = [stretch(0, 2), stretch(3, 4), stretch(4, 100), stretch(100, 101), other, stretch(110, 111)];
        let merged = merged(&all, 10);
        let parts: Vec<_> = merged.iter().map(|one| (one.start, one.end, one.count, one.name)).collect();
        assert_eq!(parts, [(0, 4, 2, 1), (4, 100, 1, 1), (100, 106, 2, MIXED), (110, 111, 1, 1)]);
    }
}
