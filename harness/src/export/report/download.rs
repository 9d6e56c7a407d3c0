// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saved profile inside the page, for download: with it, every command of harness works.

use std::io::Write;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, GzBuilder};
use serde::Serialize;

use crate::profile::Profile;
use crate::text::markup::shown;

/// Largest packed profile in bytes: most of the page is meant for the code.
const MAX_BYTES: usize = 3_000_000;

/// Packed profile.
#[derive(Debug, Serialize)]
pub(super) struct Saved {
    /// Name for the downloaded file.
    name: String,
    /// Unpacked size.
    bytes: usize,
    /// Saved profile, packed by gzip, in base64.
    gzip: String,
}

impl Saved {
    /// Packs a profile; None: the page has no room for it.
    pub(super) fn new(profile: &Profile) -> Result<Option<Saved>> {
        let bytes = profile.to_bytes()?;
        // Time and operating system stay unset, so that the bytes are the same everywhere.
        let mut gzip = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
        gzip.write_all(&bytes)?;
        let gzip = STANDARD.encode(gzip.finish()?);
        let image = shown(&profile.facts.image_name);
        let stem = image.rsplit_once('.').map_or(&*image, |(stem, _)| stem);
        let name = format!("{}.fwp", stem.replace(['/', '\\'], "_"));
        Ok((gzip.len() <= MAX_BYTES).then_some(Saved { name, bytes: bytes.len(), gzip }))
    }
}
