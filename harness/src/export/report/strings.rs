// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts of a page. Tables refer to them by number, so that a name which many rows use is in the page once.

use std::collections::HashMap;

use serde::Serialize;

/// Texts, each stored once.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Strings {
    texts: Vec<String>,
    #[serde(skip)]
    numbers: HashMap<String, i64>,
}

impl Strings {
    /// Returns the number of a text, adding it if it is new.
    pub(super) fn number(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as i64;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}
