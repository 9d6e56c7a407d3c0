// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories in preparation: private, beside their final place, and locked while their maker lives. The next run
//! removes the directories of killed runs.
//!
//! The kernel releases the lock when the process ends for any reason. QEMU, which works in such a directory, does not
//! hold the lock: it is killed with its parent, and late writes go to removed files.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use tempfile::TempDir;

/// A directory in preparation. Dropping it removes it with its content.
#[derive(Debug)]
pub struct Making {
    temporary: TempDir,
    /// Lock on the directory. None: this file system has no locks, so leftovers are never removed there.
    _held: Option<Flock<File>>,
}

/// Ownership of a directory.
enum Held {
    /// Owned by this process, as long as the lock lives.
    Ours(Flock<File>),
    /// Owned by another process, or already removed.
    Anothers,
    /// This file system has no locks, so the owner is not known.
    Unknown,
}

impl Making {
    /// Makes a directory in `parent` with a name that begins with `prefix`. Before that, removes such directories
    /// that no process holds; each is passed to `rescue` first.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn begin(parent: &Path, prefix: &str, rescue: impl Fn(&Path)) -> io::Result<Making> {
        remove_leftovers(parent, prefix, rescue);
        loop {
            let mut builder = tempfile::Builder::new();
            let temporary = builder.prefix(prefix).permissions(Permissions::from_mode(0o700)).tempdir_in(parent)?;
            let held = match hold(temporary.path()) {
                Held::Ours(held) => Some(held),
                Held::Unknown => None,
                // Between the two calls another process removed it as a remnant.
                Held::Anothers => continue,
            };
            return Ok(Making { temporary, _held: held });
        }
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        self.temporary.path()
    }
}

/// Writes a file of a cache's folder, which is made with it: readers find it whole or not at all, and a link in its place is
/// replaced.
///
/// # Errors
/// When the folder or the file cannot be written.
pub fn keep(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let making = Making::begin(folder, ".partial-", |_| ())?;
    let made = making.path().join("file");
    fs::write(&made, bytes)?;
    fs::rename(made, folder.join(name))
}

fn hold(directory: &Path) -> Held {
    let Ok(opened) = File::open(directory) else { return Held::Anothers };
    match Flock::lock(opened, FlockArg::LockExclusiveNonblock) {
        Ok(held) => {
            let place = |metadata: io::Result<fs::Metadata>| metadata.ok().map(|file| (file.dev(), file.ino()));
            // It may have been removed before it was locked.
            let is_there = place(fs::symlink_metadata(directory)) == place(held.metadata());
            if is_there { Held::Ours(held) } else { Held::Anothers }
        }
        Err((_, Errno::EWOULDBLOCK)) => Held::Anothers,
        Err(_) => Held::Unknown,
    }
}

/// Removes the leftovers of killed runs, but not those of other users.
pub(in crate::run) fn remove_leftovers(parent: &Path, prefix: &str, rescue: impl Fn(&Path)) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        // The form of the names: six letters or digits.
        let is_ours = name
            .to_str()
            .and_then(|name| name.strip_prefix(prefix))
            .is_some_and(|rest| rest.len() == 6 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if let Held::Ours(held) = hold(&entry.path()) {
            // In a directory that users share, root could remove another user's.
            if held.metadata().is_ok_and(|directory| directory.uid() != geteuid().as_raw()) {
                continue;
            }
            rescue(&entry.path());
            // Leftovers that cannot be removed do no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Exchanges two directories: at every moment both paths exist.
///
/// # Errors
/// When the file system or the kernel does not support that.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(in crate::run) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    Ok(renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE)?)
}

/// Systems without such an exchange.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(in crate::run) fn exchange(_one: &Path, _other: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_left_is_removed_and_what_is_held_or_a_persons_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let begin = || Making::begin(scratch.path(), ".f.partial-", |_| ()).unwrap();
        let held = begin();
        for name in [".f.partial-Abc123", ".g.partial-Abc123", ".f.partial-my notes", ".f.partial-Abc1234"] {
            fs::create_dir(scratch.path().join(name)).unwrap();
            fs::write(scratch.path().join(name).join("file"), "").unwrap();
        }
        fs::write(scratch.path().join(".f.partial-Abc124"), "").unwrap();
        std::os::unix::fs::symlink(".g.partial-Abc123", scratch.path().join(".f.partial-Abc125")).unwrap();
        let other = begin();
        let mut left = vec![
            held.path().file_name().unwrap().to_str().unwrap().to_owned(),
            other.path().file_name().unwrap().to_str().unwrap().to_owned(),
        ];
        left.extend(
            [
                ".f.partial-Abc124",
                ".f.partial-Abc125",
                ".f.partial-Abc1234",
                ".f.partial-my notes",
                ".g.partial-Abc123",
            ]
            .map(str::to_owned),
        );
        left.sort();
        assert_eq!(names(scratch.path()), left);
        assert!(scratch.path().join(".g.partial-Abc123/file").exists(), "reached through a link");
    }

    #[test]
    fn what_another_user_has_left_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let [own, anothers] = [".f.partial-Abc123", ".f.partial-Abc124"].map(|name| scratch.path().join(name));
        [&own, &anothers].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        if std::os::unix::fs::chown(&anothers, Some(12_345), None).is_err() {
            // Only root can make directories for other users, and only root could remove them.
            return;
        }
        Making::begin(scratch.path(), ".f.partial-", |_| ()).unwrap();
        assert!(!own.exists() && anothers.exists());
    }

    #[test]
    fn a_directory_in_the_making_is_for_nobody_else() {
        let scratch = tempfile::tempdir().unwrap();
        let making = Making::begin(scratch.path(), ".f.partial-", |_| ()).unwrap();
        assert_eq!(fs::metadata(making.path()).unwrap().mode() & 0o777, 0o700);
    }
}
