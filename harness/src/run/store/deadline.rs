// SPDX-License-Identifier: MIT OR Apache-2.0
//! The deadline of a measured image: `--timeout`, Ctrl-C and SIGTERM work while no firmware runs, too.
//!
//! While QEMU runs, they end the run, and the measurement is kept (`run/watch/execution.rs`). Before and after it,
//! reading, unwinding and drawing are ordinary code that does not check the time. Another thread gives up the image.
//! Then a command for one image ends ([`hold`]). A suite goes on without the image: the image's thread can no longer
//! start QEMU or put a profile in its place (`gate/session.rs`).

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::run::watch::interrupt::INTERRUPTS;
use crate::text::terminal;

/// Interval between two checks of the clock.
pub const GLANCE: Duration = Duration::from_millis(50);

/// Least time for the work after a run. The work may take this or another `--timeout`, whichever is longer, plus
/// [`PER_RECORDED_BYTE`].
const AT_LEAST_AFTER_RUN: Duration = Duration::from_secs(10);

/// Additional time for each recorded byte. The records are read, scanned some ten times, and written again, in about
/// a tenth of this time. So a run with many records (`--period 1`) finishes in time on any machine that could run it.
const PER_RECORDED_BYTE: Duration = Duration::from_micros(1);

/// Most checks, one millisecond apart, for a profile to be put in its place.
const PATIENCE_LOOKS: u32 = 1000;

/// Error of work that continues after it was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp(pub &'static str);

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for GivenUp {}

/// Stage of an image.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Reading, and preparing the run.
    Before,
    /// QEMU runs, to be measured or to learn a chip from.
    Run,
    /// A profile is made, put in its place (`is_kept`), and shown. All of this has one limit, `since` the run's end;
    /// `interrupts` had come by then.
    After { since: Instant, recorded_bytes: u64, interrupts: u32, is_kept: bool },
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// Directory of the incomplete profile.
    making: Option<PathBuf>,
    /// Directory of the complete profile while it is put in its place and the old one is removed.
    placing: Option<PathBuf>,
    given_up: Option<GivenUp>,
}

/// The deadline of one image; see the module.
#[derive(Debug)]
pub struct Deadline {
    timeout: Option<Duration>,
    started: Instant,
    state: Mutex<State>,
}

impl Deadline {
    /// A deadline that starts now.
    pub fn new(timeout: Option<Duration>) -> Arc<Deadline> {
        let state = State { stage: Stage::Before, making: None, placing: None, given_up: None };
        Arc::new(Deadline { timeout, started: Instant::now(), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the directory of the incomplete profile, which is removed when the image is given up.
    pub(in crate::run) fn covers(&self, making: &Path) {
        self.state().making = Some(making.to_owned());
    }

    /// Notes that QEMU is about to run; from now on the run itself keeps the deadline.
    ///
    /// # Errors
    /// When the image was given up before.
    pub(in crate::run) fn run_begins(&self) -> Result<(), GivenUp> {
        self.go_on(|state| state.stage = Stage::Run)
    }

    /// Learns a chip before the run. Learning keeps the deadline itself, so that what was learned by then can be
    /// written; the deadline applies again once learning has succeeded.
    ///
    /// # Errors
    /// The errors of `learn`; also when the image was given up.
    pub fn learning<T>(&self, learn: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        self.run_begins()?;
        let learned = learn()?;
        self.go_on(|state| state.stage = Stage::Before)?;
        Ok(learned)
    }

    /// Notes that QEMU has ended, with the number of recorded bytes.
    pub(in crate::run) fn run_ended(&self, recorded_bytes: u64) {
        let mut state = self.state();
        if matches!(state.stage, Stage::Run) {
            let (since, interrupts) = (Instant::now(), interrupts());
            state.stage = Stage::After { since, recorded_bytes, interrupts, is_kept: false };
        }
    }

    /// Notes that the profile is complete, and about to be put in its place.
    ///
    /// # Errors
    /// When the image was given up before.
    pub(in crate::run) fn keep(&self) -> Result<(), GivenUp> {
        self.go_on(|state| {
            state.placing = state.making.take();
            let (since, recorded_bytes, interrupts) = match state.stage {
                Stage::After { since, recorded_bytes, interrupts, .. } => (since, recorded_bytes, interrupts),
                // This profile needed no run.
                Stage::Before | Stage::Run => (Instant::now(), 0, interrupts()),
            };
            state.stage = Stage::After { since, recorded_bytes, interrupts, is_kept: true };
        })
    }

    /// Fails once the image was given up.
    ///
    /// # Errors
    /// When the image was given up before.
    pub fn check(&self) -> Result<(), GivenUp> {
        self.go_on(|_| ())
    }

    fn go_on(&self, step: impl FnOnce(&mut State)) -> Result<(), GivenUp> {
        let mut state = self.state();
        if let Some(why) = state.given_up {
            return Err(why);
        }
        step(&mut state);
        Ok(())
    }

    /// Whether the image's profile was put in its place.
    pub fn has_profile(&self) -> bool {
        matches!(self.state().stage, Stage::After { is_kept: true, .. })
    }

    /// Gives up the image if it takes too long, or if the user has interrupted. Returns the reason; None: not given
    /// up.
    pub fn look(&self) -> Option<GivenUp> {
        let mut state = self.state();
        let why = GivenUp(self.overdue(state.stage, Instant::now(), interrupts())?);
        state.given_up = Some(why);
        // The thread may still be writing, until it finds that its directory is gone.
        if let Some(making) = &state.making {
            for _ in 0..100 {
                if fs::remove_dir_all(making).is_ok() || !making.exists() {
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        let placing = state.placing.take();
        drop(state);
        // Putting the profile in its place is quick, so wait for it instead of ending halfway.
        for _ in 0..PATIENCE_LOOKS {
            if placing.as_ref().is_none_or(|placing| !placing.exists()) {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Some(why)
    }

    fn overdue(&self, stage: Stage, now: Instant, interrupts: u32) -> Option<&'static str> {
        let passed = |since: Instant, limit: Duration| now.saturating_duration_since(since) >= limit;
        let (since, limit, heard, by_interrupt, by_timeout) = match stage {
            Stage::Run => return None,
            Stage::Before => (
                self.started,
                self.timeout,
                0,
                "interrupted before the firmware ran; no profile is kept",
                "--timeout ended it before the firmware ran; no profile is kept",
            ),
            Stage::After { since, recorded_bytes, interrupts, is_kept } => {
                let (by_interrupt, by_timeout) = if is_kept {
                    ("interrupted after the profile was written", "--timeout ended it after the profile was written")
                } else {
                    (
                        "interrupted while the profile was made; no profile is kept",
                        "--timeout ended it while the profile was made; no profile is kept",
                    )
                };
                let of_recorded = u32::try_from(recorded_bytes).unwrap_or(u32::MAX) * PER_RECORDED_BYTE;
                let limit = self.timeout.map(|timeout| timeout.max(AT_LEAST_AFTER_RUN).saturating_add(of_recorded));
                (since, limit, interrupts, by_interrupt, by_timeout)
            }
        };
        if interrupts > heard {
            return Some(by_interrupt);
        }
        limit.is_some_and(|limit| passed(since, limit)).then_some(by_timeout)
    }
}

fn interrupts() -> u32 {
    INTERRUPTS.load(Ordering::Relaxed)
}

/// Ends the process with `status` when its one image is given up.
pub fn hold(deadline: Arc<Deadline>, status: u8) {
    thread::spawn(move || {
        loop {
            thread::sleep(GLANCE);
            if let Some(why) = deadline.look() {
                end(status, why.0);
            }
        }
    });
}

/// Ends the process with `status` after a time, whatever it does by then.
pub fn end_after(timeout: Duration, status: u8, why: &'static str) {
    thread::spawn(move || {
        thread::sleep(timeout);
        end(status, why);
    });
}

/// Result of work that [`hold`] watches. After the image was given up, an error may only mean that its directory is
/// gone; the process is about to end for that reason.
///
/// # Errors
/// Errors of the work.
pub fn settle<T, E>(deadline: &Deadline, result: Result<T, E>) -> Result<T, E> {
    while result.is_err() && deadline.check().is_err() {
        thread::park();
    }
    result
}

/// Ends the process with `status` after this many more interrupts, even if it waits for a pipe that is not read or a
/// disk that does not answer.
pub fn insist(more_interrupts: u32, status: u8, why: &'static str) {
    let most = interrupts().saturating_add(more_interrupts);
    thread::spawn(move || {
        while interrupts() < most {
            thread::sleep(GLANCE);
        }
        end(status, why);
    });
}

fn end(status: u8, why: &str) -> ! {
    let _ = writeln!(terminal::stderr(), "error: {why}");
    // QEMU ends with the thread that started it.
    std::process::exit(status.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_and_after_a_run_has_a_deadline() {
        let seconds = Duration::from_secs;
        let at = |stage: Stage, timeout: Option<u64>, after: u64, interrupts| {
            let deadline = Deadline::new(timeout.map(seconds));
            let stage = match stage {
                Stage::After { recorded_bytes, interrupts, is_kept, .. } => {
                    Stage::After { since: deadline.started + seconds(30), recorded_bytes, interrupts, is_kept }
                }
                other => other,
            };
            deadline.overdue(stage, deadline.started + seconds(after), interrupts)
        };
        let before = Stage::Before;
        assert_eq!(at(before, Some(30), 29, 0), None);
        assert!(at(before, Some(30), 30, 0).unwrap().contains("--timeout"));
        assert_eq!(at(before, None, 1000, 0), None);
        assert!(at(before, None, 0, 1).unwrap().contains("interrupted"));
        // The run ends itself.
        assert_eq!(at(Stage::Run, Some(30), 1000, 3), None);
        let since = Instant::now();
        for is_kept in [false, true] {
            let stage = Stage::After { since, recorded_bytes: 0, interrupts: 1, is_kept };
            assert_eq!(
                at(stage, Some(30), 59, 1),
                None,
                "as long again, and the interrupt that ended the run has been heard"
            );
            let by_timeout = at(stage, Some(30), 60, 1).unwrap();
            assert!(by_timeout.contains("--timeout"));
            assert_eq!(by_timeout.contains("no profile is kept"), !is_kept);
            assert!(at(stage, Some(30), 31, 2).unwrap().contains("interrupted"));
            assert_eq!(at(stage, Some(1), 39, 1), None);
            assert!(at(stage, Some(1), 40, 1).is_some());
            // The records of ten seconds with --period 1 take some thirty seconds.
            let much = Stage::After { since, recorded_bytes: 300_000_000, interrupts: 1, is_kept };
            assert_eq!(at(much, Some(10), 339, 1), None);
            assert!(at(much, Some(10), 340, 1).is_some());
            assert!(at(much, Some(10), 31, 2).is_some(), "an interrupt does not wait");
            let absurd = Stage::After { since, recorded_bytes: u64::MAX, interrupts: 1, is_kept };
            assert!(at(absurd, Some(1), 5000, 1).is_some());
        }
    }

    #[test]
    fn a_profile_in_its_place_has_no_time_of_its_own() {
        let deadline = Deadline::new(Some(Duration::from_secs(30)));
        assert_eq!(deadline.run_begins(), Ok(()));
        deadline.run_ended(7);
        let of_stage = || match deadline.state().stage {
            Stage::After { since, recorded_bytes, interrupts, is_kept } => {
                (since, recorded_bytes, interrupts, is_kept)
            }
            other => panic!("{other:?}"),
        };
        let (since, recorded_bytes, interrupts, _) = of_stage();
        assert_eq!(deadline.keep(), Ok(()));
        assert_eq!(of_stage(), (since, recorded_bytes, interrupts, true));
    }

    #[test]
    fn what_was_given_up_comes_to_nothing_any_more() {
        let scratch = tempfile::tempdir().unwrap();
        let making = scratch.path().join("making");
        fs::create_dir_all(making.join("run")).unwrap();
        let deadline = Deadline::new(Some(Duration::ZERO));
        deadline.covers(&making);
        assert_eq!(deadline.check(), Ok(()));
        let why = deadline.look().unwrap();
        assert!(!making.exists());
        assert_eq!((deadline.run_begins(), deadline.keep(), deadline.check()), (Err(why), Err(why), Err(why)));
        assert!(!deadline.has_profile());
        // A run that begins before the check continues.
        let kept = Deadline::new(Some(Duration::ZERO));
        assert_eq!((kept.run_begins(), kept.look()), (Ok(()), None));
        kept.run_ended(0);
        assert_eq!(kept.keep(), Ok(()));
        assert!(kept.has_profile());
    }
}
