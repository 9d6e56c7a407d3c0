// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounds of an untrusted suite, such as one from the pull request of a fork: the files and options that it may name,
//! and its resources.
//!
//! A suite acts as code: its `qemu-args` can load programs, and its `files` copy files to the firmware, which can print
//! them. Under `--untrusted` a suite has only the firmware's rights: settings of QEMU, files of its own folder, and
//! bounded time, output and memory.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::error::InputError;
use crate::run::request::options::Options;
use crate::run::request::settings;

/// Maximum number of images; each combination of a matrix counts as one.
pub const MAX_CASES: usize = 200;

/// Maximum time of an image.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum time of the suite. Images that have begun by then may finish.
pub const MAX_SUITE_TIME: Duration = Duration::from_secs(3600);

/// Maximum number of bytes that an image's firmware prints and writes to files.
pub const MAX_OUTPUT_BYTES: u64 = 16_000_000;

/// Maximum size of all profiles together. The image that exceeds it is the last one.
pub const MAX_KEPT_BYTES: u64 = 4_000_000_000;

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Folder of an untrusted suite: no file outside of it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Absolute path without links.
    root: PathBuf,
}

/// Purpose of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An image or its symbols. Both may lie in hidden folders, since some build tools keep them there (`.pio`).
    Image,
    /// Data for the firmware, or a baseline.
    Data,
}

/// Folder of a version control system, which may hold the credentials with which the suite was fetched.
const NEVER: &str = ".git";

impl Folder {
    /// Folder of a suite's file.
    ///
    /// # Errors
    /// If the folder cannot be found, or a link leads to it.
    pub fn of(suite: &Path) -> Result<Folder, InputError> {
        check_links(suite)?;
        let parent = match suite.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let root = fs::canonicalize(parent)
            .map_err(|error| InputError::about(suite, format_args!("its folder cannot be found: {error}")))?;
        Ok(Folder { root })
    }

    /// Absolute path of a file, without links. The file may not exist yet.
    ///
    /// # Errors
    /// If the path is not in the folder, or an untrusted suite may not read the file.
    pub fn file(&self, path: &Path, purpose: Purpose) -> Result<PathBuf, Refused> {
        let refused = |why: &'static str| Refused { path: path.to_owned(), why };
        let place = place(path).ok_or_else(|| refused("it cannot be found out where it lies"))?;
        let below = place.strip_prefix(&self.root).map_err(|_| refused("it lies outside of the suite's folder"))?;
        let is_hidden = |part: Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
        if below.components().any(|part| part.as_os_str() == NEVER) {
            return Err(refused("it may hold credentials"));
        }
        if purpose == Purpose::Data && below.components().any(is_hidden) {
            return Err(refused("hidden files and folders may hold credentials"));
        }
        if fs::metadata(&place).is_ok_and(|file| file.len() > MAX_FILE_BYTES) {
            return Err(refused("it is larger than 256 MiB"));
        }
        Ok(place)
    }
}

/// Refusal to read a file for an untrusted suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    path: PathBuf,
    why: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, and is not read with --untrusted", self.path.display(), self.why)
    }
}

/// Path without links. For a missing file, only the part that exists is without links.
fn place(path: &Path) -> Option<PathBuf> {
    let mut rest: Vec<Component<'_>> = Vec::new();
    let mut there = path;
    loop {
        match fs::canonicalize(there) {
            Ok(place) => return Some(rest.iter().rev().fold(place, |place, part| place.join(part))),
            // A link to a missing file may get a target later, so it is refused.
            Err(error) if error.kind() == ErrorKind::NotFound && !there.is_symlink() => {
                let last = there.components().next_back().filter(|part| matches!(part, Component::Normal(_)))?;
                rest.push(last);
                there = match there.parent()? {
                    above if above.as_os_str().is_empty() => Path::new("."),
                    above => above,
                };
            }
            Err(_) => return None,
        }
    }
}

/// Refuses a path below the current directory with a link in it: the suite's author would choose the target.
///
/// # Errors
/// Names the link.
fn check_links(path: &Path) -> Result<(), InputError> {
    if path.is_absolute() && !path.is_symlink() {
        return Ok(());
    }
    let mut upto = PathBuf::new();
    for part in path.components() {
        upto.push(part);
        if upto.is_symlink() {
            return Err(InputError::about(&upto, "it is a link, and --untrusted follows none; remove it"));
        }
    }
    Ok(())
}

/// Refuses a directory for reports that has links in it: a repository can contain such links.
///
/// # Errors
/// Names the link.
pub fn check_reports(directory: &Path) -> Result<(), InputError> {
    check_links(directory)?;
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_symlink() {
                let what = "it is a link in the directory of the reports, and --untrusted follows none; remove it, or name \
                            another directory with --output";
                return Err(InputError::about(&path, what));
            }
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    Ok(())
}

/// Limits a case of an untrusted suite: its QEMU arguments may only be settings, and its bounds are lower.
///
/// # Errors
/// The key that asks for more, and its limit.
pub fn confine(options: &mut Options) -> Result<(), InputError> {
    if let Some(machine) = &options.machine {
        settings::check_machine(machine).map_err(|why| key("machine", &why))?;
    }
    if let Some(cpu) = &options.cpu {
        settings::check_cpu(cpu).map_err(|why| key("cpu", &why))?;
    }
    let (settings, others) = settings::read(&std::mem::take(&mut options.qemu_args));
    if let Some(other) = others.first() {
        let what = format!("{:?} may reach files, programs or the network", other.to_string());
        return Err(key("qemu-args", &format!("{what}; a suite may set {}", settings::ACCEPTED)));
    }
    options.settings = settings;
    options.timeout = Some(options.timeout.map_or(MAX_TIMEOUT, |timeout| timeout.min(MAX_TIMEOUT)));
    options.max_output_bytes = options.max_output_bytes.min(MAX_OUTPUT_BYTES);
    options.is_bounded = true;
    Ok(())
}

/// Reason why no further case of an untrusted suite is run, by its time so far and the size of its profiles; None: both
/// are within bounds.
pub fn overrun(elapsed: Duration, kept_bytes: u64) -> Option<&'static str> {
    if elapsed > MAX_SUITE_TIME {
        return Some("it was not run: the suite has taken the hour that --untrusted gives it");
    }
    (kept_bytes > MAX_KEPT_BYTES)
        .then_some("it was not run: the profiles are larger than --untrusted lets them be together")
}

fn key(name: &str, why: &dyn fmt::Display) -> InputError {
    InputError::new(format!("{name}: {why} (--untrusted)"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_strangers_suite_has_an_hour_and_four_gigabytes() {
        let hour = Duration::from_secs(3600);
        assert_eq!(overrun(hour, 4_000_000_000), None);
        assert!(overrun(hour + Duration::from_millis(1), 0).unwrap().contains("hour"));
        assert!(overrun(Duration::ZERO, 4_000_000_001).unwrap().contains("larger"));
    }

    #[test]
    fn a_strangers_files_are_those_of_its_folder() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for folder in ["suite/build", "suite/.git", "suite/.pio", "suite-secret"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for file in ["suite/harness.toml", "suite/build/a.elf", "suite/.git/config", "suite/.env", "suite-secret/key"]
        {
            fs::write(at(file), "text").unwrap();
        }
        symlink(at("suite-secret"), at("suite/out")).unwrap();
        symlink(at("suite-secret/later"), at("suite/dangling")).unwrap();
        symlink("build/a.elf", at("suite/inside")).unwrap();
        symlink(".git", at("suite/git")).unwrap();
        let folder = Folder::of(&at("suite/harness.toml")).unwrap();
        let is_read = |name: &str, purpose| folder.file(&at(name), purpose).is_ok();
        for name in
            ["suite/build/a.elf", "suite/inside", "suite/build/not-yet.elf", "suite/new/x", "suite/build/../a"]
        {
            assert!(is_read(name, Purpose::Data), "{name}");
        }
        assert!(is_read("suite/.pio/build/firmware.elf", Purpose::Image));
        assert_eq!(folder.file(&at("suite/inside"), Purpose::Data).unwrap(), folder.root.join("build/a.elf"));
        for name in ["suite/.pio/data", "suite/.env"] {
            assert!(!is_read(name, Purpose::Data), "{name}");
        }
        for name in [
            "suite/out/key",
            "suite/dangling",
            "suite/../suite-secret/key",
            "suite/build/../../suite-secret/key",
            "suite/new/../../suite-secret/key",
            "suite-secret/key",
            "suite/.git/config",
            "suite/git/config",
            "suite/harness.toml/x",
        ] {
            for purpose in [Purpose::Image, Purpose::Data] {
                assert!(!is_read(name, purpose), "{name}");
            }
        }
        assert!(folder.file(Path::new("/etc/passwd"), Purpose::Image).is_err());
        symlink(at("suite/harness.toml"), at("link.toml")).unwrap();
        assert!(Folder::of(&at("link.toml")).is_err());
    }

    #[test]
    fn a_directory_of_reports_has_no_way_out() {
        let scratch = tempfile::tempdir().unwrap();
        let reports = scratch.path().join("reports");
        assert_eq!(check_reports(&reports), Ok(()), "made later");
        fs::create_dir_all(reports.join("a.profile")).unwrap();
        assert_eq!(check_reports(&reports), Ok(()));
        symlink("/etc/passwd", reports.join("a.profile/console.log")).unwrap();
        assert!(check_reports(&reports).unwrap_err().to_string().contains("console.log"));
        symlink(&reports, scratch.path().join("link")).unwrap();
        assert!(check_reports(&scratch.path().join("link")).is_err());
    }
}
