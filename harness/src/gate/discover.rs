// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firmware files found for a first suite: ELF files for a supported processor, below the folders in which builds
//! leave them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use object::{Architecture, Object, ObjectKind};
use sha2::{Digest, Sha256};

use crate::error::InputError;
use crate::image::bounded_read;

/// Maximum number of files and folders examined. A folder with more is a mistake, such as a home directory.
const MOST_ENTRIES: usize = 100_000;

/// Maximum depth of folders examined.
const MOST_DEPTH: usize = 16;

/// Folders of tools, which hold no results of a build.
const NO_RESULTS: [&str; 3] = ["CMakeFiles", "node_modules", "harness-report"];

/// Folder in which PlatformIO leaves its builds (`.pio/build/uno/firmware.elf`), although it is hidden.
const PLATFORMIO: &str = ".pio";

/// Firmware among these files and below these folders, by path. Files with equal contents count once.
///
/// # Errors
/// If a place does not exist, or a folder holds more than a project does.
pub fn images(places: &[PathBuf]) -> Result<Vec<PathBuf>, InputError> {
    let mut search = Search::default();
    for place in places {
        let metadata = fs::metadata(place)
            .map_err(|error| InputError::about(place, format_args!("cannot be read: {error}; build it first")))?;
        if metadata.is_dir() {
            search.folder(place, place, 0)?;
        } else {
            // A file named by the user is always taken; its run tells whether it is valid.
            search.named.push(place.clone());
        }
    }
    // Of equal files, the highest one with the shortest name is kept: cargo and CMake keep copies below it.
    search.found.sort_by_key(|path| (path.components().count(), path.as_os_str().len(), path.clone()));
    let mut known = BTreeSet::new();
    let all = search.named.into_iter().chain(search.found);
    let mut images: Vec<PathBuf> = all
        .filter(|path| bounded_read::read(path).map_or(true, |bytes| known.insert(Sha256::digest(bytes))))
        .collect();
    images.sort();
    Ok(images)
}

#[derive(Default)]
struct Search {
    named: Vec<PathBuf>,
    found: Vec<PathBuf>,
    entries: usize,
}

impl Search {
    fn folder(&mut self, top: &Path, folder: &Path, depth: usize) -> Result<(), InputError> {
        // A folder without read permission is skipped.
        let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        let is_cargos = paths.iter().any(|path| path.file_name().is_some_and(|name| name == ".fingerprint"));
        for path in paths {
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                let why =
                    format_args!("holds more than {MOST_ENTRIES} files: name the folder of the build, or the ELF");
                return Err(InputError::about(top, why));
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Links are not followed: they lead to files found elsewhere, out of the project, or in circles.
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if metadata.is_dir() {
                let is_kept_by_cargo = is_cargos && matches!(&*name, "deps" | "build" | "incremental");
                let is_hidden = name.starts_with('.') && name != PLATFORMIO;
                let is_left_out = is_hidden || NO_RESULTS.contains(&&*name) || is_kept_by_cargo;
                if !is_left_out && depth < MOST_DEPTH {
                    let below = if folder == Path::new(".") { PathBuf::from(&*name) } else { path.clone() };
                    self.folder(top, &below, depth + 1)?;
                }
            } else if metadata.is_file() && is_firmware(&path) {
                self.found.push(path.strip_prefix(".").map_or(path.clone(), Path::to_owned));
            }
        }
        Ok(())
    }
}

/// Whether a file is an ELF program for a supported processor, and not for an operating system.
fn is_firmware(path: &Path) -> bool {
    let mut start = [0; 20];
    let begins_well = File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok();
    if !begins_well || !start.starts_with(b"\x7fELF") {
        return false;
    }
    let Ok(bytes) = bounded_read::read(path) else { return false };
    let Ok(elf) = object::File::parse(&*bytes) else { return false };
    let is_known = matches!(
        elf.architecture(),
        Architecture::Arm | Architecture::Riscv32 | Architecture::Riscv64 | Architecture::Avr
    );
    let is_program = match elf.kind() {
        ObjectKind::Executable => true,
        // A static PIE has an entry; a library has none.
        ObjectKind::Dynamic => elf.entry() != 0,
        _ => false,
    };
    // A program for an operating system has a section that names its loader.
    is_known && is_program && elf.section_by_name(".interp").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ELF header of a 32-bit program for this machine, without content.
    fn header(kind: u8, machine: u8) -> Vec<u8> {
        let mut bytes = vec![0; 52];
        bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 1, 1, 1]);
        (bytes[16], bytes[18], bytes[20], bytes[40]) = (kind, machine, 1, 52);
        bytes
    }

    #[test]
    fn builds_are_searched_and_what_is_no_firmware_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        let arm = header(2, 40);
        put("build/app.elf", &arm);
        put("build/copy/app.elf", &arm);
        put("build/app.o", &header(1, 40));
        put("build/host", &header(2, 3));
        put("build/notes.elf", b"no ELF file");
        put("build/CMakeFiles/try", &[&*arm, b"try"].concat());
        put("target/thumb/release/app", &header(2, 243));
        put("target/thumb/release/.fingerprint/x", b"");
        put("target/thumb/release/deps/app-0123", &[&*arm, b"old"].concat());
        put(".git/app", &[&*arm, b"git"].concat());
        put("deps/app", &[&*arm, b"mine"].concat());
        // Arduino's IDE and arduino-cli, and PlatformIO.
        put("build/arduino.avr.uno/blink.ino.elf", &header(2, 83));
        put("build/arduino.avr.uno/blink.ino.hex", b":00000001FF");
        put(".pio/build/uno/firmware.elf", &[&*header(2, 83), b"pio"].concat());
        put(".pio/build/uno/src/main.cpp.o", &header(1, 83));
        let found = |places: &[&str]| {
            let places: Vec<PathBuf> = places.iter().map(|place| directory.path().join(place)).collect();
            let images = images(&places).unwrap();
            let name = |path: PathBuf| path.strip_prefix(directory.path()).unwrap().display().to_string();
            images.into_iter().map(name).collect::<Vec<_>>()
        };
        let all = [
            ".pio/build/uno/firmware.elf",
            "build/app.elf",
            "build/arduino.avr.uno/blink.ino.elf",
            "deps/app",
            "target/thumb/release/app",
        ];
        assert_eq!(found(&[""]), all);
        // Named files are always taken.
        let named = ["build/app.elf", "build/arduino.avr.uno/blink.ino.elf", "build/notes.elf"];
        assert_eq!(found(&["build/notes.elf", "build"]), named);
        let missing = images(&[directory.path().join("missing")]).unwrap_err().to_string();
        assert!(missing.contains("missing: cannot be read"), "{missing}");
    }
}
