// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of the tasks' states by the timeline, below the table of tasks: which task was kept from the processor for longest,
//! by what, and what each task waited for.

use std::io::{self, Write};

use crate::analysis::task_state_cells::{self, Cells, SEVERAL_CPUS};
use crate::analysis::task_states;
use crate::profile::Profile;
use crate::show::names;
use crate::show::table_size::TableSize;
use crate::show::tasks::{more, split};
use crate::text::printable::printable;
use crate::text::table::write_rows;

/// Writes the tables, and a sentence about the task that was kept out for longest; nothing without tasks or a timeline.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, size: TableSize, out: &mut impl Write) -> io::Result<()> {
    let Some(report) = task_states::report(profile) else {
        let has_both = profile.timeline.is_some() && !profile.tasks.is_empty();
        return if has_both { writeln!(out, "{SEVERAL_CPUS}") } else { Ok(()) };
    };
    write_cells(task_state_cells::states(&report), "task", size, out)?;
    if let Some(sentence) = task_state_cells::sentence(&report) {
        writeln!(out, "{}", printable(&sentence))?;
    }
    write_cells(task_state_cells::waits(&report), "wait", size, out)
}

/// Writes a table, if it has rows. A line says how many rows of a kind there was no room for.
fn write_cells(cells: Cells, noun: &str, size: TableSize, out: &mut impl Write) -> io::Result<()> {
    let Cells { heads, mut rows } = cells;
    if rows.is_empty() {
        return Ok(());
    }
    let rest = split(&mut rows, size.top_rows);
    let columns = heads.len();
    let mut lines = vec![heads];
    lines.append(&mut rows);
    if !rest.is_empty() {
        let mut line = vec![String::new(); columns];
        line[0] = more(rest.len(), noun);
        lines.push(line);
    }
    names::fit(&mut lines, 0, size.width_columns);
    write_rows(&lines, 1, out)
}

#[cfg(test)]
mod tests {
    use wire::timeline::{Encoder, Event, What, Why};

    use super::*;
    use crate::profile::Timeline;
    use crate::profile::testing::empty;

    fn shown(profile: &Profile, top_rows: Option<usize>) -> String {
        let mut out = Vec::new();
        write(profile, TableSize { top_rows, ..TableSize::default() }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn profile() -> Profile {
        let mut profile = empty().insn(0x40, 100).task_called("high").task_called("low").task_called("third");
        let switches =
            [(0, 2, Why::First), (10, 1, Why::Preempted), (60, 2, Why::Delayed), (70, 3, Why::Notification)];
        let (mut encoder, mut events) = (Encoder::default(), Vec::new());
        for (at_insns, task, why) in switches {
            let event = Event { vcpu: 0, at_insns, what: What::Switched { task, why } };
            encoder.put(&event, &mut events).unwrap();
        }
        profile.timeline = Some(Timeline { events, ..Timeline::default() });
        profile
    }

    #[test]
    fn the_starving_task_is_the_first_row_and_the_waits_have_their_own_table() {
        let expected = "
Task states  Running   Ready  Blocked  Not known  Longest ready  At  Kept out by
low           20.00%  50.00%   30.00%      0.00%             50  10         high
high          50.00%   0.00%   40.00%     10.00%                                
third         30.00%   0.00%    0.00%     70.00%                                

longest ready without running: low for 50 instructions (0.001 ms) from instruction 10 (0.000 ms); meanwhile executed \
                        high 100.00%

Wait                            Share  Times  Longest  At
high: delayed                  40.00%      1       40  60
low: waits for a notification  30.00%      1       30  70

";
        let trimmed: Vec<&str> = expected.lines().map(str::trim_end).collect();
        assert_eq!(shown(&profile(), None), trimmed.join("\n") + "\n");
    }

    #[test]
    fn rows_that_have_no_room_are_counted() {
        let text = shown(&profile(), Some(1));
        assert!(text.contains("\n2 more tasks (--top 0)") && text.contains("\nlow: waits"), "{text}");
    }

    #[test]
    fn several_cpus_have_no_states_and_a_run_without_a_timeline_has_no_word_about_them() {
        let mut several = profile();
        several.vcpus.push(several.vcpus[0].clone());
        assert_eq!(shown(&several, None), format!("{SEVERAL_CPUS}\n"));
        several.timeline = None;
        assert_eq!(shown(&several, None), "");
    }
}
