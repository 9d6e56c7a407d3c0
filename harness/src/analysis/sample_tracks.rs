// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples in the order of time, by task, for exports that show time.
//!
//! The clock is the window's: instructions since it opened. A sample stands for the instructions since the previous
//! sample on its vCPU; instructions after the last sample are left out.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::analysis::calltree::{CallTree, Member};
use crate::analysis::stacks::{FrameRole, NO_TASK, NOT_SAMPLED};
use crate::profile::Profile;

/// Groups of a profile's paths: each task, and code outside of tasks.
#[derive(Debug)]
pub(crate) struct Groups {
    /// Name of each group, in the order of the tree; None: all code of an image without tasks.
    pub(crate) names: Vec<Option<String>>,
    /// Group of each path. The index is the path's number minus 1.
    pub(crate) of_path: Vec<u32>,
}

/// Name of the group for interrupts with roots of their own.
const INTERRUPTS: &str = "interrupts";

impl Groups {
    pub(crate) fn new(profile: &Profile, tree: &CallTree) -> Groups {
        let mut groups = Groups { names: Vec::new(), of_path: Vec::with_capacity(tree.paths.len()) };
        let mut numbers: BTreeMap<Option<String>, u32> = BTreeMap::new();
        for path in &tree.paths {
            let group = match path.parent.checked_sub(1) {
                Some(parent) => groups.of_path[parent as usize],
                None => {
                    let name = name(profile, &tree.members[path.member as usize]);
                    match numbers.entry(name) {
                        Entry::Occupied(known) => *known.get(),
                        Entry::Vacant(entry) => {
                            groups.names.push(entry.key().clone());
                            *entry.insert(groups.names.len() as u32 - 1)
                        }
                    }
                }
            };
            groups.of_path.push(group);
        }
        groups
    }
}

/// Name of a root's group.
fn name(profile: &Profile, root: &Member) -> Option<String> {
    if profile.tasks.is_empty() {
        return None;
    }
    match (root.frame.role, root.frame.name.as_str()) {
        (FrameRole::Task, name) | (FrameRole::Other, name @ (NO_TASK | NOT_SAMPLED)) => Some(name.to_owned()),
        (FrameRole::Irq, _) => Some(INTERRUPTS.to_owned()),
        // Without stacks the task is unknown.
        (FrameRole::Function | FrameRole::Inlined | FrameRole::Other, _) => None,
    }
}

/// Consecutive samples with the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Number of the path.
    pub(crate) path: u32,
    /// Instructions of the vCPU before the run.
    pub(crate) start_insns: u64,
    /// Instructions of the vCPU at its end; more than at its start.
    pub(crate) end_insns: u64,
}

/// Samples of one vCPU in one group.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) vcpu: u32,
    /// Index into [`Groups::names`], or the number returned to [`SampleTracks::grouped`].
    pub(crate) group: u32,
    /// Runs in the order of time. Between them the vCPU executed other groups.
    pub(crate) runs: Vec<Run>,
}

/// Samples of a profile, by vCPU and group.
#[derive(Debug)]
pub(crate) struct SampleTracks {
    /// Tracks with samples, sorted by vCPU and group.
    pub(crate) tracks: Vec<Track>,
    /// Instruction of each vCPU's last sample.
    pub(crate) end_insns: BTreeMap<u32, u64>,
}

impl SampleTracks {
    pub(crate) fn new(profile: &Profile, tree: &CallTree, groups: &Groups) -> SampleTracks {
        let of_path = |path: u32| groups.of_path.get(path.checked_sub(1)? as usize).copied();
        SampleTracks::grouped(profile, tree, |_, path| of_path(path))
    }

    /// Tracks with another grouping: `group` maps a sample's index and path to its group; None: it is in no track.
    pub(crate) fn grouped(
        profile: &Profile,
        tree: &CallTree,
        group: impl Fn(usize, u32) -> Option<u32>,
    ) -> SampleTracks {
        let mut tracks: BTreeMap<(u32, u32), Vec<Run>> = BTreeMap::new();
        let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
        for (index, (sample, &path)) in profile.samples.iter().zip(&tree.samples).enumerate() {
            let end_insns = ends.entry(sample.vcpu).or_default();
            let run = Run { path, start_insns: *end_insns, end_insns: sample.at_insns };
            let group = group(index, path).filter(|_| run.start_insns < run.end_insns);
            let Some(group) = group else { continue };
            *end_insns = run.end_insns;
            let runs = tracks.entry((sample.vcpu, group)).or_default();
            match runs.last_mut() {
                Some(last) if last.path == path && last.end_insns == run.start_insns => {
                    last.end_insns = run.end_insns
                }
                _ => runs.push(run),
            }
        }
        let tracks = tracks.into_iter().map(|((vcpu, group), runs)| Track { vcpu, group, runs });
        SampleTracks { tracks: tracks.collect(), end_insns: ends }
    }
}

/// Writes the numbers of a path and its ancestors, outermost first, replacing the content of `into`.
pub(crate) fn outwards(tree: &CallTree, path: u32, into: &mut Vec<u32>) {
    into.clear();
    let mut number = path;
    while let Some(index) = number.checked_sub(1) {
        into.push(number);
        number = tree.paths[index as usize].parent;
    }
    into.reverse();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::stacks::View;
    use crate::profile::testing::{empty, freertos, interrupted};

    /// Tracks as text: name, then start and length of each run.
    fn tracks(profile: &Profile, view: View) -> Vec<(String, Vec<(u64, u64)>)> {
        let tree = CallTree::new(profile, view);
        let groups = Groups::new(profile, &tree);
        let timeline = SampleTracks::new(profile, &tree, &groups);
        let track = |track: Track| {
            let name = groups.names[track.group as usize].clone().unwrap_or_default();
            let run = |run: &Run| (run.start_insns, run.end_insns - run.start_insns);
            (format!("{} {name}", track.vcpu), track.runs.iter().map(run).collect())
        };
        timeline.tracks.into_iter().map(track).collect()
    }

    #[test]
    fn each_task_has_a_track_and_what_follows_in_one_path_is_one_run() {
        let profile =
            interrupted().taken(2, 0x52, 1, 1).taken(1, 0x42, 0, 2).taken(1, 0x52, 1, 1).taken(1, 0x42, 0, 0);
        let expected = [
            ("0 [no task]".to_owned(), vec![(40, 10)]),
            ("0 task IDLE".to_owned(), vec![(20, 10)]),
            ("0 task blink".to_owned(), vec![(0, 20), (30, 10)]),
        ];
        assert_eq!(tracks(&profile, View::default()), expected);
    }

    #[test]
    fn folded_interrupts_are_a_track() {
        let profile = interrupted().taken(1, 0x52, 1, 1).taken(1, 0x62, 2, 1);
        let expected = [("0 interrupts".to_owned(), vec![(10, 10)]), ("0 task blink".to_owned(), vec![(0, 10)])];
        assert_eq!(tracks(&profile, View { fold_irqs: true }), expected);
    }

    #[test]
    fn vcpus_have_clocks_of_their_own() {
        let mut profile = empty().function("main", 0x40, 4).insn(0x40, 30).taken(2, 0x40, 0, 0);
        profile.samples[0].vcpu = 1;
        profile.samples[0].at_insns = 15;
        assert_eq!(
            tracks(&profile, View::default()),
            [("0 ".to_owned(), vec![(0, 20)]), ("1 ".to_owned(), vec![(0, 15)])]
        );
    }

    #[test]
    fn tracks_cover_the_time_up_to_the_last_sample_once() {
        let profile = freertos();
        let mut runs: Vec<_> =
            tracks(&profile, View::default()).into_iter().flat_map(|(_, runs)| runs.into_iter()).collect();
        runs.sort_unstable();
        let mut end = 0;
        for (start, insns) in runs {
            assert_eq!(start, end);
            end += insns;
        }
        assert_eq!(end, profile.samples.last().unwrap().at_insns);
    }

    #[test]
    fn samples_out_of_order_never_panic() {
        let mut profile = interrupted().taken(3, 0x52, 1, 1);
        profile.samples[1].at_insns = 0;
        profile.samples[2].at_insns = 5;
        assert_eq!(tracks(&profile, View::default()), [("0 task blink".to_owned(), vec![(0, 10)])]);
    }
}
