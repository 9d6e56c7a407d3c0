// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profile directory: written elsewhere and moved into place when it is complete, so that no reader ever finds an
//! incomplete one.

use std::cell::Cell;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use tempfile::NamedTempFile;

use crate::error::InputError;
use crate::image;
use crate::profile::files::{CONSOLE, FILES};
use crate::run::contain::host;
use crate::run::request::options::Options;
use crate::run::store::deadline::Deadline;
use crate::run::store::staging::{self, Making, exchange};
use crate::text::disarmed::{Disarmed, Syntax};
use crate::text::github;
use crate::text::number::group;

/// File name that stands for standard output.
pub const STDOUT: &str = "-";

/// Name of the earlier profile while it is replaced, if the two cannot be exchanged in one step.
const OLD: &str = "old";

/// Bytes of the console that are kept on a full disk, even if other files have no room.
const CONSOLE_BYTES: u64 = 64 << 10;

/// A profile directory in preparation. Dropping it before [`Output::commit`] leaves nothing behind.
#[derive(Debug)]
pub struct Output {
    /// Path as the user typed it.
    target: PathBuf,
    /// Target without symbolic links: the place that is replaced.
    place: PathBuf,
    making: Making,
    /// Length of the console before it was cut to make room for the profile.
    printed_bytes: Cell<Option<u64>>,
    /// Deadline of the work on the profile.
    deadline: Arc<Deadline>,
}

/// Prefix of the directories in which a profile of that name is prepared.
fn prefix(name: &OsStr) -> String {
    format!(".{}.partial-", name.to_string_lossy())
}

/// Restores the earlier profile from a run that was killed between two renames, on file systems without an exchange.
fn rescue(leftover: &Path, place: &Path) {
    if !place.exists() {
        let _ = fs::rename(leftover.join(OLD), place);
    }
}

/// Removes the remains of killed runs for a profile.
pub fn remove_leftovers(target: &Path) {
    let place = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
    if let (Some(parent), Some(name)) = (place.parent(), target.file_name()) {
        staging::remove_leftovers(parent, &prefix(name), |leftover| rescue(leftover, &place));
    }
}

impl Output {
    /// Prepares to write `target`, on the same disk. Detects all predictable failures of the run's end before the
    /// run.
    ///
    /// # Errors
    /// When `target` cannot be written, or has other content than an earlier profile.
    pub fn prepare(target: PathBuf) -> Result<Output, InputError> {
        Output::prepare_within(target, Deadline::new(None))
    }

    /// Prepares as [`Output::prepare`] does, for a profile that is lost if its deadline passes before
    /// [`Output::commit`].
    ///
    /// # Errors
    /// When `target` cannot be written, or has other content than an earlier profile.
    pub fn prepare_within(target: PathBuf, deadline: Arc<Deadline>) -> Result<Output, InputError> {
        host::check_files(0)?;
        let error = |what: String| {
            Err(InputError::about(&target, format_args!("{what}; choose another directory with --output")))
        };
        let Some(name) = target.file_name() else { return error("is not a name for a profile directory".into()) };
        // The target of a link is replaced, not the link.
        let place = if target.is_symlink() {
            match fs::canonicalize(&target) {
                Ok(place) => place,
                Err(cause) => return error(format!("is a symbolic link that leads nowhere ({cause})")),
            }
        } else {
            target.clone()
        };
        if place.exists() && !place.is_dir() {
            return error("the profile directory would replace a file".into());
        }
        // An earlier profile is replaced; any other content belongs to the user.
        let held = fs::read_dir(&place).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let mut foreign: Vec<_> = held.filter(|name| !FILES.iter().any(|ours| name == ours)).collect();
        foreign.sort();
        if let Some(file) = foreign.first() {
            return error(format!(
                "exists and holds something else than an earlier profile ({})",
                file.to_string_lossy()
            ));
        }
        let parent = match place.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let disk = |path: &Path| match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(metadata.dev()),
            Ok(_) => Err(format!("{} is not a directory", path.display())),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                Err(format!("there is no directory {}; create it first", path.display()))
            }
            Err(cause) => Err(format!("{} is not accessible: {cause}", path.display())),
        };
        match disk(parent) {
            Ok(parent_disk) if disk(&place).is_ok_and(|disk| disk != parent_disk) => {
                return error(
                    "is where another disk is mounted, and cannot be replaced; give a directory in it".into(),
                );
            }
            Ok(_) => {}
            Err(what) => return error(format!("cannot be written: {what}")),
        }
        let making = Making::begin(parent, &prefix(name), |leftover| rescue(leftover, &place))
            .map_err(|error| unwritable(&target, &error))?;
        for name in ["run", "out"] {
            fs::create_dir(making.path().join(name)).map_err(|error| unwritable(&target, &error))?;
        }
        deadline.covers(making.path());
        Ok(Output { target, place, making, printed_bytes: Cell::new(None), deadline })
    }

    /// Prepares as [`Output::prepare`] does, at the place from the options, or else named by [`image::profile_name`].
    ///
    /// # Errors
    /// The errors of [`Output::prepare`].
    pub fn prepare_for(options: &Options) -> Result<Output, InputError> {
        let named = || PathBuf::from(image::profile_name(&options.firmware));
        let deadline = Deadline::new(options.timeout);
        Output::prepare_within(options.output.clone().unwrap_or_else(named), deadline)
    }

    /// Path of the profile directory as the user typed it.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// An empty directory for the run's own files, removed afterwards.
    pub fn run_directory(&self) -> PathBuf {
        self.making.path().join("run")
    }

    /// Empties the directory of the run's own files, for another run in place of the one that was there.
    ///
    /// # Errors
    /// When it cannot be emptied.
    pub fn begin_again(&self) -> Result<(), InputError> {
        let run = self.run_directory();
        let emptied = fs::remove_dir_all(&run).and_then(|()| fs::create_dir(&run));
        emptied.map_err(|error| unwritable(&self.target, &error))
    }

    /// Deadline of the work on the profile.
    pub fn deadline(&self) -> &Arc<Deadline> {
        &self.deadline
    }

    /// Adds a file.
    ///
    /// # Errors
    /// When it cannot be written: the disk is full, even after all possible files made room.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), InputError> {
        debug_assert!(FILES.contains(&name), "{name} could not be replaced by the next run");
        let file = self.making.path().join("out").join(name);
        loop {
            match fs::write(&file, bytes) {
                Err(error) if is_full(&error) && self.make_room() => {}
                written => return written.map_err(|error| self.failed(name, &error)),
            }
        }
    }

    /// Removes files that the run no longer needs. After that, each call removes the last half of the console: the
    /// profile has priority. False: there is nothing more to remove.
    fn make_room(&self) -> bool {
        let console = self.run_directory().join(CONSOLE);
        let mut has_room = false;
        for entry in fs::read_dir(self.run_directory()).into_iter().flatten().flatten() {
            let path = entry.path();
            if path != console {
                has_room |= fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path)).is_ok();
            }
        }
        let length = fs::metadata(&console).map_or(0, |metadata| metadata.len());
        if has_room || length < 2 * CONSOLE_BYTES {
            return has_room;
        }
        self.printed_bytes.set(self.printed_bytes.get().or(Some(length)));
        File::options().write(true).open(&console).and_then(|file| file.set_len(length / 2)).is_ok()
    }

    /// Warning about the part of the console that was removed for the profile; None: nothing was removed.
    pub fn shortened(&self) -> Option<String> {
        let bytes = self.printed_bytes.get()?;
        Some(format!(
            "the disk is full: {CONSOLE} holds only the beginning of the {} bytes that were printed, so that the \
             profile has room",
            group(bytes)
        ))
    }

    /// Adds a file that exists already on the same disk.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn take(&self, name: &str, file: &Path) -> Result<(), InputError> {
        debug_assert!(FILES.contains(&name), "{name} could not be replaced by the next run");
        fs::rename(file, self.making.path().join("out").join(name)).map_err(|error| self.failed(name, &error))
    }

    /// Adds the console's output, an empty file if `console` does not exist: a machine without a serial port and
    /// semihosting prints nothing, and QEMU may end before it opens the file.
    ///
    /// # Errors
    /// When it cannot be moved or written.
    pub fn take_console(&self, console: &Path) -> Result<(), InputError> {
        if console.exists() { self.take(CONSOLE, console) } else { self.write(CONSOLE, b"") }
    }

    fn failed(&self, name: &str, error: &io::Error) -> InputError {
        unwritable(&self.target.join(name), error)
    }

    /// Moves the directory into place and returns its path.
    ///
    /// # Errors
    /// When the directory cannot be moved, or the deadline has passed; an earlier profile is then left unchanged.
    pub fn commit(self) -> Result<PathBuf> {
        self.deadline.keep()?;
        let (new, old) = (self.making.path().join("out"), self.making.path().join(OLD));
        let moved =
            if self.place.exists() { replace(&new, &self.place, &old) } else { fs::rename(&new, &self.place) };
        moved.map_err(|error| unwritable(&self.target, &error))?;
        Ok(self.target)
    }
}

/// Puts `new` at `place`, with at most one moment in which neither is there. The old content is then at `old`, or
/// where `new` was.
fn replace(new: &Path, place: &Path, old: &Path) -> io::Result<()> {
    if exchange(new, place).is_ok() {
        return Ok(());
    }
    fs::rename(place, old)?;
    fs::rename(new, place).inspect_err(|_| {
        // Nothing can be done if this fails, too.
        let _ = fs::rename(old, place);
    })
}

/// Directory of the user for what can be made again; None: it is not known.
pub fn of_caches() -> Option<PathBuf> {
    let of = |variable| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")))?;
    Some(caches.join("harness"))
}

/// Whether the disk, the user's quota, or the size of the file is exhausted.
pub(in crate::run) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Writes a single file with `make`, completely or not at all; the old content stays until then. A file that is not
/// regular (a pipe, a device) is written directly.
///
/// # Errors
/// Errors of `make`; also when the file cannot be written.
pub fn write_file(path: &Path, make: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let failed = |error: io::Error| {
        let next = host::remedy(&error).unwrap_or_else(|| {
            let next =
                if is_full(&error) { "free some space, or choose another disk" } else { "choose another file" };
            format!("{next} with --output")
        });
        anyhow::Error::new(InputError::about(path, format_args!("cannot be written: {error}; {next}")))
    };
    let fill = |file: &mut dyn Write| {
        fill(file, make).map_err(|error| match error.downcast::<io::Error>() {
            Ok(error) if error.kind() != io::ErrorKind::BrokenPipe => failed(error),
            Ok(error) => error.into(),
            Err(error) => error,
        })
    };
    if path.exists() && !path.is_file() {
        return fill(&mut File::options().write(true).open(path).map_err(failed)?);
    }
    let (mut file, place) = begin_file(path).map_err(failed)?;
    fill(&mut file)?;
    file.persist(&place).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Begins a file that will replace `path` once it is whole, and returns it with the place to move it to. The target of a
/// link is replaced, not the link.
///
/// # Errors
/// When no file can be made beside `path`.
pub fn begin_file(path: &Path) -> io::Result<(NamedTempFile, PathBuf)> {
    let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // Permissions of any other new file.
    builder.prefix(".harness-").permissions(fs::Permissions::from_mode(0o666));
    Ok((builder.tempfile_in(parent)?, place))
}

/// Writes JSON as [`write_as`] does.
///
/// # Errors
/// The errors of [`write_as`].
pub fn write_to(path: &Path, make: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    write_as(path, Syntax::Json, make)
}

/// Writes as [`write_file`] does, or to standard output if the path is `-`. The text has no command for a CI job's log.
///
/// # Errors
/// The errors of [`write_file`]; also for bytes that are not text if standard output is a job's log.
pub fn write_as(path: &Path, syntax: Syntax, make: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let make = |out: &mut dyn Write| {
        let mut out = Disarmed::new(out, syntax);
        make(&mut out)?;
        Ok(out.flush()?)
    };
    if path.as_os_str() != STDOUT {
        return write_file(path, make);
    }
    let is_log = || github::is_log() && !fs::metadata("/dev/stdout").is_ok_and(|stdout| stdout.is_file());
    if syntax == Syntax::Binary && is_log() {
        let why = "this format is binary, and a job's log would look for commands in it: write it to a file with --output FILE";
        return Err(InputError::new(why).into());
    }
    fill(&mut io::stdout().lock(), make)
}

/// Writes with `make`. If the reader of a pipe has gone, the error says so, even if a format's own error does not.
fn fill(out: &mut dyn Write, make: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let mut out = BufWriter::new(Noticing { out, is_closed: false });
    let made = make(&mut out).and_then(|()| Ok(out.flush()?));
    if out.get_ref().is_closed { Err(io::Error::from(io::ErrorKind::BrokenPipe).into()) } else { made }
}

/// Writer that notices when the pipe's reader has gone.
struct Noticing<'o> {
    out: &'o mut dyn Write,
    is_closed: bool,
}

impl Noticing<'_> {
    fn notice<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| self.is_closed |= error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl Write for Noticing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.notice(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.notice(flushed)
    }
}

/// Error for a file or directory that cannot be written, with the reason and a remedy.
pub fn unwritable(path: &Path, error: &io::Error) -> InputError {
    // tempfile adds the name of its own directory, which would only confuse the user.
    let cause = error.to_string();
    let cause = cause.split(" at path ").next().unwrap_or(&cause);
    let next = host::remedy(error).unwrap_or_else(|| {
        let is_full = is_full(error);
        let next = "choose another directory with --output";
        if is_full { "free some space, or choose another disk with --output" } else { next }.to_owned()
    });
    InputError::about(path, format_args!("cannot be written: {cause}; {next}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn the_old_profile_is_there_until_the_new_one_is() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("f.profile");
        let write = |text: &str| {
            let output = Output::prepare(target.clone()).unwrap();
            output.write(crate::profile::files::FLAMECHART, text.as_bytes()).unwrap();
            output.commit().unwrap();
        };
        write("0");
        let done = AtomicBool::new(false);
        let gone = thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut gone = 0;
                while !done.load(Ordering::Relaxed) {
                    gone += u64::from(!target.exists());
                }
                gone
            });
            (1..500).for_each(|number| write(&number.to_string()));
            done.store(true, Ordering::Relaxed);
            looking.join().unwrap()
        });
        assert_eq!(gone, 0, "times that no profile was there");
        assert_eq!(fs::read(target.join("flamechart.svg")).unwrap(), b"499");
        let held = fs::read_dir(scratch.path()).unwrap().count();
        assert_eq!(held, 1, "left behind");
    }

    #[test]
    fn a_profile_that_a_killed_run_has_moved_away_comes_back() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("f.profile");
        let leftover = scratch.path().join(".f.profile.partial-Abc123");
        fs::create_dir_all(leftover.join("old")).unwrap();
        fs::write(leftover.join("old/profile.fwp"), "earlier").unwrap();
        drop(Output::prepare(target.clone()).unwrap());
        assert_eq!(fs::read(target.join("profile.fwp")).unwrap(), b"earlier");
        assert!(!leftover.exists());
    }

    #[test]
    fn every_file_that_a_profile_can_hold_is_replaced_and_no_other() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("f.profile");
        fs::create_dir(&target).unwrap();
        for name in ["flamegraph.svg", "flamechart.svg", "profile.fwp", "console.log"] {
            fs::write(target.join(name), "earlier").unwrap();
        }
        let output = Output::prepare(target.clone()).unwrap();
        output.write(crate::profile::files::FLAMECHART, b"now").unwrap();
        output.commit().unwrap();
        let held = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(held.collect::<Vec<_>>(), ["flamechart.svg"]);
        fs::write(target.join("notes.txt"), "a person's").unwrap();
        let error = Output::prepare(target).unwrap_err().to_string();
        assert!(error.contains("something else than an earlier profile (notes.txt)"), "{error}");
    }
}
