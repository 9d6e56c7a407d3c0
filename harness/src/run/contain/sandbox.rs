// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's own sandbox: a system call filter against operations that QEMU never needs, such as starting programs. A
//! QEMU may be built without it, and a kernel may have no such filters. QEMU then refuses to start, and harness starts
//! it without the sandbox.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::EmulatorError;
use crate::run::contain::launcher;
use crate::run::contain::walls;
use crate::run::request::options::Sandbox;

/// Arguments that deny everything possible.
const ARGUMENTS: [&str; 2] = ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"];

/// Arguments for a QEMU that the plugin makes copies of; the walls limit the programs that it may execute.
const COPIED: [&str; 2] = ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,resourcecontrol=deny"];

/// Messages of a QEMU without a sandbox: for an unknown option, and for its build.
const REFUSALS: [&str; 2] = ["There is no option group 'sandbox'", "-sandbox support is not enabled"];

/// Emulators that have refused the sandbox.
static LACKING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn is_lacking(emulator: &Path) -> bool {
    LACKING.lock().unwrap_or_else(PoisonError::into_inner).contains(emulator)
}

/// Arguments that ask an emulator for its sandbox; none if the emulator is known to refuse them. `is_copied`: the
/// plugin makes copies of the process.
pub(in crate::run) fn arguments(emulator: &Path, is_copied: bool) -> &'static [&'static str] {
    match is_copied {
        _ if is_lacking(emulator) => &[],
        true => &COPIED,
        false => &ARGUMENTS,
    }
}

/// Whether an emulator has refused the requested sandbox, and must be started without it from now on.
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

/// Warning about missing walls around these emulators: walls of the kernel, and QEMU's own sandbox; None: none is
/// missing. Whether an emulator has its own sandbox is known once it has been started.
pub fn missing<'a>(emulators: impl Iterator<Item = &'a Path>) -> Option<String> {
    let own = emulators.filter(|emulator| is_lacking(emulator)).map(what);
    let missing: Vec<String> = launcher::missing().iter().map(|&what| what.to_owned()).chain(own).collect();
    (!missing.is_empty()).then(|| walls::without(&missing.join("; ")))
}

/// Warning about an emulator that has refused its sandbox; None: it has a sandbox, or none is requested.
pub fn warning(emulator: &Path, sandbox: Sandbox) -> Option<String> {
    (sandbox == Sandbox::Auto && is_lacking(emulator)).then(|| walls::without(&what(emulator)))
}
