// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table of exit codes: only this file turns results into a status.

use std::fmt;
use std::path::PathBuf;

use crate::error::EmulatorError;
use crate::profile::End;
use crate::text::number::plural;

/// Exit codes, most urgent first: when several apply, the first one is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExitCode {
    /// Usage or bad input.
    Usage,
    /// The emulator could not run: missing, too old, failed by itself.
    Emulator,
    /// A limit, timeout or output bound ended the run.
    Limit,
    /// The firmware failed.
    Firmware,
    /// A regression threshold was crossed.
    Regression,
    /// All good.
    Good,
}

impl ExitCode {
    /// All codes, most urgent first.
    pub const ALL: [ExitCode; 6] = [
        ExitCode::Usage,
        ExitCode::Emulator,
        ExitCode::Limit,
        ExitCode::Firmware,
        ExitCode::Regression,
        ExitCode::Good,
    ];

    /// Exit status of the process.
    pub fn status(self) -> u8 {
        match self {
            ExitCode::Good => 0,
            ExitCode::Firmware => 1,
            ExitCode::Usage => 2,
            ExitCode::Regression => 3,
            ExitCode::Limit => 4,
            ExitCode::Emulator => 5,
        }
    }

    /// Returns the code with this status.
    pub fn of_status(status: u8) -> Option<ExitCode> {
        ExitCode::ALL.into_iter().find(|code| code.status() == status)
    }

    /// Meaning of the code in words.
    pub fn describe(self) -> &'static str {
        match self {
            ExitCode::Good => "all good",
            ExitCode::Firmware => "the firmware failed",
            ExitCode::Usage => "usage or bad input",
            ExitCode::Regression => "a regression threshold was crossed",
            ExitCode::Limit => "a limit, timeout or output bound ended a run",
            ExitCode::Emulator => "the emulator could not run",
        }
    }

    /// Code of an error that prevented a profile. Any other error than the emulator's, and learning that was cut off,
    /// counts as bad input, even a defect or a failing host (a full disk, a lost directory).
    pub fn of_error(error: &anyhow::Error) -> ExitCode {
        if let Some(GivenUp(end)) = error.downcast_ref() {
            return ExitCode::of_end(end);
        }
        if error.is::<CutShort>() {
            return ExitCode::Limit;
        }
        if error.is::<EmulatorError>() { ExitCode::Emulator } else { ExitCode::Usage }
    }

    /// Code of a run, by its end.
    pub fn of_end(end: &End) -> ExitCode {
        match end {
            End::For | End::Until | End::Exit { status: 0, .. } | End::Reset { is_expected: true, .. } => {
                ExitCode::Good
            }
            End::Exit { .. }
            | End::Reset { .. }
            | End::LockUp { .. }
            | End::Asleep { .. }
            | End::Stuck { .. }
            | End::Faulting { .. }
            | End::EndlessLoop { .. }
            | End::Restarts { .. }
            | End::StackOverflow { .. }
            | End::Denied { .. }
            | End::UnknownCall { .. } => ExitCode::Firmware,
            End::MaxInsns | End::Output { .. } | End::Timeout | End::Interrupted | End::DiskFull => ExitCode::Limit,
            End::EmulatorFailed { .. } => ExitCode::Emulator,
        }
    }
}

/// End of a learning run that teaches nothing: the user interrupted it, or the host's time or disk ran out.
#[derive(Debug)]
pub struct GivenUp(pub End);

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.0 {
            End::Interrupted => "it was interrupted",
            End::DiskFull => "the disk is full",
            _ => "--timeout ended it before the first run was over",
        };
        write!(f, "learning was given up: {why}; no chip file is written")
    }
}

impl std::error::Error for GivenUp {}

/// Error of a run whose chip was to be learned first, which `--timeout` ended.
#[derive(Debug)]
pub struct CutShort {
    /// Number of learning runs.
    pub runs: u32,
    /// Chip file of what was learned by then.
    pub file: PathBuf,
}

impl fmt::Display for CutShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CutShort { runs, file } = self;
        let (runs, file) = (plural((*runs).into(), "run"), file.display());
        write!(
            f,
            "--timeout ended the learning of the chip after {runs}, before the firmware was measured; {file} has what \
             was learned by then: --chip {file} takes it as it is, --chip auto with a longer --timeout learns anew"
        )
    }
}

impl std::error::Error for CutShort {}

/// Exit statuses of `harness run` besides the firmware's own: those of `timeout(1)` and `env(1)`, far from the values
/// that firmware usually returns.
pub mod runner {
    use super::ExitCode;
    use crate::analysis::describe::describe_unopened;
    use crate::profile::{End, Profile};

    /// A limit, timeout, output bound or Ctrl-C ended the run.
    pub const LIMIT: u8 = 124;
    /// harness itself failed: usage, bad input, the emulator.
    pub const FAILURE: u8 = 125;

    /// Status of a run.
    pub fn status(profile: &Profile) -> u8 {
        let status = match (&profile.facts.end, ExitCode::of_end(&profile.facts.end)) {
            (End::Exit { status, .. }, _) => of_firmware(*status),
            (_, ExitCode::Limit) => LIMIT,
            (_, ExitCode::Usage | ExitCode::Emulator) => FAILURE,
            (_, code @ (ExitCode::Firmware | ExitCode::Good | ExitCode::Regression)) => code.status(),
        };
        if status == 0 && describe_unopened(profile).is_some() { ExitCode::Firmware.status() } else { status }
    }

    /// Status of an error that prevented a profile.
    pub fn of_error(error: &anyhow::Error) -> u8 {
        if ExitCode::of_error(error) == ExitCode::Limit { LIMIT } else { FAILURE }
    }

    /// Cuts a status to the eight bits that a process has: the lowest, as in exit(3). A failure never becomes 0.
    pub(super) fn of_firmware(status: u32) -> u8 {
        match status as u8 {
            0 if status != 0 => ExitCode::Firmware.status(),
            low => low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let all = ExitCode::ALL;
        // docs/exit-codes.md: "If several apply, the first of 2, 5, 4, 1, 3 is returned."
        assert_eq!(all.map(ExitCode::status), [2, 5, 4, 1, 3, 0]);
        assert!(all.is_sorted());
    }

    #[test]
    fn learning_that_a_timeout_ended_is_a_limit_in_both_tables() {
        let cut_short: anyhow::Error = CutShort { runs: 3, file: "fw.chip.partial.toml".into() }.into();
        let given_up: anyhow::Error = GivenUp(End::Timeout).into();
        for error in [cut_short, given_up] {
            assert_eq!(ExitCode::of_error(&error), ExitCode::Limit, "{error}");
            assert_eq!(runner::of_error(&error), runner::LIMIT, "{error}");
        }
        assert_eq!(runner::of_error(&anyhow::anyhow!("no file")), runner::FAILURE);
    }

    #[test]
    fn a_failed_firmware_never_looks_good() {
        let statuses = [0, 1, 3, 255, 256, 259, 0x100_0000, u32::MAX];
        assert_eq!(statuses.map(runner::of_firmware), [0, 1, 3, 255, 1, 3, 1, 255]);
    }
}
