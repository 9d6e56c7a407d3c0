// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heap report on the terminal: a few lines of sums, then memory held, leaked, requested and refused, by call path.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use crate::analysis::heap::{self, HeapUse, Held, Use};
use crate::analysis::heap_summary::{call_paths, call_paths_without_lines, describe_misuse, summary};
use crate::analysis::stacks;
use crate::profile::Profile;
use crate::show::names;
use crate::show::table_size::TableSize;
use crate::text::columns::{clip, columns};
use crate::text::number::{group, group_known, mean, share, signed};
use crate::text::printable::printable;
use crate::text::table::write_table;

/// Least width of a path.
const MIN_PATH: usize = 20;

/// Writes the heap report. Returns false, and writes nothing, if the heap was not followed.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, size: TableSize, out: &mut impl Write) -> io::Result<bool> {
    let Some(found) = heap::replay(profile) else { return Ok(false) };
    for line in summary(profile, &found) {
        writeln!(out, "{line}")?;
    }
    let paths = call_paths(profile);
    let by_path = heap::by(&found, |site| paths[site as usize - 1].clone());
    let table = |out: &mut _, title: &str, held: fn(&Use) -> Held| held_table(&by_path, title, held, size, out);
    table(out, "At the peak", |row| row.at_peak)?;
    table(out, "Still held at the end", |row| row.leaked)?;
    allocated_table(&by_path, size, out)?;
    table(out, "No memory", |row| row.failed)?;
    table(out, "Left without a return", |row| row.left)?;
    if !profile.tasks.is_empty() {
        task_table(profile, &found, size, out)?;
    }
    let most = size.top_rows.unwrap_or(usize::MAX);
    if !found.misuses.is_empty() {
        writeln!(out)?;
    }
    for misuse in found.misuses.iter().take(most) {
        writeln!(out, "{}", describe_misuse(misuse, &paths).join("\n  "))?;
    }
    let more = found.misuses.len().saturating_sub(most);
    if more > 0 {
        writeln!(out, "and {} more wrong frees", group(more as u64))?;
    }
    Ok(true)
}

fn held_table(
    rows: &BTreeMap<String, Use>,
    title: &str,
    held: fn(&Use) -> Held,
    size: TableSize,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut rows: Vec<(&String, Held)> = rows.iter().map(|(path, row)| (path, held(row))).collect();
    rows.retain(|(_, held)| held.blocks > 0);
    // Stable: equal ones stay in order of name.
    rows.sort_by_key(|(_, held)| std::cmp::Reverse((held.bytes, held.blocks)));
    let total = rows.iter().fold(Held::default(), |sum, (_, held)| sum.plus(*held));
    let row = |(path, held): (&String, Held)| {
        ([group(held.bytes), share(held.bytes, total.bytes), group(held.blocks)], path.clone())
    };
    write_paths(["Bytes", "Share", "Blocks"], title, rows.into_iter().map(row).collect(), size, out)
}

fn allocated_table(rows: &BTreeMap<String, Use>, size: TableSize, out: &mut impl Write) -> io::Result<()> {
    let mut rows: Vec<(&String, &Use)> = rows.iter().filter(|(_, row)| row.allocated.blocks > 0).collect();
    rows.sort_by_key(|(_, row)| std::cmp::Reverse((row.allocated.bytes, row.allocated.blocks)));
    let row = |(path, row): (&String, &Use)| {
        let mean = mean(row.lifetime_insns, row.freed.blocks);
        let numbers = [
            group(row.allocated.blocks),
            group(row.allocated.bytes),
            group(row.temporary),
            group_known(mean),
            group_known(mean.map(|_| row.longest_insns)),
        ];
        (numbers, path.clone())
    };
    let titles = ["Calls", "Bytes", "Temporary", "Held, mean", "longest"];
    write_paths(titles, "Allocated", rows.into_iter().map(row).collect(), size, out)
}

/// Writes rows of numbers, each followed by a path that is cut at the terminal's width. If there are no rows, writes
/// nothing.
fn write_paths<const NUMBERS: usize>(
    titles: [&str; NUMBERS],
    title: &str,
    rows: Vec<([String; NUMBERS], String)>,
    size: TableSize,
    out: &mut impl Write,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let shown = size.top_rows.unwrap_or(rows.len()).min(rows.len());
    let head = (titles.map(str::to_owned), title.to_owned());
    let lines: Vec<_> = std::iter::once(&head).chain(&rows[..shown]).collect();
    let width = |column: usize| lines.iter().map(|(numbers, _)| columns(&numbers[column])).max().unwrap_or(0);
    let widths: [usize; NUMBERS] = std::array::from_fn(width);
    let room = size.width_columns.map(|width| width.saturating_sub(widths.iter().map(|width| width + 2).sum()));
    writeln!(out)?;
    for (numbers, path) in &lines {
        let numbers = numbers.iter().zip(widths).map(|(number, width)| format!("{number:>width$}  "));
        let path = printable(path);
        let path = room.map_or(path.clone(), |room| Cow::Owned(clip(&path, room.max(MIN_PATH)).into_owned()));
        writeln!(out, "{}{path}", numbers.collect::<String>())?;
    }
    match rows.len() - shown {
        0 => Ok(()),
        more => writeln!(out, "and {} more; --top 0 shows all", group(more as u64)),
    }
}

fn task_table(profile: &Profile, found: &HeapUse, size: TableSize, out: &mut impl Write) -> io::Result<()> {
    let names = stacks::task_names(profile);
    let sites = profile.heap.as_ref().map_or(&[][..], |heap| &heap.sites);
    let rows = heap::by(found, |site| sites[site as usize - 1].task);
    let mut rows: Vec<(u32, Use)> = rows.into_iter().collect();
    rows.retain(|(_, row)| row.allocated.blocks + row.failed.blocks + row.left.blocks > 0);
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.allocated.bytes));
    let titles = ["Task", "Calls", "Bytes", "At the peak", "Leaked", "Failed"];
    let mut lines = vec![titles.map(str::to_owned)];
    for (task, row) in rows {
        let name = (task as usize).checked_sub(1).and_then(|index| names.get(index));
        lines.push([
            name.map_or(stacks::NO_TASK, String::as_str).to_owned(),
            group(row.allocated.blocks),
            group(row.allocated.bytes),
            group(row.at_peak.bytes),
            group(row.leaked.bytes),
            group(row.failed.blocks + row.left.blocks),
        ]);
    }
    names::fit(&mut lines, 0, size.width_columns);
    write_table(&lines, out)
}

/// Reads one total, such as the allocated bytes, from the heap of a whole run.
type Sum = fn(&HeapUse) -> u64;

/// Writes the changes between the heaps of two runs; nothing if neither was followed.
///
/// # Errors
/// Errors of `out`.
pub fn write_difference(before: &Profile, after: &Profile, size: TableSize, out: &mut impl Write) -> io::Result<()> {
    let (old, new) = match (heap::replay(before), heap::replay(after)) {
        (None, None) => return Ok(()),
        (Some(old), Some(new)) => (old, new),
        (old, _) => {
            let which = if old.is_none() { "before" } else { "after" };
            return writeln!(out, "note: the heap was not followed in the run {which}: profile both with --heap");
        }
    };
    let sums: [(&str, Sum); 4] = [
        ("heap at the peak", |found| found.peak.bytes),
        ("heap leaked", |found| found.total.leaked.bytes),
        ("heap allocated", |found| found.total.allocated.bytes),
        ("allocations", |found| found.total.allocated.blocks),
    ];
    let mut lines = vec![["Heap", "Before", "After", "Change"].map(str::to_owned)];
    for (name, sum) in sums {
        let (old, new) = (sum(&old), sum(&new));
        lines.push([name.to_owned(), group(old), group(new), signed(i128::from(new) - i128::from(old))]);
    }
    write_table(&lines, out)?;
    let by_path = |profile: &Profile, found: &HeapUse| {
        let paths = call_paths_without_lines(profile);
        heap::by(found, |site| paths[site as usize - 1].clone())
    };
    let (old, new) = (by_path(before, &old), by_path(after, &new));
    let numbers = |rows: &BTreeMap<String, Use>, path: &String| {
        let row = rows.get(path).copied().unwrap_or_default();
        [row.at_peak.bytes, row.leaked.bytes, row.allocated.blocks].map(i128::from)
    };
    let paths: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut changes: Vec<([i128; 3], &String)> = Vec::new();
    for path in paths {
        let (old, new) = (numbers(&old, path), numbers(&new, path));
        let change: [i128; 3] = std::array::from_fn(|index| new[index] - old[index]);
        if change != [0; 3] {
            changes.push((change, path));
        }
    }
    // Stable: equal ones stay in order of name.
    changes.sort_by_key(|(change, _)| std::cmp::Reverse(change.map(i128::unsigned_abs)));
    let rows = changes.into_iter().map(|(change, path)| (change.map(signed), path.clone())).collect();
    write_paths(["At the peak", "Leaked", "Calls"], "Change of the heap", rows, size, out)
}
