// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a run: the counts of each phase, and of each slice of a fixed number of instructions. All parts together
//! are the whole run.

use serde::{Deserialize, Serialize};

use super::Beyond;

/// Parts of a run, in the order in which they began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// Instructions of a slice; None: the run was not sliced.
    pub slice_insns: Option<u64>,
    /// Parts; empty without slices and phases.
    pub list: Vec<Part>,
    /// Part of the samples, in their order: the part's index, and the number of samples in a row.
    pub samples: Vec<(u32, u64)>,
}

/// Phase in one slice. If the phase comes several times in the slice, their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Number of the slice, from 0.
    pub slice: u32,
    /// Number of the phase's name in [`Zones::names`](super::Zones::names); 0: no phase had begun.
    pub phase: u32,
    /// Counts of each vCPU.
    pub vcpus: Vec<PartCounts>,
    /// Instructions of each task by number, without interrupts during them; 0: code outside of all tasks. Sorted.
    pub tasks: Vec<(u32, u64)>,
    /// Instructions of each exception by number, sorted.
    pub exceptions: Vec<(u64, u64)>,
    /// Cycles of the part.
    pub cycles: PartCycles,
    /// Instructions as [`Waiting::called_insns`](super::Waiting::called_insns).
    pub called_insns: u64,
}

/// Cycles of a part; nothing unless cycles were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartCycles {
    /// Cycles by the plugin's clock.
    pub clock: u64,
    /// Cycles beyond the usual ones, by the instruction's address. Sorted.
    pub slower: Vec<(u64, Beyond)>,
    /// Cycles of each exception by number, sorted.
    pub exceptions: Vec<(u64, u64)>,
}

/// Counts of one vCPU in a part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartCounts {
    /// Instructions by the vCPU's clock.
    pub clock_insns: u64,
    /// Runs in the vCPU's list of instructions: number of entries skipped before the run, number of entries in it,
    /// and their common count.
    pub insns: Vec<(u32, u32, u64)>,
    /// Entries of the vCPU's list of arcs: number of entries skipped before it, and its count.
    pub arcs: Vec<(u32, u64)>,
}

impl PartCounts {
    /// Executions, by index in the vCPU's list of instructions.
    pub fn executions(&self) -> impl Iterator<Item = (usize, u64)> {
        let runs = self.insns.iter().scan(0_usize, |next, &(gap, length, count)| {
            let start = next.saturating_add(gap as usize);
            *next = start.saturating_add(length as usize);
            Some((start..*next, count))
        });
        runs.flat_map(|(range, count)| range.map(move |index| (index, count)))
    }

    /// Transfers, by index in the vCPU's list of arcs.
    pub fn transfers(&self) -> impl Iterator<Item = (usize, u64)> {
        self.arcs.iter().scan(0_usize, |next, &(gap, count)| {
            let index = next.saturating_add(gap as usize);
            *next = index + 1;
            Some((index, count))
        })
    }

    /// Encodes counts whose indices increase.
    pub(crate) fn new(
        clock_insns: u64,
        executions: impl Iterator<Item = (usize, u64)>,
        transfers: impl Iterator<Item = (usize, u64)>,
    ) -> PartCounts {
        let mut insns: Vec<(u32, u32, u64)> = Vec::new();
        let mut next = 0;
        for (index, count) in executions {
            match insns.last_mut() {
                Some((_, length, same)) if index == next && *same == count => *length += 1,
                _ => insns.push(((index - next) as u32, 1, count)),
            }
            next = index + 1;
        }
        let mut next = 0;
        let arcs = transfers.map(|(index, count)| {
            let gap = index - std::mem::replace(&mut next, index + 1);
            (gap as u32, count)
        });
        PartCounts { clock_insns, insns, arcs: arcs.collect() }
    }
}

impl Part {
    /// Instructions, all vCPUs together.
    pub fn total_insns(&self) -> u64 {
        self.vcpus.iter().map(|vcpu| vcpu.clock_insns).sum()
    }
}

impl Parts {
    /// Whether the firmware has named a phase.
    pub fn has_phases(&self) -> bool {
        self.list.iter().any(|part| part.phase != 0)
    }

    /// Number of slices.
    pub fn slices(&self) -> u32 {
        self.slice_insns.and_then(|_| self.list.last()).map_or(0, |part| part.slice + 1)
    }

    /// Part of each sample.
    pub fn of_samples(&self) -> impl Iterator<Item = u32> {
        self.samples.iter().flat_map(|&(part, count)| std::iter::repeat_n(part, count as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_by_runs_and_gaps() {
        let executions = [(0, 5), (1, 5), (2, 6), (9, 6), (10, 6)];
        let transfers = [(3, 1), (4, 2), (9, 3)];
        let counts = PartCounts::new(28, executions.into_iter(), transfers.into_iter());
        assert_eq!(counts.insns, [(0, 2, 5), (0, 1, 6), (6, 2, 6)]);
        assert_eq!(counts.arcs, [(3, 1), (0, 2), (4, 3)]);
        assert!(counts.executions().eq(executions) && counts.transfers().eq(transfers));
    }
}
