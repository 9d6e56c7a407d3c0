// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cache of results: a run is a pure function of the image, the options, the emulator and harness, so an unchanged run
//! is not repeated.

mod entry;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::chip;
use crate::error::InputError;
use crate::gate::cache::entry::Secret;
use crate::gate::storage::{Place, Storage};
use crate::image::bounded_read;
use crate::profile::files::CONSOLE;
use crate::profile::{FILE_NAME, Profile};
use crate::run::request::options::{Options, Sandbox};
use crate::run::store::directory;

/// A place of finished runs, by the hash of their inputs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cache {
    place: Place,
    /// Hash of harness itself: another build may measure differently.
    tool: [u8; 32],
    /// Secret of those whose runs count; None: all runs count.
    secret: Option<Secret>,
    /// Whether runs are never added.
    is_read_only: bool,
}

/// Options of a cache, as typed.
#[derive(Debug, Default)]
pub struct Wanted<'a> {
    /// Folder or URL; None: in the user's cache directory.
    pub place: Option<&'a Path>,
    /// File with the secret of those whose runs count.
    pub key_file: Option<&'a Path>,
    /// Whether runs are never added.
    pub is_read_only: bool,
}

/// A cache in use.
#[derive(Debug)]
pub struct OpenCache {
    cache: Cache,
    storage: Storage,
    /// Whether the place failed: it is asked no more, since each question could last.
    is_lost: AtomicBool,
}

/// A cached run.
#[derive(Debug)]
pub struct Hit {
    /// The profile.
    pub profile: Profile,
    /// Console output of the firmware.
    pub console: Vec<u8>,
    /// The warnings and remarks of the run.
    pub messages: Vec<String>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Files that a run with these options reads.
pub fn files(options: &Options) -> Vec<PathBuf> {
    let contents = [Some(&options.firmware), options.symbols.as_ref()];
    let contents = contents.into_iter().flatten().chain(options.files.iter().map(|(_, file)| file));
    // QEMU's files have absolute paths, since its working directory is empty.
    let words = options.qemu_args.iter().flat_map(|argument| argument.split([',', '=']));
    let of_qemu = words.filter(|word| word.starts_with('/')).map(PathBuf::from);
    let chip = options.chip.iter().map(PathBuf::from).filter(|path| path.exists());
    let core = options.cycles.iter().filter_map(|wanted| chip::cycled::file(wanted)).map(PathBuf::from);
    let core = core.filter(|path| path.exists());
    contents
        .chain(&options.svd)
        .cloned()
        .chain(chip)
        .chain(core)
        .chain(of_qemu.filter(|path| path.exists()))
        .collect()
}

impl Cache {
    /// Cache in the wanted place; None: no place is wanted, and the user has no cache directory.
    ///
    /// # Errors
    /// When the place or the secret cannot be used.
    pub fn new(wanted: &Wanted) -> Result<Option<Cache>, InputError> {
        let place = wanted.place.map(Place::of).or_else(|| Some(Place::Folder(directory::of_caches()?)));
        let tool = std::env::current_exe().and_then(fs::read);
        let secret = wanted.key_file.map(Secret::read).transpose()?;
        let (Some(place), Ok(tool)) = (place, tool) else { return Ok(None) };
        let tool = Sha256::digest(tool).into();
        Ok(Some(Cache { place, tool, secret, is_read_only: wanted.is_read_only }))
    }

    /// Makes the cache usable.
    ///
    /// # Errors
    /// When the place is not one.
    pub fn open(self) -> Result<OpenCache, InputError> {
        let storage = self.place.open()?;
        Ok(OpenCache { cache: self, storage, is_lost: AtomicBool::new(false) })
    }
}

impl OpenCache {
    /// Key of a run: the hash of everything that its result depends on. None: a file cannot be read.
    pub fn key(&self, options: &Options, emulator_versions: &str) -> Option<String> {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        if let Some(secret) = &self.cache.secret {
            add(&secret.name());
        }
        add(&self.cache.tool);
        add(emulator_versions.as_bytes());
        // The profile contains the image's file name.
        add(options.firmware.file_name()?.as_encoded_bytes());
        for file in files(options) {
            add(&bounded_read::read(&file).ok()?);
        }
        let names: Vec<&String> = options.files.iter().map(|(name, _)| name).collect();
        // The result does not depend on the files' places or on that of the output.
        let rest = Options {
            firmware: PathBuf::new(),
            symbols: options.symbols.as_ref().map(|_| PathBuf::new()),
            svd: options.svd.as_ref().map(|_| PathBuf::new()),
            // The contents of the files of chip and core are among the files.
            chip: options.chip.as_deref().map(chip::shown),
            cycles: options.cycles.as_deref().map(chip::shown),
            output: None,
            files: Vec::new(),
            timeout: None,
            sandbox: Sandbox::default(),
            ..options.clone()
        };
        add(format!("{names:?}{rest:?}").as_bytes());
        Some(hex(&hash.finalize()))
    }

    /// The run with this key; None: it is missing. A damaged run, and one that lacks the secret's seal, count as missing,
    /// so that the run is made again.
    ///
    /// # Errors
    /// The reason in a sentence, when the place does not answer; it is not asked again.
    pub fn get(&self, key: &str) -> Result<Option<Hit>, String> {
        if self.is_lost.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let bytes = self.storage.read(key).map_err(|error| self.lost("read", &error))?;
        Ok(bytes.and_then(|bytes| {
            let [profile, console, messages] = entry::decode(key, &bytes, self.cache.secret.as_ref())?;
            let profile = Profile::from_bytes(&profile).ok()?;
            Some(Hit { profile, console, messages: serde_json::from_slice(&messages).ok()? })
        }))
    }

    /// Stores a run, unless the host affected it or the cache is only read; `directory` is its profile directory.
    ///
    /// # Errors
    /// The reason in a sentence, when the run cannot be stored; no other is stored then.
    pub fn put(&self, key: &str, profile: &Profile, directory: &Path, messages: &[String]) -> Result<(), String> {
        let is_by_host = profile.facts.end.is_by_host() || profile.notes.iter().any(|note| !note.denied);
        if is_by_host || self.cache.is_read_only || self.is_lost.load(Ordering::Relaxed) {
            return Ok(());
        }
        let read = |name| fs::read(directory.join(name)).map_err(|error| error.to_string());
        let messages = serde_json::to_vec(messages).map_err(|error| error.to_string())?;
        let parts = [read(FILE_NAME)?, read(CONSOLE)?, messages];
        let bytes = entry::encode(key, &parts, self.cache.secret.as_ref());
        self.storage.write(key, bytes).map_err(|error| self.lost("written", &error))
    }

    fn lost(&self, what: &str, error: &str) -> String {
        self.is_lost.store(true, Ordering::Relaxed);
        format!("the cache cannot be {what}, and is left alone from here on: {error}")
    }
}
