// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heap as data for the page's script: sums in sentences, the history, and call paths with their numbers.

use std::cmp::Reverse;

use serde::Serialize;

use crate::analysis::heap;
use crate::analysis::heap_summary::{call_paths, describe_misuse, summary};
use crate::profile::Profile;

/// Maximum number of call paths, and of wrong frees, that the page lists.
const MAX_PATHS: usize = 200;

/// Heap of a run that followed it.
#[derive(Debug, Serialize)]
pub(super) struct Heap {
    /// Sums in the terminal's words, line by line.
    lines: Vec<String>,
    /// Sentences about wrong frees.
    wrong: Vec<String>,
    /// History: instructions of each point, followed by its values in the same order.
    at_insns: Vec<u64>,
    held: Vec<u64>,
    blocks: Vec<u64>,
    most: Vec<u64>,
    high_water: Vec<u64>,
    largest_free: Vec<u64>,
    /// Call paths, innermost frame first, sorted by bytes at the peak, most first.
    path: Vec<String>,
    at_peak: Vec<u64>,
    leaked: Vec<u64>,
    allocated: Vec<u64>,
    calls: Vec<u64>,
    failed: Vec<u64>,
    /// Number of paths that are left out.
    more: usize,
}

impl Heap {
    /// Heap of a profile; None: it was not followed.
    pub(super) fn of(profile: &Profile) -> Option<Heap> {
        let found = heap::replay(profile)?;
        let paths = call_paths(profile);
        let rows = heap::by(&found, |site| paths[site as usize - 1].as_str());
        let mut rows: Vec<_> = rows
            .into_iter()
            .filter(|(_, row)| row.allocated.blocks + row.failed.blocks + row.left.blocks > 0)
            .collect();
        // A stable sort: equal paths stay in the order of their names.
        rows.sort_by_key(|(_, row)| Reverse((row.at_peak.bytes, row.leaked.bytes, row.allocated.bytes)));
        let more = rows.len().saturating_sub(MAX_PATHS);
        rows.truncate(MAX_PATHS);
        let points = &found.history;
        let wrong = found.misuses.iter().take(MAX_PATHS);
        Some(Heap {
            lines: summary(profile, &found),
            wrong: wrong.map(|misuse| describe_misuse(misuse, &paths).join("; ")).collect(),
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
