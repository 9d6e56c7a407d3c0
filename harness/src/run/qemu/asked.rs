// SPDX-License-Identifier: MIT OR Apache-2.0
//! Versions of emulators that earlier runs asked for: asking is a quarter of the time of a small image's run.
//!
//! A version is kept with the identity of QEMU's file, and only recalled for that file. If it is false all the same, the
//! greeting of QEMU's monitor says another one before anything is executed (`tricks::check`).

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memchr::memmem;
use nix::unistd::geteuid;

use crate::image::{bounded_read, sha256_hex};
use crate::run::store::{directory, staging};

/// First bytes of a compiled program.
const ELF: &[u8] = b"\x7fELF";

/// Bytes that are read of a file: more than any version with an identity has.
const MOST_BYTES: u64 = 256;

/// Folder of the versions; None: the user has no place for it.
fn folder() -> Option<PathBuf> {
    Some(directory::of_caches()?.join("emulators"))
}

/// Name of an emulator's file in the folder.
fn name(emulator: &Path) -> String {
    sha256_hex(emulator.as_os_str().as_bytes())
}

/// Text that is the same only as long as the emulator's file is. No program can set the time of a file's last change.
fn identity(emulator: &Path) -> Option<String> {
    let of = fs::metadata(emulator).ok()?;
    Some(format!("{} {} {} {} {}", of.dev(), of.ino(), of.size(), of.ctime(), of.ctime_nsec()))
}

/// Version that this emulator's file had when it was asked; None: it has to be asked.
pub(super) fn recall(emulator: &Path) -> Option<String> {
    let place = folder()?.join(name(emulator));
    let kept = fs::symlink_metadata(&place).ok()?;
    if !kept.is_file() || kept.uid() != geteuid().as_raw() {
        return None;
    }
    let text = String::from_utf8(bounded_read::read_up_to(&place, MOST_BYTES).ok()?).ok()?;
    let (of, version) = text.trim_end().split_once('\n')?;
    (of == identity(emulator)?).then(|| version.to_owned())
}

/// Keeps the version that an emulator said, for later runs, if there is a place for it and the file itself contains the
/// version: a script, or a version manager's program, may start another emulator each time.
pub(super) fn keep(emulator: &Path, version: &str) {
    let keep = || {
        let (folder, identity) = (folder()?, identity(emulator)?);
        let program = bounded_read::read(emulator).ok()?;
        let said = format!("QEMU emulator version {version}");
        let is_qemu = program.starts_with(ELF) && memmem::find(&program, said.as_bytes()).is_some();
        let text = format!("{identity}\n{version}\n");
        is_qemu.then(|| staging::keep(&folder, &name(emulator), text.as_bytes()).ok())?
    };
    // If nothing is kept, the next run asks again.
    let _ = keep();
}

/// Forgets the version of an emulator, which was false.
pub(super) fn forget(emulator: &Path) {
    if let Some(folder) = folder() {
        let _ = fs::remove_file(folder.join(name(emulator)));
    }
}
