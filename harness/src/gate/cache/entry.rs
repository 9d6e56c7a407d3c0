// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cached run as one file: the profile, the console, the messages, and a seal over them.
//!
//! One file, so that it appears as a whole in every store. Its bytes: [`MAGIC`], the kind of seal, the seal, the lengths
//! of the three parts as little-endian 64-bit numbers, the parts.
//!
//! The seal covers the run's key, too, so an entry under another key's name is damaged. A hash shows damage. Against
//! whoever can write to the store only a secret helps: with one the seal is an HMAC, and other entries count as missing.

use std::fmt;
use std::path::Path;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::InputError;
use crate::image::bounded_read;

/// First bytes of an entry, with the version of the format.
const MAGIC: &[u8; 16] = b"harness-cache-2\n";

/// Size of a seal of either kind, in bytes.
const SEAL_BYTES: usize = 32;

/// Number of parts.
const PARTS: usize = 3;

/// Size of an entry without its parts, in bytes.
const HEAD_BYTES: usize = MAGIC.len() + 1 + SEAL_BYTES + 8 * PARTS;

/// Least and most bytes of a secret: as strong as the hash, and no file of another kind.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 32..=4096;

/// Contents of an entry: the saved profile, the console, and the messages of the run as JSON.
pub(super) type Parts = [Vec<u8>; PARTS];

/// Secret of all who may write to a cache. It is never shown.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Reads the secret: all bytes of a file.
    ///
    /// # Errors
    /// When the file cannot be read, or is too short or too long for a secret.
    pub(super) fn read(file: &Path) -> Result<Self, InputError> {
        let bytes = bounded_read::read_named(file)?;
        if SECRET_BYTES.contains(&bytes.len()) {
            return Ok(Self(bytes));
        }
        let (least, most) = (SECRET_BYTES.start(), SECRET_BYTES.end());
        Err(InputError::about(
            file,
            format_args!(
                "a key has {least} to {most} bytes, and this file has {}; make one by: head -c {least} /dev/urandom > FILE",
                bytes.len()
            ),
        ))
    }
}

/// Text whose keyed hash stands for the secret in an entry's name.
const NAMED: &[u8] = b"harness cache: name of entries";

impl Secret {
    /// Part of the names of the entries that this secret seals: runs without it write other entries, and so cannot
    /// replace them.
    pub(super) fn name(&self) -> [u8; SEAL_BYTES] {
        keyed(self, [NAMED, &[], &[], &[]]).finalize().into_bytes().into()
    }
}

/// Kinds of seal.
#[derive(Clone, Copy)]
enum Kind {
    Hash = 0,
    Keyed = 1,
}

/// Kind of the seals that this secret makes.
fn kind(secret: Option<&Secret>) -> u8 {
    (if secret.is_some() { Kind::Keyed } else { Kind::Hash }) as u8
}

/// Pieces that a seal covers: key, kind, lengths, parts. The lengths make the pieces unambiguous.
fn pieces<'a>(key: &'a str, kind: &'a u8, lengths: &'a [u8], parts: &'a [u8]) -> [&'a [u8]; 4] {
    [key.as_bytes(), std::slice::from_ref(kind), lengths, parts]
}

/// Keyed hash of the pieces, not finished.
fn keyed(secret: &Secret, pieces: [&[u8]; 4]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).unwrap_or_else(|_| unreachable!("HMAC takes any length"));
    pieces.iter().for_each(|piece| mac.update(piece));
    mac
}

/// Plain hash of the pieces.
fn hashed(pieces: [&[u8]; 4]) -> [u8; SEAL_BYTES] {
    let mut hash = Sha256::new();
    pieces.iter().for_each(|piece| hash.update(piece));
    hash.finalize().into()
}

/// Bytes of an entry for the run with this key.
pub(super) fn encode(key: &str, parts: &Parts, secret: Option<&Secret>) -> Vec<u8> {
    let lengths: Vec<u8> = parts.iter().flat_map(|part| (part.len() as u64).to_le_bytes()).collect();
    let contents = parts.concat();
    let kind = kind(secret);
    let pieces = pieces(key, &kind, &lengths, &contents);
    let seal: [u8; SEAL_BYTES] = match secret {
        Some(secret) => keyed(secret, pieces).finalize().into_bytes().into(),
        None => hashed(pieces),
    };
    [MAGIC.as_slice(), &[kind], &seal, &lengths, &contents].concat()
}

/// Contents of an entry for the run with this key. None: it is damaged, another key's, or not sealed by this secret.
pub(super) fn decode(key: &str, bytes: &[u8], secret: Option<&Secret>) -> Option<Parts> {
    let (head, contents) = bytes.split_at_checked(HEAD_BYTES)?;
    let head = head.strip_prefix(MAGIC)?;
    let (kind_byte, head) = head.split_first()?;
    let (seal, lengths) = head.split_at_checked(SEAL_BYTES)?;
    if *kind_byte != kind(secret) {
        return None;
    }
    let pieces = pieces(key, kind_byte, lengths, contents);
    match secret {
        Some(secret) => keyed(secret, pieces).verify_slice(seal).ok()?,
        None => (hashed(pieces) == seal).then_some(())?,
    }
    let mut rest = contents;
    let mut parts = Parts::default();
    for (part, length) in parts.iter_mut().zip(lengths.chunks_exact(8)) {
        let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
        let (bytes, more) = rest.split_at_checked(length)?;
        (*part, rest) = (bytes.to_vec(), more);
    }
    rest.is_empty().then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Parts {
        [b"profile".to_vec(), Vec::new(), b"[]".to_vec()]
    }

    fn secret(byte: u8) -> Secret {
        Secret(vec![byte; 32])
    }

    #[test]
    fn an_entry_of_which_any_byte_changed_or_is_missing_is_damaged() {
        for secret in [None, Some(&secret(1))] {
            let entry = encode("key", &parts(), secret);
            assert_eq!(decode("key", &entry, secret), Some(parts()));
            assert_eq!(decode("other", &entry, secret), None, "an entry under another key's name");
            for index in 0..entry.len() {
                let mut changed = entry.clone();
                changed[index] ^= 1;
                assert_eq!(decode("key", &changed, secret), None, "byte {index}");
                assert_eq!(decode("key", &entry[..index], secret), None, "the first {index} bytes");
            }
            assert_eq!(decode("key", &[&entry[..], b"x"].concat(), secret), None, "a byte more");
        }
    }

    #[test]
    fn bytes_that_move_from_one_part_to_another_are_damage() {
        // A whole entry made by somebody who can write, with the seal that belongs to other lengths.
        let entry = encode("key", &parts(), None);
        let mut moved = entry.clone();
        let lengths = HEAD_BYTES - 8 * PARTS;
        moved[lengths] -= 1;
        moved[lengths + 8] += 1;
        assert_eq!(decode("key", &moved, None), None);
    }

    #[test]
    fn with_a_secret_only_entries_of_that_secret_count() {
        let (ours, theirs) = (secret(1), secret(2));
        let entries = [None, Some(&ours), Some(&theirs)].map(|secret| encode("key", &parts(), secret));
        let counts = |secret: Option<&Secret>| entries.each_ref().map(|entry| decode("key", entry, secret).is_some());
        assert_eq!(counts(None), [true, false, false]);
        assert_eq!(counts(Some(&ours)), [false, true, false]);
        assert_eq!(counts(Some(&theirs)), [false, false, true]);
        assert_eq!(format!("{ours:?}"), "Secret");
    }

    #[test]
    fn a_secret_that_is_short_or_a_file_of_another_kind_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        for (bytes, is_good) in [(0, false), (31, false), (32, true), (4096, true), (4097, false)] {
            std::fs::write(&file, vec![7; bytes]).unwrap();
            let read = Secret::read(&file).map_err(|error| error.to_string());
            assert_eq!(read.is_ok(), is_good, "{bytes} bytes");
            assert!(read.is_ok() || read.unwrap_err().contains("a key has 32 to 4096 bytes"));
        }
        assert!(Secret::read(directory.path()).is_err());
    }
}
