// SPDX-License-Identifier: MIT OR Apache-2.0
//! A number in a TOML file, which may be a text with a number in it.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A number or a text with a number in it.
#[derive(Clone)]
pub(crate) struct Count(pub(crate) String);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl Visitor<'_> for Numbers {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, such as 2000000 or \"2M\"")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Count, E> {
                Ok(Count(value.to_string()))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Count, E> {
                Ok(Count(value.to_owned()))
            }
        }
        deserializer.deserialize_any(Numbers)
    }
}
