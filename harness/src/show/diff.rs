//! Table of the changes between two profiles.

use std::io::{self, Write};

use crate::analysis::compare::{Change, Comparison, Pair};
use crate::analysis::metrics::Metric;
use crate::show::names;
use crate::text::columns::columns;
use crate::text::number::{group_known, signed_percent};
use crate::text::table::write_table;

/// Limits of the table's length and width.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableSize {
    /// Most functions shown; None shows all.
    pub top_rows: Option<usize>,
    /// Columns of the terminal, to which names are cut; None: names are whole.
    pub width_columns: Option<usize>,
}

/// Columns of the table. A function's two numbers have headings of their own, and the second is shown only if it
/// differs.
const HEADINGS: [&str; COLUMNS] =
    ["Function", "Own before", "Own after", "Change", "Of the total", "With inlined", "Calls"];
const COLUMNS: usize = 7;

/// Explains which instructions are which, where both are shown.
const LEGEND: &str = "own: instructions of a function's own lines, wherever they are inlined; with inlined: \
     instructions of its code, with what is inlined into it, as in harness top";

/// Names are not shortened below this, however narrow the terminal is.
const MIN_NAME_COLUMNS: usize = 16;

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
    let shown = size.top_rows.unwrap_or(changed.len()).min(changed.len());
    for change in &changed[..shown] {
        let fate = match change.fate.describe() {
            "" => String::new(),
            fate => format!(" [{fate}]"),
        };
        let name = format!("{}{fate}", change.name);
        lines.push(row(name, change.self_insns(), change.code_insns(), change.numbers[Metric::Calls]));
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
    fit(&mut lines, size.width_columns);
    // A column without entries is left out.
    let is_empty = |column: usize| lines[1..].iter().all(|line| line[column].is_empty());
    if is_empty(5) {
        let lines: Vec<[String; COLUMNS - 1]> = lines
            .into_iter()
            .map(|[name, before, after, change, share, _, calls]| [name, before, after, change, share, calls])
            .collect();
        write_table(&lines, out)?;
    } else {
        write_table(&lines, out)?;
        writeln!(out, "{LEGEND}\n")?;
    }
    write_zones(comparison, out)
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

/// Shortens names so that the lines fit into a width.
fn fit(lines: &mut [[String; COLUMNS]], width_columns: Option<usize>) {
    let Some(width_columns) = width_columns else { return };
    let width = |column: usize| lines.iter().map(|line| columns(&line[column])).max().unwrap_or(0);
    let others: usize = (1..COLUMNS).map(width).map(|width| width + 2).sum();
    let most = width_columns.saturating_sub(others).max(MIN_NAME_COLUMNS);
    let names: Vec<(&str, usize)> = lines.iter().map(|line| (line[0].as_str(), most)).collect();
    for (cell, line) in names::cells(&names).into_iter().zip(lines) {
        line[0] = cell;
    }
}

/// Writes the table of the zones that changed.
fn write_zones(comparison: &Comparison, out: &mut impl Write) -> io::Result<()> {
    let mut lines = vec![
        ["Zone", "Instructions", "Of the total", "Elapsed", "Calls", "Mean", "Max instructions"].map(str::to_owned),
    ];
    let whole = comparison.total_insns().before.unwrap_or(0);
    for zone in comparison.zones.iter().filter(|zone| zone.is_one()) {
        let insns = zone.numbers[Metric::Zone];
        let numbers = [Metric::ZoneElapsed, Metric::ZoneCalls, Metric::ZoneMean, Metric::ZoneMax];
        let [elapsed, calls, mean, max] = numbers.map(|metric| both(zone.numbers[metric]));
        let share = signed_percent(insns.difference(), whole);
        lines.push([zone.name.clone(), both(insns), share, elapsed, calls, mean, max]);
    }
    if lines.len() > 1 { write_table(&lines, out) } else { Ok(()) }
}
