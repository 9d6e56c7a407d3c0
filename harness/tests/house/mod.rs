//! Promises that the sources make about themselves.

mod complete;
mod expected;
mod json;
mod scripts;
mod words;
