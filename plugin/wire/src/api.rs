//! The versions of QEMU's plugin API that the plugin is made for. It asks QEMU for one of them by a word in its
//! library, which the harness writes for the QEMU at hand.

/// The oldest: QEMU 9.2's, the first that has all that is needed.
pub const OLDEST: i32 = 4;

/// The newest that is known: QEMU 11.1's.
pub const NEWEST: i32 = 7;

/// Name of the word, an int of C's.
pub const SYMBOL: &str = "qemu_plugin_version";
