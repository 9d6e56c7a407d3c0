//! The report: one HTML page that needs nothing else, neither a network nor a server nor this tool.
//!
//! The page is its data, as JSON, and a script that draws them; the script and the styles are files of their own
//! beside this one. Whatever a name holds stays data: no `<` is left in the JSON, so that no name can end the
//! element that it is in, the script writes names as text only, and the page's policy lets no other script run and
//! nothing be fetched.

mod data;
mod facts;
mod listings;

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

use crate::analysis::source::Sources;
use crate::analysis::stacks::View;
use crate::profile::Profile;

use data::Data;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Most bytes of a page: it is sent by mail and kept by CI.
pub const MAX_BYTES: usize = 10_000_000;

/// Writes the page.
///
/// # Errors
/// What `out` reports, and when there is no disassembler.
pub fn write(profile: &Profile, view: View, sources: &mut Sources, out: &mut dyn Write) -> Result<()> {
    let mut data = Data::new(profile, view);
    let frame = PAGE.len() + STYLE.len() + SCRIPT.len();
    let used = frame + size_bytes(&data)?;
    // A reserve for what the listings add to the strings' separators.
    listings::add(profile, sources, MAX_BYTES.saturating_sub(used + 100_000), &mut data)?;
    let title = escape_text(&profile.facts.image_name);
    let mut rest = PAGE;
    for (mark, insert) in
        [("{title}", Some(&*title)), ("{style}", Some(STYLE)), ("{data}", None), ("{script}", Some(SCRIPT))]
    {
        let Some((before, after)) = rest.split_once(mark) else { continue };
        out.write_all(before.as_bytes())?;
        match insert {
            Some(text) => out.write_all(text.as_bytes())?,
            None => serde_json::to_writer(WithoutMarkup(&mut *out), &data).map_err(io::Error::from)?,
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())?;
    Ok(())
}

fn escape_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Bytes of a value in the page.
fn size_bytes(value: &impl Serialize) -> Result<usize> {
    let mut counter = Counter(0);
    serde_json::to_writer(WithoutMarkup(&mut counter), value)?;
    Ok(counter.0)
}

struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// JSON without `<`, which only occurs in its strings: the HTML parser finds neither the end of the element
/// nor a comment in it.
struct WithoutMarkup<W>(W);

impl<W: Write> Write for WithoutMarkup<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for (index, piece) in bytes.split(|&byte| byte == b'<').enumerate() {
            if index > 0 {
                self.0.write_all(b"\\u003c")?;
            }
            self.0.write_all(piece)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
