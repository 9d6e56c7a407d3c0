//! Stillness: how a CPU that sleeps for ever is noticed, and one that is busy for ever with nothing.

use std::time::{Duration, Instant};

use crate::run::qemu::process::CpuUse;
use crate::run::records::read::Progress;

/// How long nothing must have happened before a CPU is taken to be asleep for ever. The host's own
/// account (no thread runs or wants to) makes sure of it, so this is no guess about speed.
const STILLNESS: Duration = Duration::from_millis(200);

/// The same where the host gives no account.
const STILLNESS_UNSEEN: Duration = Duration::from_secs(5);

/// How much of the host's processor QEMU must have used without one instruction being counted. Nothing that an
/// instruction asks for takes as long, and as nothing is counted meanwhile, a profile is the same bytes.
const STUCK: Duration = Duration::from_secs(3);

/// The same before the first instruction: the machine may still be made.
const STUCK_AT_START: Duration = Duration::from_secs(20);

/// In what Linux accounts for the time of processes: USER_HZ, which is this on every processor that QEMU is built for
/// (proc(5), sysconf(3)).
const TICKS_PER_SECOND: u64 = 100;

/// What a CPU does that stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum Still {
    /// It sleeps, and nothing is left that could wake it.
    Asleep,
    /// It is busy, and no instruction completes.
    Stuck,
}

/// Notices that a CPU sleeps and nothing is left that could wake it: under `sleep=off` virtual time
/// jumps to the next timer, so a guest that stands still while the host has nothing to do stays so. Also that one is
/// busy and no instruction completes.
#[derive(Default)]
pub(in crate::run) struct Stillness {
    last: Option<(Progress, Option<CpuUse>)>,
    since: Option<Instant>,
    /// What the host had used as the guest was first seen to stand still where it does.
    busy_since_ticks: Option<u64>,
}

impl Stillness {
    /// The host is only asked where the guest has stood still since the last look: asking costs, and a process
    /// whose account is being read ends more slowly.
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
        // Before the first one the machine may still be made.
        assert_eq!([look(0, 20 * second), look(0, 20 * second), look(0, 39 * second)], [None; 3]);
        assert_eq!(look(0, 40 * second), Some(Still::Stuck));
    }
}
