// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness history`: numbers of suites over commits, from the reports that a pipeline keeps.

use std::io::Write;
use std::path::Path;

use anyhow::Result;

use crate::cli::HistoryArgs;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::gate::filter::Filter;
use crate::gate::history::document::{self, Document};
use crate::gate::history::selection::{Selection, Wanted};
use crate::gate::history::{History, markdown, page, read, table};
use crate::run::store::directory::{STDOUT, write_as, write_to};
use crate::text::disarmed::Syntax;
use crate::text::number::{parse_millionths, plural};
use crate::text::printable::printable;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When a report cannot be read, nothing is chosen, or the page cannot be written.
pub fn run(args: &HistoryArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(document::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let selection = selection(args)?;
    let (records, others) = read::records(&args.results)?;
    let mut history = History::new(records);
    if others > 0 {
        history
            .notes
            .push(format!("{} found beside them, which are not reports", plural(others as u64, "JSON file")));
    }
    let images = selection.images(&history)?;
    if args.json {
        let document = Document::new(&history, &selection, &images, |image| match args.metric[..] {
            [] => (image.series.iter().collect(), 0),
            _ => selection.series(image),
        });
        write_to(Path::new(STDOUT), |out| document.write(out))?;
    } else if args.markdown {
        let mut out = terminal::stdout();
        markdown::write(&history, &images, &selection, &mut out)?;
        out.flush()?;
    } else if args.output.as_deref() != Some(Path::new(STDOUT)) {
        let mut out = terminal::stdout();
        table::write(&history, &images, &selection, terminal::width_columns(), &mut out)?;
        out.flush()?;
    }
    if let Some(path) = &args.output {
        write_as(path, Syntax::Markup, |out| page::write(&history, &images, &selection, out))?;
        if path != Path::new(STDOUT) {
            // A closed standard error is not a failure: the page is written.
            let _ = writeln!(terminal::stderr(), "{}: open it in a browser", path.display());
        }
    }
    if !args.json {
        let notes: Vec<String> = history.notes.iter().map(|note| printable(note).into_owned()).collect();
        terminal::notes(&notes);
    }
    Ok(ExitCode::Good)
}

fn selection(args: &HistoryArgs) -> Result<Selection, InputError> {
    let least = args.min_step.trim();
    let least_step_millionths =
        parse_millionths(least.strip_suffix('%').unwrap_or(least).trim_end()).ok_or_else(|| {
            InputError::new(format!("--min-step {least}: write a share of the number before, such as 0.1%"))
        })?;
    Ok(Selection {
        images: args.filter.iter().map(|text| Filter::parse(text)).collect::<Result<_, _>>()?,
        numbers: args.metric.iter().map(|text| Wanted::parse(text)).collect::<Result<_, _>>()?,
        top_functions: (args.top > 0).then_some(args.top),
        least_step_millionths,
    })
}
