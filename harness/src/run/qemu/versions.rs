//! Differences between QEMU's versions that QEMU's command line has to follow.

/// The first plugin API whose QEMU has an object for its monitor; the option for it is to go then.
pub(in crate::run) const MONITOR_IS_AN_OBJECT: i32 = 7;
