// SPDX-License-Identifier: MIT OR Apache-2.0
//! Report: one self-contained HTML page, which needs no network, no server and no harness.
//!
//! The page is its data, as JSON, and a script that draws them. The styles and the parts of the script, split by what
//! they draw, are files beside this one. Names always stay data. No `<` is left in the JSON, so that no name can end
//! the enclosing element. The script writes names as text only. The page's policy forbids any other script and any
//! request.

mod compare;
mod console;
mod data;
mod download;
mod facts;
mod heap;
pub(crate) mod inline_json;
mod listings;
mod peripherals;
mod strings;
mod task_states;
mod tracks;
mod zones;

use std::io::Write;

use anyhow::Result;
use data::Data;

use crate::analysis::compare::Comparison;
use crate::analysis::source::Sources;
use crate::analysis::stacks::View;
use crate::profile::Profile;
use crate::text::markup::{escape, shown};

const PAGE: &str = include_str!("page.html");
/// Colours that all pages share.
pub const THEME: &str = include_str!("theme.css");
const STYLE: &str = concat!(include_str!("theme.css"), include_str!("page.css"));
const SCRIPT: &str = include_str!("page.js");
/// Parts of the script in files of their own, with the marks that they replace.
const PARTS: [(&str, &str); 9] = [
    ("// {table}\n", include_str!("table.js")),
    ("// {trees}\n", include_str!("trees.js")),
    ("// {flames}\n", include_str!("flames.js")),
    ("// {function}\n", include_str!("function.js")),
    ("// {tasks}\n", include_str!("tasks.js")),
    ("// {compare}\n", include_str!("compare.js")),
    ("// {console}\n", include_str!("console.js")),
    ("// {zones}\n", include_str!("zones.js")),
    ("// {timeline}\n", include_str!("timeline.js")),
];

/// Largest page in bytes: it must fit into mails and CI artefacts.
pub const MAX_BYTES: usize = 10_000_000;

/// Additions to the profile in a page.
#[derive(Debug, Default)]
pub struct Extras<'a> {
    /// Console output of the firmware.
    pub console: Option<&'a [u8]>,
    /// Run to compare with.
    pub before: Option<Before<'a>>,
}

/// Earlier run to compare with.
#[derive(Debug)]
pub struct Before<'a> {
    /// Name of the run.
    pub label: &'a str,
    /// Profile of the run.
    pub profile: &'a Profile,
    /// Changes since that run.
    pub comparison: Comparison,
    /// Sentences about settings in which the two runs differ.
    pub notes: Vec<String>,
}

/// Writes the page.
///
/// # Errors
/// Errors of `out`; also when there is no disassembler.
pub fn write(
    profile: &Profile,
    view: View,
    extras: &Extras<'_>,
    sources: &mut Sources,
    out: &mut dyn Write,
) -> Result<()> {
    let mut data = Data::new(profile, view, extras)?;
    let script = PARTS.iter().fold(SCRIPT.to_owned(), |script, (mark, part)| script.replacen(mark, part, 1));
    let frame = PAGE.len() + STYLE.len() + script.len();
    let used = frame + inline_json::size_bytes(&data)?;
    // Reserve for the separators of the strings that the listings add.
    let budget_bytes = MAX_BYTES.saturating_sub(used + 100_000);
    (data.listings, data.source_notes) = listings::of(profile, sources, budget_bytes, &mut data.strings)?;
    let title = escape(&shown(&profile.facts.image_name));
    let texts: [(&str, &[&str]); 4] =
        [("{title}", &[&title]), ("{style}", &[STYLE]), (inline_json::DATA, &[]), ("{script}", &[&script])];
    inline_json::fill(PAGE, &texts, &data, out)
}
