//! Names of the files in a profile directory.

/// Name of the saved profile in a profile directory.
pub const FILE_NAME: &str = "profile.fwp";

/// Name of the flamegraph in a profile directory.
pub const FLAMEGRAPH: &str = "flamegraph.svg";

/// Name of the flamechart, where it is asked for.
pub const FLAMECHART: &str = "flamechart.svg";

/// Name of the firmware's output in a profile directory.
pub const CONSOLE: &str = "console.log";

/// All that a profile directory can hold: what is in an earlier one and may be replaced.
pub const FILES: [&str; 4] = [FLAMEGRAPH, FILE_NAME, CONSOLE, FLAMECHART];
