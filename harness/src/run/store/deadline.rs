//! The deadline of a measured image: `--timeout`, Ctrl-C and SIGTERM hold where no firmware runs, too.
//!
//! While QEMU runs, they end the run, and what was measured is kept (`run/watch/execution.rs`). Before and after it, reading,
//! unwinding and drawing are ordinary code that looks at no clock: it is given up from outside. A command of one image
//! ends then ([`hold`]); a suite goes on without it, and its thread comes to nothing any more: it can neither start QEMU
//! nor put a profile in its place (`gate/session.rs`).

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::run::request::plan::INTERRUPTS;
use crate::text::terminal;

/// How often the clock is looked at.
pub const GLANCE: Duration = Duration::from_millis(50);

/// What follows a run may take as long as `--timeout` once more, but at least this, and [`PER_RECORDED_BYTE`] besides.
const AT_LEAST_AFTER_RUN: Duration = Duration::from_secs(10);

/// Everything that the run recorded is read, looked through some ten times, and written again. It takes a tenth of this,
/// and so a run that recorded much (`--period 1`) has its profile in time on any machine that could run it.
const PER_RECORDED_BYTE: Duration = Duration::from_micros(1);

/// How often it is looked, a millisecond apart, whether a profile is in its place, before that is not waited for.
const PATIENCE_LOOKS: u32 = 1000;

/// The error of whatever goes on after it was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp(pub &'static str);

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for GivenUp {}

/// How far an image has come.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It is read, and the run is prepared.
    Before,
    /// QEMU runs.
    Run,
    /// A profile is made of what was counted, put in its place (`is_kept`), and shown. All of it together has one limit,
    /// `since` the run's end; so many interrupts had come by then.
    After { since: Instant, recorded_bytes: u64, interrupts: u32, is_kept: bool },
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// Half of a profile.
    making: Option<PathBuf>,
    /// The same while the whole of it is put in its place, and what was there before is taken away.
    placing: Option<PathBuf>,
    given_up: Option<GivenUp>,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Deadline {
    timeout: Option<Duration>,
    started: Instant,
    state: Mutex<State>,
}

impl Deadline {
    /// From now on.
    pub fn new(timeout: Option<Duration>) -> Arc<Deadline> {
        let state = State { stage: Stage::Before, making: None, placing: None, given_up: None };
        Arc::new(Deadline { timeout, started: Instant::now(), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Half of a profile is in this directory, which goes where it is given up.
    pub(in crate::run) fn covers(&self, making: &Path) {
        self.state().making = Some(making.to_owned());
    }

    /// QEMU is about to run, and its run is ended by itself when it is time.
    ///
    /// # Errors
    /// When it was given up before.
    pub(in crate::run) fn run_begins(&self) -> Result<(), GivenUp> {
        self.go_on(|state| state.stage = Stage::Run)
    }

    /// QEMU has ended, and so much is there to make a profile of.
    pub(in crate::run) fn run_ended(&self, recorded_bytes: u64) {
        let mut state = self.state();
        if matches!(state.stage, Stage::Run) {
            let (since, interrupts) = (Instant::now(), interrupts());
            state.stage = Stage::After { since, recorded_bytes, interrupts, is_kept: false };
        }
    }

    /// The profile is complete, and about to be put in its place.
    ///
    /// # Errors
    /// When it was given up before.
    pub(in crate::run) fn keep(&self) -> Result<(), GivenUp> {
        self.go_on(|state| {
            state.placing = state.making.take();
            let (since, recorded_bytes, interrupts) = match state.stage {
                Stage::After { since, recorded_bytes, interrupts, .. } => (since, recorded_bytes, interrupts),
                // Nothing was run for it.
                Stage::Before | Stage::Run => (Instant::now(), 0, interrupts()),
            };
            state.stage = Stage::After { since, recorded_bytes, interrupts, is_kept: true };
        })
    }

    /// Fails once it was given up.
    ///
    /// # Errors
    /// As above.
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

    /// Whether a profile was put in its place.
    pub fn has_profile(&self) -> bool {
        matches!(self.state().stage, Stage::After { is_kept: true, .. })
    }

    /// Gives it up where it takes too long, or the user does not want to wait for it: why.
    pub fn look(&self) -> Option<GivenUp> {
        let mut state = self.state();
        let why = GivenUp(self.overdue(state.stage, Instant::now(), interrupts())?);
        state.given_up = Some(why);
        // The thread that makes it may still be writing, until it finds that there is nothing to write to.
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
        // That takes no time, and is not to end halfway.
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

/// Ends the process with `status` where its one image is given up.
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

/// What has come of something that [`hold`] watches. An error of what was given up is none of its own, for its directory has
/// been taken from under it: the process is about to end by that.
///
/// # Errors
/// What it came to.
pub fn settle<T, E>(deadline: &Deadline, result: Result<T, E>) -> Result<T, E> {
    while result.is_err() && deadline.check().is_err() {
        thread::park();
    }
    result
}

/// Ends the process with `status` once so many interrupts more have come: whatever waits then, for a pipe that is not
/// read or a disk that does not answer, is not waited for.
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
            // What ten seconds of --period 1 leave takes some thirty.
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
        // Where it is told first, it goes on.
        let kept = Deadline::new(Some(Duration::ZERO));
        assert_eq!((kept.run_begins(), kept.look()), (Ok(()), None));
        kept.run_ended(0);
        assert_eq!(kept.keep(), Ok(()));
        assert!(kept.has_profile());
    }
}
