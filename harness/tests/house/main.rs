//! Promises that the sources make about themselves.

mod complete;
mod words;
