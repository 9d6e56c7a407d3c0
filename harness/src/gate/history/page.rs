// SPDX-License-Identifier: MIT OR Apache-2.0
//! The history as one self-contained page, which fetches nothing. Names stay data, as in the report page.

use std::io::Write;

use anyhow::Result;

use crate::analysis::metrics::Subject;
use crate::export::report::{MAX_BYTES, THEME, inline_json};
use crate::gate::history::document::Document;
use crate::gate::history::selection::Selection;
use crate::gate::history::{History, Image, Series};
use crate::gate::page;

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");

/// Bytes of a point in the page's data, with room for the commit and a large number.
const POINT_BYTES: usize = 16;

/// Bytes of a step and of a number's other fields in the page's data, besides names.
const FIELDS_BYTES: usize = 160;

/// Writes the page of the chosen images. Numbers of functions that never changed and have no limit are left out, and so are
/// numbers beyond the page's size, the functions with the smallest steps first.
///
/// # Errors
/// Errors of `out`.
pub fn write(history: &History, images: &[&Image], selection: &Selection, out: &mut dyn Write) -> Result<()> {
    let room_bytes = MAX_BYTES / images.len().max(1);
    let document = Document::new(history, selection, images, |image| fitting(image, selection, room_bytes));
    let texts: [(&str, &[&str]); 3] =
        [("{style}", &[THEME, page::STYLE]), (inline_json::DATA, &[]), ("{script}", &[page::SCRIPT, SCRIPT])];
    inline_json::fill(PAGE, &texts, &document, out)
}

/// Numbers of an image that the page shows, and how many it leaves out.
fn fitting<'a>(image: &'a Image, selection: &Selection, room_bytes: usize) -> (Vec<&'a Series>, usize) {
    let whole = Selection { top_functions: None, ..Selection::default() };
    let chosen = if selection.numbers.is_empty() { whole.series(image).0 } else { selection.series(image).0 };
    let mut used_bytes = 0;
    let size_bytes = |series: &Series| {
        let steps = series
            .steps
            .iter()
            .map(|step| FIELDS_BYTES + step.causes.iter().map(|cause| cause.len() + 3).sum::<usize>());
        let names = series.subject.len() + series.metric.len();
        FIELDS_BYTES + names + 2 * POINT_BYTES * series.points.len() + steps.sum::<usize>()
    };
    let fits = chosen.iter().take_while(|series| {
        used_bytes += size_bytes(series);
        // The run's own numbers are few and always there.
        used_bytes <= room_bytes || series.subject_kind() == Some(Subject::Run)
    });
    let shown = fits.count();
    let all = if selection.numbers.is_empty() { image.series.len() } else { chosen.len() };
    (chosen[..shown].to_vec(), all - shown)
}
