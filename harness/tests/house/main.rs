//! Promises that the sources make about themselves.

mod complete;
mod scripts;
mod words;
