//! Promises that the sources make about themselves.

mod complete;
mod expected;
mod scripts;
mod words;
