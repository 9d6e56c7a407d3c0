// SPDX-License-Identifier: MIT OR Apache-2.0
//! The history in Markdown, for a pull request or a job's summary.

use std::io::{self, Write};

use crate::gate::history::selection::Selection;
use crate::gate::history::table::{change_of, headline, image_name, limit, place, steps_by_commit, trend};
use crate::gate::history::{History, Image};
use crate::text::markdown::{cell, code};
use crate::text::number::{group, group_known};

/// Commits whose steps are listed.
const STEP_COMMITS: usize = 10;

/// Writes the table of the chosen numbers and the list of their steps, the newest first.
///
/// # Errors
/// Errors of `out`.
pub fn write(history: &History, images: &[&Image], selection: &Selection, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}\n", code(&headline(history)))?;
    writeln!(out, "| Image | Number | First | Last | Trend | Steps | Limit |\n|---|---|--:|--:|---|--:|---|")?;
    for image in images {
        for series in selection.series(image).0 {
            let value = |point: Option<&super::Point>| group_known(point.map(|point| point.value));
            writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} |",
                cell(&image_name(history, image)),
                cell(&series.name()),
                value(series.good().next()),
                value(series.good().next_back()),
                trend(series),
                selection.steps(series).count(),
                cell(&series.limit.as_ref().map(limit).unwrap_or_default()),
            )?;
        }
    }
    let found = steps_by_commit(images, selection);
    if found.is_empty() {
        return writeln!(out, "\nNo steps.");
    }
    writeln!(out, "\n| Commit | Image | Number | Change | From | To | Why |\n|---|---|---|--:|--:|--:|---|")?;
    for (commit, steps) in found.iter().take(STEP_COMMITS) {
        for (image, series, step) in steps {
            let where_it_was = format!("{}{}", history.commits[*commit].name(), place(history, step));
            writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} |",
                cell(&where_it_was),
                cell(&image_name(history, image)),
                cell(&series.name()),
                change_of(step),
                group(step.before),
                group(step.after),
                cell(&step.causes.join(", ")),
            )?;
        }
    }
    Ok(())
}
