// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables below the functions' table: tasks, interrupts, and completeness of the stacks.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::analysis::stack_remarks::{paint_left, remarks, stack_left};
use crate::analysis::{cycles, stacks, time};
use crate::profile::{Profile, Task};
use crate::show::names;
use crate::show::table_size::TableSize;
use crate::text::number::{group, plural, share};
use crate::text::table::{write_rows, write_toned_table};
use crate::text::tone::Tone;

/// Writes the tables of tasks and interrupts, if there are any, and the remarks on stacks. Each table has at most
/// `size.top_rows` rows, and a line with the sum of the others.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, size: TableSize, out: &mut impl Write) -> io::Result<()> {
    if !profile.tasks.is_empty() {
        tasks(profile, size, out)?;
    }
    if let Some(line) = idle(profile) {
        writeln!(out, "{line}")?;
    }
    interrupts(profile, size, out)?;
    for line in remarks(profile) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Writes the table of interrupts: their samples and, if known, their cycles, which are exact.
fn interrupts(profile: &Profile, size: TableSize, out: &mut impl Write) -> io::Result<()> {
    let (cycles, whole_cycles) = (cycles::by_interrupt(profile), cycles::total(profile).unwrap_or(0));
    let has_cycles = cycles.is_some();
    let mut interrupts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (name, samples) in stacks::interrupts(profile) {
        interrupts.entry(name).or_default().0 += samples;
    }
    for (name, cycles) in cycles.into_iter().flatten() {
        interrupts.entry(name).or_default().1 += cycles;
    }
    if interrupts.is_empty() {
        return Ok(());
    }
    let total = profile.samples.len() as u64;
    let mut rows: Vec<_> = interrupts.into_iter().collect();
    rows.sort_by_key(|(_, sums)| std::cmp::Reverse(*sums));
    let rest = split(&mut rows, size.top_rows);
    if !rest.is_empty() {
        let sum = rest.iter().fold((0, 0), |sum, (_, of)| (sum.0 + of.0, sum.1 + of.1));
        rows.push((more(rest.len(), "interrupt"), sum));
    }
    let cells = |cells: [String; 5]| cells.into_iter().take(if has_cycles { 5 } else { 3 }).collect::<Vec<String>>();
    let mut lines = vec![cells(["Interrupt", "Samples", "Share", "Cycles", "Share"].map(str::to_owned))];
    lines.extend(rows.into_iter().map(|(name, (samples, cycles))| {
        cells([name, group(samples), share(samples, total), group(cycles), share(cycles, whole_cycles)])
    }));
    names::fit(&mut lines, 0, size.width_columns);
    write_rows(&lines, 1, out)
}

/// Splits off the rows that a table has no room for. A single remaining row is shown, since the line about it would
/// take as much room.
pub(super) fn split<T>(rows: &mut Vec<T>, top_rows: Option<usize>) -> Vec<T> {
    let shown = top_rows.filter(|&top| top + 1 < rows.len()).unwrap_or(rows.len());
    rows.split_off(shown)
}

/// Text of the line for the rows left out, with the option that shows them.
pub(super) fn more(rows: usize, noun: &str) -> String {
    format!("{} more {noun}s (--top 0)", group(rows as u64))
}

/// Column of the tasks' shares of the time.
const TIME_COLUMN: usize = 3;

/// Writes the table of tasks.
///
/// # Errors
/// Errors of `out`.
pub fn tasks(profile: &Profile, size: TableSize, out: &mut impl Write) -> io::Result<()> {
    let total = profile.total_insns();
    let mut rows: Vec<(&Task, String)> = profile.tasks.iter().zip(stacks::task_names(profile)).collect();
    // Stable: equal ones stay in the order in which they first ran.
    rows.sort_by_key(|(task, _)| std::cmp::Reverse(task.insns));
    let has_time = rows.iter().any(|(task, _)| time::share_of(task, profile).is_some());
    // The share of the time is left out where it is that of the instructions.
    let cells = |cells: [String; 7]| {
        let kept = cells.into_iter().enumerate().filter(|(column, _)| has_time || *column != TIME_COLUMN);
        kept.map(|(_, cell)| cell).collect::<Vec<String>>()
    };
    let header = ["Task", "Instructions", "Share", "Time", "Switched in", "Stack left", "Paint left"];
    let mut lines = vec![cells(header.map(str::to_owned))];
    let rest = split(&mut rows, size.top_rows);
    let tones: Vec<Tone> = rows.iter().map(|(task, _)| Tone::of(task.insns, total)).collect();
    for (task, name) in rows {
        lines.push(cells([
            name,
            group(task.insns),
            share(task.insns, total),
            time::share_of(task, profile).unwrap_or_default(),
            group(task.switches),
            stack_left(task, !profile.tree.is_empty()),
            paint_left(task),
        ]));
    }
    if !rest.is_empty() {
        let sum = |count: fn(&Task) -> u64| rest.iter().map(|(task, _)| count(task)).sum::<u64>();
        let insns = sum(|task| task.insns);
        let switches = group(sum(|task| task.switches));
        let none = String::new;
        lines.push(cells([
            more(rest.len(), "task"),
            group(insns),
            share(insns, total),
            none(),
            switches,
            none(),
            none(),
        ]));
    }
    names::fit(&mut lines, 0, size.width_columns);
    write_toned_table(&lines, &tones, out)?;
    let unseen = profile.facts.unseen_switches;
    if unseen > 0 {
        writeln!(
            out,
            "warning: {} switches between tasks were only noticed at a sample; counts per task are estimates",
            group(unseen)
        )?;
    }
    Ok(())
}

/// Line about idle time: in the kernel's idle tasks, where a processor would have slept in a `wfe`, and in code that
/// only waits. None: there was no idle time.
fn idle(profile: &Profile) -> Option<String> {
    let slept = profile.facts.slept_insns;
    let waits = format!("{} for an interrupt", plural(profile.facts.waits, "wait"));
    let functions = time::waiting_functions(profile);
    if profile.tasks.is_empty() && slept == 0 && functions.is_empty() {
        return (profile.facts.waits > 0).then_some(waits);
    }
    let idle = share(time::idle_insns(profile), profile.total_insns());
    let why = if slept > 0 { " (QEMU goes on at a wfe; a chip would sleep)" } else { "" };
    if functions.is_empty() {
        return Some(format!("idle: {idle} of the instructions{why}; {waits}"));
    }
    // Calls within each other are counted twice, and the way out of one may not have been seen.
    let kind = if profile.facts.waiting.unsure > 0 { "about " } else { "" };
    let insns = group(time::waiting_insns(profile));
    let functions = functions.join(", ");
    Some(format!("idle: {kind}{idle} of the instructions{why}, {insns} of them in {functions}; {waits}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::WaitingCode;
    use crate::profile::testing::empty;

    fn task(name: &str, insns: u64) -> Task {
        Task {
            name: name.to_owned(),
            tcb: 0x2000_0000,
            stack_start: Some(0x2000_1000),
            stack_end: Some(0x2000_1400),
            is_idle: name == "IDLE",
            poll: None,
            insns,
            switches: 3,
            deepest_sp: Some(0x2000_1300),
            highest_sp: None,
            painted_bytes: Some(0x2e0),
            slept_ns: 0,
            ahead_ns: 0,
            overflow: None,
        }
    }

    fn shown(profile: &Profile) -> String {
        let mut out = Vec::new();
        write(profile, TableSize { top_rows: Some(20), ..TableSize::default() }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_image_without_tasks_has_no_table_of_them() {
        assert_eq!(shown(&empty().function("main", 0x40, 4).insn(0x40, 10).sampled()), "");
    }

    #[test]
    fn tasks_come_hottest_first_and_namesakes_are_told_apart() {
        let mut profile = empty().function("main", 0x40, 4).insn(0x40, 1000);
        profile.tasks = vec![task("worker", 100), task("IDLE", 250), task("worker", 600)];
        profile.tasks[2].stack_end = None;
        profile.facts.waits = 2;
        assert_eq!(
            shown(&profile),
            "
Task        Instructions   Share  Switched in      Stack left    Paint left
worker (2)           600  60.00%            3           \u{2264} 768           736
IDLE                 250  25.00%            3  \u{2264} 768 of 1,024  736 of 1,024
worker               100  10.00%            3  \u{2264} 768 of 1,024  736 of 1,024

idle: 25.00% of the instructions; 2 waits for an interrupt
"
        );
    }

    #[test]
    fn code_that_only_waits_is_idle() {
        let mut profile = empty().function("main", 0x40, 8).insn(0x40, 200).insn(0x42, 50).insn(0x44, 750);
        let waiting = &mut profile.facts.waiting;
        waiting.functions = vec!["delay".to_owned(), "delayMicroseconds".to_owned()];
        waiting.code = vec![
            WaitingCode { start: 0x40, end: 0x44, function: 0 },
            WaitingCode { start: 0x46, end: 0x48, function: 1 },
        ];
        waiting.calls = vec![0x42];
        waiting.called_insns = 150;
        let line = "\nidle: 35.00% of the instructions, 350 of them in delay(); 0 waits for an interrupt\n";
        assert_eq!(shown(&profile), line.trim_start());
        profile.facts.waiting.unsure = 1;
        assert!(shown(&profile).starts_with("idle: about 35.00%"), "{}", shown(&profile));
    }

    #[test]
    fn of_many_tasks_the_rest_is_one_row_that_adds_up() {
        let mut profile = empty().function("main", 0x40, 4).insn(0x40, 1000);
        profile.tasks = (1..=86).map(|number| task(&format!("t{number}"), number)).collect();
        let shown = |top_rows| {
            let mut out = Vec::new();
            write(&profile, TableSize { top_rows, ..TableSize::default() }, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = shown(Some(20));
        assert_eq!(text.lines().filter(|line| line.starts_with('t')).count(), 20, "{text}");
        // Tasks 1 to 66.
        let rest = text.lines().find(|line| line.starts_with("66 more tasks (--top 0)")).unwrap();
        let cells: Vec<&str> = rest.split_whitespace().skip(5).collect();
        assert_eq!(cells, ["2,211", "221.10%", "198"], "{text}");
        for all in [shown(None), shown(Some(85))] {
            assert!(all.contains("\nt1 ") && !all.contains("more tasks"), "{all}");
        }
    }
}
