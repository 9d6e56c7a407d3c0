//! Table of the changes between two profiles.

use std::io::{self, Write};

use crate::analysis::compare::{Change, Comparison, Pair};
use crate::analysis::metrics::Metric;
use crate::show::names;
use crate::show::table_size::TableSize;
use crate::text::number::{group_known, signed_percent};
use crate::text::table::{write_table, write_toned_table};

/// Columns of the table. A function's two numbers have headings of their own, and the second is shown only if it
/// differs.
const HEADINGS: [&str; COLUMNS] =
    ["Function", "Own before", "Own after", "Change", "Of the total", "With inlined", "Calls"];
const COLUMNS: usize = 7;

/// Explains which instructions are which, where both are shown.
const LEGEND: &str = "own: instructions of a function's own lines, wherever they are inlined; with inlined: \
     instructions of its code, with what is inlined into it, as in harness top";

/// Writes the functions, tasks and zones that changed, largest share of the total change first.
///
/// # Errors
/// Errors of `out`.
pub fn write(comparison: &Comparison, size: TableSize, out: &mut impl Write) -> io::Result<()> {
    let changed: Vec<&Change> = comparison.functions.iter().filter(|change| change.is_one()).collect();
    let whole = comparison.total_insns().before.unwrap_or(0);
    let row = |name: String, own: Pair, code: Option<Pair>, calls: Pair| {
        let code = code.map(both).unwrap_or_default();
        let calls = if calls.difference() == 0 { String::new() } else { both(calls) };
        let share = signed_percent(own.difference(), whole);
        [name, group_known(own.before), group_known(own.after), own_change(own), share, code, calls]
    };
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    let mut tones = Vec::new();
    let shown = size.top_rows.unwrap_or(changed.len()).min(changed.len());
    for change in &changed[..shown] {
        let fate = match change.fate.describe() {
            "" => String::new(),
            fate => format!(" [{fate}]"),
        };
        let name = format!("{}{fate}", change.name);
        lines.push(row(name, change.self_insns(), change.code_insns(), change.numbers[Metric::Calls]));
        tones.push(change.self_insns().tone(whole));
    }
    if shown < changed.len() {
        let rest: i128 = changed[shown..].iter().map(|change| change.self_insns().difference()).sum();
        let mut line = [const { String::new() }; COLUMNS];
        line[0] = format!("{} others", changed.len() - shown);
        line[4] = signed_percent(rest, whole);
        lines.push(line);
    }
    for task in comparison.tasks.iter().filter(|task| task.is_one()) {
        lines.push(row(format!("task {}", task.name), task.numbers[Metric::TaskInsns], None, Pair::default()));
    }
    lines.push(row("total".to_owned(), comparison.total_insns(), None, Pair::default()));
    names::fit(&mut lines, 0, size.width_columns);
    // A column without entries is left out.
    let is_empty = |column: usize| lines[1..].iter().all(|line| line[column].is_empty());
    if is_empty(5) {
        let lines: Vec<[String; COLUMNS - 1]> = lines
            .into_iter()
            .map(|[name, before, after, change, share, _, calls]| [name, before, after, change, share, calls])
            .collect();
        write_toned_table(&lines, &tones, out)?;
    } else {
        write_toned_table(&lines, &tones, out)?;
        writeln!(out, "{LEGEND}\n")?;
    }
    write_zones(comparison, size.width_columns, out)
}

/// Formats a number before and after, or once if the two are equal.
fn both(pair: Pair) -> String {
    match pair.before == pair.after {
        true => group_known(pair.after),
        false => format!("{} \u{2192} {}", group_known(pair.before), group_known(pair.after)),
    }
}

/// Formats a number's change relative to its value before; empty if one of the two is missing or the value before was
/// 0.
fn own_change(pair: Pair) -> String {
    match (pair.before, pair.after) {
        (Some(before @ 1..), Some(_)) => signed_percent(pair.difference(), before),
        _ => String::new(),
    }
}

/// Writes the table of the zones that changed.
fn write_zones(comparison: &Comparison, width_columns: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let mut lines =
        vec![["Zone", "Instructions", "Of the total", "Elapsed", "Calls", "Mean", "Longest"].map(str::to_owned)];
    let whole = comparison.total_insns().before.unwrap_or(0);
    for zone in comparison.zones.iter().filter(|zone| zone.is_one()) {
        let insns = zone.numbers[Metric::Zone];
        let numbers = [Metric::ZoneElapsed, Metric::ZoneCalls, Metric::ZoneMean, Metric::ZoneMax];
        let [elapsed, calls, mean, max] = numbers.map(|metric| both(zone.numbers[metric]));
        let share = signed_percent(insns.difference(), whole);
        lines.push([zone.name.clone(), both(insns), share, elapsed, calls, mean, max]);
    }
    names::fit(&mut lines, 0, width_columns);
    if lines.len() > 1 { write_table(&lines, out) } else { Ok(()) }
}
