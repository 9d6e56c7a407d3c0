//! Stillness: how a CPU that sleeps for ever is noticed.

use std::time::{Duration, Instant};

use crate::run::process::CpuUse;
use crate::run::records::Progress;

/// How long nothing must have happened before a CPU is taken to be asleep for ever. The host's own
/// account (no thread runs or wants to) makes sure of it, so this is no guess about speed.
const STILLNESS: Duration = Duration::from_millis(200);

/// The same where the host gives no account.
const STILLNESS_UNSEEN: Duration = Duration::from_secs(5);

/// Notices that a CPU sleeps and nothing is left that could wake it: under `sleep=off` virtual time
/// jumps to the next timer, so a guest that stands still while the host has nothing to do stays so.
#[derive(Default)]
pub(super) struct Stillness {
    last: Option<(Progress, Option<CpuUse>)>,
    since: Option<Instant>,
}

impl Stillness {
    /// The host is only asked where the guest has stood still since the last look: asking costs, and a process
    /// whose account is being read ends more slowly.
    pub(super) fn since(&mut self, progress: Progress, cpu_use: impl FnOnce() -> Option<CpuUse>) -> bool {
        let cpu_use = if self.last.is_some_and(|(last, _)| last == progress) { cpu_use() } else { None };
        let now = (progress, cpu_use);
        let busy = cpu_use.is_some_and(|cpu_use| cpu_use.busy);
        if busy || self.last != Some(now) {
            self.last = Some(now);
            self.since = Some(Instant::now());
            return false;
        }
        let needed = if cpu_use.is_some() { STILLNESS } else { STILLNESS_UNSEEN };
        self.since.is_some_and(|since| since.elapsed() >= needed)
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
            still.since(Progress { insns, samples: 0, window_open: true }, || {
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
}
