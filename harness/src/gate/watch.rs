// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polls the files on which a suite's results depend, until one of them has changed.
//!
//! Files are polled by name, without the kernel's notifications: there are few files, linkers replace a file by another
//! one of the same name, and neither network shares nor containers report changes reliably.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use std::{fs, thread};

use crate::gate::cache;
use crate::gate::session::baseline_file;
use crate::gate::suite::{Case, Suite};

/// Interval between two checks of the files.
const LOOK: Duration = Duration::from_millis(200);

/// Number of checks after which a missing file counts as gone; until then it may be about to be replaced.
const GONE_LOOKS: u32 = 25;

/// State of a file, for comparison; None: the file is missing.
type Stamp = Option<(SystemTime, u64, u64)>;

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}

/// Files on which a case's result depends, besides the suite's own file.
pub fn files_of(suite: &Suite, case: &Case, baseline: Option<&str>) -> BTreeSet<PathBuf> {
    let numbers = baseline.map(|name| baseline_file(suite, name, case));
    cache::files(&case.options).into_iter().chain(case.inputs.iter().cloned()).chain(numbers).collect()
}

/// Files, with their last known states.
#[derive(Debug)]
pub struct Watch {
    seen: BTreeMap<PathBuf, Stamp>,
}

impl Watch {
    /// Records the current states. Work on the files must begin afterwards, so that no change is missed.
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Watch {
        let see = |path: PathBuf| {
            let stamp = stamp(&path);
            (path, stamp)
        };
        Watch { seen: files.into_iter().map(see).collect() }
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Waits until files have changed and are no longer being written. None: `stop` was set.
    pub fn wait(&self, stop: &AtomicBool) -> Option<BTreeSet<PathBuf>> {
        let mut last: BTreeMap<&PathBuf, Stamp> = BTreeMap::new();
        let mut gone_looks = 0;
        loop {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let now: BTreeMap<&PathBuf, Stamp> = self.seen.keys().map(|path| (path, stamp(path))).collect();
            let changed = || self.seen.iter().filter(|(path, seen)| now[path] != **seen).map(|(path, _)| path);
            // A linker removes a file before it writes the next one.
            gone_looks = if changed().any(|path| now[path].is_none()) { gone_looks + 1 } else { 0 };
            let is_settled = now == last && (gone_looks == 0 || gone_looks > GONE_LOOKS);
            if is_settled && changed().next().is_some() {
                return Some(changed().cloned().collect());
            }
            last = now;
            thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_named_and_one_from_before_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let [image, suite] = ["image.elf", "harness.toml"].map(|name| directory.path().join(name));
        fs::write(&image, "1").unwrap();
        fs::write(&suite, "1").unwrap();
        let watch = Watch::new([image.clone(), suite.clone(), directory.path().join("missing")]);
        let (go_on, stop) = (AtomicBool::new(false), AtomicBool::new(true));
        assert_eq!(watch.wait(&stop), None);
        fs::write(&image, "22").unwrap();
        assert_eq!(watch.wait(&go_on), Some([image.clone()].into()));
        // Replaced by another file of the same length.
        let watch = Watch::new([image.clone(), suite.clone()]);
        let next = directory.path().join("next");
        fs::write(&next, "33").unwrap();
        fs::rename(&next, &image).unwrap();
        assert_eq!(watch.wait(&go_on), Some([image.clone()].into()));
        // A file that stays gone has changed.
        let watch = Watch::new([image, suite.clone()]);
        fs::remove_file(&suite).unwrap();
        assert_eq!(watch.wait(&go_on), Some([suite].into()));
    }
}
