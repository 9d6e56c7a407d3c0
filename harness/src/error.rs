// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors that have an exit code of their own. Their messages are complete: what happened, where, and what to do
//! next.

use std::path::Path;
use std::{fmt, io};

/// Error: input that cannot be used, exit code 2. The message says what, where, and what to do next, and may have
/// several lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputError {
    message: String,
}

impl InputError {
    /// Makes an error with this complete message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// Makes an error about a file; the message starts with its path.
    pub fn about(path: &Path, message: impl fmt::Display) -> Self {
        Self::new(format!("{}: {message}", path.display()))
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for InputError {}

/// Error: the emulator could not run, exit code 5. The message says what happened and, if known, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmulatorError {
    what: String,
    remedy: Option<String>,
}

impl EmulatorError {
    /// Makes an error with this complete message.
    pub fn new(message: impl Into<String>) -> Self {
        EmulatorError { what: message.into(), remedy: None }
    }

    /// Makes an error with a remedy, which is shown on a line of its own.
    pub fn with_remedy(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        EmulatorError { what: what.into(), remedy: Some(remedy.into()) }
    }

    /// Problem that occurred.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Remedy, if known.
    pub fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }
}

impl fmt::Display for EmulatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.remedy.iter().try_for_each(|remedy| write!(f, "\n{remedy}"))
    }
}

impl std::error::Error for EmulatorError {}

/// Whether output failed because its reader closed it early (`| head`), which is not an error of a command.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe))
}
