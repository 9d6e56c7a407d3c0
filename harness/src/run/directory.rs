//! The profile directory: written aside and moved into place when it is complete, so that nobody
//! ever finds half of one.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Result;
use tempfile::TempDir;

use crate::error::InputError;
use crate::image;
use crate::profile::files::{CONSOLE, FILES};
use crate::run::deadline;
use crate::run::options::Options;

/// What stands for standard output where a file is asked for.
pub const STDOUT: &str = "-";

/// A profile directory in the making. Dropped before [`Output::commit`], it leaves nothing.
#[derive(Debug)]
pub struct Output {
    /// As the user called it.
    target: PathBuf,
    /// The same without symbolic links: the place that is replaced.
    place: PathBuf,
    temporary: TempDir,
}

impl Output {
    /// Prepares to write `target`, on the same disk. Everything that can be known to go wrong at the
    /// end of the run is noticed here, before it.
    ///
    /// # Errors
    /// When it cannot be written, or is something else than an earlier profile.
    pub fn prepare(target: PathBuf) -> Result<Output, InputError> {
        let error = |what: String| {
            Err(InputError::about(&target, format_args!("{what}; choose another directory with --output")))
        };
        let Some(name) = target.file_name() else { return error("is no name for a profile directory".into()) };
        // What a link points to is replaced, not the link.
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
        // An earlier profile is replaced; anything else in there is the user's.
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
        let prefix = format!(".{}.partial-", name.to_string_lossy());
        let temporary = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent);
        let temporary = temporary.map_err(|error| unwritable(&target, &error))?;
        for name in ["run", "out"] {
            fs::create_dir(temporary.path().join(name)).map_err(|error| unwritable(&target, &error))?;
        }
        Ok(Output { target, place, temporary })
    }

    /// As [`Output::prepare`], where the options say, or else `./<stem>.profile`.
    ///
    /// # Errors
    /// As there.
    pub fn prepare_for(options: &Options) -> Result<Output, InputError> {
        let named = || PathBuf::from(format!("{}.profile", image::stem(&options.firmware)));
        Output::prepare(options.output.clone().unwrap_or_else(named))
    }

    /// What the user calls the profile directory.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// An empty directory for the run's own files; gone afterwards.
    pub fn run_directory(&self) -> PathBuf {
        self.temporary.path().join("run")
    }

    /// All that is written until [`Output::commit`], and left where the process is ended before it.
    pub fn in_the_making(&self) -> PathBuf {
        self.temporary.path().to_owned()
    }

    /// Adds a file.
    ///
    /// # Errors
    /// When it cannot be written (a full disk).
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), InputError> {
        debug_assert!(FILES.contains(&name), "{name} could not be replaced by the next run");
        fs::write(self.temporary.path().join("out").join(name), bytes).map_err(|error| self.failed(name, &error))
    }

    /// Adds a file that exists already on the same disk.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn take(&self, name: &str, file: &Path) -> Result<(), InputError> {
        debug_assert!(FILES.contains(&name), "{name} could not be replaced by the next run");
        fs::rename(file, self.temporary.path().join("out").join(name)).map_err(|error| self.failed(name, &error))
    }

    /// Adds what the firmware printed, an empty file where `console` is none: a machine without a serial port and
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

    /// Moves the directory into place and says where it is.
    ///
    /// # Errors
    /// When it cannot be moved there; an earlier profile is then left as it was.
    pub fn commit(self) -> Result<PathBuf, InputError> {
        deadline::release();
        let old = self.temporary.path().join("old");
        let replaces = self.place.exists();
        let moved = || {
            if replaces {
                fs::rename(&self.place, &old)?;
            }
            fs::rename(self.temporary.path().join("out"), &self.place).inspect_err(|_| {
                if replaces {
                    // There is nothing better to do if this fails, too.
                    let _ = fs::rename(&old, &self.place);
                }
            })
        };
        moved().map_err(|error: io::Error| unwritable(&self.target, &error))?;
        Ok(self.target)
    }
}

/// Writes a single file as `make` makes it: complete or not at all, and what was there before stays until then.
/// What is no regular file (a pipe, a device) is written to as it is.
///
/// # Errors
/// Those of `make`, or when it cannot be written.
pub fn write_file(path: &Path, make: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let failed = |error: io::Error| {
        let next = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space, or choose another disk",
            _ => "choose another file",
        };
        anyhow::Error::new(InputError::about(path, format_args!("cannot be written: {error}; {next} with --output")))
    };
    let fill = |file: &mut dyn Write| {
        let mut out = BufWriter::new(file);
        make(&mut out).and_then(|()| Ok(out.flush()?)).map_err(|error| match error.downcast::<io::Error>() {
            Ok(error) => failed(error),
            Err(error) => error,
        })
    };
    if path.exists() && !path.is_file() {
        return fill(&mut File::options().write(true).open(path).map_err(failed)?);
    }
    // What a link points to is replaced, not the link.
    let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // As any other new file.
    builder.prefix(".harness-").permissions(fs::Permissions::from_mode(0o666));
    let mut file = builder.tempfile_in(parent).map_err(failed)?;
    fill(&mut file)?;
    file.persist(&place).map_err(|error| failed(error.error))?;
    Ok(())
}

/// As [`write_file`], or to standard output where the path is `-`.
///
/// # Errors
/// As [`write_file`].
pub fn write_to(path: &Path, make: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    if path.as_os_str() != STDOUT {
        return write_file(path, make);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    make(&mut out)?;
    out.flush()?;
    Ok(())
}

/// A file or directory that cannot be written, why, and what to do about it.
pub fn unwritable(path: &Path, error: &io::Error) -> InputError {
    // tempfile adds the name of its own directory, which means nothing to the user.
    let cause = error.to_string();
    let cause = cause.split(" at path ").next().unwrap_or(&cause);
    let next = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or choose another disk with --output"
        }
        _ => "choose another directory with --output",
    };
    InputError::about(path, format_args!("cannot be written: {cause}; {next}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
