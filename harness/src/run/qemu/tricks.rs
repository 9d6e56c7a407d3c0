// SPDX-License-Identifier: MIT OR Apache-2.0
//! Permission to use QEMU beyond its plugin API ([`wire::trick`]), by the version of the QEMU that is installed.
//!
//! The plugin cannot distinguish versions with the same plugin API, so harness passes the version. For an unknown
//! version, or if the user forbids this use, harness passes no version.

use std::env;
use std::path::Path;

use wire::trick::{self, TABLE, Trick};

use crate::error::EmulatorError;
use crate::profile::Tricks;
use crate::run::qemu::emulator::{self, Version};

/// Environment variable that restricts the use of QEMU to its plugin API.
const VARIABLE: &str = "HARNESS_NO_TRICKS";

/// QEMU's version as passed to the plugin, or the reason why none is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Major, minor and micro.
    pub(crate) qemu: Option<[u32; 3]>,
    pub(crate) tricks: Tricks,
}

/// Version that is passed to the plugin for an emulator.
pub(crate) fn told(emulator: &Path) -> Told {
    if is_off() {
        return Told { qemu: None, tricks: Tricks::Off };
    }
    let version = emulator::version(emulator).ok().and_then(|version| Version::parse(&version));
    let qemu = version.map(Version::numbers).filter(|&version| trick::knows(version));
    Told { qemu, tricks: if qemu.is_some() { Tricks::Used } else { Tricks::UnknownVersion } }
}

/// Whether the user has restricted the use of QEMU to its plugin API.
pub fn is_off() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Checks that the QEMU of the greeting has the version passed to the plugin, before it executes anything.
///
/// # Errors
/// When the versions differ: QEMU was replaced after it was asked for its version, or a script answers in its place.
pub(crate) fn check(emulator: &Path, greeted: Version) -> Result<(), EmulatorError> {
    let Some(told) = told(emulator).qemu.filter(|&told| told != greeted.numbers()) else { return Ok(()) };
    let [major, minor, micro] = told;
    emulator::remember(emulator, greeted);
    Err(EmulatorError::with_remedy(
        format!(
            "{} reported {major}.{minor}.{micro} to --version but is QEMU {greeted}: it was replaced meanwhile, \
             or a script starts another one",
            emulator.display()
        ),
        format!("Run again; if that does not help, set {VARIABLE}=1, which relies on no version."),
    ))
}

/// Refuses an option that needs a trick, if the trick may not be used.
///
/// # Errors
/// When the user has switched tricks off, or the emulator's version is unknown.
pub(crate) fn need(emulator: &Path, trick: &Trick, option: &str) -> Result<(), EmulatorError> {
    if told(emulator).qemu.is_some_and(|version| trick.is_for(version)) {
        return Ok(());
    }
    let releases: Vec<String> = trick.looked_at.iter().map(|(major, minor)| format!("{major}.{minor}")).collect();
    let releases = releases.join(", ");
    if is_off() {
        let what = format!("{option} goes beyond QEMU's plugin API, and {VARIABLE} is set");
        let remedy =
            format!("Run without {VARIABLE}, with the bundle's QEMU (docs/ci.md#the-bundle) or one of {releases}.");
        return Err(EmulatorError::with_remedy(what, remedy));
    }
    let version = emulator::version(emulator).unwrap_or_else(|_| "of this version".to_owned());
    let what = format!(
        "{option}: {} is QEMU {version}, and {option} was tried with QEMU {releases} only",
        emulator.display()
    );
    let remedy = "Use one of these releases: the bundle has one (docs/ci.md#the-bundle), and so has Debian 13.";
    Err(EmulatorError::with_remedy(what, remedy))
}

/// Warning for a run without tricks; None: tricks are used, or the user has switched them off.
pub(crate) fn warning(emulator: &Path) -> Option<String> {
    (told(emulator).tricks == Tricks::UnknownVersion).then(|| {
        let version = emulator::version(emulator).unwrap_or_else(|_| "of this version".to_owned());
        format!(
            "this harness does not know the internals of QEMU {version}: it is used by its plugin API alone, and \
             `harness doctor` lists what is missing"
        )
    })
}

/// Features that runs in an emulator lack without tricks, a sentence each.
pub(crate) fn lacks(emulator: &Path) -> Vec<&'static str> {
    match told(emulator).tricks {
        Tricks::Used => Vec::new(),
        Tricks::UnknownVersion | Tricks::Off => TABLE.iter().map(|trick| trick.without_it).collect(),
    }
}
