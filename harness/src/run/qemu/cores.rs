// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assigns a core to each image that runs at the same time. QEMU's threads take turns: while the processor executes,
//! the thread that advances its time sleeps, and vice versa. On one core a turn is passed quickly; between cores it
//! costs a wake-up, thousands of times for firmware that waits for interrupts.

use std::num::NonZeroUsize;
use std::thread;

/// Number of images that run at the same time: as requested, or the number of cores.
pub fn jobs(asked: Option<NonZeroUsize>) -> usize {
    asked.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from)
}

/// The cores that this process may use.
#[derive(Debug)]
pub struct Cores(Vec<usize>);

#[cfg(target_os = "linux")]
mod host {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;

    /// The calling thread.
    const SELF: Pid = Pid::from_raw(0);

    pub(in crate::run) fn allowed() -> Vec<usize> {
        let Ok(allowed) = sched_getaffinity(SELF) else { return Vec::new() };
        (0..CpuSet::count()).filter(|&core| allowed.is_set(core).unwrap_or(false)).collect()
    }

    pub(in crate::run) fn stay_on(core: usize) {
        let mut only = CpuSet::new();
        // If the host forbids it, the thread runs on any core.
        let _ = only.set(core).and_then(|()| sched_setaffinity(SELF, &only));
    }
}

#[cfg(not(target_os = "linux"))]
mod host {
    pub(in crate::run) fn allowed() -> Vec<usize> {
        Vec::new()
    }

    pub(in crate::run) fn stay_on(_core: usize) {}
}

impl Cores {
    /// Asks the host for the cores.
    pub fn allowed() -> Cores {
        Cores(host::allowed())
    }

    /// Core of a job. None: the number of jobs differs from the number of cores, and then the host's scheduler does
    /// better.
    fn of_job(&self, job: usize, jobs: usize) -> Option<usize> {
        let Cores(cores) = self;
        if jobs == cores.len() { cores.get(job).copied() } else { None }
    }

    /// Binds the calling thread, and every process that it starts, to its job's core.
    pub fn stay(&self, job: usize, jobs: usize) {
        if let Some(core) = self.of_job(job, jobs) {
            host::stay_on(core);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_has_a_core_where_there_are_as_many() {
        let cores = Cores(vec![2, 3, 7]);
        let of_jobs = |jobs| (0..jobs).map(|job| cores.of_job(job, jobs)).collect::<Vec<_>>();
        assert_eq!(of_jobs(2), [None, None]);
        assert_eq!(of_jobs(3), [Some(2), Some(3), Some(7)]);
        assert_eq!(of_jobs(4), [None; 4]);
        assert_eq!(Cores(Vec::new()).of_job(0, 1), None, "the host does not say");
    }
}
