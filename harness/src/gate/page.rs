// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts that the pages of a suite have in common: their style, and the start of their scripts.

/// Style of the pages.
pub(super) const STYLE: &str = include_str!("page.css");

/// Begin of their scripts.
pub(super) const SCRIPT: &str = include_str!("page.js");
