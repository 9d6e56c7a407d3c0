// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers of a run's chip: sentences about polls, then a table of the accesses by function.

use std::io::{self, Write};

use crate::analysis::peripherals::{Counts, Register, polls, summary, table};
use crate::profile::{Chip, Profile};
use crate::text::number::{group, share};
use crate::text::printable::printable;
use crate::text::table::write_rows;

/// Most functions shown for each register, unless all rows are shown.
const MOST_FUNCTIONS: usize = 4;

/// Writes the view of a run of this chip, with `top_rows` registers and polls; None: all.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, chip: &Chip, top_rows: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let registers = table(profile, chip);
    let total = profile.total_insns();
    writeln!(out, "{}", summary(&registers, total))?;
    let sentences = polls(&registers, total);
    let most = top_rows.unwrap_or(usize::MAX);
    for sentence in sentences.iter().take(most) {
        writeln!(out, "{}", printable(sentence))?;
    }
    if registers.is_empty() {
        return Ok(());
    }
    let heading = ["Register", "By", "Reads", "Writes", "First", "Last", "Polls", "In polls", "Share"];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    for register in registers.iter().take(most) {
        lines.extend(lines_of(register, total, top_rows.map_or(usize::MAX, |_| MOST_FUNCTIONS)));
    }
    write_rows(&lines, 2, out)?;
    match registers.len().saturating_sub(most) {
        0 => Ok(()),
        more => writeln!(out, "and {} more; --top 0 shows all", group(more as u64)),
    }
}

/// Lines of a register: its rows, of several functions only this number.
fn lines_of(register: &Register, total_insns: u64, most: usize) -> Vec<Vec<String>> {
    let rows = register.rows().into_iter().take(most.saturating_add(1));
    let mut lines: Vec<Vec<String>> =
        rows.map(|(name, function, counts)| line(name, function, counts, total_insns)).collect();
    if let more @ 1.. = register.by.len().saturating_sub(most) {
        let mut cells = vec![String::new(); lines[0].len()];
        cells[1] = format!("and {more} more");
        lines.push(cells);
    }
    lines
}

fn line(name: &str, function: &str, counts: &Counts, total_insns: u64) -> Vec<String> {
    let numbers = [counts.reads, counts.writes, counts.first_insns, counts.last_insns].map(group);
    let polls = match counts.polls {
        0 => [String::new(), String::new(), String::new()],
        polls => [group(polls), group(counts.poll_insns), share(counts.poll_insns, total_insns)],
    };
    [name, function].map(str::to_owned).into_iter().chain(numbers).chain(polls).collect()
}
