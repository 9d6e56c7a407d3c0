// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places of shared results: a folder, or an object store (`s3://…`, `https://…`) if harness was built with it.
//!
//! The network is used only for a URL that the user typed, never for one in a file.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::InputError;
use crate::gate::path_bytes;
use crate::image::bounded_read;
use crate::run::store::staging::keep;

/// Largest object that is read from a store: as [`bounded_read::MAX_BYTES`].
#[cfg(feature = "object-store")]
const MAX_BYTES: u64 = bounded_read::MAX_BYTES;

/// A place as typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// A folder of this machine's file system.
    Folder(#[serde(with = "path_bytes")] PathBuf),
    /// An object store's URL.
    Url(String),
}

/// A place that can be read and written.
#[derive(Debug)]
pub enum Storage {
    /// A folder.
    Folder(PathBuf),
    /// An object store.
    #[cfg(feature = "object-store")]
    Objects(store::Store),
}

impl Place {
    /// Place that a word of the command line names.
    pub fn of(word: &Path) -> Self {
        let is_url = |word: &&str| ["s3://", "http://", "https://"].iter().any(|scheme| word.starts_with(scheme));
        match word.to_str().filter(is_url) {
            Some(url) => Self::Url(url.to_owned()),
            None => Self::Folder(word.to_owned()),
        }
    }

    /// Makes the place usable. Nothing is sent yet.
    ///
    /// # Errors
    /// When the URL does not name a store, or harness was built without stores.
    pub fn open(&self) -> Result<Storage, InputError> {
        match self {
            Self::Folder(folder) => Ok(Storage::Folder(folder.clone())),
            #[cfg(feature = "object-store")]
            Self::Url(url) => store::Store::open(url, std::env::vars_os())
                .map(Storage::Objects)
                .map_err(|error| InputError::new(format!("{}: {error}", without_secret(url)))),
            #[cfg(not(feature = "object-store"))]
            Self::Url(url) => Err(InputError::new(format!(
                "{}: this harness was built without object stores; name a folder, or build it by: cargo install --locked \
                 --path harness --features object-store",
                without_secret(url)
            ))),
        }
    }
}

/// A URL without the name and password that it must not hold, for a message.
fn without_secret(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    let path = rest[end..].split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

impl Storage {
    /// Reads a file; None: there is none of this name.
    ///
    /// # Errors
    /// The reason in a sentence, when the place does not answer.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        match self {
            Self::Folder(folder) => match bounded_read::read(&folder.join(name)) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error.to_string()),
            },
            #[cfg(feature = "object-store")]
            Self::Objects(store) => store.get(name, MAX_BYTES).map_err(|error| error.to_string()),
        }
    }

    /// Writes a file as a whole: who reads at the same time gets the earlier file of this name, or this one.
    ///
    /// # Errors
    /// The reason in a sentence.
    pub fn write(&self, name: &str, bytes: Vec<u8>) -> Result<(), String> {
        match self {
            Self::Folder(folder) => keep(folder, name, &bytes).map_err(|error| error.to_string()),
            #[cfg(feature = "object-store")]
            Self::Objects(store) => store.put(name, bytes).map_err(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_url_is_told_from_a_folder_and_never_shown_with_a_secret() {
        let place = |word: &str| Place::of(Path::new(word));
        assert_eq!(place("s3://bucket/a"), Place::Url("s3://bucket/a".to_owned()));
        assert_eq!(place("cache/https:"), Place::Folder("cache/https:".into()));
        for (url, shown) in [
            ("https://me:secret@server/a", "https://server/a"),
            ("https://me:secr@et@server", "https://server"),
            ("s3://bucket/a?key=secret", "s3://bucket/a"),
            ("http://server#secret", "http://server"),
            ("http://server/a@secret", "http://server/a@secret"),
        ] {
            assert_eq!(without_secret(url), shown);
        }
        let refused = place("ftps://x").open();
        assert!(matches!(refused, Ok(Storage::Folder(_))), "an unknown scheme is a folder's name");
    }

    #[test]
    fn a_file_in_a_folder_appears_as_a_whole_and_leaves_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("a/b");
        let storage = Place::Folder(folder.clone()).open().unwrap();
        assert_eq!(storage.read("name"), Ok(None));
        for bytes in [b"first".to_vec(), b"second".to_vec()] {
            storage.write("name", bytes.clone()).unwrap();
            assert_eq!(storage.read("name"), Ok(Some(bytes)));
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::create_dir(folder.join("odd")).unwrap();
        assert!(storage.read("odd").is_err() && storage.write("odd", Vec::new()).is_err());
    }
}
