//! Heap report on the terminal: a few lines of sums, then memory held, leaked, requested and refused, by call path.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use crate::analysis::allocator_clones;
use crate::analysis::heap::{self, HeapUse, Held, Misuse, Unfollowed, Use, Wrong};
use crate::analysis::lost::Lost;
use crate::analysis::stacks::{self, FrameRole, View};
use crate::image::heap::rule::Kind;
use crate::profile::Profile;
use crate::text::columns::{clip, columns};
use crate::text::number::{Hex, group, group_known, mean, plural, share, signed};
use crate::text::printable::printable;
use crate::text::table::write_table;

/// Separator between the functions of a path, innermost first.
const CALLED_BY: &str = " < ";

/// Least width of a path.
const MIN_PATH: usize = 20;

/// Limits of tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableSize {
    /// Most rows of each table; None: all.
    pub top_rows: Option<usize>,
    /// Width of the terminal; None: unlimited.
    pub width_columns: Option<usize>,
}

/// Writes the heap report. Returns false, and writes nothing, if the heap was not followed.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, size: TableSize, out: &mut impl Write) -> io::Result<bool> {
    let Some(found) = heap::replay(profile) else { return Ok(false) };
    for line in summary(profile, &found) {
        writeln!(out, "{line}")?;
    }
    let paths = names(profile);
    let by_path = heap::by(&found, |site| paths[site as usize - 1].clone());
    let table = |out: &mut _, title: &str, held: fn(&Use) -> Held| held_table(&by_path, title, held, size, out);
    table(out, "At the peak", |row| row.at_peak)?;
    table(out, "Still held at the end", |row| row.leaked)?;
    allocated_table(&by_path, size, out)?;
    table(out, "No memory", |row| row.failed)?;
    table(out, "Left without a return", |row| row.left)?;
    if !profile.tasks.is_empty() {
        task_table(profile, &found, out)?;
    }
    let most = size.top_rows.unwrap_or(usize::MAX);
    if !found.misuses.is_empty() {
        writeln!(out)?;
    }
    for misuse in found.misuses.iter().take(most) {
        writeln!(out, "{}", sentence(misuse, &paths).join("\n  "))?;
    }
    let more = found.misuses.len().saturating_sub(most);
    if more > 0 {
        writeln!(out, "and {} more wrong frees", group(more as u64))?;
    }
    Ok(true)
}

/// Call path of each site, in order of site number.
pub(crate) fn names(profile: &Profile) -> Vec<String> {
    let tree = heap::paths(profile, View::default());
    let path = |number: &u32| {
        let frames = tree.frames(*number);
        let shown = frames.iter().rev().filter(|member| member.frame.role != FrameRole::Inlined);
        shown.map(|member| member.frame.name.as_str()).collect::<Vec<_>>().join(CALLED_BY)
    };
    tree.samples.iter().map(path).collect()
}

fn blocks(held: Held) -> String {
    format!("{} in {}", plural(held.bytes, "byte"), plural(held.blocks, "block"))
}

/// Sums, one per line.
pub(crate) fn summary(profile: &Profile, found: &HeapUse) -> Vec<String> {
    let Use { allocated, freed, leaked, temporary, failed, left, .. } = found.total;
    let lost = heap::lost(profile, found);
    let (sums, held) = (trust(lost).sums, trust(lost).held);
    let mut lines = vec![
        format!(
            "heap: {} ({}), {} freed{sums}",
            plural(allocated.blocks, "allocation"),
            plural(allocated.bytes, "byte"),
            group(freed.blocks)
        ),
        format!("peak: {}, at instruction {}{held}", blocks(found.peak), group(found.peak_at_insns)),
        format!("leaked: {}{held}", blocks(leaked)),
    ];
    if found.before.blocks > 0 {
        let still = blocks(found.still_before);
        lines.push(format!("held as the window opened: {}; of these at the end: {still}", blocks(found.before)));
    }
    if allocated.blocks > 0 {
        let share = share(temporary, allocated.blocks);
        lines.push(format!("temporary: {} ({share}) freed before the next allocation", group(temporary)));
    }
    if failed.blocks > 0 {
        lines.push(format!("failed: {} for {}", plural(failed.blocks, "allocation"), plural(failed.bytes, "byte")));
    }
    if left.blocks > 0 {
        lines.push(format!("left without a return (longjmp, exception): {}", plural(left.blocks, "allocation")));
    }
    if found.double_frees + found.bad_frees > 0 {
        lines.push(format!(
            "warning: {} freed twice, {} freed that never {} allocated",
            plural(found.double_frees, "block"),
            group(found.bad_frees),
            if found.bad_frees == 1 { "was" } else { "were" }
        ));
    }
    if found.reissued > 0 {
        lines.push(format!(
            "warning: {} given out again while held: something frees that is not followed; name it with --heap-free",
            plural(found.reissued, "block")
        ));
    }
    lines.extend(missed(profile).into_iter().map(|line| format!("warning: {line}")));
    lines.extend(arena(found));
    lines
}

/// Notes after numbers that may be wrong.
struct Trust {
    /// Note after the allocated and freed bytes.
    sums: &'static str,
    /// Note after the held bytes.
    held: &'static str,
}

fn trust(lost: Lost) -> Trust {
    match (lost.allocations, lost.frees) {
        (false, false) => Trust { sums: "", held: "" },
        (true, false) => Trust { sums: " (too low, see the warning)", held: " (too low, see the warning)" },
        (false, true) => Trust { sums: " (frees too low, see the warning)", held: " (too high, see the warning)" },
        (true, true) => {
            Trust { sums: " (too low, see the warnings)", held: " (not to be trusted, see the warnings)" }
        }
    }
}

/// Describes the effect of missed calls on the numbers.
fn describe_lost(kind: Kind) -> &'static str {
    match kind {
        Kind::Alloc => "what they allocate is missing from all numbers",
        Kind::Free => "what they free counts as held: the peak and what leaked are too high",
    }
}

/// Describes the calls that were not followed and are in no number, and the remedies, a sentence each.
pub fn missed(profile: &Profile) -> Vec<String> {
    let around = heap::unfollowed(profile);
    let mut copies = allocator_clones::unfollowed(profile);
    if !around.calls.is_empty() {
        copies.inlined.retain(|one| !is_rusts(&one.name));
    }
    let copies = [Kind::Alloc, Kind::Free].into_iter().filter_map(|kind| describe_copies(&copies.that(kind), kind));
    describe_around(&around).into_iter().chain(copies).collect()
}

/// Describes the calls of Rust's allocator that were not followed; None if there are none.
fn describe_around(around: &Unfollowed) -> Option<String> {
    let (name, _) = around.calls.iter().max_by_key(|&(name, calls)| (calls, std::cmp::Reverse(name)))?;
    let kinds = [(around.lost.allocations, Kind::Alloc), (around.lost.frees, Kind::Free)];
    let lost: Vec<&str> =
        kinds.into_iter().filter(|(is_lost, _)| *is_lost).map(|(_, kind)| describe_lost(kind)).collect();
    Some(format!(
        "{} of Rust's allocator, such as {name}, came around __rust_alloc, which the compiler has inlined: {}; name its \
         methods with --heap-alloc and --heap-free",
        plural(around.calls.values().sum(), "call"),
        lost.join("; ")
    ))
}

/// Whether rustc generates the function between `alloc` and the global allocator.
fn is_rusts(name: &str) -> bool {
    name.contains("__rust_") || name.contains("__rustc")
}

/// Largest number of function copies that a warning names.
const MAX_COPIES: usize = 6;

/// Largest part of a function's name that a warning shows.
const MAX_NAME: usize = 60;

/// Names the compiler's copies of functions of one kind, with the remedy; None if there are no copies.
fn describe_copies(copies: &allocator_clones::Copies, kind: Kind) -> Option<String> {
    if copies.is_empty() {
        return None;
    }
    let clones =
        copies.clones.iter().map(|clone| format!("{} ({})", clone.linkage_name, plural(clone.calls, "call")));
    let inlined = copies.inlined.iter().map(|one| {
        let more = match one.into.len() {
            0 | 1 => String::new(),
            all => format!(" and {} more", group(all as u64 - 1)),
        };
        format!("{} (inlined into {}{more})", one.name, clip(one.into.first().map_or("", String::as_str), MAX_NAME))
    });
    let mut named: Vec<String> = clones.chain(inlined).collect();
    let more = named.len().saturating_sub(MAX_COPIES);
    named.truncate(MAX_COPIES);
    let more = if more > 0 { format!(" and {} more", group(more as u64)) } else { String::new() };
    let by_name = copies.clones.first().map(|clone| {
        let (option, place) = (clone.kind.option(), if clone.kind == Kind::Alloc { "(size=arg0)" } else { "(arg0)" });
        let name = &clone.linkage_name;
        format!(
            "name each clone with the registers in which `harness annotate PROFILE {name}` shows its arguments, as in \
             {option} '{name}{place}', or "
        )
    });
    let keep = if copies.inlined.iter().any(|one| is_rusts(&one.name)) {
        "mark the methods of the global allocator #[inline(never)] and name them with --heap-alloc and --heap-free"
    } else {
        "keep the compiler from it: __attribute__((noipa)), with LLVM noinline"
    };
    let which = if kind == Kind::Free { "functions that free" } else { "functions that allocate" };
    Some(format!(
        "the compiler has made copies of {which}, which are not followed: {}{more}: {}; {}{keep}",
        named.join(", "),
        describe_lost(kind),
        by_name.unwrap_or_default()
    ))
}

/// Sentence about the addresses that blocks took, and their fragmentation.
fn arena(found: &HeapUse) -> Option<String> {
    let (extent, last) = (found.extent.as_ref()?, found.history.last()?);
    let bytes = extent.end - extent.start;
    let which = match &extent.name {
        Some(name) => format!("arena {name}"),
        None => "arena (from the first to the last block ever given out)".to_owned(),
    };
    let smallest = found.history.iter().map(|point| point.largest_free_bytes).min()?;
    Some(format!(
        "{which}: {} at {}, high water {} ({}); largest free block {} at the end, {} at least",
        plural(bytes, "byte"),
        Hex(extent.start),
        plural(last.high_water_bytes, "byte"),
        share(last.high_water_bytes, bytes),
        plural(last.largest_free_bytes, "byte"),
        group(smallest)
    ))
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

/// Writes rows of numbers, each followed by a path that is cut at the terminal's width; writes nothing without rows.
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

fn task_table(profile: &Profile, found: &HeapUse, out: &mut impl Write) -> io::Result<()> {
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
    write_table(&lines, out)
}

/// Lines about a wrong free: its kind, its place, and the block's origin.
pub(crate) fn sentence(misuse: &Misuse, paths: &[String]) -> Vec<String> {
    let path = |site: u32| paths.get((site as usize).wrapping_sub(1)).map_or("?", String::as_str);
    let (at, address) = (group(misuse.at_insns), Hex(misuse.address));
    let mut lines = match misuse.wrong {
        Wrong::Double { first, first_at_insns } => vec![
            format!("double free of {address} at instruction {at}: {}", path(misuse.site)),
            format!("freed before at instruction {}: {}", group(first_at_insns), path(first)),
        ],
        Wrong::Never => {
            vec![format!("free of {address}, which was never allocated, at instruction {at}: {}", path(misuse.site))]
        }
    };
    lines.extend(misuse.allocated.map(|site| format!("allocated: {}", path(site))));
    lines
}

/// Number of a whole run.
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
        let paths = names(profile);
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
