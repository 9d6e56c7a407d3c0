// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firmware where a command needs a profile: a run in a temporary directory.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use anyhow::Result;

use crate::debug::WORKSHOP;
use crate::error::InputError;
use crate::measure::{Listener, Measured};
use crate::profile::Profile;
use crate::run::request::options::Options;
use crate::run::store::deadline::Deadline;
use crate::run::store::directory::Output;
use crate::run::store::staging::Making;
use crate::taken;

/// Whether a path is a saved profile: a directory, or a file that begins as profiles do.
pub(super) fn is_profile(path: &Path) -> bool {
    let mut first = [0; 8];
    let mut begins = || fs::File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok();
    let is_read = begins();
    path.is_dir() || (is_read && Profile::begins(&first))
}

/// Measures a run in a temporary directory, which is removed again. A chip that the run takes is put into the options. Returns
/// the profile and the console's output.
///
/// # Errors
/// Errors of [`measure`]; also if there is no room for the directory.
pub(super) fn measured(options: &mut Options, listener: &mut dyn Listener) -> Result<(Profile, Option<Vec<u8>>)> {
    let opened = taken::refused(options, listener);
    let place = Making::begin(&std::env::temp_dir(), WORKSHOP, |_| ());
    let place = place.map_err(|error| InputError::new(format!("no directory for the run: {error}")))?;
    let output = Output::prepare_within(place.path().join("run.profile"), Deadline::new(options.timeout))?;
    let Measured { profile, console } = taken::measure(options, opened, &output, listener)?;
    Ok((profile, fs::read(console).ok()))
}
