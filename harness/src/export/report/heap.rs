//! The heap as the page's script reads it: sums in sentences, a line over time, call paths with their numbers.

use std::cmp::Reverse;

use serde::Serialize;

use crate::analysis::heap;
use crate::profile::Profile;
use crate::show::heap::{names, summary};

/// Most call paths that the page lists.
const MAX_PATHS: usize = 200;

/// The heap, where it was followed.
#[derive(Debug, Serialize)]
pub(super) struct Heap {
    /// The terminal's sums, line by line.
    lines: Vec<String>,
    /// Wrong frees, a sentence each.
    wrong: Vec<String>,
    /// By time.
    at_insns: Vec<u64>,
    held: Vec<u64>,
    blocks: Vec<u64>,
    most: Vec<u64>,
    high_water: Vec<u64>,
    largest_free: Vec<u64>,
    /// Call paths, innermost first, most bytes at the peak first.
    path: Vec<String>,
    at_peak: Vec<u64>,
    leaked: Vec<u64>,
    allocated: Vec<u64>,
    calls: Vec<u64>,
    failed: Vec<u64>,
    /// Paths that are left out.
    more: usize,
}

impl Heap {
    /// That of a profile.
    pub(super) fn of(profile: &Profile) -> Option<Heap> {
        let found = heap::replay(profile)?;
        let paths = names(profile);
        let rows = heap::by(&found, |site| paths[site as usize - 1].as_str());
        let mut rows: Vec<_> = rows
            .into_iter()
            .filter(|(_, row)| row.allocated.blocks + row.failed.blocks + row.left.blocks > 0)
            .collect();
        // Stable: equal ones stay in the order of their names.
        rows.sort_by_key(|(_, row)| Reverse((row.at_peak.bytes, row.leaked.bytes, row.allocated.bytes)));
        let more = rows.len().saturating_sub(MAX_PATHS);
        rows.truncate(MAX_PATHS);
        let points = &found.history;
        let wrong = found.misuses.iter().take(MAX_PATHS);
        Some(Heap {
            lines: summary(profile, &found),
            wrong: wrong.map(|misuse| crate::show::heap::sentence(misuse, &paths).join("; ")).collect(),
            at_insns: points.iter().map(|point| point.at_insns).collect(),
            held: points.iter().map(|point| point.held_bytes).collect(),
            blocks: points.iter().map(|point| point.held_blocks).collect(),
            most: points.iter().map(|point| point.most_bytes).collect(),
            high_water: points.iter().map(|point| point.high_water_bytes).collect(),
            largest_free: points.iter().map(|point| point.largest_free_bytes).collect(),
            path: rows.iter().map(|(path, _)| (*path).to_owned()).collect(),
            at_peak: rows.iter().map(|(_, row)| row.at_peak.bytes).collect(),
            leaked: rows.iter().map(|(_, row)| row.leaked.bytes).collect(),
            allocated: rows.iter().map(|(_, row)| row.allocated.bytes).collect(),
            calls: rows.iter().map(|(_, row)| row.allocated.blocks).collect(),
            failed: rows.iter().map(|(_, row)| row.failed.blocks + row.left.blocks).collect(),
            more,
        })
    }
}
