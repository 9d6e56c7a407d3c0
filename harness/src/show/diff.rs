// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table of the changes between two profiles.

use std::io::{self, Write};

use crate::analysis::compare::{Change, Comparison, Pair};
use crate::analysis::metrics::Metric;
use crate::show::names;
use crate::show::table_size::TableSize;
use crate::text::columns::columns;
use crate::text::number::{group_known, signed_percent};
use crate::text::table::{write_rows, write_table, write_toned_table};

/// Columns of the table. A function's two numbers have headings of their own, and the second is shown only if it
/// differs.
const HEADINGS: [&str; COLUMNS] =
    ["Function", "Own before", "Own after", "Change", "Of the total", "With inlined", "Calls"];
const COLUMNS: usize = 7;
const WITH_INLINED: usize = 5;
const CALLS: usize = 6;

/// Columns of a name that is still read well, for which others make room.
const NAME_COLUMNS: usize = 24;

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
        lines.push(row(named(change), change.self_insns(), change.code_insns(), change.numbers[Metric::Calls]));
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
    let mut lines: Vec<Vec<String>> = lines.into_iter().map(Vec::from).collect();
    let left_out = narrow(&mut lines, size.width_columns);
    names::fit(&mut lines, 0, size.width_columns);
    write_toned_table(&lines, &tones, out)?;
    if lines[0].iter().any(|heading| heading == HEADINGS[WITH_INLINED]) {
        writeln!(out, "{LEGEND}\n")?;
    }
    if !left_out.is_empty() {
        writeln!(out, "no room for {}: a wider terminal or a pipe shows all columns\n", left_out.join(" and "))?;
    }
    write_cycles(comparison, size, out)?;
    write_zones(comparison, size.width_columns, out)
}

/// Leaves out the columns without entries, and those that the terminal has no room for beside the names. Returns the
/// headings of the latter.
fn narrow(lines: &mut [Vec<String>], width_columns: Option<usize>) -> Vec<&'static str> {
    let widest = |column: usize| lines.iter().map(|line| columns(&line[column])).max().unwrap_or(0);
    let is_empty = |column: usize| lines[1..].iter().all(|line| line[column].is_empty());
    let mut kept: Vec<usize> = (0..COLUMNS).filter(|&column| column != WITH_INLINED || !is_empty(column)).collect();
    let mut left_out = Vec::new();
    for column in [WITH_INLINED, CALLS] {
        let others: usize = kept[1..].iter().map(|&other| widest(other) + 2).sum();
        let is_too_wide = width_columns.is_some_and(|width| widest(0).min(NAME_COLUMNS) + others > width);
        if is_too_wide && kept.contains(&column) && !is_empty(column) {
            kept.retain(|&other| other != column);
            left_out.push(HEADINGS[column]);
        }
    }
    for line in lines {
        *line = kept.iter().map(|&column| std::mem::take(&mut line[column])).collect();
    }
    left_out
}

/// A function's name, with its fate.
fn named(change: &Change) -> String {
    match change.fate.describe() {
        "" => change.name.clone(),
        fate => format!("{} [{fate}]", change.name),
    }
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

/// Whether both sides know their cycles: what was not counted is not 0.
fn knows_cycles(comparison: &Comparison) -> bool {
    let Pair { before, after } = comparison.run[Metric::Cycles];
    before.is_some() && after.is_some()
}

/// Writes the table of the functions whose own cycles changed; nothing unless both sides know their cycles.
fn write_cycles(comparison: &Comparison, size: TableSize, out: &mut impl Write) -> io::Result<()> {
    let total = comparison.run[Metric::Cycles];
    let Some(whole) = total.before.filter(|_| knows_cycles(comparison)) else { return Ok(()) };
    let own = |change: &&Change| change.numbers[Metric::SelfCycles];
    let mut changed: Vec<&Change> =
        comparison.functions.iter().filter(|change| own(change).difference() != 0).collect();
    // A stable sort: equal ones stay in the order of the functions above.
    changed.sort_by_key(|change| std::cmp::Reverse(own(change).difference().unsigned_abs()));
    let row = |name: String, own: Pair| {
        let share = signed_percent(own.difference(), whole);
        [name, group_known(own.before), group_known(own.after), own_change(own), share]
    };
    let mut lines =
        vec![["Function (cycles)", "Own before", "Own after", "Change", "Of the total"].map(str::to_owned)];
    let rest = changed.split_off(size.top_rows.unwrap_or(changed.len()).min(changed.len()));
    lines.extend(changed.iter().map(|change| row(named(change), own(change))));
    if !rest.is_empty() {
        let sum: i128 = rest.iter().map(|change| own(change).difference()).sum();
        let mut line = [const { String::new() }; 5];
        line[0] = format!("{} others", rest.len());
        line[4] = signed_percent(sum, whole);
        lines.push(line);
    }
    lines.push(row("total".to_owned(), total));
    names::fit(&mut lines, 0, size.width_columns);
    write_table(&lines, out)
}

/// Writes the tables of the zones that changed: in instructions, and in cycles if both sides know them.
fn write_zones(comparison: &Comparison, width_columns: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let table = |heading: &[&str], total: Metric, of_zone: Metric, others: &[Metric]| {
        let mut lines = vec![heading.iter().map(|&cell| cell.to_owned()).collect::<Vec<String>>()];
        let whole = comparison.run[total].before.unwrap_or(0);
        let is_changed = |pair: Pair| pair.before != pair.after;
        for zone in comparison.zones.iter().filter(|zone| zone.is_one()) {
            let pair = zone.numbers[of_zone];
            if !is_changed(pair) && !others.iter().any(|&metric| is_changed(zone.numbers[metric])) {
                continue;
            }
            let share = signed_percent(pair.difference(), whole);
            let numbers = others.iter().map(|&metric| both(zone.numbers[metric]));
            lines.push([zone.name.clone(), both(pair), share].into_iter().chain(numbers).collect());
        }
        lines
    };
    let insns = table(
        &["Zone", "Instructions", "Of the total", "Elapsed", "Calls", "Mean", "Longest"],
        Metric::Total,
        Metric::Zone,
        &[Metric::ZoneElapsed, Metric::ZoneCalls, Metric::ZoneMean, Metric::ZoneMax],
    );
    let cycles = table(
        &["Zone (cycles)", "Cycles", "Of the total", "Longest"],
        Metric::Cycles,
        Metric::ZoneCycles,
        &[Metric::ZoneMaxCycles],
    );
    let cycles = Some(cycles).filter(|_| knows_cycles(comparison));
    for mut lines in [insns].into_iter().chain(cycles).filter(|lines| lines.len() > 1) {
        names::fit(&mut lines, 0, width_columns);
        write_rows(&lines, 1, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<Vec<String>> {
        let row =
            ["a_function_of_a_module", "10,848,000", "21,696,000", "+100.00%", "+50.00%", "1 → 22,000,000", "1 → 3"];
        vec![HEADINGS.map(str::to_owned).to_vec(), row.map(str::to_owned).to_vec()]
    }

    #[test]
    fn a_narrow_terminal_has_the_columns_that_fit_beside_the_names() {
        let narrowed = |width| {
            let mut lines = lines();
            let left_out = narrow(&mut lines, width);
            let cells = lines[1].iter().map(|cell| columns(cell) + 2).sum::<usize>();
            (left_out, lines[0].len(), width.is_none_or(|width| cells <= width + 2))
        };
        assert_eq!(narrowed(None), (vec![], 7, true));
        assert_eq!(narrowed(Some(120)), (vec![], 7, true));
        assert_eq!(narrowed(Some(80)), (vec!["With inlined"], 6, true));
        assert_eq!(narrowed(Some(72)), (vec!["With inlined", "Calls"], 5, true));
    }

    #[test]
    fn a_column_without_entries_is_left_out_without_a_word() {
        let mut lines = lines();
        lines[1][WITH_INLINED].clear();
        assert_eq!((narrow(&mut lines, None), lines[0].len()), (vec![], 6));
    }
}
