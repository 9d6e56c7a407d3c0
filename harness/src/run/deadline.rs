//! The deadline of a command: `--timeout`, Ctrl-C and SIGTERM hold where no firmware runs, too.
//!
//! While QEMU runs, they end the run, and what was measured is kept (`run/execution.rs`). Before and after it, reading,
//! unwinding and drawing are ordinary code that looks at no clock: there a thread of its own ends the process, and what
//! was half written goes.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::run::plan::INTERRUPTS;

/// How often the clock is looked at.
const GLANCE: Duration = Duration::from_millis(50);

/// What follows a run may take as long as `--timeout` once more, but at least this.
const AT_LEAST_AFTER_RUN: Duration = Duration::from_secs(10);

/// What a command is doing.
#[derive(Debug)]
enum Stage {
    /// Nothing that is to be ended here.
    Elsewhere,
    /// It reads the image and prepares the run; half of a profile is in this directory.
    Before { directory: PathBuf },
    /// QEMU runs.
    Run { directory: PathBuf },
    /// It makes a profile of what was counted, and writes it, since then. So many interrupts had come.
    After { directory: PathBuf, since: Instant, interrupts: u32 },
}

static STAGE: Mutex<Stage> = Mutex::new(Stage::Elsewhere);

/// Ends the process with `status` where what a command does before or after its run takes too long, or the user does
/// not want to wait for it. `directory` is what would be left.
pub fn hold(timeout: Option<Duration>, directory: PathBuf, status: u8) {
    set(Stage::Before { directory });
    let started = Instant::now();
    thread::spawn(move || {
        loop {
            thread::sleep(GLANCE);
            let stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
            let interrupts = INTERRUPTS.load(Ordering::Relaxed);
            if let Some((directory, why)) = overdue(&stage, timeout, started, Instant::now(), interrupts) {
                eprintln!("error: {why}; no profile is kept");
                // The other threads may still be writing into it; they wait for nothing, so that this comes to an end.
                for _ in 0..10 {
                    if fs::remove_dir_all(directory).is_ok() {
                        break;
                    }
                }
                std::process::exit(status.into());
            }
        }
    });
}

/// The directory of a command that is to be ended now, and why.
fn overdue(
    stage: &Stage,
    timeout: Option<Duration>,
    started: Instant,
    now: Instant,
    interrupts: u32,
) -> Option<(&PathBuf, &'static str)> {
    let passed = |since: Instant, limit: Duration| now.saturating_duration_since(since) >= limit;
    match stage {
        Stage::Elsewhere | Stage::Run { .. } => None,
        Stage::Before { directory } if interrupts > 0 => Some((directory, "interrupted before the firmware ran")),
        Stage::Before { directory } => timeout
            .is_some_and(|timeout| passed(started, timeout))
            .then_some((directory, "--timeout ended it before the firmware ran")),
        Stage::After { directory, interrupts: before, .. } if interrupts > *before => {
            Some((directory, "interrupted while the profile was made"))
        }
        Stage::After { directory, since, .. } => timeout
            .is_some_and(|timeout| passed(*since, timeout.max(AT_LEAST_AFTER_RUN)))
            .then_some((directory, "--timeout ended it while the profile was made")),
    }
}

/// QEMU is about to run, and ends the run itself when it is time.
pub fn run_begins() {
    let mut stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Stage::Before { directory } = &*stage {
        *stage = Stage::Run { directory: directory.clone() };
    }
}

/// QEMU has ended.
pub fn run_ended() {
    let mut stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Stage::Run { directory } = &*stage {
        let interrupts = INTERRUPTS.load(Ordering::Relaxed);
        *stage = Stage::After { directory: directory.clone(), since: Instant::now(), interrupts };
    }
}

/// The profile is complete, or there is none: the rest is short.
pub fn release() {
    set(Stage::Elsewhere);
}

fn set(stage: Stage) {
    *STAGE.lock().unwrap_or_else(PoisonError::into_inner) = stage;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_and_after_a_run_has_a_deadline() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let limit = Some(Duration::from_secs(30));
        let directory = PathBuf::from("d");
        let at = |stage: &Stage, limit, seconds, interrupts| {
            overdue(stage, limit, start, after(seconds), interrupts).map(|(_, why)| why)
        };
        let before = Stage::Before { directory: directory.clone() };
        assert_eq!(at(&before, limit, 29, 0), None);
        assert!(at(&before, limit, 30, 0).unwrap().contains("--timeout"));
        assert_eq!(at(&before, None, 1000, 0), None);
        assert!(at(&before, None, 0, 1).unwrap().contains("interrupted"));
        // The run ends itself.
        assert_eq!(at(&Stage::Run { directory: directory.clone() }, limit, 1000, 3), None);
        let made = Stage::After { directory, since: after(30), interrupts: 1 };
        assert_eq!(
            at(&made, limit, 59, 1),
            None,
            "as long again, and the interrupt that ended the run has been heard"
        );
        assert!(at(&made, limit, 60, 1).unwrap().contains("--timeout"));
        assert!(at(&made, limit, 31, 2).unwrap().contains("interrupted"));
        assert_eq!(at(&made, Some(Duration::from_secs(1)), 39, 1), None);
        assert!(at(&made, Some(Duration::from_secs(1)), 40, 1).is_some());
    }
}
