// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overview of a run on the terminal: the tables, and the sentences below them.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::analysis::crosscheck::CrossCheck;
use crate::analysis::describe;
use crate::analysis::event_tracks;
use crate::analysis::functions::Table;
use crate::analysis::{cycles, metrics, time};
use crate::profile::Profile;
use crate::show::names::with_async_bodies;
use crate::show::summary::{Beside, More, SummarySize};
use crate::show::{part, spans, summary, task_states, tasks, zone};
use crate::text::number::group;

/// The hottest bins are shown without `-v` if more than one in this number of instructions has no name.
const UNNAMED_PART: u64 = 10;

/// Writes the tables, and the sentences about the run and its end. `out` folds these to the width.
///
/// # Errors
/// Errors of `out`.
pub fn write(
    profile: &Profile,
    table: &Table,
    check: &CrossCheck,
    size: SummarySize,
    more: More<'_>,
    out: &mut impl Write,
) -> io::Result<()> {
    let width_columns = size.width_columns;
    if let Some(line) = describe::describe_trouble(profile) {
        writeln!(out, "{line}\n")?;
    }
    // Whole names stay in the form that other commands take.
    let readable =
        if width_columns.is_some() { with_async_bodies(&profile.names, table) } else { Cow::Borrowed(table) };
    summary::write(&readable, check, size, Beside { own_lines: &metrics::own_lines(profile), more }, out)?;
    tasks::write(profile, size.table(), out)?;
    task_states::write(profile, size.table(), out)?;
    spans::write(profile, width_columns, out)?;
    zone::write(profile, width_columns, out)?;
    part::write(profile, width_columns, out)?;
    writeln!(out)?;
    writeln!(out, "{}", describe::describe_run(profile))?;
    if let Some(line) = describe::describe_tricks(&profile.facts).filter(|_| size.is_verbose) {
        writeln!(out, "{line}")?;
    }
    if let Some(line) = cycles::sentence(profile) {
        writeln!(out, "{line}")?;
    }
    if let Some(line) = time::sentence(profile) {
        writeln!(out, "{line}")?;
    }
    if let Some(line) = event_tracks::sentence(profile) {
        writeln!(out, "{line}")?;
    }
    if profile.facts.before_window_insns > 0 {
        writeln!(out, "{} instructions ran before the window", group(profile.facts.before_window_insns))?;
    }
    // Where many instructions have no name, addresses are the only guide.
    let is_unnamed = table.unnamed_insns.saturating_mul(UNNAMED_PART) > table.total_insns;
    if let Some(line) = describe::describe_bins(profile).filter(|_| size.is_verbose || is_unnamed) {
        writeln!(out, "{line}")?;
    }
    if let Some(line) = describe::describe_stubs(&profile.facts) {
        writeln!(out, "{line}")?;
    }
    for line in describe::describe_chip(profile) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "end: {}", describe::describe_end(profile))?;
    if let Some(line) = describe::describe_late_fault(profile) {
        writeln!(out, "{line}")?;
    }
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
