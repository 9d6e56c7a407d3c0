// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of zones and marks, below the interrupts' table.

use std::io::{self, Write};

use crate::analysis::cycles;
use crate::analysis::zone::{Row, remarks, table};
use crate::profile::Profile;
use crate::profile::zone::{ZoneCounts, ZoneCycles};
use crate::show::names;
use crate::text::number::{group, mean, share};
use crate::text::printable::printable;
use crate::text::table::write_table;

/// Writes the tables, and remarks on unbalanced zones; nothing if the firmware names nothing. Names are shortened to a width
/// (None: whole).
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, width_columns: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let (calls, rows): (Vec<Row>, Vec<Row>) = table(profile).into_iter().partition(|row| row.is_call);
    let total = profile.total_insns();
    write_calls(&calls, total, width_columns, out)?;
    if rows.iter().any(|row| row.all.calls > 0) {
        let heading = ["Zone", "In", "Calls", "Instructions", "Share", "Own", "Shortest", "Mean", "Longest"];
        let in_insns = |counts: &ZoneCounts| {
            let lengths = [counts.own_insns, counts.min_insns, counts.mean_insns(), counts.max_insns];
            (counts.total_insns, total, lengths)
        };
        write_zones(heading, &rows, in_insns, width_columns, out)?;
    }
    if let Some(total) = cycles::total(profile).filter(|_| rows.iter().any(|row| row.all.calls > 0)) {
        let heading = ["Zone (cycles)", "In", "Calls", "Cycles", "Share", "Own", "Shortest", "Mean", "Longest"];
        let in_cycles = |counts: &ZoneCounts| {
            let ZoneCycles { times, total: of_zone, own, .. } = counts.cycles;
            (of_zone, total, [own, times.min, counts.mean_cycles(), times.max])
        };
        write_zones(heading, &rows, in_cycles, width_columns, out)?;
    }
    let remarks = remarks(&rows);
    if !remarks.is_empty() && rows.iter().all(|row| row.all.calls == 0) {
        writeln!(out)?;
    }
    for remark in remarks {
        writeln!(out, "{}", printable(&remark))?;
    }
    if !profile.zones.marks.is_empty() {
        let mut lines = vec![["Mark", "Times", "Lowest", "Mean", "Highest", "Last"].map(str::to_owned)];
        for mark in &profile.zones.marks {
            let name = printable(profile.zones.name(mark.name)).into_owned();
            let [min, mean, max, last] = [mark.min, mark.mean(), mark.max, mark.last].map(signed);
            lines.push([name, group(mark.count), min, mean, max, last]);
        }
        names::fit(&mut lines, 0, width_columns);
        write_table(&lines, out)?;
    }
    Ok(())
}

/// Writes the table of the zones that are calls: a line for each name. A test case's thread may be another one each time,
/// and be left without a return.
fn write_calls(rows: &[Row], total: u64, width_columns: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let heading = ["Call", "Times", "Instructions", "Share", "Mean", "Of its own thread", "Left"];
    let mut lines = vec![heading.map(str::to_owned)];
    for Row { name, all, .. } in rows {
        let mean = mean(all.elapsed_insns, all.calls).unwrap_or(0);
        let [name, times] = [printable(name).into_owned(), group(all.calls)];
        let [elapsed, own] = [all.elapsed_insns, all.total_insns].map(group);
        let left = match all.left + all.open {
            0 => String::new(),
            left => group(left),
        };
        lines.push([name, times, elapsed, share(all.elapsed_insns, total), group(mean), own, left]);
    }
    names::fit(&mut lines, 0, width_columns);
    write_table(&lines, out)?;
    if rows.iter().any(|row| row.all.left + row.all.open > 0) {
        writeln!(
            out,
            "left: calls that did not return (a test that failed or was skipped); their instructions are in no row\n"
        )?;
    }
    Ok(())
}

/// Writes a table of the zones. `numbers`: a zone's number, the run's of which it is a share, and the zone's own, shortest, mean
/// and longest.
fn write_zones(
    heading: [&str; 9],
    rows: &[Row],
    numbers: impl Fn(&ZoneCounts) -> (u64, u64, [u64; 4]),
    width_columns: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    let line = |name: String, context: &str, counts: &ZoneCounts| {
        let (of_zone, whole, lengths) = numbers(counts);
        let [own, min, mean, max] = lengths.map(group);
        let context = printable(context).into_owned();
        [name, context, group(counts.calls), group(of_zone), share(of_zone, whole), own, min, mean, max]
    };
    let mut lines = vec![heading.map(str::to_owned)];
    for Row { name, all, contexts, .. } in rows.iter().filter(|row| row.all.calls > 0) {
        let name = printable(name).into_owned();
        if let [(context, _)] = &contexts[..] {
            lines.push(line(name, context, all));
            continue;
        }
        lines.push(line(name, "all", all));
        for (context, counts) in contexts.iter().filter(|(_, counts)| counts.calls > 0) {
            lines.push(line(String::new(), context, counts));
        }
    }
    names::fit(&mut lines, 0, width_columns);
    names::fit(&mut lines, 1, width_columns);
    write_table(&lines, out)
}

fn signed(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    sign.to_owned() + &group(value.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;
    use crate::profile::zone::{Context, Mark, Zone};

    #[test]
    fn zones_and_marks_are_tables_and_what_is_not_balanced_has_a_line() {
        let mut profile = empty().function("main", 0x40, 4).insn(0x40, 1000);
        profile.zones.names = ["decode", "frame", "lost"].map(str::to_owned).to_vec();
        let counts = ZoneCounts {
            calls: 4,
            sum_insns: 500,
            total_insns: 500,
            own_insns: 300,
            min_insns: 100,
            max_insns: 200,
            ..Default::default()
        };
        let lost = ZoneCounts { orphans: 1, ..Default::default() };
        let zone = |name, counts| Zone { name, context: Context::Task(0), counts };
        profile.zones.zones = vec![zone(1, counts), zone(3, lost)];
        profile.zones.marks = vec![Mark { name: 2, count: 3, min: -1200, max: 5, sum: -1100, last: 5 }];
        let mut out = Vec::new();
        write(&profile, None, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "
Zone          In  Calls  Instructions   Share  Own  Shortest  Mean  Longest
decode  [thread]      4           500  50.00%  300       100   125      200

zone lost: 1 time ended where it had not begun

Mark   Times  Lowest  Mean  Highest  Last
frame      3  -1,200  -367        5     5

"
        );
        let mut nothing = Vec::new();
        write(&empty(), None, &mut nothing).unwrap();
        assert!(nothing.is_empty());
    }
}
