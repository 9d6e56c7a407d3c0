//! All that the terminal shows of one run: the tables, and the sentences below them.

use std::io::{self, Write};

use crate::analysis::crosscheck::CrossCheck;
use crate::analysis::describe;
use crate::analysis::functions::Table;
use crate::profile::Profile;
use crate::show::{spans, summary, tasks};
use crate::text::number::group;
use crate::text::terminal;

/// Writes the tables, and the sentences on how the run went and ended.
///
/// # Errors
/// What `out` reports.
pub fn write(
    profile: &Profile,
    table: &Table,
    check: &CrossCheck,
    top_rows: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut size = summary::SummarySize { top_rows, ..Default::default() };
    if let Some(columns) = terminal::width_columns() {
        size.width_columns = columns;
    }
    summary::write(table, check, size, out)?;
    tasks::write(profile, out)?;
    spans::write(profile, out)?;
    writeln!(out)?;
    writeln!(out, "{}", describe::describe_run(&profile.facts))?;
    if profile.facts.before_window_insns > 0 {
        writeln!(out, "{} instructions ran before the window", group(profile.facts.before_window_insns))?;
    }
    if let Some(line) = describe::describe_bins(profile) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "end: {}", describe::describe_end(profile))?;
    if let Some(line) = describe::describe_input(&profile.facts) {
        writeln!(out, "{line}")?;
    }
    for line in describe::describe_notes(profile).iter().chain(&describe::describe_unresolved(&profile.facts)) {
        writeln!(out, "{line}")?;
    }
    if let Some(line) = describe::describe_unopened(profile) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
