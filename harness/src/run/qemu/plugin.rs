//! The plugin's library, which is carried along and made to fit the QEMU that is to load it: one library is for every
//! version of QEMU's plugin API that it knows, and asks for one of them by a word in it. QEMU compares that word before
//! anything else, and says which it would have taken.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use object::{Object, ObjectSegment, ObjectSymbol};
use wire::api::{NEWEST, OLDEST, SYMBOL};

use crate::error::EmulatorError;
use crate::run::qemu::emulator;

/// The plugin, as it was built with this crate.
const LIBRARY: &[u8] = include_bytes!(env!("PLUGIN_LIBRARY"));

/// The first plugin API whose QEMU has an object for its monitor; the option for it is to go then.
pub(in crate::run) const MONITOR_IS_AN_OBJECT: i32 = 7;

/// What a QEMU says that was built without plugins: it does not know the option.
const NO_PLUGINS: &str = "-plugin: invalid option";

/// What the emulators took that have refused a plugin before.
static TAKEN: Mutex<BTreeMap<PathBuf, i32>> = Mutex::new(BTreeMap::new());

/// The plugin API to ask an emulator for: what it is known to take, or the oldest, which most take.
pub fn api(emulator: &Path) -> i32 {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner).get(emulator).copied().unwrap_or(OLDEST)
}

/// The plugin's library, asking for an API.
pub(in crate::run) fn library(api: i32) -> io::Result<Vec<u8>> {
    let mut library = LIBRARY.to_vec();
    let word = word(&library).ok_or_else(|| io::Error::other("the plugin has no version word"))?;
    library[word].copy_from_slice(&api.to_le_bytes());
    Ok(library)
}

/// Where a library has its version word.
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

/// Why QEMU did not load the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// It takes none that asks for less than this.
    Least(i32),
    /// It takes none that asks for more than this.
    Most(i32),
}

impl Refusal {
    /// From what QEMU says.
    fn read(said: &str) -> Option<Refusal> {
        let (_, said) = said.split_once("plugin requires API version ")?;
        let (_, said) = said.lines().next()?.split_once("this QEMU supports only ")?;
        let number = |after: &str| said.strip_prefix(after)?.trim().parse().ok();
        number("a minimum version of ").map(Refusal::Least).or_else(|| number("up to version ").map(Refusal::Most))
    }
}

/// Whether QEMU has refused the plugin for the API that it asked for, and would take it for another one, which is asked
/// for from now on.
///
/// # Errors
/// When it takes none that the plugin knows; the message says what to do.
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
        // It has been replaced meanwhile.
        assert_eq!(takes_another(emulator, NEWEST, &most(5)), Ok(true));
        assert_eq!(api(emulator), 5);
        // No other one would help: the refusal is shown.
        assert_eq!(takes_another(emulator, 5, &most(5)), Ok(false));
        assert_eq!(takes_another(emulator, 5, &most(OLDEST - 1)), Ok(false));
        assert!(takes_another(emulator, 5, &least(NEWEST + 1)).is_err());
        let without = takes_another(emulator, 5, "qemu-system-riscv32: -plugin: invalid option\n").unwrap_err();
        assert!(without.what().contains("built without plugins") && without.remedy().is_some(), "{without}");
    }
}
