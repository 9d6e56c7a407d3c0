// SPDX-License-Identifier: MIT OR Apache-2.0
//! A TOML file with its text: what is wrong in it is said with the file's name and the line.

use serde::de::DeserializeOwned;

use super::spanned::Spanned;
use crate::error::InputError;

/// A file with its text, for messages.
pub(super) struct Origin<'a> {
    /// Its path, as it is shown.
    pub(super) path: &'a str,
    /// Its text.
    pub(super) text: &'a str,
}

impl Origin<'_> {
    /// Error at an offset of the text.
    pub(super) fn error(&self, offset: usize, reason: impl std::fmt::Display) -> InputError {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        InputError::new(format!("{}:{line}: {reason}", self.path))
    }

    /// Error at a value.
    pub(super) fn at<T>(&self, what: &Spanned<T>, reason: impl std::fmt::Display) -> InputError {
        self.error(what.span().start, reason)
    }

    /// Parses the text.
    ///
    /// # Errors
    /// When it is not such a file: file, line and reason.
    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, InputError> {
        toml::from_str(self.text)
            .map_err(|error| self.error(error.span().map_or(0, |span| span.start), error.message()))
    }
}
