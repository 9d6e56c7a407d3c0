// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zones, phases and slices of the page: tables, and the functions and addresses that executed in each slice.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::calltree::CallTree;
use crate::analysis::cycles;
use crate::analysis::part::{ByFunction, idle_insns, phases};
use crate::analysis::zone::{remarks, table};
use crate::profile::Profile;
use crate::profile::zone::{ZoneCounts, ZoneCycles};
use crate::text::number::Hex;

/// Maximum number of slices side by side; if there are more, neighbours are merged.
const MAX_COLUMNS: usize = 1000;

/// Maximum number of functions in their heat map: those with the most instructions. One more row has all others.
const MAX_FUNCTIONS: usize = 40;

/// Maximum number of rows in the heat map of addresses; each row is a range.
const MAX_RANGES: usize = 64;

/// Maximum number of call paths over all columns, counted in each column anew; each takes about ten bytes.
const MAX_TAKEN: usize = 100_000;

/// Name of the row for all other functions.
const OTHERS: &str = "[all others]";

/// Data of zones, phases and slices.
#[derive(Debug, Serialize)]
pub(super) struct Zones {
    /// Name, context (first "all", if there are several), number of calls, and instructions: total, own, min, mean,
    /// max.
    zones: Vec<(String, String, [u64; 6])>,
    /// Cycles of each zone, as its instructions; None: they are not known.
    cycles: Option<Vec<[u64; 5]>>,
    remarks: Vec<String>,
    /// Name, and instructions: all, those of idle tasks, those of interrupts; and all cycles, if known.
    phases: Vec<(String, u64, u64, u64, Option<u64>)>,
    slices: Option<Slices>,
}

/// Slices as columns.
#[derive(Debug, Serialize)]
struct Slices {
    /// Instructions of a slice.
    slice_insns: u64,
    /// Number of slices, and number of slices per column.
    count: u32,
    per_column: u32,
    /// Instructions of each column: all, those of idle tasks, those of interrupts.
    insns: Vec<u64>,
    idle: Vec<u64>,
    interrupts: Vec<u64>,
    /// Cycles of each column, if known.
    cycles: Option<Vec<u64>>,
    functions: Map,
    addresses: Map,
    /// Samples by call path; None: the page has no room for them.
    taken: Option<Taken>,
}

/// Samples of each column, by call path.
#[derive(Debug, Default, Serialize)]
struct Taken {
    /// Index of each column's first entry in the other two lists; then their length.
    first: Vec<usize>,
    /// Paths, as the page's numbers from 0.
    paths: Vec<u32>,
    samples: Vec<u64>,
}

impl Taken {
    /// Counts the samples of each column by path, which has the same number in the tree.
    fn new(profile: &Profile, tree: &CallTree, columns: usize, column: impl Fn(u32) -> usize) -> Option<Taken> {
        let mut counts: Vec<BTreeMap<u32, u64>> = vec![BTreeMap::new(); columns];
        for (&path, part) in tree.samples.iter().zip(profile.parts.of_samples()) {
            let slice = profile.parts.list.get(part as usize)?.slice;
            *counts.get_mut(column(slice))?.entry(path.checked_sub(1)?).or_default() += 1;
        }
        if counts.iter().map(BTreeMap::len).sum::<usize>() > MAX_TAKEN {
            return None;
        }
        let mut taken = Taken::default();
        for counts in counts {
            taken.first.push(taken.paths.len());
            taken.paths.extend(counts.keys());
            taken.samples.extend(counts.values());
        }
        taken.first.push(taken.paths.len());
        Some(taken)
    }
}

/// Rows by name, each with a number for each column.
#[derive(Debug, Default, Serialize)]
struct Map {
    rows: Vec<String>,
    cells: Vec<Vec<u64>>,
}

impl Zones {
    /// Zones of a profile.
    pub(super) fn new(profile: &Profile, tree: &CallTree) -> Zones {
        let rows = table(profile);
        let numbers = |counts: &ZoneCounts| {
            let ZoneCounts { calls, total_insns, own_insns, min_insns, max_insns, .. } = *counts;
            [calls, total_insns, own_insns, min_insns, counts.mean_insns(), max_insns]
        };
        let in_cycles = |counts: &ZoneCounts| {
            let ZoneCycles { times, total, own, .. } = counts.cycles;
            [total, own, times.min, counts.mean_cycles(), times.max]
        };
        let (mut zones, mut cycles_of_zones) = (Vec::new(), Vec::new());
        for row in rows.iter().filter(|row| row.all.calls > 0) {
            let mut add = |context: &str, counts: &ZoneCounts| {
                zones.push((row.name.clone(), context.to_owned(), numbers(counts)));
                cycles_of_zones.push(in_cycles(counts));
            };
            if row.contexts.len() > 1 {
                add("all", &row.all);
            }
            let contexts = row.contexts.iter().filter(|(_, counts)| counts.calls > 0);
            contexts.for_each(|(context, counts)| add(context, counts));
        }
        let has_cycles = cycles::are_known(profile);
        let parts = &profile.parts.list;
        let phase = |(phase, name): (u32, String)| {
            let of = || parts.iter().filter(move |part| part.phase == phase);
            let interrupts = of().flat_map(|part| &part.exceptions).map(|&(_, insns)| insns).sum();
            let idle = of().map(|part| idle_insns(profile, part)).sum();
            let cycles = of().map(|part| part.cycles.clock).fold(0, u64::saturating_add);
            (name, of().map(|part| part.total_insns()).sum(), idle, interrupts, has_cycles.then_some(cycles))
        };
        Zones {
            zones,
            cycles: has_cycles.then_some(cycles_of_zones),
            remarks: remarks(&rows),
            phases: phases(profile).into_iter().map(phase).collect(),
            slices: Slices::new(profile, tree),
        }
    }
}

impl Slices {
    fn new(profile: &Profile, tree: &CallTree) -> Option<Slices> {
        let (slice_insns, count) = (profile.parts.slice_insns?, profile.parts.slices());
        if count == 0 {
            return None;
        }
        let per_column = count.div_ceil(MAX_COLUMNS as u32);
        let columns = count.div_ceil(per_column) as usize;
        let column = |slice: u32| (slice / per_column) as usize;
        let (mut insns, mut idle, mut interrupts) = (vec![0; columns], vec![0; columns], vec![0; columns]);
        let mut cycles = vec![0_u64; columns];
        let by_function = ByFunction::new(profile);
        let mut functions = vec![vec![0; columns]; by_function.functions.len()];
        let mut addresses: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let range_bytes = range_bytes(profile);
        for (part, of_part) in profile.parts.list.iter().zip(&by_function.parts) {
            let at = column(part.slice);
            insns[at] += part.total_insns();
            idle[at] += idle_insns(profile, part);
            cycles[at] = cycles[at].saturating_add(part.cycles.clock);
            interrupts[at] += part.exceptions.iter().map(|&(_, insns)| insns).sum::<u64>();
            for (&function, &insns) in of_part {
                functions[function as usize][at] += insns;
            }
            for (counts, whole) in part.vcpus.iter().zip(&profile.vcpus) {
                for (index, count) in counts.executions() {
                    if let Some(insn) = whole.insns.get(index) {
                        let range = addresses.entry(insn.pc / range_bytes).or_insert_with(|| vec![0; columns]);
                        range[at] += count;
                    }
                }
            }
        }
        let ranges = addresses.into_iter();
        let (rows, cells) = ranges.map(|(range, cells)| (Hex(range * range_bytes).to_string(), cells)).unzip();
        let named = by_function.functions.into_iter().map(|(name, _)| name).zip(functions);
        Some(Slices {
            slice_insns,
            count,
            per_column,
            insns,
            idle,
            interrupts,
            cycles: cycles::are_known(profile).then_some(cycles),
            functions: hottest(named.collect(), columns),
            addresses: Map { rows, cells },
            taken: Taken::new(profile, tree, columns, column),
        })
    }
}

/// Rows with the largest sums, and one row for all others.
fn hottest(mut rows: Vec<(String, Vec<u64>)>, columns: usize) -> Map {
    // A stable sort: equal rows stay in the order of addresses.
    rows.sort_by_key(|(_, cells)| std::cmp::Reverse(cells.iter().sum::<u64>()));
    let rest = rows.split_off(rows.len().min(MAX_FUNCTIONS));
    if !rest.is_empty() {
        let mut sum = vec![0; columns];
        for (_, cells) in rest {
            sum.iter_mut().zip(cells).for_each(|(sum, cell)| *sum += cell);
        }
        rows.push((OTHERS.to_owned(), sum));
    }
    let (rows, cells) = rows.into_iter().unzip();
    Map { rows, cells }
}

/// Width of a range in bytes: the smallest with which at most [`MAX_RANGES`] ranges have executed code.
fn range_bytes(profile: &Profile) -> u64 {
    let addresses: Vec<u64> = profile.insns().into_keys().collect();
    let mut bytes = 16;
    loop {
        let mut ranges: Vec<u64> = addresses.iter().map(|pc| pc / bytes).collect();
        ranges.dedup();
        if ranges.len() <= MAX_RANGES {
            return bytes;
        }
        bytes *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::part::{Part, PartCounts};
    use crate::profile::testing::empty;

    #[test]
    fn columns_and_rows_are_bounded_and_nothing_is_lost() {
        let mut profile = empty();
        for index in 0..50 {
            profile = profile.function(&format!("f{index}"), 0x100 * (index + 1), 4).insn(0x100 * (index + 1), 3000);
        }
        profile.parts.slice_insns = Some(50);
        let counts = || PartCounts::new(50, (0..50).map(|index| (index, 1)), std::iter::empty());
        profile.parts.list =
            (0..3000).map(|slice| Part { slice, vcpus: vec![counts()], ..Part::default() }).collect();
        let tree = CallTree { samples: vec![2; 3000], ..CallTree::default() };
        profile.parts.samples = (0..3000).map(|part| (part, 1)).collect();
        let slices = Slices::new(&profile, &tree).unwrap();
        let taken = slices.taken.as_ref().unwrap();
        assert_eq!((taken.first.len(), &taken.paths[..], &taken.samples[..]), (1001, &[1; 1000][..], &[3; 1000][..]));
        assert_eq!((slices.count, slices.per_column, slices.insns.len()), (3000, 3, 1000));
        assert_eq!((slices.functions.rows.len(), slices.functions.rows[40].as_str()), (41, OTHERS));
        for map in [&slices.functions, &slices.addresses] {
            assert!(map.rows.len() <= MAX_RANGES && map.rows.len() == map.cells.len());
            assert_eq!(map.cells.iter().flatten().sum::<u64>(), 150_000);
        }
        assert!(Slices::new(&empty(), &CallTree::default()).is_none());
    }
}
