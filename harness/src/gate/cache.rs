//! Cache of results: a run is a pure function of the image, the options, the emulator and harness, so an unchanged run
//! is not repeated.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::gate::path_bytes;
use crate::image::bounded_read;
use crate::profile::files::CONSOLE;
use crate::profile::{FILE_NAME, Profile};
use crate::run::request::options::{Options, Sandbox};
use crate::run::store::staging::Making;

/// A directory of finished runs, by the hash of their inputs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cache {
    #[serde(with = "path_bytes")]
    directory: PathBuf,
    /// Hash of harness itself: another build may measure differently.
    tool: [u8; 32],
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

/// Name of the file with the messages of a run.
const MESSAGES: &str = "messages.json";

/// Name of the file with the hash of the other files.
const HASH: &str = "sha256";

/// Hash of a run's files and their lengths.
fn hash_of(files: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for bytes in files {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    hex(&hash.finalize())
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
    contents.chain(&options.svd).cloned().chain(chip).chain(of_qemu.filter(|path| path.exists())).collect()
}

impl Cache {
    /// Cache in this directory, or else in the user's cache directory; None: neither directory is known.
    pub fn open(directory: Option<PathBuf>) -> Option<Cache> {
        let of = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let directory = directory.or_else(|| {
            let caches = of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")))?;
            Some(caches.join("harness"))
        })?;
        let tool = fs::read(std::env::current_exe().ok()?).ok()?;
        Some(Cache { directory, tool: Sha256::digest(tool).into() })
    }

    /// Key of a run: the hash of everything that its result depends on. None: a file cannot be read.
    pub fn key(&self, options: &Options, emulator_versions: &str) -> Option<String> {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        add(&self.tool);
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
            output: None,
            files: Vec::new(),
            timeout: None,
            sandbox: Sandbox::default(),
            ..options.clone()
        };
        add(format!("{names:?}{rest:?}").as_bytes());
        Some(hex(&hash.finalize()))
    }

    /// The run with this key. A damaged run counts as missing, so that it is made again.
    pub fn get(&self, key: &str) -> Option<Hit> {
        let directory = self.directory.join(key);
        let read = |name| fs::read(directory.join(name)).ok();
        let (profile, console, messages) = (read(FILE_NAME)?, read(CONSOLE)?, read(MESSAGES)?);
        if read(HASH)? != hash_of(&[&profile, &console, &messages]).as_bytes() {
            return None;
        }
        let profile = Profile::from_bytes(&profile).ok()?;
        Some(Hit { profile, console, messages: serde_json::from_slice(&messages).ok()? })
    }

    /// Stores a run, unless the host affected it; `directory` is its profile directory.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&self, key: &str, profile: &Profile, directory: &Path, messages: &[String]) -> Result<()> {
        if profile.facts.end.is_by_host() || profile.notes.iter().any(|note| !note.denied) {
            return Ok(());
        }
        fs::create_dir_all(&self.directory)?;
        // Another process may read at any time, so the run appears as a whole or not at all.
        let making = Making::begin(&self.directory, ".partial-", |_| ())?;
        let made = making.path().join("run");
        fs::create_dir(&made)?;
        let [profile, console] = [FILE_NAME, CONSOLE].map(|name| fs::read(directory.join(name)));
        let files = [profile?, console?, serde_json::to_vec(messages)?];
        fs::write(made.join(HASH), hash_of(&files.each_ref().map(|bytes| &**bytes)))?;
        for (name, bytes) in [FILE_NAME, CONSOLE, MESSAGES].into_iter().zip(&files) {
            fs::write(made.join(name), bytes)?;
        }
        let place = self.directory.join(key);
        if fs::rename(&made, &place).is_ok() {
            return Ok(());
        }
        // The existing run is another process's, which is equally good, or it is damaged.
        if self.get(key).is_none() {
            fs::remove_dir_all(&place)?;
            fs::rename(&made, &place)?;
        }
        Ok(())
    }
}
