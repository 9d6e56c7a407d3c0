//! The profile directory: written aside and moved into place when it is complete, so that nobody
//! ever finds half of one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::image::InputError;
use crate::profile::FILE_NAME;

/// A profile directory in the making. Dropped before [`Output::commit`], it leaves nothing.
#[derive(Debug)]
pub struct Output {
    target: PathBuf,
    temporary: TempDir,
}

impl Output {
    /// Prepares to write `target`, on the same disk.
    ///
    /// # Errors
    /// When it cannot be written, or is something else than an earlier profile.
    pub fn prepare(target: PathBuf) -> Result<Output, InputError> {
        let error = |what: String| {
            Err(InputError::about(&target, format_args!("{what}; choose another directory with --output")))
        };
        let Some(name) = target.file_name() else { return error("is no name for a profile directory".into()) };
        if target.exists() && !target.is_dir() {
            return error("the profile directory would replace a file".into());
        }
        let used = fs::read_dir(&target).is_ok_and(|mut entries| entries.next().is_some());
        if used && !target.join(FILE_NAME).exists() {
            return error(format!("exists and is no earlier profile (there is no {FILE_NAME} in it)"));
        }
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let prefix = format!(".{}.partial-", name.to_string_lossy());
        let temporary = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent);
        let temporary = match temporary {
            Ok(temporary) => temporary,
            Err(cause) => return error(format!("cannot be written: {}", root_cause(&cause))),
        };
        for name in ["run", "out"] {
            if let Err(cause) = fs::create_dir(temporary.path().join(name)) {
                return error(format!("cannot be written: {cause}"));
            }
        }
        Ok(Output { target, temporary })
    }

    /// An empty directory for the run's own files; gone afterwards.
    pub fn run_directory(&self) -> PathBuf {
        self.temporary.path().join("run")
    }

    /// Adds a file.
    ///
    /// # Errors
    /// When it cannot be written (a full disk).
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), InputError> {
        fs::write(self.temporary.path().join("out").join(name), bytes).map_err(|error| self.failed(name, &error))
    }

    /// Adds a file that exists already on the same disk.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn take(&self, name: &str, file: &Path) -> Result<(), InputError> {
        fs::rename(file, self.temporary.path().join("out").join(name)).map_err(|error| self.failed(name, &error))
    }

    fn failed(&self, name: &str, error: &io::Error) -> InputError {
        InputError::about(
            &self.target.join(name),
            format_args!("cannot be written: {error}; free some space, or choose another directory with --output"),
        )
    }

    /// Moves the directory into place and says where it is.
    ///
    /// # Errors
    /// When it cannot be moved there.
    pub fn commit(self) -> Result<PathBuf, InputError> {
        let moved = || {
            if self.target.exists() {
                fs::rename(&self.target, self.temporary.path().join("old"))?;
            }
            fs::rename(self.temporary.path().join("out"), &self.target)
        };
        moved().map_err(|error: io::Error| self.failed("", &error))?;
        Ok(self.target)
    }
}

/// tempfile wraps the error in one that repeats its own path.
fn root_cause(error: &io::Error) -> String {
    error.raw_os_error().or_else(|| source_os_error(error)).map_or_else(
        || error.to_string(),
        |code| io::Error::from_raw_os_error(code).to_string(),
    )
}

fn source_os_error(error: &io::Error) -> Option<i32> {
    let mut cause = error.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static));
    while let Some(inner) = cause {
        if let Some(code) = inner.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return Some(code);
        }
        cause = inner.source();
    }
    None
}
