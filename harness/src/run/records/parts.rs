// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the plugin's slices into the parts of a run.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use wire::control::{Control, Word};
use wire::sample::Sample;
use wire::slice::{Decoder, Growth, Slice};

use crate::profile::part::{Part, PartCounts, PartCycles, Parts};
use crate::profile::{Beyond, VcpuCounts};

/// Growth of counters by slot, for each vCPU.
type Grown = Vec<BTreeMap<u32, i64>>;

/// Counters of one part, interpreted by their definitions.
#[derive(Default)]
pub(in crate::run) struct Understood {
    /// Execution counts by vCPU.
    pub(in crate::run) vcpus: Vec<VcpuCounts>,
    /// Instructions by task.
    pub(in crate::run) tasks: BTreeMap<u32, u64>,
    pub(in crate::run) exceptions: BTreeMap<u64, u64>,
    /// Instructions in calls of code that waits.
    pub(in crate::run) called_insns: u64,
    /// Cycles by the plugin's clock.
    pub(in crate::run) cycles: u64,
    /// Cycles beyond the usual ones, by address.
    pub(in crate::run) slower: BTreeMap<u64, Beyond>,
    pub(in crate::run) exception_cycles: BTreeMap<u64, u64>,
}

/// A stretch of the run between two cuts.
struct Stretch {
    /// Index of its part.
    part: usize,
    ends_insns: Vec<u64>,
}

/// Reads the parts of a run with these total counts. `rest` returns the counters at the end, `understand` interprets
/// growth of counters.
pub(in crate::run) fn read(
    bytes: &[u8],
    control: &Control,
    (vcpus, samples): (&[VcpuCounts], &[Sample]),
    rest: impl Fn(usize) -> Result<BTreeMap<u32, i64>>,
    understand: impl Fn(&Grown) -> Understood,
) -> Result<Parts> {
    let phase = control.get(Word::Phase) as u32;
    let mut grown: BTreeMap<(u32, u32), (Grown, Vec<u64>)> = BTreeMap::new();
    let mut order: Vec<(u32, u32)> = Vec::new();
    let mut stretches: Vec<((u32, u32), Vec<u64>)> = Vec::new();
    let (mut slice, mut before) = (0, vec![0; vcpus.len()]);
    let mut take = |key: (u32, u32), growth: Vec<Growth>, before: &mut Vec<u64>| {
        let (part, clocks) = grown.entry(key).or_insert_with(|| {
            order.push(key);
            (vec![BTreeMap::new(); vcpus.len()], vec![0; vcpus.len()])
        });
        for (vcpu, Growth { end_insns, counts }) in growth.into_iter().enumerate() {
            clocks[vcpu] += end_insns.saturating_sub(std::mem::replace(&mut before[vcpu], end_insns));
            for (slot, count) in counts {
                let sum: &mut i64 = part[vcpu].entry(slot).or_default();
                *sum = sum.wrapping_add(count);
            }
        }
        stretches.push((key, before.clone()));
    };
    let mut counted: Grown = vec![BTreeMap::new(); vcpus.len()];
    for read in Decoder::new(bytes) {
        let Slice { phase, is_full, vcpus: growth } = read?;
        ensure!(growth.len() == vcpus.len(), "the plugin's slices are of other vCPUs");
        for (counted, growth) in counted.iter_mut().zip(&growth) {
            for &(slot, count) in &growth.counts {
                let sum = counted.entry(slot).or_default();
                *sum = sum.wrapping_add(count);
            }
        }
        take((slice, phase), growth, &mut before);
        slice += u32::from(is_full);
    }
    // Growth after the last cut.
    let mut growth = Vec::new();
    for (index, (counts, counted)) in vcpus.iter().zip(&counted).enumerate() {
        let counts_of = |(slot, now): (u32, i64)| {
            let count = now.wrapping_sub(counted.get(&slot).copied().unwrap_or(0));
            (count != 0).then_some((slot, count))
        };
        let left = rest(index)?.into_iter().filter_map(counts_of);
        growth.push(Growth { end_insns: counts.clock_insns, counts: left.collect() });
    }
    let is_more = growth.iter().zip(&before).any(|(growth, &before)| growth.end_insns > before);
    if is_more || stretches_are_none(&before) {
        take((slice, phase), growth, &mut before);
    }
    let index_of: BTreeMap<(u32, u32), usize> = order.iter().enumerate().map(|(index, &key)| (key, index)).collect();
    let stretches = stretches.into_iter().map(|(key, ends_insns)| Stretch { part: index_of[&key], ends_insns });
    let runs = runs(&stretches.collect::<Vec<_>>(), samples);
    let parts = order.into_iter().map(|key| {
        let (part, clocks) = &grown[&key];
        let understood = understand(part);
        let of_vcpu = |((whole, part), &clock): ((&VcpuCounts, &VcpuCounts), &u64)| counts(whole, part, clock);
        Part {
            slice: key.0,
            phase: key.1,
            vcpus: vcpus.iter().zip(&understood.vcpus).zip(clocks).map(of_vcpu).collect(),
            tasks: understood.tasks.into_iter().filter(|&(_, insns)| insns > 0).collect(),
            exceptions: understood.exceptions.into_iter().filter(|&(_, insns)| insns > 0).collect(),
            cycles: PartCycles {
                clock: understood.cycles,
                slower: understood.slower.into_iter().filter(|(_, beyond)| *beyond != Beyond::default()).collect(),
                exceptions: understood.exception_cycles.into_iter().filter(|&(_, cycles)| cycles > 0).collect(),
            },
            called_insns: understood.called_insns,
        }
    });
    Ok(Parts { slice_insns: None, list: parts.collect(), samples: runs })
}

/// Whether the run was never cut.
fn stretches_are_none(before: &[u64]) -> bool {
    before.iter().all(|&insns| insns == 0)
}

/// Counts of a part, by index in the lists of the whole.
fn counts(whole: &VcpuCounts, part: &VcpuCounts, clock_insns: u64) -> PartCounts {
    let insns = part.insns.iter().filter_map(|insn| {
        let key = (insn.pc, insn.size_bytes);
        let index = whole.insns.binary_search_by_key(&key, |insn| (insn.pc, insn.size_bytes)).ok()?;
        Some((index, insn.count))
    });
    let arcs = part.arcs.iter().filter_map(|arc| {
        let key = |arc: &crate::profile::Arc| (arc.site, arc.target, arc.return_addr, !arc.links);
        let index = whole.arcs.binary_search_by_key(&key(arc), key).ok()?;
        Some((index, arc.count))
    });
    PartCounts::new(clock_insns, insns, arcs)
}

/// Runs of samples by part: a sample belongs to the first stretch that ends at or after it.
fn runs(stretches: &[Stretch], samples: &[Sample]) -> Vec<(u32, u64)> {
    let mut runs: Vec<(u32, u64)> = Vec::new();
    for sample in samples {
        let vcpu = sample.vcpu as usize;
        let end = |stretch: &Stretch| stretch.ends_insns.get(vcpu).copied().unwrap_or(u64::MAX);
        let index = stretches.partition_point(|stretch| end(stretch) < sample.at_insns);
        let part = stretches.get(index).or(stretches.last()).map_or(0, |stretch| stretch.part as u32);
        match runs.last_mut() {
            Some((same, count)) if *same == part => *count += 1,
            _ => runs.push((part, 1)),
        }
    }
    runs
}
