// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts about the tasks' states, for the terminal and the page: the cells of their tables, and a sentence about the task
//! that was kept out for longest.

use crate::analysis::moment::Moment;
use crate::analysis::task_states::{Report, Stretches, TaskStates};
use crate::analysis::time::millis_of;
use crate::text::number::{group, share};

/// Note where there are no states of tasks although there is a timeline.
pub const SEVERAL_CPUS: &str =
    "states of tasks: not known, since the instructions of several CPUs have no common clock";

/// Most tasks and interrupts that the sentence names.
const MAX_NAMED: usize = 3;

/// One state of a task.
type State = fn(&TaskStates) -> &Stretches;

/// Cells of a table; the first column has names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Heads of the columns.
    pub heads: Vec<String>,
    /// Rows, the most important first.
    pub rows: Vec<Vec<String>>,
}

/// Table of the tasks: shares of their states, and the longest stretch of being ready, with the instruction that it begins
/// at and what executed for most of it. A state that no task was in has no column.
pub fn states(report: &Report) -> Cells {
    let optional: [(&str, State); 2] = [("Gone", |task| &task.gone), ("Not known", |task| &task.unknown)];
    let is_used = |of: &State| report.tasks.iter().any(|task| of(task).times > 0);
    let optional: Vec<_> = optional.into_iter().filter(|(_, of)| is_used(of)).collect();
    let mut heads = ["Task states", "Running", "Ready", "Blocked"].map(str::to_owned).to_vec();
    heads.extend(optional.iter().map(|(head, _)| (*head).to_owned()));
    heads.extend(["Longest ready", "At", "Kept out by"].map(str::to_owned));
    let row = |task: &TaskStates| {
        let mut row = vec![task.name.clone()];
        let states = [&task.running, &task.ready, &task.blocked].into_iter();
        let states = states.chain(optional.iter().map(|(_, of)| of(task)));
        row.extend(states.map(|state| share_of(report, state.sum)));
        row.extend(longest(report, &task.ready));
        row.push(task.longest_kept_out_by.first().map_or_else(String::new, |(name, _)| name.clone()));
        row
    };
    Cells { heads, rows: report.tasks.iter().map(row).collect() }
}

/// Table of the waits: a row for each task and reason, most time first.
pub fn waits(report: &Report) -> Cells {
    let heads = ["Wait", "Share", "Times", "Longest", "At"].map(str::to_owned).to_vec();
    let mut waits: Vec<(&TaskStates, &str, &Stretches)> = Vec::new();
    for task in &report.tasks {
        waits.extend(task.waits.iter().map(|(why, wait)| (task, why.as_str(), wait)));
    }
    // Stable: equal ones stay in the order of their tasks.
    waits.sort_by_key(|(_, _, wait)| std::cmp::Reverse(report.part(wait.sum)));
    let row = |(task, why, wait): (&TaskStates, &str, &Stretches)| {
        let [length, at] = longest(report, wait);
        vec![format!("{}: {why}", task.name), share_of(report, wait.sum), group(wait.times), length, at]
    };
    Cells { heads, rows: waits.into_iter().map(row).collect() }
}

/// Sentence about the task that was ready for longest without running. None: none was, but for idle tasks.
pub fn sentence(report: &Report) -> Option<String> {
    let task = report.tasks.first().filter(|task| !task.is_idle && task.ready.times > 0)?;
    let stretch = task.ready.longest;
    let ns = |ns: u64| if report.has_ns { format!(" ({})", millis_of(ns.into())) } else { String::new() };
    let executed = task.longest_kept_out_by.iter().take(MAX_NAMED);
    let executed = executed
        .map(|(name, kept)| format!("{name} {}", share(report.part(*kept), report.part(stretch.length))))
        .collect::<Vec<_>>();
    let rest = match task.longest_kept_out_by.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        rest => format!(", {rest} more"),
    };
    Some(format!(
        "longest ready without running: {} for {} instructions{} from instruction {}{}; meanwhile executed {}{rest}",
        task.name,
        group(stretch.length.insns),
        ns(stretch.length.ns),
        group(stretch.from.insns),
        ns(stretch.from.ns),
        executed.join(", "),
    ))
}

fn share_of(report: &Report, part: Moment) -> String {
    share(report.part(part), report.part(report.window))
}

/// Length of the longest stretch, and the instruction that it begins at; empty: there is none.
fn longest(report: &Report, stretches: &Stretches) -> [String; 2] {
    if stretches.times == 0 {
        return [String::new(), String::new()];
    }
    let length = stretches.longest.length;
    let length = if report.is_timed { millis_of(length.ns.into()) } else { group(length.insns) };
    [length, group(stretches.longest.from.insns)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::task_states::Stretch;

    fn extent(insns: u64) -> Moment {
        Moment { insns, ns: insns * 1_000_000, slept_ns: 0 }
    }

    fn stretches(sum: u64, times: u64, from: u64, length: u64) -> Stretches {
        Stretches { sum: extent(sum), times, longest: Stretch { from: extent(from), length: extent(length) } }
    }

    fn report() -> Report {
        let kept = [("hog", 1470), ("[irq SysTick]", 15), ("a", 9), ("b", 4), ("c", 2)];
        let low = TaskStates {
            name: "low".to_owned(),
            running: stretches(200, 2, 0, 150),
            ready: stretches(1700, 3, 300, 1500),
            longest_kept_out_by: kept.map(|(name, insns)| (name.to_owned(), extent(insns))).to_vec(),
            blocked: stretches(100, 1, 150, 100),
            waits: vec![("delayed".to_owned(), stretches(100, 1, 150, 100))],
            ..TaskStates::default()
        };
        let hog = TaskStates {
            name: "hog".to_owned(),
            running: stretches(1800, 2, 200, 1500),
            blocked: stretches(200, 1, 0, 200),
            waits: vec![("blocked on the mutex bus".to_owned(), stretches(200, 1, 0, 200))],
            ..TaskStates::default()
        };
        Report { window: extent(2000), has_ns: true, tasks: vec![low, hog], ..Report::default() }
    }

    #[test]
    fn states_are_shares_and_one_that_no_task_was_in_has_no_column() {
        let mut report = report();
        let cells = states(&report);
        assert_eq!(cells.heads, ["Task states", "Running", "Ready", "Blocked", "Longest ready", "At", "Kept out by"]);
        assert_eq!(cells.rows[0], ["low", "10.00%", "85.00%", "5.00%", "1,500", "300", "hog"]);
        assert_eq!(cells.rows[1], ["hog", "90.00%", "0.00%", "10.00%", "", "", ""]);
        report.tasks[1].gone = stretches(2, 1, 1998, 2);
        report.is_timed = true;
        let cells = states(&report);
        assert_eq!(cells.heads[4], "Gone");
        assert_eq!(cells.rows[0][4..], ["0.00%", "1,500.000 ms", "300", "hog"]);
    }

    #[test]
    fn waits_have_their_reasons_and_come_longest_first() {
        let rows = waits(&report()).rows;
        assert_eq!(rows[0], ["hog: blocked on the mutex bus", "10.00%", "1", "200", "0"]);
        assert_eq!(rows[1], ["low: delayed", "5.00%", "1", "100", "150"]);
    }

    #[test]
    fn the_sentence_names_the_starving_task_the_moment_and_what_executed() {
        let mut report = report();
        let expected = "longest ready without running: low for 1,500 instructions (1,500.000 ms) from instruction 300 \
                        (300.000 ms); meanwhile executed hog 98.00%, [irq SysTick] 1.00%, a 0.60%, 2 more";
        assert_eq!(sentence(&report).as_deref(), Some(expected));
        report.has_ns = false;
        assert!(sentence(&report).unwrap().contains("for 1,500 instructions from instruction 300; "));
        report.tasks[0].is_idle = true;
        assert_eq!(sentence(&report), None);
    }
}
