// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entries of a cache of runs, which others may have written.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use harness::gate::cache::{Cache, OpenCache, Wanted};
use harness::profile::Profile;
use sha2::{Digest as _, Sha256};

use super::random::Random;
use super::session::Seed;
use super::{made, mutate};

/// Key of the entry.
const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Bytes before the seal: those that name the format, and the kind of seal.
const BEGIN_BYTES: usize = 16 + 1;
const SEAL_BYTES: usize = 32;
const LENGTHS_BYTES: usize = 3 * 8;

/// The cache below a directory, always the same one in a process. A new one reads and hashes this whole program, which
/// takes far longer than an entry.
fn cache(dir: &Path) -> &'static OpenCache {
    static CACHE: OnceLock<OpenCache> = OnceLock::new();
    CACHE.get_or_init(|| {
        let place = dir.join("cache");
        fs::create_dir_all(&place).unwrap();
        Cache::new(&Wanted { place: Some(&place), ..Wanted::default() }).unwrap().unwrap().open().unwrap()
    })
}

/// The only file below a directory.
fn file_below(dir: &Path) -> PathBuf {
    let path = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).next().expect("an entry");
    if path.is_dir() { file_below(&path) } else { path }
}

/// Makes the entry of a run.
pub(crate) fn runs(dir: &Path) {
    made::runs(dir);
    let run = dir.join("riscv64-tasks-ends.profile");
    let bytes = fs::read(dir.join("riscv64-tasks-ends.fwp")).unwrap();
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join("profile.fwp"), &bytes).unwrap();
    fs::write(run.join("console.log"), "started\n").unwrap();
    let profile = Profile::from_bytes(&bytes).unwrap();
    cache(dir).put(KEY, &profile, &run, &["a warning".to_owned()]).unwrap();
}

pub(crate) fn seeds(dir: &Path) -> Vec<Seed> {
    let path = file_below(&dir.join("cache"));
    vec![Seed { name: path.display().to_string(), bytes: fs::read(&path).unwrap() }]
}

pub(crate) fn mutated(random: &mut Random, seeds: &[Seed], seed: usize) -> Vec<u8> {
    let mut bytes = seeds[seed].bytes.clone();
    mutate::bytes(random, &mut bytes);
    // Whoever can write to the cache can make a plain seal.
    if bytes.len() > BEGIN_BYTES + SEAL_BYTES + LENGTHS_BYTES && random.percent(90) {
        let (begin, rest) = bytes.split_at_mut(BEGIN_BYTES);
        let (seal, contents) = rest.split_at_mut(SEAL_BYTES);
        let hash = Sha256::new().chain_update(KEY).chain_update(&begin[BEGIN_BYTES - 1..]).chain_update(contents);
        seal.copy_from_slice(&hash.finalize());
    }
    bytes
}

/// Takes the entry from the cache. It is the run's or missing; the place stays one that is asked.
pub(crate) fn read(seed: &Seed, bytes: &[u8], scratch: &Path) -> bool {
    fs::write(&seed.name, bytes).unwrap();
    let cache = cache(scratch.parent().expect("it is in the directory of the runs"));
    let hit = cache.get(KEY).expect("the place answers");
    hit.is_some_and(|hit| hit.profile.to_bytes().is_ok())
}
