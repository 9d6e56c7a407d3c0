// SPDX-License-Identifier: MIT OR Apache-2.0
//! Semihosting calls that are served.

use clap::ValueEnum;
use wire::request;

/// Semihosting calls that are served, the fewest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Semihosting {
    /// No calls, not even the exit: as on hardware without a debugger
    Off,
    /// The console, clocks, the command line and the exit
    Console,
    /// Also files in the run's scratch directory
    #[default]
    Scratch,
    /// All calls, but each path is judged where QEMU uses it, for tests of that wall
    #[value(hide = true)]
    AtUse,
    /// All calls, for tests of the walls that the kernel builds
    #[value(hide = true)]
    Unchecked,
}

impl Semihosting {
    /// The value's word on the command line; None: it is the default.
    pub fn other_than_usual(self) -> Option<String> {
        let word = self.to_possible_value().filter(|_| self != Semihosting::default())?;
        Some(word.get_name().to_owned())
    }

    /// Setting for the plugin's request.
    pub(in crate::run) fn request(self) -> request::Semihosting {
        match self {
            Semihosting::Off => request::Semihosting::Off,
            Semihosting::Console => request::Semihosting::Console,
            Semihosting::Scratch => request::Semihosting::Scratch,
            Semihosting::Unchecked => request::Semihosting::Unchecked,
            Semihosting::AtUse => request::Semihosting::AtUse,
        }
    }
}
