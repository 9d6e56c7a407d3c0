//! Threads, as a debugger lists them: a kernel's tasks, or the processor alone. The server shows them; where they come
//! from is a kernel's matter and not its own.

use std::num::NonZeroUsize;
use std::ops::Range;

use anyhow::Result;

use crate::debug::travel::{Refused, Travel, Vcpus};

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number, the same wherever the run is held.
    pub id: NonZeroUsize,
    /// Its name.
    pub name: String,
    /// What it does: `running`, `ready`, `blocked`.
    pub state: String,
    /// Registers by QEMU's names, as they were saved when it was switched out; those that are not here cannot be known.
    /// None: they are the processor's.
    pub saved: Option<Vec<(String, Vec<u8>)>>,
}

/// What lists the threads of a run.
pub trait Threads {
    /// All of them where the run is held. The processor's is the first, and there is one at least.
    fn list(&mut self, travel: &mut dyn Travel) -> Result<Vec<Thread>>;

    /// Memory that is written when another thread becomes the processor's. With it, steps within a thread pass over the
    /// time that others take; without, they end in whichever thread comes next.
    fn current(&self) -> Option<Range<u64>> {
        None
    }
}

/// The processors as the only threads: firmware without a kernel, or with one that is not known. Those whose turn it is not
/// have registers that cannot be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processor;

impl Processor {
    /// It, as a thread.
    pub fn thread() -> Thread {
        Thread { id: NonZeroUsize::MIN, name: "cpu 0".to_owned(), state: "running".to_owned(), saved: None }
    }
}

impl Threads for Processor {
    fn list(&mut self, travel: &mut dyn Travel) -> Result<Vec<Thread>> {
        let Vcpus { executing, insns } = match travel.vcpus() {
            // Nothing executes any more that could be asked.
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
