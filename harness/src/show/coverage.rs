// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coverage on the terminal, and as annotations of a GitHub job.

use std::io::{self, Write};

use crate::analysis::coverage::{Coverage, File, Tally};
use crate::text::columns::shorten;
use crate::text::github;
use crate::text::number::{group, plural, share};
use crate::text::table::write_table;

/// Most annotations of one job's step. GitHub shows ten of each kind, and keeps 50 of a job.
const MOST_ANNOTATIONS: usize = 50;

/// Columns beside the path of a file.
const COUNT_COLUMNS: usize = 75;

/// Least columns that a path is shortened to.
const MIN_PATH_COLUMNS: usize = 24;

/// Writes the table of files, with paths shortened so that it fits into `width_columns`; None: paths are whole.
///
/// # Errors
/// Errors of `out`.
pub fn write(coverage: &Coverage, width_columns: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let path_columns = width_columns.map(|width| width.saturating_sub(COUNT_COLUMNS).max(MIN_PATH_COLUMNS));
    let mut rows = vec![["File", "Lines", "", "Functions", "", "Branches", ""].map(str::to_owned)];
    let row = |name: &str, [lines, functions, branches]: [Tally; 3]| {
        let [[a, b], [c, d], [e, f]] = [lines, functions, branches].map(cells);
        [name.to_owned(), a, b, c, d, e, f]
    };
    for (path, file) in &coverage.files {
        let path = path_columns.map_or(path.into(), |columns| shorten(path, columns));
        rows.push(row(&path, [file.line_tally(), file.function_tally(), file.branch_tally()]));
    }
    let all = [File::line_tally, File::function_tally, File::branch_tally].map(|of| coverage.tally(of));
    rows.push(row("Total", all));
    write_table(&rows, out)
}

fn cells(Tally { hit, found, .. }: Tally) -> [String; 2] {
    if found == 0 {
        return Default::default();
    }
    [share(hit, found), format!("{} of {}", group(hit), group(found))]
}

/// Sentences on what the numbers do not say.
pub fn notes(coverage: &Coverage) -> Vec<String> {
    let open = coverage.tally(File::branch_tally).open;
    let bounded = format!(
        "{} of branches may have been taken, but their counts are only bounded; they count as not covered",
        plural(open, "way")
    );
    let uncounted = coverage.uncounted();
    let predicated = format!(
        "not counted: {} of IT blocks, which are no branches; how often their conditions held is not known",
        plural(uncounted, "conditional instruction")
    );
    [(open > 0, bounded), (uncounted > 0, predicated)]
        .into_iter()
        .filter_map(|(is, note)| is.then_some(note))
        .collect()
}

/// Writes a notice for each run of lines that never ran, and for each line with a branch that went one way only; then
/// the totals.
///
/// # Errors
/// Errors of `out`.
pub fn write_github(coverage: &Coverage, out: &mut impl Write) -> io::Result<()> {
    let mut notices: Vec<String> = Vec::new();
    // GitHub shows only files of the checkout.
    let of_checkout = coverage.files.iter().map(|(path, file)| (github::path(path), file));
    for (path, file) in of_checkout.filter(|(path, _)| !path.starts_with('/')) {
        let path = github::property(path);
        let never: Vec<u32> = file.lines.iter().filter(|(_, count)| **count == 0).map(|(&line, _)| line).collect();
        // A run of lines has no line in between that ran.
        for run in never.chunk_by(|&one, &next| file.lines.range(one + 1..next).next().is_none()) {
            let (first, last) = (run[0], run[run.len() - 1]);
            notices.push(format!("::notice file={path},line={first},endLine={last},title=Not covered::never ran"));
        }
        for (&line, _) in file.lines.iter().filter(|(_, count)| **count > 0) {
            let Tally { hit, found, .. } = file.branch_tally_at(line);
            if hit < found {
                let text = format!("{hit} of {found} ways of its branches were taken");
                notices.push(format!("::notice file={path},line={line},title=Partly covered::{text}"));
            }
        }
    }
    for notice in notices.iter().take(MOST_ANNOTATIONS) {
        writeln!(out, "{notice}")?;
    }
    let more = notices.len().saturating_sub(MOST_ANNOTATIONS) as u64;
    if more > 0 {
        writeln!(out, "and {}", plural(more, "more place"))?;
    }
    for (name, of) in [
        ("lines", File::line_tally as fn(&File) -> Tally),
        ("functions", File::function_tally),
        ("branches", File::branch_tally),
    ] {
        let [share, counts] = cells(coverage.tally(of));
        writeln!(out, "{name}: {share} ({counts})")?;
    }
    Ok(())
}
