// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes between the timelines of two runs: the number of each kind of event, and the reasons why tasks stopped.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::analysis::event_rows::Tally;
use crate::profile::Profile;
use crate::show::names;
use crate::show::table_size::TableSize;
use crate::text::number::{group, signed};
use crate::text::table::write_table;

/// Writes the counts that differ, largest change first; nothing if neither run has a timeline.
///
/// # Errors
/// Errors of `out`.
pub fn write_difference(before: &Profile, after: &Profile, size: TableSize, out: &mut impl Write) -> io::Result<()> {
    let (old, new) = match (Tally::of(before), Tally::of(after)) {
        (None, None) => return Ok(()),
        (Some(old), Some(new)) => (old, new),
        (old, _) => {
            let which = if old.is_none() { "before" } else { "after" };
            return writeln!(out, "note: there is no timeline of the run {which}: profile both with --timeline");
        }
    };
    let events: BTreeSet<&str> = old.events.keys().chain(new.events.keys()).copied().collect();
    let mut changes: Vec<(String, u64, u64)> = Vec::new();
    for event in events {
        let count = |tally: &Tally| tally.events.get(event).copied().unwrap_or(0);
        changes.push((event.to_owned(), count(&old), count(&new)));
    }
    for switch in old.switches.keys().chain(new.switches.keys()).collect::<BTreeSet<_>>() {
        let count = |tally: &Tally| tally.switches.get(switch).copied().unwrap_or(0);
        let (task, why) = switch;
        changes.push((format!("task {task}: {why}"), count(&old), count(&new)));
    }
    let total = changes.len();
    changes.retain(|(_, old, new)| old != new);
    if changes.is_empty() {
        return writeln!(out, "timeline: all {total} counts of events and of switches by task and reason are equal");
    }
    let change = |old: u64, new: u64| i128::from(new) - i128::from(old);
    // Stable: equal changes stay in their order, events before switches.
    changes.sort_by_key(|&(_, old, new)| std::cmp::Reverse(change(old, new).unsigned_abs()));
    let shown = size.top_rows.unwrap_or(changes.len()).min(changes.len());
    let mut lines = vec![["Timeline", "Before", "After", "Change"].map(str::to_owned)];
    for (what, old, new) in &changes[..shown] {
        lines.push([what.clone(), group(*old), group(*new), signed(change(*old, *new))]);
    }
    if shown < changes.len() {
        let empty = String::new;
        lines.push([format!("{} others", changes.len() - shown), empty(), empty(), empty()]);
    }
    names::fit(&mut lines, 0, size.width_columns);
    write_table(&lines, out)
}
