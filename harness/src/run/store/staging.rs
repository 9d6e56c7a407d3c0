//! Directories in the making: private, beside the place that they go to, and held for as long as their maker lives.
//! What one that was killed has left is removed by the next.
//!
//! They are held by a lock that the kernel takes back when the process ends, however that ends. QEMU, which works in
//! one, does not hold it: it is killed with its parent, and what it still writes into removed files is nowhere.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use tempfile::TempDir;

/// A directory in the making. Dropped, it goes with all that is still in it.
#[derive(Debug)]
pub struct Making {
    temporary: TempDir,
    /// None: this file system knows no locks, and nothing is ever removed there.
    _held: Option<Flock<File>>,
}

/// Whose a directory is.
enum Held {
    /// This process's, as long as the lock lives.
    Ours(Flock<File>),
    /// Another one's, or gone.
    Anothers,
    /// That cannot be told here.
    Unknown,
}

impl Making {
    /// Makes a directory in `parent` whose name begins with `prefix`, once those are gone that nothing holds any more.
    /// Each of them is shown to `rescue` first.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn begin(parent: &Path, prefix: &str, rescue: impl Fn(&Path)) -> io::Result<Making> {
        remove_leftovers(parent, prefix, rescue);
        loop {
            let mut builder = tempfile::Builder::new();
            let temporary = builder.prefix(prefix).permissions(Permissions::from_mode(0o700)).tempdir_in(parent)?;
            let held = match hold(temporary.path()) {
                Held::Ours(held) => Some(held),
                Held::Unknown => None,
                // Between the two calls it was taken for a leftover.
                Held::Anothers => continue,
            };
            return Ok(Making { temporary, _held: held });
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.temporary.path()
    }
}

fn hold(directory: &Path) -> Held {
    let Ok(opened) = File::open(directory) else { return Held::Anothers };
    match Flock::lock(opened, FlockArg::LockExclusiveNonblock) {
        Ok(held) => {
            let place = |metadata: io::Result<fs::Metadata>| metadata.ok().map(|file| (file.dev(), file.ino()));
            // It may have been removed before it was held.
            let is_there = place(fs::symlink_metadata(directory)) == place(held.metadata());
            if is_there { Held::Ours(held) } else { Held::Anothers }
        }
        Err((_, Errno::EWOULDBLOCK)) => Held::Anothers,
        Err(_) => Held::Unknown,
    }
}

/// Removes what was left in the making, but for what is another user's.
pub(in crate::run) fn remove_leftovers(parent: &Path, prefix: &str, rescue: impl Fn(&Path)) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        // As the names are made: six letters or digits.
        let is_ours = name
            .to_str()
            .and_then(|name| name.strip_prefix(prefix))
            .is_some_and(|rest| rest.len() == 6 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if let Held::Ours(held) = hold(&entry.path()) {
            // In a directory that users share, root could remove another's.
            if held.metadata().is_ok_and(|directory| directory.uid() != geteuid().as_raw()) {
                continue;
            }
            rescue(&entry.path());
            // What cannot be removed is in no run's way.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Puts a directory in the place of another one, which is then where the first was: at every moment one of them is
/// there.
///
/// # Errors
/// When the file system or the kernel cannot do that, too.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(in crate::run) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    Ok(renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE)?)
}

/// As above.
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
            // Only root makes directories of others, and only root could remove them.
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
