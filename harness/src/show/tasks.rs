//! Tables below the functions' table: tasks, interrupts, and completeness of the stacks.

use std::io::{self, Write};

use crate::analysis::place::Place;
use crate::analysis::stack_proof;
use crate::analysis::stacks;
use crate::analysis::time;
use crate::profile::{Profile, Task};
use crate::text::number::{group, plural, share, share_at_least};
use crate::text::table::write_table;

/// Writes the tables of tasks and interrupts, if there are any, and the remarks on stacks. Each table has at most
/// `top_rows` rows (None: all), and a line with the sum of the others.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, top_rows: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    if !profile.tasks.is_empty() {
        tasks(profile, top_rows, out)?;
    }
    if let Some(line) = idle(profile) {
        writeln!(out, "{line}")?;
    }
    let interrupts = stacks::interrupts(profile);
    let total = profile.samples.len() as u64;
    if !interrupts.is_empty() {
        let mut rows: Vec<_> = interrupts.into_iter().collect();
        rows.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
        let mut lines = vec![["Interrupt".to_owned(), "Samples".to_owned(), "Share".to_owned()]];
        let rest = split(&mut rows, top_rows);
        lines.extend(rows.into_iter().map(|(name, samples)| [name, group(samples), share(samples, total)]));
        if !rest.is_empty() {
            let samples = rest.iter().map(|(_, samples)| samples).sum();
            lines.push([more(rest.len(), "interrupt"), group(samples), share(samples, total)]);
        }
        write_table(&lines, out)?;
    }
    for line in remarks(profile) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Lines about the completeness and the depth of stacks.
pub(crate) fn remarks(profile: &Profile) -> Vec<String> {
    let total = profile.samples.len() as u64;
    let mut lines = Vec::new();
    if profile.facts.max_depth.is_some() && total > 0 {
        let unknown = stacks::unknown(profile);
        let complete = total - unknown.values().sum::<u64>();
        let mut line = format!("stacks: {} sampled, {} complete", group(total), share_at_least(complete, total));
        for (why, samples) in unknown {
            line += &format!("; {} {} ({})", group(samples), stacks::why(why), share(samples, total));
        }
        lines.push(line);
    }
    if !profile.tree.is_empty() {
        let (depth, function) = recursion(profile);
        let paths = group(profile.tree.len() as u64);
        let exact = if stack_proof::has_exact_tree(profile) { "exact" } else { "NOT exact" };
        lines.push(match function {
            Some(name) if depth > 1 => {
                format!("call tree: {paths} call paths, {exact}; deepest recursion: {name}, {depth} at once")
            }
            _ => format!("call tree: {paths} call paths, {exact}; no recursion"),
        });
    }
    lines.extend(stack_proof::faults(profile).into_iter().map(|fault| format!("warning: {fault}")));
    lines
}

/// Splits off the rows that a table has no room for. A single remaining row is shown, since the line about it would
/// take as much room.
fn split<T>(rows: &mut Vec<T>, top_rows: Option<usize>) -> Vec<T> {
    let shown = top_rows.filter(|&top| top + 1 < rows.len()).unwrap_or(rows.len());
    rows.split_off(shown)
}

/// Text of the line for the rows left out, with the option that shows them.
fn more(rows: usize, noun: &str) -> String {
    format!("{} more {noun}s (--top 0)", group(rows as u64))
}

/// Writes the table of tasks.
///
/// # Errors
/// Errors of `out`.
pub fn tasks(profile: &Profile, top_rows: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let total = profile.total_insns();
    let mut rows: Vec<(&Task, String)> = profile.tasks.iter().zip(stacks::task_names(profile)).collect();
    // Stable: equal ones stay in the order in which they first ran.
    rows.sort_by_key(|(task, _)| std::cmp::Reverse(task.insns));
    let mut lines =
        vec![["Task", "Instructions", "Share", "Switched in", "Stack left", "Paint left"].map(str::to_owned)];
    let rest = split(&mut rows, top_rows);
    for (task, name) in rows {
        lines.push([
            name,
            group(task.insns),
            share(task.insns, total),
            group(task.switches),
            stack_left(task, !profile.tree.is_empty()),
            paint_left(task),
        ]);
    }
    if !rest.is_empty() {
        let sum = |count: fn(&Task) -> u64| rest.iter().map(|(task, _)| count(task)).sum::<u64>();
        let insns = sum(|task| task.insns);
        let switches = group(sum(|task| task.switches));
        let none = String::new;
        lines.push([more(rest.len(), "task"), group(insns), share(insns, total), switches, none(), none()]);
    }
    write_table(&lines, out)?;
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

/// Line about idle time: in the kernel's idle tasks, and where a processor would have slept in a `wfe`. None: there
/// was no idle time.
fn idle(profile: &Profile) -> Option<String> {
    let slept = profile.facts.slept_insns;
    let waits = format!("{} for an interrupt", plural(profile.facts.waits, "wait"));
    if profile.tasks.is_empty() && slept == 0 {
        return (profile.facts.waits > 0).then_some(waits);
    }
    let idle = share(time::idle_insns(profile), profile.total_insns());
    let why = if slept > 0 { " (QEMU goes on at a wfe; a chip would sleep)" } else { "" };
    Some(format!("idle: {idle} of the instructions{why}; {waits}"))
}

/// Size of a task's stack; None if the kernel does not keep the stack's end. A guess from the memory above it could
/// be wrong, so none is made.
fn stack_bytes(task: &Task) -> Option<u64> {
    task.stack_end?.checked_sub(task.stack_start?)
}

/// Bytes between the low end of a task's stack and the lowest stack pointer seen. Registers that an interrupt or a
/// switch saves there count as used. If every move was followed, these bytes were never used; otherwise at most so
/// many were unused. Every known kernel keeps the stack's low end, but few its high end, so few stacks have a known
/// size.
pub(crate) fn stack_left(task: &Task, is_exact: bool) -> String {
    let (Some(start), Some(deepest)) = (task.stack_start, task.deepest_sp) else { return "-".to_owned() };
    let bound = if is_exact { "" } else { "\u{2264} " };
    format!("{bound}{}", of_stack(deepest.saturating_sub(start), task))
}

/// Bytes at the low end of a task's stack that still have the kernel's paint. Missing paint means that the stack was
/// used at some time, also before the window.
pub(crate) fn paint_left(task: &Task) -> String {
    task.painted_bytes.filter(|&bytes| bytes > 0).map_or_else(|| "-".to_owned(), |bytes| of_stack(bytes, task))
}

/// Formats bytes, with the stack's size if the kernel keeps it.
fn of_stack(bytes: u64, task: &Task) -> String {
    match stack_bytes(task) {
        Some(size) => format!("{} of {}", group(bytes), group(size)),
        None => group(bytes),
    }
}

/// Deepest recursion: most activations of one function on a path of the tree, and the function's name.
fn recursion(profile: &Profile) -> (u32, Option<String>) {
    use wire::definition::NodeKind;
    let mut depths: Vec<u32> = Vec::with_capacity(profile.tree.len());
    let mut deepest = (0, None);
    for node in &profile.tree {
        let NodeKind::Function { entry } = node.kind else {
            depths.push(0);
            continue;
        };
        // The nearest outer node of the same function already counts the ones above it.
        let mut at = node.parent;
        let mut depth = 1;
        while let Some(index) = at.checked_sub(1).map(|index| index as usize) {
            let outer = &profile.tree[index];
            if outer.kind == (NodeKind::Function { entry }) {
                depth = depths[index] + 1;
                break;
            }
            at = outer.parent;
        }
        depths.push(depth);
        if depth > deepest.0 {
            deepest = (depth, Some(Place::of(profile, entry).to_string()));
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
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
            painted_bytes: Some(0x2e0),
        }
    }

    fn shown(profile: &Profile) -> String {
        let mut out = Vec::new();
        write(profile, Some(20), &mut out).unwrap();
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
    fn of_many_tasks_the_rest_is_one_row_that_adds_up() {
        let mut profile = empty().function("main", 0x40, 4).insn(0x40, 1000);
        profile.tasks = (1..=86).map(|number| task(&format!("t{number}"), number)).collect();
        let shown = |top_rows| {
            let mut out = Vec::new();
            write(&profile, top_rows, &mut out).unwrap();
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
