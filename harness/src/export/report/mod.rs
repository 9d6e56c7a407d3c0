//! The report: one HTML page that needs nothing else, neither a network nor a server nor this tool.
//!
//! The page is its data, as JSON, and a script that draws them; the script, in parts by what they draw, and the styles
//! are files of their own beside this one. Whatever a name holds stays data: no `<` is left in the JSON, so that no
//! name can end the element that it is in, the script writes names as text only, and the page's policy lets no other
//! script run and nothing be fetched.

mod compare;
mod console;
mod data;
mod embedded;
mod facts;
mod heap;
mod listings;
mod saved;
mod strings;
mod timeline;
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
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Parts of the script that have files of their own, and where they belong.
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

/// Most bytes of a page: it is sent by mail and kept by CI.
pub const MAX_BYTES: usize = 10_000_000;

/// What a page has beside its profile.
#[derive(Debug, Default)]
pub struct Extras<'a> {
    /// What the firmware printed.
    pub console: Option<&'a [u8]>,
    /// The run that it is compared with.
    pub before: Option<Before<'a>>,
}

/// A run before, to be compared with.
#[derive(Debug)]
pub struct Before<'a> {
    /// Its name.
    pub label: &'a str,
    /// Its profile.
    pub profile: &'a Profile,
    /// What changed from it.
    pub comparison: Comparison,
    /// How it was made differently, a sentence each.
    pub notes: Vec<String>,
}

/// Writes the page.
///
/// # Errors
/// What `out` reports, and when there is no disassembler.
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
    let used = frame + embedded::size_bytes(&data)?;
    // A reserve for what the listings add to the strings' separators.
    let budget_bytes = MAX_BYTES.saturating_sub(used + 100_000);
    (data.listings, data.source_notes) = listings::of(profile, sources, budget_bytes, &mut data.strings)?;
    let title = escape(&shown(&profile.facts.image_name));
    let mut rest = PAGE;
    for (mark, insert) in
        [("{title}", Some(&*title)), ("{style}", Some(STYLE)), ("{data}", None), ("{script}", Some(&script))]
    {
        let Some((before, after)) = rest.split_once(mark) else { continue };
        out.write_all(before.as_bytes())?;
        match insert {
            Some(text) => out.write_all(text.as_bytes())?,
            None => embedded::write(&data, out)?,
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())?;
    Ok(())
}
