//! Table of the changes between two profiles.

use std::io::{self, Write};

use crate::analysis::compare::{Change, Comparison, Pair};
use crate::analysis::metrics::Metric;
use crate::text::number::{group_known, signed_percent};
use crate::text::table::write_table;

/// Writes the functions, tasks and zones that changed, largest share of the total change first.
///
/// # Errors
/// Errors of `out`.
pub fn write(comparison: &Comparison, most_rows: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let changed: Vec<&Change> = comparison.functions.iter().filter(|change| change.is_one()).collect();
    let whole = comparison.total_insns().before.unwrap_or(0);
    let row = |name: String, numbers: Pair, calls: Pair| {
        let calls = if calls.difference() == 0 {
            String::new()
        } else {
            format!("{} \u{2192} {}", group_known(calls.before), group_known(calls.after))
        };
        let change = signed_percent(numbers.difference(), whole);
        [name, group_known(numbers.before), group_known(numbers.after), change, calls]
    };
    let mut lines = vec![["Function", "Before", "After", "Of the total", "Calls"].map(str::to_owned)];
    let shown = most_rows.unwrap_or(changed.len()).min(changed.len());
    for change in &changed[..shown] {
        let fate = match change.fate.describe() {
            "" => String::new(),
            fate => format!(" [{fate}]"),
        };
        lines.push(row(format!("{}{fate}", change.name), change.self_insns(), change.numbers[Metric::Calls]));
    }
    if shown < changed.len() {
        let rest: i128 = changed[shown..].iter().map(|change| change.self_insns().difference()).sum();
        let name = format!("{} others", changed.len() - shown);
        lines.push([name, String::new(), String::new(), signed_percent(rest, whole), String::new()]);
    }
    for task in comparison.tasks.iter().filter(|task| task.is_one()) {
        lines.push(row(format!("task {}", task.name), task.numbers[Metric::TaskInsns], Pair::default()));
    }
    lines.push(row("total".to_owned(), comparison.total_insns(), Pair::default()));
    write_table(&lines, out)?;
    write_zones(comparison, out)
}

/// Writes the zones that changed: totals and durations of one call.
fn write_zones(comparison: &Comparison, out: &mut impl Write) -> io::Result<()> {
    let mut lines =
        vec![["Zone", "Instructions", "Of the total", "Calls", "Mean", "Max instructions"].map(str::to_owned)];
    let whole = comparison.total_insns().before.unwrap_or(0);
    let changed = |pair: Pair| match pair.before == pair.after {
        true => group_known(pair.after),
        false => format!("{} \u{2192} {}", group_known(pair.before), group_known(pair.after)),
    };
    for zone in comparison.zones.iter().filter(|zone| zone.is_one()) {
        let insns = zone.numbers[Metric::Zone];
        let [calls, mean, max] =
            [Metric::ZoneCalls, Metric::ZoneMean, Metric::ZoneMax].map(|metric| changed(zone.numbers[metric]));
        let share = signed_percent(insns.difference(), whole);
        lines.push([zone.name.clone(), changed(insns), share, calls, mean, max]);
    }
    if lines.len() > 1 { write_table(&lines, out) } else { Ok(()) }
}
