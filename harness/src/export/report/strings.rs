//! The texts of a page, which its tables refer to by number: a name that stands in many rows is in the page once.

use std::collections::HashMap;

use serde::Serialize;

/// Texts, each once.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Strings {
    texts: Vec<String>,
    #[serde(skip)]
    numbers: HashMap<String, i64>,
}

impl Strings {
    /// The number of a text.
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
