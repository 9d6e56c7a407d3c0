// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value of a chip file with its place, for messages and for the file's schema.

use std::borrow::Cow;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

/// A value with its place. In the schema it is the value alone.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Spanned<T>(toml::Spanned<T>);

impl<T> Spanned<T> {
    /// Value of a file at these bytes.
    pub(super) fn new(range: Range<usize>, value: T) -> Spanned<T> {
        Spanned(toml::Spanned::new(range, value))
    }

    /// The value.
    pub(super) fn get_ref(&self) -> &T {
        self.0.get_ref()
    }

    /// Bytes of the file that have the value.
    pub(super) fn span(&self) -> Range<usize> {
        self.0.span()
    }
}

impl<T: JsonSchema> JsonSchema for Spanned<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
