//! Names of the files in a profile directory.

/// Name of the saved profile in a profile directory.
pub const FILE_NAME: &str = "profile.fwp";

/// Name of the flamegraph in a profile directory.
pub const FLAMEGRAPH: &str = "flamegraph.svg";

/// Name of the flamechart in a profile directory, if one was asked for.
pub const FLAMECHART: &str = "flamechart.svg";

/// Name of the firmware's output in a profile directory.
pub const CONSOLE: &str = "console.log";

/// Names of all files of a profile directory. A new run may replace these in an earlier directory.
pub const FILES: [&str; 4] = [FLAMEGRAPH, FILE_NAME, CONSOLE, FLAMECHART];
