// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histogram of instructions and samples by address on the terminal.

use std::io::{self, Write};

use clap::ValueEnum;

use crate::analysis::bins::{Bin, bins};
use crate::analysis::owner::Owner;
use crate::profile::Profile;
use crate::show::names;
use crate::text::columns::{columns, pad};
use crate::text::number::{Hex, group, share};
use crate::text::printable::printable;
use crate::text::tone::{self, Tone};

/// Length of the longest bar, in columns.
const BAR_COLUMNS: usize = 20;

/// Names are never shortened below this, however narrow the terminal is.
const MIN_NAME_COLUMNS: usize = 16;

/// Order of the bins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Lowest address first
    #[default]
    Address,
    /// Most instructions first
    Count,
    /// Lowest address first, a table for each phase
    Phase,
}

/// Selection and layout of the bins' table.
#[derive(Clone, Copy, Debug)]
pub struct BinsTable {
    /// Width of a bin in bytes, a power of two.
    pub bin_bytes: u64,
    /// Bins shown: those with the most instructions; None shows all.
    pub top_rows: Option<usize>,
    /// Order of the bins.
    pub order: Order,
    /// Width of the terminal; None: names are whole.
    pub width_columns: Option<usize>,
}

/// Writes the histogram and its sums.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, table: BinsTable, out: &mut dyn Write) -> io::Result<()> {
    let bins = bins(profile, table.bin_bytes);
    let total_insns: u64 = bins.iter().map(|bin| bin.insns).sum();
    let total_samples: u64 = bins.iter().map(|bin| bin.samples).sum();
    let mut shown: Vec<&Bin> = bins.iter().collect();
    // Stable: equal ones stay in order of address.
    shown.sort_by_key(|bin| std::cmp::Reverse(bin.insns));
    shown.truncate(table.top_rows.unwrap_or(usize::MAX));
    let most_insns = shown.first().map_or(0, |bin| bin.insns);
    if table.order != Order::Count {
        shown.sort_by_key(|bin| bin.start);
    }
    let share = |insns: u64| share(insns, total_insns);
    let rest_insns = total_insns - shown.iter().map(|bin| bin.insns).sum::<u64>();
    let rest_samples = total_samples - shown.iter().map(|bin| bin.samples).sum::<u64>();
    let total_cycles: Option<u64> = bins.iter().map(|bin| bin.cycles).sum();
    let shown_cycles: Option<u64> = shown.iter().map(|bin| bin.cycles).sum();
    let rest_cycles = total_cycles.zip(shown_cycles).map(|(total, shown)| total - shown);
    let sums = [
        (format!("{} more", group((bins.len() - shown.len()) as u64)), rest_insns, rest_cycles, rest_samples),
        ("Total".to_owned(), total_insns, total_cycles, total_samples),
    ];
    let sums = if shown.len() < bins.len() { &sums[..] } else { &sums[1..] };

    // A column without values is left out, with its gap.
    let cycles = |cycles: Option<u64>| cycles.map(|cycles| format!("  {}", group(cycles))).unwrap_or_default();
    let title = if total_cycles.is_some() { "  Cycles" } else { "" };
    let mut rows: Vec<[String; 7]> =
        vec![["Address", "Instructions", "Share", title, "Samples", "", "Function"].map(str::to_owned)];
    rows.extend(shown.iter().map(|bin| {
        let bar = bar(bin.insns, most_insns);
        let (insns, cycles) = (group(bin.insns), cycles(bin.cycles));
        [Hex(bin.start).to_string(), insns, share(bin.insns), cycles, group(bin.samples), bar, String::new()]
    }));
    rows.extend(sums.iter().map(|&(ref name, insns, of_cycles, samples)| {
        let none = String::new;
        [name.clone(), group(insns), share(insns), cycles(of_cycles), group(samples), none(), none()]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), width(3), width(4)];
    // Gaps behind the first four columns and the bar; that of the cycles is in their cells.
    let before: usize = widths.iter().map(|width| width + 2).sum::<usize>() + BAR_COLUMNS;
    let room = table.width_columns.map(|width| width.saturating_sub(before).max(MIN_NAME_COLUMNS));
    for (row, place) in rows[1..].iter_mut().zip(places(profile, &shown, table, room)) {
        row[6] = place;
    }
    let tones = shown.iter().map(|bin| Tone::of(bin.insns, total_insns));
    for ([address, insns, share, cycles, samples, bar, place], tone) in rows.iter().zip(tone::of_lines(tones)) {
        let [a, b, c, d, e] = widths;
        let numbers = format!("{insns:>b$}  {share:>c$}{cycles:>d$}  {samples:>e$}");
        let line = format!("{address:<a$}  {numbers}  {}  {place}", pad(bar, BAR_COLUMNS));
        writeln!(out, "{}", tone.line(line.trim_end()))?;
    }
    Ok(())
}

/// Text of the last column for all rows; names are shortened to `room` columns.
fn places(profile: &Profile, bins: &[&Bin], table: BinsTable, room: Option<usize>) -> Vec<String> {
    let places: Vec<(String, String)> = bins.iter().map(|bin| place(profile, bin, table)).collect();
    let Some(room) = room else { return places.into_iter().map(|(name, rest)| name + &rest).collect() };
    let readable = places.iter().map(|(name, _)| names::async_bodies(&profile.names, name));
    let readable: Vec<String> = readable.collect();
    let widths = places.iter().map(|(_, rest)| room.saturating_sub(columns(rest)).max(MIN_NAME_COLUMNS));
    let cells: Vec<(&str, usize)> = readable.iter().map(String::as_str).zip(widths).collect();
    names::cells(&cells).into_iter().zip(places).map(|(name, (_, rest))| name + &rest).collect()
}

/// Name and rest of the last column, such as `memcpy` and `+0x8`: the bin's start in its most executed function. The
/// rest also says how many more of the image's functions have code there.
fn place(profile: &Profile, bin: &Bin, table: BinsTable) -> (String, String) {
    let last = bin.start.saturating_add(table.bin_bytes - 1);
    let functions = &profile.names.functions;
    let first = functions.partition_point(|function| function.start.saturating_add(function.size_bytes) <= bin.start);
    let all = functions[first..].iter().take_while(|function| function.start <= last).count();
    let place = Owner::of(profile, bin.hottest);
    let name = place.to_string();
    let name = printable(&name);
    let (offset, more) = match place {
        Owner::Function(function) => (bin.start.saturating_sub(function.start), all.saturating_sub(1)),
        Owner::BootRom | Owner::Range { .. } => (0, all),
    };
    let offset = if offset == 0 { String::new() } else { format!("+{offset:#x}") };
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    (name.into_owned(), offset + &more)
}

/// Draws the bar of a bin, in eighths of a column.
fn bar(insns: u64, most_insns: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (insns as f64 / most_insns.max(1) as f64 * (8 * BAR_COLUMNS) as f64).round() as usize;
    // Never empty for a bin with executed instructions.
    let eighths = eighths.max(usize::from(insns > 0));
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    #[test]
    fn bins_name_the_function_they_lie_in_and_add_up() {
        let profile = empty()
            .function("main", 0x40, 8)
            .function("tiny", 0x48, 2)
            .insn(0x40, 1000)
            .insn(0x46, 20)
            .insn(0x48, 500)
            .insn(0x100, 3)
            .sampled();
        let shown = |bin_bytes, top_rows, order| {
            let mut out = Vec::new();
            write(&profile, BinsTable { bin_bytes, top_rows, order, width_columns: None }, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            shown(2, Some(3), Order::Address),
            "\
Address     Instructions    Share  Samples                        Function
0x00000040         1,000   65.66%      100  ████████████████████  main
0x00000046            20    1.31%        2  ▍                     main+0x6
0x00000048           500   32.83%       50  ██████████            tiny
1 more                 3    0.20%        0
Total              1,523  100.00%      152
"
        );
        let coarse = shown(16, None, Order::Count);
        assert!(coarse.contains("main and 1 more\n") && coarse.contains("[0x00000100..0x000001ff]\n"), "{coarse}");
    }

    #[test]
    fn functions_out_of_order_are_shown_all_the_same() {
        let profile = empty().function("far", 0x100, 0x10).function("main", 0x40, 8).insn(0x42, 3);
        let table = BinsTable { bin_bytes: 16, top_rows: None, order: Order::Address, width_columns: None };
        let mut out = Vec::new();
        write(&profile, table, &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("main"));
    }
}
