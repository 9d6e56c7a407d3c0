//! The use of QEMU beyond its plugin API ([`wire::trick`]): whether there is any, by the version of the QEMU at hand.
//!
//! The plugin cannot tell one version from the next where both have one plugin API, so it is told. It is told nothing
//! where the version is none that was looked at, and where the user says so.

use std::env;
use std::path::Path;

use wire::trick::{self, TABLE, Trick};

use crate::error::EmulatorError;
use crate::profile::Tricks;
use crate::run::emulator::{self, Version};

/// The variable by which a user has QEMU used by its plugin API alone.
const VARIABLE: &str = "HARNESS_NO_TRICKS";

/// QEMU's version as the plugin is told it, and the reason if it is told none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Major, minor and micro.
    pub(crate) qemu: Option<[u32; 3]>,
    pub(crate) tricks: Tricks,
}

/// What the plugin is told of an emulator.
pub(crate) fn told(emulator: &Path) -> Told {
    if is_off() {
        return Told { qemu: None, tricks: Tricks::Off };
    }
    let version = emulator::version(emulator).ok().and_then(|version| Version::parse(&version));
    let qemu = version.map(Version::numbers).filter(|&version| trick::knows(version));
    Told { qemu, tricks: if qemu.is_some() { Tricks::Used } else { Tricks::UnknownVersion } }
}

/// Whether the user has QEMU used by its plugin API alone.
pub fn is_off() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Whether the QEMU that has greeted us is the one that the plugin was told, before it executes anything.
///
/// # Errors
/// When it is not: it was replaced after it had been asked for its version, or a script answers for it.
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

/// Refuses an option that is nothing without a trick, where the trick may not be used.
///
/// # Errors
/// When the user has switched tricks off, or the emulator's version is none that was looked at.
pub(crate) fn need(emulator: &Path, trick: &Trick, option: &str) -> Result<(), EmulatorError> {
    if told(emulator).qemu.is_some_and(|version| trick.is_for(version)) {
        return Ok(());
    }
    if is_off() {
        let what = format!("{option} goes beyond QEMU's plugin API, and {VARIABLE} is set");
        return Err(EmulatorError::with_remedy(what, format!("Run without {VARIABLE}.")));
    }
    let version = emulator::version(emulator).unwrap_or_else(|_| "of this version".to_owned());
    let releases: Vec<String> = trick.looked_at.iter().map(|(major, minor)| format!("{major}.{minor}")).collect();
    let releases = releases.join(", ");
    let what = format!(
        "{option}: {} is QEMU {version}, and {option} was tried with QEMU {releases} only",
        emulator.display()
    );
    let remedy = format!("Use QEMU {releases}: the bundle has it (docs/ci.md#the-bundle), and so has Debian 13.");
    Err(EmulatorError::with_remedy(what, remedy))
}

/// What is to be said of a run without tricks. Where the user asked for it, nothing.
pub(crate) fn warning(emulator: &Path) -> Option<String> {
    (told(emulator).tricks == Tricks::UnknownVersion).then(|| {
        let version = emulator::version(emulator).unwrap_or_else(|_| "of this version".to_owned());
        format!(
            "this harness does not know the inside of QEMU {version}: it is used by its plugin API alone, and \
             `harness doctor` lists what is missing"
        )
    })
}

/// What runs in an emulator lack for want of tricks, a sentence each.
pub(crate) fn lacks(emulator: &Path) -> Vec<&'static str> {
    match told(emulator).tricks {
        Tricks::Used => Vec::new(),
        Tricks::UnknownVersion | Tricks::Off => TABLE.iter().map(|trick| trick.without_it).collect(),
    }
}
