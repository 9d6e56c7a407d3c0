//! QEMU's own sandbox: with it QEMU lets the kernel take from it what it never does, such as starting programs. A QEMU may
//! be built without, and a kernel may have no filter of system calls; QEMU then refuses to start, and is started without.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::EmulatorError;
use crate::run::contain::launcher;
use crate::run::contain::walls::{self, Sandbox};

/// All that it can deny.
const ARGUMENTS: [&str; 2] = ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"];

/// The same for a QEMU that the plugin makes copies of. What it may execute, the walls say.
const COPIED: [&str; 2] = ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,resourcecontrol=deny"];

/// What a QEMU says that has none: of its options, and of its build.
const REFUSALS: [&str; 2] = ["There is no option group 'sandbox'", "-sandbox support is not enabled"];

/// The emulators that have refused it.
static LACKING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn is_lacking(emulator: &Path) -> bool {
    LACKING.lock().unwrap_or_else(PoisonError::into_inner).contains(emulator)
}

/// The arguments that ask an emulator for it; none where it is known to refuse them. `is_copied`: the plugin makes copies of
/// the process.
pub(in crate::run) fn arguments(emulator: &Path, is_copied: bool) -> &'static [&'static str] {
    match is_copied {
        _ if is_lacking(emulator) => &[],
        true => &COPIED,
        false => &ARGUMENTS,
    }
}

/// Whether an emulator has refused the sandbox that it was asked for, and is to be started without from now on.
///
/// # Errors
/// When all walls are required.
pub(crate) fn is_refused(emulator: &Path, sandbox: Sandbox, said: &str) -> Result<bool, EmulatorError> {
    if is_lacking(emulator) || !REFUSALS.iter().any(|refusal| said.contains(refusal)) {
        return Ok(false);
    }
    if sandbox == Sandbox::Required {
        let what = what(emulator);
        return Err(EmulatorError::new(format!("--sandbox required: {what}")));
    }
    LACKING.lock().unwrap_or_else(PoisonError::into_inner).insert(emulator.to_owned());
    Ok(true)
}

fn what(emulator: &Path) -> String {
    format!("{} has no sandbox here, in which it can start no programs", emulator.display())
}

/// What is missing of the walls around these emulators, the kernel's and their own, as a warning; None: nothing. An
/// emulator's own is known once it has been started.
pub fn missing<'a>(emulators: impl Iterator<Item = &'a Path>) -> Option<String> {
    let own = emulators.filter(|emulator| is_lacking(emulator)).map(what);
    let missing: Vec<String> = launcher::missing().iter().map(|&what| what.to_owned()).chain(own).collect();
    (!missing.is_empty()).then(|| walls::without(&missing.join("; ")))
}

/// What stands in for the sandbox of an emulator that has refused it, as a warning; None: it has one, or none is wanted.
pub fn warning(emulator: &Path, sandbox: Sandbox) -> Option<String> {
    (sandbox == Sandbox::Auto && is_lacking(emulator)).then(|| walls::without(&what(emulator)))
}
