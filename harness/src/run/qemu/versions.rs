// SPDX-License-Identifier: MIT OR Apache-2.0
//! Differences between QEMU's versions that QEMU's command line has to follow.

/// First plugin API whose QEMU has an object for its monitor, and warns of the former option.
pub(in crate::run) const MONITOR_IS_AN_OBJECT: i32 = 7;
