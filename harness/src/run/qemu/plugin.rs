// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plugin's library, which harness contains and adapts to the QEMU that will load it. One library supports several
//! versions of QEMU's plugin API; a word in the library asks for one of them. QEMU checks that word first, and reports
//! the versions that it accepts.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use object::{Object, ObjectSegment, ObjectSymbol};
use wire::api::{NEWEST, OLDEST, SYMBOL};

use crate::error::EmulatorError;
use crate::run::qemu::emulator;

/// The plugin, as built with this crate.
const LIBRARY: &[u8] = include_bytes!(env!("PLUGIN_LIBRARY"));

/// Message of a QEMU built without plugins, which does not know the option.
const NO_PLUGINS: &str = "-plugin: invalid option";

/// API versions accepted by emulators that refused the plugin before.
static TAKEN: Mutex<BTreeMap<PathBuf, i32>> = Mutex::new(BTreeMap::new());

/// Version of the plugin API to request from an emulator: the version that it is known to accept, or else the oldest,
/// which most emulators accept.
pub fn api(emulator: &Path) -> i32 {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner).get(emulator).copied().unwrap_or(OLDEST)
}

/// The plugin's library for an API version.
pub(in crate::run) fn library(api: i32) -> io::Result<Vec<u8>> {
    let mut library = LIBRARY.to_vec();
    let word = word(&library).ok_or_else(|| io::Error::other("the plugin has no version word"))?;
    library[word].copy_from_slice(&api.to_le_bytes());
    Ok(library)
}

/// Byte range of the version word in a library.
fn word(library: &[u8]) -> Option<Range<usize>> {
    let file = object::File::parse(library).ok()?;
    let address = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(SYMBOL))?.address();
    let start = file.segments().find_map(|segment| {
        let (offset, bytes) = segment.file_range();
        let place = address.checked_sub(segment.address()).filter(|place| place + 4 <= bytes)?;
        usize::try_from(offset + place).ok()
    })?;
    Some(start..start + 4)
}

/// Reason why QEMU did not load the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// Lowest API version that QEMU accepts.
    Least(i32),
    /// Highest API version that QEMU accepts.
    Most(i32),
}

impl Refusal {
    /// Reads QEMU's message.
    fn read(said: &str) -> Option<Refusal> {
        let (_, said) = said.split_once("plugin requires API version ")?;
        let (_, said) = said.lines().next()?.split_once("this QEMU supports only ")?;
        let number = |after: &str| said.strip_prefix(after)?.trim().parse().ok();
        number("a minimum version of ").map(Refusal::Least).or_else(|| number("up to version ").map(Refusal::Most))
    }
}

/// Whether QEMU has refused the plugin's API version and accepts another one. That version is used from now on.
///
/// # Errors
/// When QEMU accepts no version that the plugin supports; the message has a remedy.
pub(crate) fn takes_another(emulator: &Path, asked: i32, said: &str) -> Result<bool, EmulatorError> {
    if said.lines().any(|line| line.ends_with(NO_PLUGINS)) {
        return Err(emulator::unfit(format!(
            "{} was built without plugins (QEMU's configure has --enable-plugins for them), as some vendors' are",
            emulator.display()
        )));
    }
    let Some(refusal) = Refusal::read(said) else { return Ok(false) };
    let api = match refusal {
        Refusal::Least(least) => least,
        Refusal::Most(most) => most.min(NEWEST),
    };
    if api > NEWEST {
        let version = emulator::version(emulator)?;
        let what = format!(
            "{} is QEMU {version}, which is too new for this harness: it takes plugins for its API {api} and later, and \
             this harness knows those from {OLDEST} to {NEWEST} (QEMU 9.2 to 11.1)",
            emulator.display()
        );
        let remedy = "A newer harness may know it. Until then, put an older QEMU before it on the PATH.";
        return Err(EmulatorError::with_remedy(what, remedy));
    }
    if api < OLDEST || api == asked {
        return Ok(false);
    }
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(emulator.to_owned(), api);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_asks_for_the_api_that_is_written_into_it_and_differs_in_nothing_else() {
        let at = word(LIBRARY).unwrap();
        assert_eq!(LIBRARY[at.clone()], OLDEST.to_le_bytes());
        for api in OLDEST..=NEWEST {
            let library = library(api).unwrap();
            assert_eq!(library[at.clone()], api.to_le_bytes());
            assert_eq!((&library[..at.start], &library[at.end..]), (&LIBRARY[..at.start], &LIBRARY[at.end..]));
        }
        assert_eq!(word(b"\x7fELF no library"), None);
    }

    #[test]
    fn qemus_refusals_are_read() {
        let old = "qemu-system-arm: Could not load plugin ../plugin.so: plugin requires API version 4, but this QEMU \
                   supports only a minimum version of 7\n";
        assert_eq!(Refusal::read(old), Some(Refusal::Least(7)));
        let new = "warning\nqemu: Could not load plugin p: plugin requires API version 7, but this QEMU supports only \
                   up to version 4\r\nmore";
        assert_eq!(Refusal::read(new), Some(Refusal::Most(4)));
        assert_eq!(Refusal::read("Could not load plugin p: no such file"), None);
        assert_eq!(Refusal::read("plugin requires API version 7, but this QEMU supports only x"), None);
    }

    #[test]
    fn what_an_emulator_takes_is_asked_for_the_next_time() {
        let least = |api: i32| {
            format!("plugin requires API version 4, but this QEMU supports only a minimum version of {api}")
        };
        let most =
            |api: i32| format!("plugin requires API version 7, but this QEMU supports only up to version {api}");
        let emulator = Path::new("/no/such/emulator");
        assert_eq!(api(emulator), OLDEST);
        assert_eq!(takes_another(emulator, OLDEST, "anything else"), Ok(false));
        assert_eq!(takes_another(emulator, OLDEST, &least(NEWEST)), Ok(true));
        assert_eq!(api(emulator), NEWEST);
        // The emulator has been replaced meanwhile.
        assert_eq!(takes_another(emulator, NEWEST, &most(5)), Ok(true));
        assert_eq!(api(emulator), 5);
        // No other version would help: the refusal is shown.
        assert_eq!(takes_another(emulator, 5, &most(5)), Ok(false));
        assert_eq!(takes_another(emulator, 5, &most(OLDEST - 1)), Ok(false));
        assert!(takes_another(emulator, 5, &least(NEWEST + 1)).is_err());
        let without = takes_another(emulator, 5, "qemu-system-riscv32: -plugin: invalid option\n").unwrap_err();
        assert!(without.what().contains("built without plugins") && without.remedy().is_some(), "{without}");
    }
}
