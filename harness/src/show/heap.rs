//! The heap on the terminal: a few lines of sums, then who held, leaked, asked and failed, by call path.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::analysis::heap::{self, HeapUse, Held, Misuse, Use, Wrong};
use crate::analysis::stacks::{self, FrameRole, View};
use crate::profile::Profile;
use crate::text::number::{Hex, group, plural, share};
use crate::text::table::write_table;

/// Between the functions of a path, outermost first.
const CALLS: &str = " > ";

/// Writes all that is known of the heap. Returns false, and writes nothing, where it was not followed.
///
/// # Errors
/// What `out` reports.
pub fn write(profile: &Profile, top_rows: Option<usize>, out: &mut impl Write) -> io::Result<bool> {
    let Some(found) = heap::replay(profile) else { return Ok(false) };
    for line in summary(profile, &found) {
        writeln!(out, "{line}")?;
    }
    let paths = names(profile);
    let by_path = heap::by(&found, |site| paths[site as usize - 1].clone());
    let table = |out: &mut _, title: &str, held: fn(&Use) -> Held| held_table(&by_path, title, held, top_rows, out);
    table(out, "At the peak", |row| row.at_peak)?;
    table(out, "Still held at the end", |row| row.leaked)?;
    allocated_table(&by_path, top_rows, out)?;
    table(out, "No memory", |row| row.failed)?;
    table(out, "Left without a return", |row| row.left)?;
    if !profile.tasks.is_empty() {
        task_table(profile, &found, out)?;
    }
    for misuse in found.misuses.iter().take(top_rows.unwrap_or(usize::MAX)) {
        write_misuse(misuse, &paths, out)?;
    }
    let more = found.misuses.len().saturating_sub(top_rows.unwrap_or(usize::MAX));
    if more > 0 {
        writeln!(out, "and {} more wrong frees", group(more as u64))?;
    }
    Ok(true)
}

/// The path of each site, in the order of their numbers.
fn names(profile: &Profile) -> Vec<String> {
    let tree = heap::paths(profile, View::default());
    let path = |number: &u32| {
        let frames = tree.frames(*number);
        let shown = frames.iter().filter(|member| member.frame.role != FrameRole::Inlined);
        shown.map(|member| member.frame.name.as_str()).collect::<Vec<_>>().join(CALLS)
    };
    tree.samples.iter().map(path).collect()
}

fn blocks(held: Held) -> String {
    format!("{} in {}", plural(held.bytes, "byte"), plural(held.blocks, "block"))
}

/// The sums, a line each.
pub(crate) fn summary(profile: &Profile, found: &HeapUse) -> Vec<String> {
    let Use { allocated, freed, leaked, temporary, failed, left, .. } = found.total;
    let mut lines = vec![
        format!(
            "heap: {} ({}), {} freed",
            plural(allocated.blocks, "allocation"),
            plural(allocated.bytes, "byte"),
            group(freed.blocks)
        ),
        format!("peak: {}, at instruction {}", blocks(found.peak), group(found.peak_at_insns)),
        format!("leaked: {}", blocks(leaked)),
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
    lines.extend(arena(profile, found));
    lines
}

/// Where the blocks were, and in what pieces.
fn arena(profile: &Profile, found: &HeapUse) -> Option<String> {
    let (extent, last) = (found.extent.as_ref()?, found.history.last()?);
    let bytes = extent.end - extent.start;
    let which = match &extent.name {
        Some(name) => format!("arena {name}"),
        None => "arena (from the first to the last block ever given out)".to_owned(),
    };
    let smallest = found.history.iter().map(|point| point.largest_free_bytes).min()?;
    let _ = profile;
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
    top_rows: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut rows: Vec<(&String, Held)> = rows.iter().map(|(path, row)| (path, held(row))).collect();
    rows.retain(|(_, held)| held.blocks > 0);
    if rows.is_empty() {
        return Ok(());
    }
    // Stable: equal ones stay in the order of their names.
    rows.sort_by_key(|(_, held)| std::cmp::Reverse((held.bytes, held.blocks)));
    let total = rows.iter().fold(Held::default(), |sum, (_, held)| sum.plus(*held));
    let mut lines = vec![[title, "Bytes", "Share", "Blocks"].map(str::to_owned)];
    for (path, held) in rows.iter().take(top_rows.unwrap_or(usize::MAX)) {
        lines.push([(*path).clone(), group(held.bytes), share(held.bytes, total.bytes), group(held.blocks)]);
    }
    more(rows.len(), top_rows, &mut lines);
    write_table(&lines, out)
}

fn more<const COLUMNS: usize>(rows: usize, top_rows: Option<usize>, lines: &mut Vec<[String; COLUMNS]>) {
    let more = rows.saturating_sub(top_rows.unwrap_or(usize::MAX));
    if more > 0 {
        let mut line = [const { String::new() }; COLUMNS];
        line[0] = format!("and {} more", group(more as u64));
        lines.push(line);
    }
}

fn allocated_table(rows: &BTreeMap<String, Use>, top_rows: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let mut rows: Vec<(&String, &Use)> = rows.iter().filter(|(_, row)| row.allocated.blocks > 0).collect();
    if rows.is_empty() {
        return Ok(());
    }
    rows.sort_by_key(|(_, row)| std::cmp::Reverse((row.allocated.bytes, row.allocated.blocks)));
    let titles = ["Allocated", "Calls", "Bytes", "Temporary", "Held for, mean", "Longest instructions"];
    let mut lines = vec![titles.map(str::to_owned)];
    for (path, row) in rows.iter().take(top_rows.unwrap_or(usize::MAX)) {
        let mean = row.lifetime_insns.checked_div(row.freed.blocks);
        lines.push([
            (*path).clone(),
            group(row.allocated.blocks),
            group(row.allocated.bytes),
            group(row.temporary),
            mean.map_or("-".to_owned(), group),
            mean.map_or("-".to_owned(), |_| group(row.longest_insns)),
        ]);
    }
    more(rows.len(), top_rows, &mut lines);
    write_table(&lines, out)
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

fn write_misuse(misuse: &Misuse, paths: &[String], out: &mut impl Write) -> io::Result<()> {
    let path = |site: u32| paths.get((site as usize).wrapping_sub(1)).map_or("?", String::as_str);
    let (at, address) = (group(misuse.at_insns), Hex(misuse.address));
    match misuse.wrong {
        Wrong::Double { first, first_at_insns } => {
            writeln!(out, "double free of {address} at instruction {at}: {}", path(misuse.site))?;
            writeln!(out, "  freed before at instruction {}: {}", group(first_at_insns), path(first))?;
        }
        Wrong::Never => {
            writeln!(
                out,
                "free of {address}, which was never allocated, at instruction {at}: {}",
                path(misuse.site)
            )?;
        }
    }
    if let Some(allocated) = misuse.allocated {
        writeln!(out, "  allocated: {}", path(allocated))?;
    }
    Ok(())
}
