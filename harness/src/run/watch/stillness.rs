// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detection of a CPU that sleeps for ever, or that is busy while no instruction completes.

use std::time::{Duration, Instant};

use crate::run::qemu::process::CpuUse;
use crate::run::records::read::Progress;

/// Time without any progress after which a CPU counts as asleep for ever. The host's accounting (no thread runs or is
/// ready) confirms it, so this does not depend on speed.
const STILLNESS: Duration = Duration::from_millis(200);

/// Time as [`STILLNESS`], on a host without such accounting.
const STILLNESS_UNSEEN: Duration = Duration::from_secs(5);

/// Host CPU time that QEMU must have used without any counted instruction. No instruction takes that long, and since
/// nothing is counted meanwhile, the profile has the same bytes in every run.
const STUCK: Duration = Duration::from_secs(3);

/// Host CPU time as [`STUCK`], before the first instruction, when the machine may still be in preparation.
const STUCK_AT_START: Duration = Duration::from_secs(20);

/// Unit of Linux's accounting of processes: USER_HZ, which has this value on every processor that QEMU is built for
/// (proc(5), sysconf(3)).
const TICKS_PER_SECOND: u64 = 100;

/// State of a CPU without progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum Still {
    /// Asleep, with nothing left to wake it.
    Asleep,
    /// Busy, and no instruction completes.
    Stuck,
}

/// Notices a CPU that sleeps with nothing left to wake it: under `sleep=off` virtual time jumps to the next timer, so
/// if the guest makes no progress while QEMU uses no host CPU time, it never will. Also notices a CPU that is busy
/// while no instruction completes.
#[derive(Default)]
pub(in crate::run) struct Stillness {
    last: Option<(Progress, Option<CpuUse>)>,
    since: Option<Instant>,
    /// Host CPU time when the guest was first seen without progress at its current position.
    busy_since_ticks: Option<u64>,
}

impl Stillness {
    /// Compares the progress with that of the last check. The host is asked (`cpu_use`) only if the guest has made no
    /// progress: the question costs time, and delays the end of a process.
    pub(in crate::run) fn look(
        &mut self,
        progress: Progress,
        cpu_use: impl FnOnce() -> Option<CpuUse>,
    ) -> Option<Still> {
        let stands = self.last.is_some_and(|(last, _)| last == progress);
        let cpu_use = if stands { cpu_use() } else { None };
        let now = (progress, cpu_use);
        if !stands {
            self.busy_since_ticks = None;
        } else if let Some(CpuUse { ticks, .. }) = cpu_use {
            let since = *self.busy_since_ticks.get_or_insert(ticks);
            let needed = if progress.insns == 0 { STUCK_AT_START } else { STUCK };
            if ticks.saturating_sub(since) >= needed.as_secs() * TICKS_PER_SECOND {
                return Some(Still::Stuck);
            }
        }
        let busy = cpu_use.is_some_and(|cpu_use| cpu_use.busy);
        if busy || self.last != Some(now) {
            self.last = Some(now);
            self.since = Some(Instant::now());
            return None;
        }
        let needed = if cpu_use.is_some() { STILLNESS } else { STILLNESS_UNSEEN };
        self.since.is_some_and(|since| since.elapsed() >= needed).then_some(Still::Asleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_only_asked_where_the_guest_stands_still() {
        let mut still = Stillness::default();
        let mut look = |insns, ticks| {
            let mut asked = false;
            still.look(Progress { insns, samples: 0, window_open: true }, || {
                asked = true;
                Some(CpuUse { ticks, busy: false })
            });
            (asked, still.since)
        };
        assert!(!look(1, 0).0);
        assert!(!look(2, 0).0);
        let (asked, first) = look(2, 7);
        assert!(asked);
        assert_eq!(look(2, 7), (true, first), "nothing has happened since");
        assert!(look(2, 8).0);
        assert!(!look(3, 8).0);
    }

    #[test]
    fn a_cpu_that_is_busy_without_an_instruction_is_stuck() {
        let mut still = Stillness::default();
        let second = TICKS_PER_SECOND;
        let mut look = |insns, ticks| {
            let progress = Progress { insns, samples: 0, window_open: true };
            still.look(progress, || Some(CpuUse { ticks, busy: true }))
        };
        assert_eq!([look(5, 0), look(5, second), look(5, 4 * second - 1)], [None; 3]);
        // One instruction is progress.
        assert_eq!([look(6, 9 * second), look(6, 10 * second), look(6, 13 * second - 1)], [None; 3]);
        assert_eq!(look(6, 13 * second), Some(Still::Stuck));
        // Before the first instruction the machine may still be in preparation.
        assert_eq!([look(0, 20 * second), look(0, 20 * second), look(0, 39 * second)], [None; 3]);
        assert_eq!(look(0, 40 * second), Some(Still::Stuck));
    }
}
