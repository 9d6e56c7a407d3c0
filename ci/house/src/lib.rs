// SPDX-License-Identifier: MIT OR Apache-2.0
//! Promises that the sources make about themselves: a crate of its own without harness, so that a slip is known in seconds.
#![cfg(test)]

mod architecture;
mod complete;
mod expected;
mod keys;
mod licence;
mod links;
mod promises;
mod scripts;
mod words;

use std::path::{Path, PathBuf};

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the crate is in the repository")
}
