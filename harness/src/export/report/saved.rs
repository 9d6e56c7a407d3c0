//! The saved profile itself, to be had from the page: whoever has the page can ask it what no page shows.

use std::io::Write;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, GzBuilder};
use serde::Serialize;

use crate::profile::Profile;
use crate::text::markup::shown;

/// Most bytes that it may take of the page: most of it is for the code.
const MAX_BYTES: usize = 3_000_000;

/// The profile, packed.
#[derive(Debug, Serialize)]
pub(super) struct Saved {
    /// Name of the file to save it as.
    name: String,
    /// Its size.
    bytes: usize,
    /// In gzip, in base64.
    gzip: String,
}

impl Saved {
    /// A profile; None: there is no room for it.
    pub(super) fn new(profile: &Profile) -> Result<Option<Saved>> {
        let bytes = profile.to_bytes()?;
        // Without a time and a system: the same everywhere.
        let mut gzip = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
        gzip.write_all(&bytes)?;
        let gzip = STANDARD.encode(gzip.finish()?);
        let image = shown(&profile.facts.image_name);
        let stem = image.rsplit_once('.').map_or(&*image, |(stem, _)| stem);
        let name = format!("{}.fwp", stem.replace(['/', '\\'], "_"));
        Ok((gzip.len() <= MAX_BYTES).then_some(Saved { name, bytes: bytes.len(), gzip }))
    }
}
