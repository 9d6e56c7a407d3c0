// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads, as a debugger lists them: a kernel's tasks, or the processor alone. The server only shows them; other
//! modules know the kernel.

use std::num::NonZeroUsize;
use std::ops::Range;

use anyhow::Result;

use crate::debug::travel::{Refused, Travel, Vcpus};

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The thread's number, the same at every position of the run.
    pub id: NonZeroUsize,
    /// The thread's name.
    pub name: String,
    /// The thread's state: `running`, `ready`, `blocked`.
    pub state: String,
    /// Registers by QEMU's names, as saved when the thread was switched out; missing ones are unknown. None: the
    /// thread executes, and its registers are the processor's.
    pub saved: Option<Vec<(String, Vec<u8>)>>,
}

/// Lists the threads of a run.
pub trait Threads {
    /// All threads at the current position, at least one. The first one has the processor's registers.
    fn list(&mut self, travel: &mut dyn Travel) -> Result<Vec<Thread>>;

    /// Memory that is written at each switch of threads. If it is known, steps within a thread skip the instructions
    /// of other threads; otherwise a step may end in any thread.
    fn current(&self) -> Option<Range<u64>> {
        None
    }
}

/// The processors as the only threads, for firmware without a known kernel. Registers are only readable on the
/// processor whose turn it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processor;

impl Processor {
    /// The processor as a thread.
    pub fn thread() -> Thread {
        Thread { id: NonZeroUsize::MIN, name: "cpu 0".to_owned(), state: "running".to_owned(), saved: None }
    }
}

impl Threads for Processor {
    fn list(&mut self, travel: &mut dyn Travel) -> Result<Vec<Thread>> {
        let Vcpus { executing, insns } = match travel.vcpus() {
            // The run is over, so there are no registers to read.
            Err(error) if error.is::<Refused>() => return Ok(vec![Processor::thread()]),
            vcpus => vcpus?,
        };
        let others = (0..insns.len()).filter(|&vcpu| vcpu != executing);
        let threads = [executing].into_iter().chain(others).map(|vcpu| {
            let is_executing = vcpu == executing;
            Thread {
                id: NonZeroUsize::MIN.saturating_add(vcpu),
                name: format!("cpu {vcpu}"),
                state: if is_executing { "running" } else { "not its turn" }.to_owned(),
                saved: (!is_executing).then(Vec::new),
            }
        });
        Ok(threads.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debug::fake::Fake;

    fn listed(travel: &mut Fake) -> Vec<(usize, String, bool)> {
        let threads = Processor.list(travel).unwrap();
        threads.into_iter().map(|thread| (thread.id.get(), thread.name, thread.saved.is_none())).collect()
    }

    #[test]
    fn the_cpu_whose_turn_it_is_comes_first_and_has_the_registers() {
        let mut travel = Fake::of(&[0x40, 0x42, 0x44]);
        assert_eq!(listed(&mut travel), [(1, "cpu 0".to_owned(), true)]);
        travel.turns = vec![1, 0, 1];
        assert_eq!(listed(&mut travel), [(2, "cpu 1".to_owned(), true), (1, "cpu 0".to_owned(), false)]);
    }

    #[test]
    fn where_nothing_executes_there_is_a_thread_all_the_same() {
        let mut travel = Fake { is_gone: true, ..Fake::of(&[0x40]) };
        assert_eq!(listed(&mut travel), [(1, "cpu 0".to_owned(), true)]);
    }
}
