// SPDX-License-Identifier: MIT OR Apache-2.0
//! Versions of QEMU's plugin API that the plugin supports. A word in the plugin's library asks QEMU for one of them;
//! harness writes that word for the QEMU in use.

/// Oldest supported version: QEMU 9.2's, the first with all features that the plugin needs.
pub const OLDEST: i32 = 4;

/// Newest known version: QEMU 11.1's.
pub const NEWEST: i32 = 7;

/// Symbol of that word, a C int.
pub const SYMBOL: &str = "qemu_plugin_version";
