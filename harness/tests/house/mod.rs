// SPDX-License-Identifier: MIT OR Apache-2.0
//! Promises that the sources make about themselves.

mod complete;
mod expected;
mod json;
mod licence;
mod scripts;
mod words;
