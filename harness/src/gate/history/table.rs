// SPDX-License-Identifier: MIT OR Apache-2.0
//! The history on the terminal: a row for each number, then the steps by commit.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::gate::history::selection::Selection;
use crate::gate::history::{Commit, History, Image, Limit, Series, Step};
use crate::gate::revision::shown_time;
use crate::text::columns::{columns, shorten};
use crate::text::number::{group, plural, signed, signed_percent};
use crate::text::printable::printable;
use crate::text::table::write_rows;

/// Columns of the table.
const HEADINGS: [&str; COLUMNS] =
    ["Image", "Number", "First", "Last", "Change", "Trend", "Steps", "Last step", "Limit"];
const COLUMNS: usize = 9;

/// Columns of names.
const LEFT_COLUMNS: usize = 2;

/// Columns that a narrow terminal has no room for, the first to go first: Last step (which is in the list below the table),
/// First, Steps, Limit.
const MISSED_FIRST: [usize; 4] = [7, 2, 6, 8];

/// Most characters of a trend.
const TREND_COLUMNS: usize = 16;

/// Characters of a trend, from the least number to the most.
const LEVELS: [char; 8] =
    ['\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];

/// Names are not shortened below this, however narrow the terminal is.
const MIN_NAME_COLUMNS: usize = 12;

/// Commits whose steps are listed.
const STEP_COMMITS: usize = 20;

/// Writes the table of the chosen numbers and the list of their steps, the newest first. Names are shortened to the
/// terminal's width, if there is one.
///
/// # Errors
/// Errors of `out`.
pub fn write(
    history: &History,
    images: &[&Image],
    selection: &Selection,
    width_columns: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "{}", printable(&headline(history)))?;
    let (mut lines, mut left_out) = (vec![HEADINGS.map(str::to_owned)], 0);
    for image in images {
        let (series, others) = selection.series(image);
        left_out += others;
        lines.extend(series.into_iter().map(|series| row(history, image, series, selection)));
    }
    write_rows(&fitted(&lines, width_columns), LEFT_COLUMNS, out)?;
    if left_out > 0 {
        writeln!(out, "{} more numbers of functions changed (--top 0)", group(left_out as u64))?;
    }
    steps(history, images, selection, out)
}

/// Description of the history in a sentence: reports, commits, order.
pub(super) fn headline(history: &History) -> String {
    let reports: usize = history.commits.iter().map(|commit| commit.places.len()).sum();
    let commits = plural(history.commits.len() as u64, "commit");
    let (first, last) = (history.commits.first(), history.commits.last());
    let span = match (first, last) {
        (Some(first), Some(last)) if history.commits.len() > 1 => {
            format!(", {} to {}", describe(first), describe(last))
        }
        (Some(only), _) => format!(", {}", describe(only)),
        _ => String::new(),
    };
    format!("{} of {commits}{span}, {}", plural(reports as u64, "report"), history.order.describe())
}

/// A commit with its day.
fn describe(commit: &Commit) -> String {
    match commit.time_seconds.and_then(shown_time) {
        Some(time) => format!("{} ({})", commit.name(), &time[..10.min(time.len())]),
        None => commit.name().to_owned(),
    }
}

fn row(history: &History, image: &Image, series: &Series, selection: &Selection) -> [String; COLUMNS] {
    let known = |point: Option<u64>| point.map_or_else(|| "-".to_owned(), group);
    let (first, last) = (series.good().next(), series.good().next_back());
    let change = first.zip(last).map(|(first, last)| change_between(first.value, last.value));
    let steps = selection.steps(series).count();
    let last_step = selection
        .steps(series)
        .next_back()
        .map(|step| format!("{} at {}", change_of(step), history.commits[step.commit].name()));
    [
        image_name(history, image),
        series.name(),
        known(first.map(|point| point.value)),
        known(last.map(|point| point.value)),
        change.unwrap_or_default(),
        trend(series),
        steps.to_string(),
        last_step.unwrap_or_default(),
        series.limit.as_ref().map(limit).unwrap_or_default(),
    ]
}

/// Name of an image, with its suite if there are several.
pub(super) fn image_name(history: &History, image: &Image) -> String {
    if history.has_several_suites() { format!("{}: {}", image.suite, image.name) } else { image.name.clone() }
}

/// A step's change, as a share if there is one.
pub(super) fn change_of(step: &Step) -> String {
    change_between(step.before, step.after)
}

fn change_between(before: u64, after: u64) -> String {
    let difference = i128::from(after) - i128::from(before);
    if before == 0 { signed(difference) } else { signed_percent(difference, before) }
}

/// A limit, as its bound and as people write it: `≤ 24,378,703 (0.1 %)`.
pub(super) fn limit(limit: &Limit) -> String {
    let Limit { text, bound, is_floor, crossed } = limit;
    let sign = if *is_floor { '\u{2265}' } else { '\u{2264}' };
    let how = if text.starts_with("at ") { String::new() } else { format!(" ({text})") };
    format!("{sign} {}{how}{}", group(*bound), if *crossed { ", crossed" } else { "" })
}

/// The values as a line of blocks. Neighbouring commits share a block if there are many, and it shows their largest number.
pub(super) fn trend(series: &Series) -> String {
    let values: Vec<u64> = series.good().map(|point| point.value).collect();
    let (Some(&least), Some(&most)) = (values.iter().min(), values.iter().max()) else { return String::new() };
    let per_block = values.len().div_ceil(TREND_COLUMNS).max(1);
    let level = |block: &[u64]| {
        let value = block.iter().copied().max().unwrap_or(least);
        let place = u128::from(value - least) * (LEVELS.len() as u128 - 1);
        let place = place.checked_div(u128::from(most - least)).unwrap_or(0);
        LEVELS[usize::try_from(place).unwrap_or(0).min(LEVELS.len() - 1)]
    };
    values.chunks(per_block).map(level).collect()
}

/// Rows that fit the width: columns that can be missed are left out first, then names are shortened.
fn fitted(lines: &[[String; COLUMNS]], width_columns: Option<usize>) -> Vec<Vec<String>> {
    let widths: Vec<usize> =
        (0..COLUMNS).map(|column| lines.iter().map(|line| columns(&line[column])).max().unwrap_or(0)).collect();
    let mut kept: Vec<usize> = (0..COLUMNS).collect();
    let room = |kept: &[usize]| {
        let others: usize = kept[LEFT_COLUMNS..].iter().map(|&column| widths[column] + 2).sum();
        width_columns.map(|width| width.saturating_sub(others + 2))
    };
    for column in MISSED_FIRST {
        if room(&kept).is_some_and(|room| room < 2 * MIN_NAME_COLUMNS) {
            kept.retain(|&known| known != column);
        }
    }
    let image = room(&kept).map_or(usize::MAX, |room| (room / 2).max(MIN_NAME_COLUMNS).min(widths[0]));
    let number = room(&kept).map_or(usize::MAX, |room| room.saturating_sub(image).max(MIN_NAME_COLUMNS));
    let cell = |line: &[String; COLUMNS], column: usize| match column {
        0 => shorten(&line[0], image).into_owned(),
        1 => shorten(&line[1], number).into_owned(),
        _ => line[column].clone(),
    };
    lines.iter().map(|line| kept.iter().map(|&column| cell(line, column)).collect()).collect()
}

/// Steps of one commit: its index, and the steps with their numbers.
pub(super) type StepsOfCommit<'a> = (usize, Vec<(&'a Image, &'a Series, &'a Step)>);

/// Steps of the chosen numbers by commit, the newest first.
pub(super) fn steps_by_commit<'a>(images: &[&'a Image], selection: &Selection) -> Vec<StepsOfCommit<'a>> {
    let mut found: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    for &image in images {
        for series in selection.series(image).0 {
            for step in selection.steps(series) {
                found.entry(step.commit).or_default().push((image, series, step));
            }
        }
    }
    found.into_iter().rev().collect()
}

/// Place of a step if it is not known exactly: commits before it have no number.
pub(super) fn place(history: &History, step: &Step) -> String {
    match step.commit - step.since {
        1 => String::new(),
        _ => format!(
            ", at one of the {} commits after {}",
            step.commit - step.since,
            history.commits[step.since].name()
        ),
    }
}

fn steps(history: &History, images: &[&Image], selection: &Selection, out: &mut impl Write) -> io::Result<()> {
    let found = steps_by_commit(images, selection);
    if found.is_empty() {
        let runs: usize = images.iter().map(|image| image.runs.iter().filter(|run| run.ended_well).count()).sum();
        return writeln!(out, "no step in {} that ended as expected", plural(runs as u64, "run"));
    }
    writeln!(out, "Steps, the newest first; numbers are exact, so every difference is one:")?;
    for (commit, steps) in found.iter().take(STEP_COMMITS) {
        writeln!(out, "\n{}", printable(&describe(&history.commits[*commit])))?;
        for (image, series, step) in steps {
            let causes = if step.causes.is_empty() { String::new() } else { format!("; {}", step.causes.join(", ")) };
            let line = format!(
                "{}: {} {} ({} \u{2192} {}){}{causes}",
                image_name(history, image),
                series.name(),
                change_of(step),
                group(step.before),
                group(step.after),
                place(history, step),
            );
            writeln!(out, "  {}", printable(&line))?;
        }
    }
    match found.len().saturating_sub(STEP_COMMITS) {
        0 => Ok(()),
        more => writeln!(out, "\n{} with steps before these (--json)", plural(more as u64, "commit")),
    }
}
