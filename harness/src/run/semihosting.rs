//! Which of the firmware's calls of the host are served.

use clap::ValueEnum;
use wire::request;

/// Which semihosting calls are served, the fewest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Semihosting {
    /// None, not even the exit, as on hardware without a debugger
    Off,
    /// The console, clocks, the command line and the exit
    Console,
    /// The same, and files in the run's scratch directory
    #[default]
    Scratch,
    /// All, for tests of the walls that the kernel builds
    #[value(hide = true)]
    Unchecked,
}

impl Semihosting {
    /// Its word on the command line; None: nothing need be said to get it.
    pub fn other_than_usual(self) -> Option<String> {
        let word = self.to_possible_value().filter(|_| self != Semihosting::default())?;
        Some(word.get_name().to_owned())
    }

    /// What is asked of the plugin.
    pub(super) fn request(self) -> request::Semihosting {
        match self {
            Semihosting::Off => request::Semihosting::Off,
            Semihosting::Console => request::Semihosting::Console,
            Semihosting::Scratch => request::Semihosting::Scratch,
            Semihosting::Unchecked => request::Semihosting::Unchecked,
        }
    }
}
