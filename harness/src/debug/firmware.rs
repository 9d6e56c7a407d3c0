// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the files of a profile's firmware by their content: a profile has their hashes, and no paths.
//!
//! The profile's author chose hash and name, so they must not lead to any path. The search covers folders of the
//! user's, within bounds, and follows no symbolic link.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::image::bounded_read;
use crate::image::sha256_hex;

/// Greatest depth of the searched folders.
const MAX_DEPTH: usize = 8;

/// Most entries of folders that are examined.
const MAX_ENTRIES: usize = 50_000;

/// Most bytes that are hashed.
const MAX_HASHED_BYTES: u64 = 2 << 30;

/// First bytes of an ELF file.
const ELF: [u8; 4] = *b"\x7fELF";

/// A file to be found.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The file's original name; files with other names are examined later. None: unknown.
    pub name: Option<&'a str>,
    /// SHA-256 of its bytes, in hex.
    pub sha256: &'a str,
}

/// Result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The file, if found.
    pub found: Option<PathBuf>,
    /// The first file that has the wanted name, but other content.
    pub namesake: Option<PathBuf>,
    /// Number of files that were hashed.
    pub files: u64,
    /// Whether the search was cut short by its bounds.
    pub is_cut: bool,
    entries: usize,
    hashed_bytes: u64,
}

impl Search {
    /// Searches for a file below `here`, and directly in the folders `beside`.
    pub fn of(wanted: Wanted<'_>, here: &Path, beside: &[PathBuf]) -> Search {
        let mut search = Search::default();
        // Folders with the number of levels to search below them; None: folders of `beside`.
        let mut folders = VecDeque::from([(here.to_owned(), Some(MAX_DEPTH))]);
        folders.extend(beside.iter().map(|folder| (folder.clone(), None)));
        while let Some((folder, depth)) = folders.pop_front() {
            let below = search.look(wanted, &folder);
            match depth {
                _ if search.found.is_some() => break,
                Some(0) => search.is_cut |= !below.is_empty(),
                Some(depth) => folders.extend(below.into_iter().map(|folder| (folder, Some(depth - 1)))),
                None => {}
            }
        }
        search
    }

    /// Examines the files of a folder. Returns the folders in it.
    fn look(&mut self, wanted: Wanted<'_>, folder: &Path) -> Vec<PathBuf> {
        let is_namesake = |name: &OsString| wanted.name.is_some_and(|wanted| name == wanted);
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if self.entries >= MAX_ENTRIES {
                self.is_cut = true;
                break;
            }
            self.entries += 1;
            let name = entry.file_name();
            match entry.file_type() {
                Ok(kind) if kind.is_file() => files.push(name),
                Ok(kind) if kind.is_dir() && !name.as_encoded_bytes().starts_with(b".") => folders.push(name),
                _ => {}
            }
        }
        files.sort_by(|one, other| (!is_namesake(one), one).cmp(&(!is_namesake(other), other)));
        folders.sort();
        for name in files {
            let path = folder.join(&name);
            let extension = wanted.name.and_then(|wanted| Path::new(wanted).extension());
            let is_like = is_namesake(&name) || extension.is_some() && extension == path.extension();
            if (is_like || begins_like_elf(&path)) && self.is(&path, wanted.sha256) {
                self.found = Some(path.strip_prefix(".").map_or_else(|_| path.clone(), Path::to_owned));
                break;
            }
            if is_namesake(&name) && self.namesake.is_none() {
                self.namesake = Some(path);
            }
        }
        folders.into_iter().map(|name| folder.join(name)).collect()
    }

    /// Whether a file has this hash.
    fn is(&mut self, path: &Path, sha256: &str) -> bool {
        let length = fs::symlink_metadata(path).map_or(0, |meta| meta.len());
        if length > bounded_read::MAX_BYTES || self.hashed_bytes + length > MAX_HASHED_BYTES {
            self.is_cut = true;
            return false;
        }
        self.hashed_bytes += length;
        self.files += 1;
        bounded_read::read(path).is_ok_and(|bytes| sha256_hex(&bytes) == sha256)
    }
}

fn begins_like_elf(path: &Path) -> bool {
    let mut first = [0; ELF.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == ELF
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder with these files.
    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        folder
    }

    fn wanted(sha256: &str) -> Wanted<'_> {
        Wanted { name: Some("fw.elf"), sha256 }
    }

    #[test]
    fn a_file_is_found_by_its_bytes_whatever_it_is_called() {
        let bytes = b"\x7fELF of the firmware";
        let hash = sha256_hex(bytes);
        let deep = format!("{}renamed", "a/".repeat(MAX_DEPTH));
        let deeper = format!("{}renamed", "a/".repeat(MAX_DEPTH + 1));
        for name in ["fw.elf", "out/renamed", "raw.elf", &deep] {
            let here = folder(&[("fw.elf", b"\x7fELF of another"), ("notes.txt", b"\x7fELF of none"), (name, bytes)]);
            let search = Search::of(wanted(&hash), here.path(), &[]);
            assert_eq!(search.found, Some(here.path().join(name)), "{name}");
        }
        let here = folder(&[(&deeper, bytes), (".git/fw.elf", bytes), ("source.c", bytes.trim_ascii_start())]);
        fs::write(here.path().join("source.c"), b"int main").unwrap();
        let search = Search::of(wanted(&hash), here.path(), &[]);
        assert_eq!((search.found, search.is_cut, search.files), (None, true, 0));
        let here = folder(&[("b/fw.elf", b"\x7fELF of another")]);
        let search = Search::of(wanted(&hash), here.path(), &[]);
        assert_eq!((search.found, search.is_cut, search.files), (None, false, 1));
        assert_eq!(search.namesake, Some(here.path().join("b/fw.elf")));
    }

    #[test]
    fn beside_the_profile_no_folder_is_gone_into() {
        let bytes = b"\x7fELF of the firmware";
        let (here, beside) = (folder(&[]), folder(&[("fw2.elf", bytes)]));
        let places = [beside.path().to_owned()];
        let hash = sha256_hex(bytes);
        assert_eq!(Search::of(wanted(&hash), here.path(), &places).found, Some(beside.path().join("fw2.elf")));
        let beside = folder(&[("below/fw.elf", bytes)]);
        let search = Search::of(wanted(&hash), here.path(), &[beside.path().to_owned()]);
        assert_eq!((search.found, search.is_cut), (None, false));
    }

    #[test]
    fn no_link_and_nothing_but_files_is_read() {
        let bytes = b"\x7fELF of the firmware";
        let (here, outside) = (folder(&[]), folder(&[("fw.elf", bytes)]));
        symlink(outside.path().join("fw.elf"), here.path().join("fw.elf")).unwrap();
        symlink(outside.path(), here.path().join("folder")).unwrap();
        symlink(here.path(), here.path().join("round")).unwrap();
        nix::unistd::mkfifo(&here.path().join("pipe.elf"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let search = Search::of(wanted(&sha256_hex(bytes)), here.path(), &[]);
        assert_eq!((search.found, search.namesake, search.files), (None, None, 0));
    }

    #[test]
    fn a_file_of_unknown_name_is_an_elf_file() {
        let bytes = b"\x7fELF with symbols";
        let here = folder(&[("a.dbg", bytes), ("b.txt", b"text")]);
        let wanted = Wanted { name: None, sha256: &sha256_hex(bytes) };
        let search = Search::of(wanted, here.path(), &[]);
        assert_eq!((search.found, search.files), (Some(here.path().join("a.dbg")), 1));
    }
}
